"""An ImageNet folder: `train/<class>/<name>.JPEG` and `val/<class>/<name>.JPEG`, indexed and looked over before any clock runs."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from PIL import Image

from suite.errors import RequestError

SUFFIXES: Final = frozenset({".jpeg", ".jpg"})
NAMED: Final = 5  # broken files that a message names; the rest are counted
SCAN_THREADS: Final = 16  # reading many small files waits for the disk more than it computes
JPEG_END: Final = b"\xff\xd9"  # ITU-T T.81, table B.1: end of image
TAIL_BYTES: Final = 4096  # some of ImageNet's files carry a few bytes behind the end marker
DEEP_LIMIT: Final = 20_000  # up to so many pictures are decoded fully; ImageNet would take most of an hour


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """One split: classes in sorted order, pictures in the order of class and name."""

    root: Path
    split: str
    classes: tuple[str, ...]
    names: npt.NDArray[np.bytes_]
    """Paths below the split; one array, since a million strings would be copied page by page in each worker process."""
    labels: npt.NDArray[np.int64]

    def __len__(self) -> int:
        """Count the pictures."""
        return len(self.labels)

    def path(self, index: int) -> Path:
        """Say where a picture lies."""
        name: bytes = self.names[index]
        return self.root / self.split / name.decode()

    def keep(self, wanted: npt.NDArray[np.bool_]) -> "Pictures":
        """Leave out the pictures that are not wanted."""
        return replace(self, names=self.names[wanted], labels=self.labels[wanted])

    def shuffled_labels(self, seed: int) -> "Pictures":
        """Give each picture another's label: nothing can be learnt, and a benchmark must show it."""
        return replace(self, labels=np.random.default_rng([seed, 0x1ABE15]).permutation(self.labels))


def find(root: Path, split: str) -> Pictures:
    """Index a split; RequestError where it is missing or empty."""
    folder = root / split
    if not folder.is_dir():
        raise RequestError(f"{folder}: no such folder; wanted are {split}/<class>/<name>.JPEG, as ImageNet has them")
    classes = tuple(sorted(entry.name for entry in folder.iterdir() if entry.is_dir()))
    found = [(name, label) for label, group in enumerate(classes) for name in _names(folder, group)]
    if not found:
        raise RequestError(f"{folder}: no pictures in it; wanted are {split}/<class>/<name>.JPEG, as ImageNet has them")
    names, labels = zip(*found, strict=True)
    encoded = np.array([name.encode() for name in names], dtype=np.bytes_)
    return Pictures(root=root, split=split, classes=classes, names=encoded, labels=np.array(labels, dtype=np.int64))


def _names(folder: Path, group: str) -> list[str]:
    entries = sorted((folder / group).iterdir())
    names = [f"{group}/{entry.name}" for entry in entries if entry.suffix.lower() in SUFFIXES]
    if not names:
        raise RequestError(f"{folder / group}: no pictures of that class in it")
    return names


def agree(train: Pictures, val: Pictures) -> None:
    """Refuse splits whose class folders differ: their labels would not mean the same."""
    lonely = sorted(set(train.classes) ^ set(val.classes))
    if lonely:
        raise RequestError(f"{train.root}: class folders differ between train and val: {_list(lonely)}")


def broken(pictures: Pictures, indices: Sequence[int]) -> list[int]:
    """Find the pictures among `indices` that cannot be read."""
    deep = len(pictures) <= DEEP_LIMIT
    with ThreadPoolExecutor(SCAN_THREADS) as pool:
        verdicts = pool.map(lambda index: readable(pictures.path(index), deep=deep), indices)
        return [index for index, good in zip(indices, verdicts, strict=True) if not good]


def readable(path: Path, *, deep: bool) -> bool:
    """Look at the header and the end marker; where `deep`, decode the picture."""
    try:
        with Image.open(path) as picture:
            if deep:
                picture.load()
            return picture.format != "JPEG" or _ends(path)  # one of ImageNet's .JPEG files is a PNG
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):  # what Pillow raises for damaged files
        return False


def _ends(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL_BYTES))
        return JPEG_END in file.read()


def settle(pictures: Pictures, bad: Sequence[int], *, skip: bool) -> Pictures:
    """Leave the broken pictures out where that is asked for; refuse the run where it is not."""
    if not bad:
        return pictures
    if not skip:
        named = _list(str(pictures.path(index)) for index in sorted(bad))
        raise RequestError(f"{len(bad)} of {len(pictures)} pictures cannot be read: {named}; --set data.skip_broken=true leaves them out")
    wanted = np.ones(len(pictures), dtype=np.bool_)
    wanted[list(bad)] = False
    if not wanted.any():
        raise RequestError(f"{pictures.root / pictures.split}: none of {len(pictures)} pictures can be read")
    return pictures.keep(wanted)


def _list(names: Iterable[str]) -> str:
    shown = list(names)
    more = f" and {len(shown) - NAMED} more" if len(shown) > NAMED else ""
    return ", ".join(shown[:NAMED]) + more
