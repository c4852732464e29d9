"""An ImageNet folder, `train/<class>/<name>.JPEG` and `val/<class>/<name>.JPEG`, indexed and
surveyed before any clock starts.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from suite.errors import RequestError
from workloads.common.pictures.decoding import format_leading_names

IMAGENET_FILE_SUFFIXES: Final = frozenset({".jpeg", ".jpg"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageNetSplit:
    """One split: classes in sorted order, images in order of class and name."""

    root: Path
    split: str
    classes: tuple[str, ...]
    names: npt.NDArray[np.bytes_]
    """Paths below the split, in one array: a million strings would be copied page by page into each
    worker process.
    """
    labels: npt.NDArray[np.int64]

    @property
    def folder(self) -> Path:
        """Return the folder that holds them."""
        return self.root / self.split

    def __len__(self) -> int:
        """Count the images."""
        return len(self.labels)

    def path(self, index: int) -> Path:
        """Return the path of an image."""
        name: bytes = self.names[index]
        return self.folder / name.decode()

    def keep(self, wanted: npt.NDArray[np.bool_]) -> "ImageNetSplit":
        """Return only the selected images."""
        return replace(self, names=self.names[wanted], labels=self.labels[wanted])

    def shuffle_labels(self, seed: int) -> "ImageNetSplit":
        """Give each image the label of another: nothing can be learnt, which the benchmark must
        show.
        """
        return replace(
            self, labels=np.random.default_rng([seed, 0x1ABE15]).permutation(self.labels)
        )


def index_imagenet_split(root: Path, split: str) -> ImageNetSplit:
    """Index a split; RequestError if it is missing or empty."""
    folder = root / split
    if not folder.is_dir():
        raise RequestError(
            f"{folder}: no such folder; expected {split}/<class>/<name>.JPEG, as in ImageNet"
        )
    classes = tuple(sorted(entry.name for entry in folder.iterdir() if entry.is_dir()))
    names_and_labels = [
        (name, label)
        for label, group in enumerate(classes)
        for name in _list_class_images(folder, group)
    ]
    if not names_and_labels:
        raise RequestError(
            f"{folder}: no images; expected {split}/<class>/<name>.JPEG, as in ImageNet"
        )
    names, labels = zip(*names_and_labels, strict=True)
    encoded = np.array([name.encode() for name in names], dtype=np.bytes_)
    return ImageNetSplit(
        root=root,
        split=split,
        classes=classes,
        names=encoded,
        labels=np.array(labels, dtype=np.int64),
    )


def _list_class_images(folder: Path, group: str) -> list[str]:
    entries = sorted((folder / group).iterdir())
    names = [
        f"{group}/{entry.name}"
        for entry in entries
        if entry.suffix.lower() in IMAGENET_FILE_SUFFIXES
    ]
    if not names:
        raise RequestError(f"{folder / group}: no images of that class")
    return names


def check_equal_class_folders(train: ImageNetSplit, val: ImageNetSplit) -> None:
    """Reject splits whose class folders differ: their labels would not mean the same."""
    unshared_classes = sorted(set(train.classes) ^ set(val.classes))
    if unshared_classes:
        raise RequestError(
            f"{train.root}: class folders differ between train and val:"
            f" {format_leading_names(unshared_classes)}"
        )
