"""Surveys image files: each is read once, checked and hashed, before any clock runs."""

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

THREADS: Final = 16  # reading many small files waits for the disk more than it computes
AT_ONCE: Final = 64  # files that a thread takes at a time
JPEG_END: Final = b"\xff\xd9"  # ITU-T T.81, table B.1: end of image
TAIL_BYTES: Final = 4096  # some of ImageNet's files carry a few bytes behind the end marker
MISSING: Final = "missing"
"""In place of what was found: why a split cannot be had."""
NO_HASH: Final = bytes(32)  # stands for a file that cannot be read
DEEP_LIMIT: Final = 20_000  # up to so many pictures are decoded fully; ImageNet would take most of an hour

P = TypeVar("P", bound=PictureSet)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What was found in one split; JSON types."""

    count: int
    """Of the pictures that were looked at."""
    broken: tuple[int, ...]
    """Numbers of those that cannot be read."""
    named: tuple[str, ...]
    """The first few of those, by path."""

    @property
    def usable(self) -> int:
        """Count the pictures that can be read."""
        return self.count - len(self.broken)

    def check(self, folder: Path, *, skip: bool) -> None:
        """Refuse broken pictures that are not to be left out, and a split of nothing else."""
        if self.broken and not skip:
            more = f" and {len(self.broken) - NAMED} more" if len(self.broken) > NAMED else ""
            named = f"{', '.join(self.named)}{more}"
            raise RequestError(f"{len(self.broken)} of {self.count} images are unreadable: {named}; --set data.skip_broken=true skips them")
        if not self.usable:
            raise RequestError(f"{folder}: none of {self.count} images is readable")

    def whole(self, pictures: P) -> P:
        """Leave out of a split what cannot be read; RequestError if the split is another one by now."""
        if len(pictures) != self.count:
            raise RequestError(f"{pictures.folder}: {len(pictures)} images, but the survey found {self.count}")
        wanted = np.ones(self.count, dtype=np.bool_)
        wanted[list(self.broken)] = False
        return pictures.keep(wanted) if self.broken else pictures


def look(pictures: PictureSet) -> tuple[Looked, str]:
    """Look at all pictures; also give the SHA-256 of their own, side by side in the order of their numbers."""
    whole, broken = hashlib.sha256(), []
    for index, (good, digest) in enumerate(examined(pictures)):
        whole.update(digest)
        if not good:
            broken.append(index)
    named = tuple(str(pictures.path(index)) for index in broken[:NAMED])
    return Looked(count=len(pictures), broken=tuple(broken), named=named), whole.hexdigest()


def examined(pictures: PictureSet) -> Iterator[tuple[bool, bytes]]:
    """Yield of each picture whether it can be read, and its SHA-256, in the order of the numbers."""
    deep = len(pictures) <= DEEP_LIMIT

    def several(start: int) -> list[tuple[bool, bytes]]:
        return [examine(pictures.path(index), deep=deep) for index in range(start, min(start + AT_ONCE, len(pictures)))]

    with ThreadPoolExecutor(THREADS) as pool:  # Pillow and SHA-256 work outside the interpreter's lock
        yield from chain.from_iterable(pool.map(several, range(0, len(pictures), AT_ONCE)))


def examine(path: Path, *, deep: bool) -> tuple[bool, bytes]:
    """Read a file once: whether it is a whole picture, and the SHA-256 of its bytes."""
    try:
        with opened(path) as file:
            content = file.read()
    except OSError:
        return False, NO_HASH
    return readable(content, deep=deep), hashlib.sha256(content).digest()


def readable(content: bytes, *, deep: bool) -> bool:
    """Look at the header and the end marker; where `deep`, decode the picture."""
    try:
        with Image.open(BytesIO(content)) as picture:
            if deep:
                picture.load()
            return picture.format != "JPEG" or JPEG_END in content[-TAIL_BYTES:]  # one of ImageNet's .JPEG files is a PNG
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):  # what Pillow raises for damaged files
        return False


def of(found: Mapping[str, Any], split: str) -> Looked:
    """Read what a run is told of a split; RequestError if there is none."""
    if MISSING in found[split]:
        raise RequestError(found[split][MISSING])
    return msgspec.convert(found[split], Looked)


def check(found: Mapping[str, Any], folders: Mapping[str, Path], *, skip: bool) -> None:
    """Refuse what a run does not take of any split that there is; split -> its folder."""
    for split, folder in folders.items():
        if MISSING not in found[split]:
            of(found, split).check(folder, skip=skip)


def survey(splits: Mapping[str, PictureSet | RequestError], folders: Mapping[str, str], sha256: Mapping[str, str], **more: Any) -> Survey:
    """Look at each split; one that is missing is told as the sentence that says so. `folders`: split -> its part of the data set."""
    looks = {split: look(pictures) for split, pictures in splits.items() if not isinstance(pictures, RequestError)}
    told = {split: {MISSING: str(error)} for split, error in splits.items() if isinstance(error, RequestError)}
    return Survey(
        samples={split: looked.usable for split, (looked, _) in looks.items()},
        sha256={**sha256, **{folders[split]: digest for split, (_, digest) in looks.items()}},
        found={**more, **told, **{split: asdict(looked) for split, (looked, _) in looks.items()}},
    )
