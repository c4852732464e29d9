"""Surveys image files: each is read once, checked and hashed, before any clock starts."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import numpy as np
from PIL import Image

from suite.dataset import Survey
from suite.errors import RequestError
from suite.files.untrusted_files import open_regular_file
from suite.input import Extent
from suite.workload import Run
from workloads.common.data_messages import MAX_LISTED_NAMES, advise_about_broken_samples
from workloads.common.pictures.decoding import PictureSet
from workloads.common.setting_values import require_flag_setting

PICTURE_CHECK_THREADS: Final = (
    16  # reading many small files is limited by the disk, not by computing
)
PICTURES_PER_TASK: Final = 64  # files that a thread takes at once
JPEG_END_MARKER: Final = b"\xff\xd9"  # ITU-T T.81, table B.1: end of image
JPEG_TAIL_BYTES: Final = 4096  # some of ImageNet's files have a few bytes after the end marker
MISSING_SPLIT_KEY: Final = "missing"
"""Key of the reason why a split is missing, in place of its survey."""
UNREADABLE_FILE_HASH: Final = bytes(32)  # placeholder for a file that cannot be read
MAX_DECODED_PICTURES: Final = (
    20_000  # up to this many images are fully decoded; ImageNet would take most of an hour
)

P = TypeVar("P", bound=PictureSet)


class PictureInspection(NamedTuple):
    """What is found in one file."""

    extent: Extent | None
    """Width and height; None if it is no complete image."""
    sha256: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureSplitSurvey:
    """The survey of one split, in JSON types."""

    count: int
    """Number of images checked."""
    broken: tuple[int, ...]
    """Indices of the unreadable ones."""
    named: tuple[str, ...]
    """Paths of the first few of those."""
    resized: int = 0
    """Number of images of another size than the data set states."""
    named_resized: tuple[str, ...] = ()
    """Descriptions of the first few of those."""

    @property
    def usable(self) -> int:
        """Number of readable images."""
        return self.count - len(self.broken)

    def check_usability(self, folder: Path, split: str, *, skip: bool) -> None:
        """Reject broken images unless they are skipped, and a split without any readable one."""
        if self.broken and not skip:
            more = ""
            if len(self.broken) > MAX_LISTED_NAMES:
                more = f" and {len(self.broken) - MAX_LISTED_NAMES} more"
            named = f"{', '.join(self.named)}{more}"
            advice = advise_about_broken_samples(split, self.usable, self.count, "skips them")
            raise RequestError(
                f"{len(self.broken)} of {self.count} images are unreadable: {named}; {advice}"
            )
        if not self.usable:
            raise RequestError(f"{folder}: none of {self.count} images is readable")

    def describe_sizes(self) -> str:
        """Warn about images of another size than stated: boxes would not lie where they belong."""
        more = self.resized - len(self.named_resized)
        listed = ", ".join(self.named_resized) + (f" and {more} more" if more else "")
        return (
            f"warning: {self.resized} of {self.count} images have another size than the annotations"
            f" state: {listed}; correct width and height, or the images"
        )

    def drop_broken_pictures(self, pictures: P) -> P:
        """Drop unreadable images from a split; RequestError if the split has changed since the
        survey.
        """
        if len(pictures) != self.count:
            raise RequestError(
                f"{pictures.folder}: {len(pictures)} images, but the survey found {self.count}"
            )
        wanted = np.ones(self.count, dtype=np.bool_)
        wanted[list(self.broken)] = False
        return pictures.select_images(wanted) if self.broken else pictures


def inspect_split_pictures(pictures: PictureSet) -> tuple[PictureSplitSurvey, str]:
    """Check all images; also return the SHA-256 of their concatenated hashes, in order."""
    combined_hash, broken, resized = hashlib.sha256(), list[int](), list[str]()
    for index, inspected in enumerate(inspect_pictures_in_order(pictures)):
        combined_hash.update(inspected.sha256)
        if inspected.extent is None:
            broken.append(index)
        elif inspected.extent != (pictures.get_stated_extent(index) or inspected.extent):
            resized.append(describe_other_size(pictures, index, inspected.extent))
    named = tuple(str(pictures.path(index)) for index in broken[:MAX_LISTED_NAMES])
    return PictureSplitSurvey(
        count=len(pictures),
        broken=tuple(broken),
        named=named,
        resized=len(resized),
        named_resized=tuple(resized[:MAX_LISTED_NAMES]),
    ), combined_hash.hexdigest()


def describe_other_size(pictures: PictureSet, index: int, found: Extent) -> str:
    """Name an image of another size than the data set states, with both."""
    width, height = pictures.get_stated_extent(index) or found
    exchanged = " (exchanged)" if (height, width) == found else ""
    return (
        f"{pictures.path(index).name} {found[0]} x {found[1]} instead of"
        f" {width} x {height}{exchanged}"
    )


def inspect_pictures_in_order(pictures: PictureSet) -> Iterator[PictureInspection]:
    """Inspect each image, in order."""
    deep = len(pictures) <= MAX_DECODED_PICTURES

    def inspect_several(start: int) -> list[PictureInspection]:
        return [
            inspect_picture_file(pictures.path(index), deep=deep)
            for index in range(start, min(start + PICTURES_PER_TASK, len(pictures)))
        ]

    with ThreadPoolExecutor(PICTURE_CHECK_THREADS) as pool:  # Pillow and SHA-256 release the GIL
        yield from chain.from_iterable(
            pool.map(inspect_several, range(0, len(pictures), PICTURES_PER_TASK))
        )


def inspect_picture_file(path: Path, *, deep: bool) -> PictureInspection:
    """Read a file once, and check that it is a complete image."""
    try:
        with open_regular_file(path) as file:
            content = file.read()
    except OSError:
        return PictureInspection(None, UNREADABLE_FILE_HASH)
    return PictureInspection(
        measure_complete_picture(content, deep=deep), hashlib.sha256(content).digest()
    )


def measure_complete_picture(content: bytes, *, deep: bool) -> Extent | None:
    """Return an image's width and height; None if the header or the end marker is damaged or, if
    `deep`, the image cannot be decoded.
    """
    try:
        with Image.open(BytesIO(content)) as picture:
            if deep:
                picture.load()
            # one of ImageNet's .JPEG files is a PNG
            is_complete = picture.format != "JPEG" or JPEG_END_MARKER in content[-JPEG_TAIL_BYTES:]
            return picture.size if is_complete else None
    except (
        OSError,
        SyntaxError,
        ValueError,
        Image.DecompressionBombError,
    ):  # raised by Pillow for damaged files
        return None


def parse_split_survey(found: Mapping[str, Any], split: str) -> PictureSplitSurvey:
    """Read a split's survey as given to a run; RequestError if there is none."""
    if MISSING_SPLIT_KEY in found[split]:
        raise RequestError(found[split][MISSING_SPLIT_KEY])
    return msgspec.convert(found[split], PictureSplitSurvey)


