"""Surveys image files: each is read once, checked and hashed, before any clock starts."""

import hashlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from PIL import Image

from suite.dataset import Survey
from suite.errors import RequestError
from suite.files.untrusted_files import opened
from workloads.common.pictures.decoding import NAMED, PictureSet

THREADS: Final = 16  # reading many small files is limited by the disk, not by computing
AT_ONCE: Final = 64  # files that a thread takes at once
JPEG_END: Final = b"\xff\xd9"  # ITU-T T.81, table B.1: end of image
TAIL_BYTES: Final = 4096  # some of ImageNet's files have a few bytes after the end marker
MISSING: Final = "missing"
"""Key of the reason why a split is missing, in place of its survey."""
NO_HASH: Final = bytes(32)  # placeholder for a file that cannot be read
DEEP_LIMIT: Final = (
    20_000  # up to this many pictures are fully decoded; ImageNet would take most of an hour
)

P = TypeVar("P", bound=PictureSet)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The survey of one split, in JSON types."""

    count: int
    """Number of pictures checked."""
    broken: tuple[int, ...]
    """Indices of the unreadable ones."""
    named: tuple[str, ...]
    """Paths of the first few of those."""

    @property
    def usable(self) -> int:
        """Number of readable pictures."""
        return self.count - len(self.broken)

    def check(self, folder: Path, *, skip: bool) -> None:
        """Reject broken pictures unless they are skipped, and a split without any readable one."""
        if self.broken and not skip:
            more = f" and {len(self.broken) - NAMED} more" if len(self.broken) > NAMED else ""
            named = f"{', '.join(self.named)}{more}"
            raise RequestError(
                f"{len(self.broken)} of {self.count} images are unreadable: {named}; --set"
                " data.skip_broken=true skips them"
            )
        if not self.usable:
            raise RequestError(f"{folder}: none of {self.count} images is readable")

    def whole(self, pictures: P) -> P:
        """Drop unreadable pictures from a split; RequestError if the split has changed since the
        survey.
        """
        if len(pictures) != self.count:
            raise RequestError(
                f"{pictures.folder}: {len(pictures)} images, but the survey found {self.count}"
            )
        wanted = np.ones(self.count, dtype=np.bool_)
        wanted[list(self.broken)] = False
        return pictures.keep(wanted) if self.broken else pictures


def look(pictures: PictureSet) -> tuple[Looked, str]:
    """Check all pictures; also return the SHA-256 of their concatenated hashes, in order."""
    whole, broken = hashlib.sha256(), []
    for index, (good, digest) in enumerate(examined(pictures)):
        whole.update(digest)
        if not good:
            broken.append(index)
    named = tuple(str(pictures.path(index)) for index in broken[:NAMED])
    return Looked(count=len(pictures), broken=tuple(broken), named=named), whole.hexdigest()


def examined(pictures: PictureSet) -> Iterator[tuple[bool, bytes]]:
    """Yield for each picture, in order, whether it is readable, and its SHA-256."""
    deep = len(pictures) <= DEEP_LIMIT

    def several(start: int) -> list[tuple[bool, bytes]]:
        return [
            examine(pictures.path(index), deep=deep)
            for index in range(start, min(start + AT_ONCE, len(pictures)))
        ]

    with ThreadPoolExecutor(THREADS) as pool:  # Pillow and SHA-256 release the GIL
        yield from chain.from_iterable(pool.map(several, range(0, len(pictures), AT_ONCE)))


def examine(path: Path, *, deep: bool) -> tuple[bool, bytes]:
    """Read a file once; return whether it is a complete picture, and the SHA-256 of its bytes."""
    try:
        with opened(path) as file:
            content = file.read()
    except OSError:
        return False, NO_HASH
    return readable(content, deep=deep), hashlib.sha256(content).digest()


def readable(content: bytes, *, deep: bool) -> bool:
    """Check the header and the end marker; if `deep`, decode the picture."""
    try:
        with Image.open(BytesIO(content)) as picture:
            if deep:
                picture.load()
            return (
                picture.format != "JPEG" or JPEG_END in content[-TAIL_BYTES:]
            )  # one of ImageNet's .JPEG files is a PNG
    except (
        OSError,
        SyntaxError,
        ValueError,
        Image.DecompressionBombError,
    ):  # raised by Pillow for damaged files
        return False


def of(found: Mapping[str, Any], split: str) -> Looked:
    """Read a split's survey as given to a run; RequestError if there is none."""
    if MISSING in found[split]:
        raise RequestError(found[split][MISSING])
    return msgspec.convert(found[split], Looked)


def check(found: Mapping[str, Any], folders: Mapping[str, Path], *, skip: bool) -> None:
    """Reject a data set if one of its existing splits is unusable for a run; `folders`: split ->
    its folder.
    """
    for split, folder in folders.items():
        if MISSING not in found[split]:
            of(found, split).check(folder, skip=skip)


def survey(
    splits: Mapping[str, PictureSet | RequestError],
    folders: Mapping[str, str],
    sha256: Mapping[str, str],
    **more: Any,
) -> Survey:
    """Survey each split; a missing one is recorded with its reason. `folders`: split -> its part of
    the data set.
    """
    looks = {
        split: look(pictures)
        for split, pictures in splits.items()
        if not isinstance(pictures, RequestError)
    }
    told = {
        split: {MISSING: str(error)}
        for split, error in splits.items()
        if isinstance(error, RequestError)
    }
    return Survey(
        samples={split: looked.usable for split, (looked, _) in looks.items()},
        sha256={**sha256, **{folders[split]: digest for split, (_, digest) in looks.items()}},
        found={**more, **told, **{split: asdict(looked) for split, (looked, _) in looks.items()}},
    )