def check_surveyed_splits(
    found: Mapping[str, Any], run: Run, root: Path, folders: Mapping[str, str]
) -> None:
    """Reject a data set if one of its existing splits is unusable for a run; `folders`: split ->
    its part of the data set.
    """
    skip = require_flag_setting(run.settings, "data.skip_broken")
    for split, folder in folders.items():
        if MISSING_SPLIT_KEY not in found[split]:
            parse_split_survey(found, split).check_usability(root / folder, split, skip=skip)


def read_optional_split(read_split: Callable[[], P], path: Path) -> P | RequestError:
    """Read a split that may be missing if a model is only served: the error is returned then, and
    raised if its path is there.
    """
    try:
        return read_split()
    except RequestError as error:
        if path.exists():
            raise
        return error


def collect_picture_survey(
    splits: Mapping[str, PictureSet | RequestError],
    folders: Mapping[str, str],
    sha256: Mapping[str, str],
    *,
    remarks: Sequence[str] = (),
    **more: Any,
) -> Survey:
    """Survey each split; a missing one is recorded with its reason. `folders`: split -> its part of
    the data set.
    """
    surveyed = {
        split: inspect_split_pictures(pictures)
        for split, pictures in splits.items()
        if not isinstance(pictures, RequestError)
    }
    missing_splits = {
        split: {MISSING_SPLIT_KEY: str(error)}
        for split, error in splits.items()
        if isinstance(error, RequestError)
    }
    return Survey(
        samples={split: looked.usable for split, (looked, _) in surveyed.items()},
        sha256={**sha256, **{folders[split]: digest for split, (_, digest) in surveyed.items()}},
        found={
            **more,
            **missing_splits,
            **{split: asdict(looked) for split, (looked, _) in surveyed.items()},
        },
        remarks=[
            *remarks,
            *(looked.describe_sizes() for looked, _ in surveyed.values() if looked.resized),
        ],
    )
