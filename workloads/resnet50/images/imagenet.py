"""An ImageNet folder, `train/<class>/<name>.JPEG` and `val/<class>/<name>.JPEG`, indexed and
surveyed before any clock starts.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from suite.errors import RequestError
from suite.files.foreign_names import is_foreign_name
from workloads.common.data_messages import format_leading_names

IMAGENET_FILE_SUFFIXES: Final = frozenset({".jpeg", ".jpg"})
TAR_SUFFIXES: Final = (".tar", ".tar.gz", ".tgz")
KAGGLE_FOLDERS: Final = ("ILSVRC", "Data", "CLS-LOC")
"""Folders within one another that hold train and val where ImageNet comes from Kaggle."""


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
    left_out: tuple[str, ...] = ()
    """Foreign names within the split, each once."""

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

    def get_stated_extent(self, index: int) -> None:
        """Return None: ImageNet states no sizes."""

    def select_images(self, wanted: npt.NDArray[np.bool_]) -> "ImageNetSplit":
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
    """Index a split; RequestError if it is missing or empty, or its pictures do not lie in class
    folders.

    Names that no data set has (suite.files.foreign_names) are left out.
    """
    folder = root / split
    if not folder.is_dir():
        raise RequestError(describe_missing_split(root, split))
    listed = list(folder.iterdir())
    entries = [entry for entry in listed if not is_foreign_name(entry.name)]
    if loose := sum(is_picture_name(entry.name) for entry in entries if not entry.is_dir()):
        raise RequestError(describe_loose_pictures(folder, split, loose))
    left_out = {entry.name for entry in listed if is_foreign_name(entry.name)}
    classes = tuple(sorted(entry.name for entry in entries if entry.is_dir()))
    names_and_labels = list[tuple[str, int]]()
    for label, group in enumerate(classes):
        class_names, foreign = _list_class_images(folder, group)
        left_out |= foreign
        names_and_labels += [(name, label) for name in class_names]
    if not names_and_labels:
        raise RequestError(describe_empty_split(folder, split))
    names, labels = zip(*names_and_labels, strict=True)
    encoded = np.array([name.encode() for name in names], dtype=np.bytes_)
    return ImageNetSplit(
        root=root,
        split=split,
        classes=classes,
        names=encoded,
        labels=np.array(labels, dtype=np.int64),
        left_out=tuple(sorted(left_out)),
    )


def _list_class_images(folder: Path, group: str) -> tuple[list[str], set[str]]:
    """Return the images of a class, and the foreign names that lie beside them."""
    entries = sorted(entry.name for entry in (folder / group).iterdir())
    foreign = set(filter(is_foreign_name, entries))
    names = [f"{group}/{name}" for name in entries if name not in foreign and is_picture_name(name)]
    if not names:
        tars = "; unpack the tar file in it" if list_tar_names(folder / group) else ""
        raise RequestError(f"{folder / group}: no images of that class{tars}")
    return names, foreign


def is_picture_name(name: str) -> bool:
    """Return whether a file's name ends as ImageNet's pictures do."""
    return Path(name).suffix.lower() in IMAGENET_FILE_SUFFIXES


def list_tar_names(folder: Path) -> list[str]:
    """List a folder's tar files, compressed or not."""
    names = sorted(entry.name for entry in folder.iterdir())
    return [name for name in names if name.lower().endswith(TAR_SUFFIXES)]


def describe_missing_split(root: Path, split: str) -> str:
    """Say what is there instead of a split's folder, and what to do."""
    missing = f"{root / split}: no such folder"
    deeper = (Path(*KAGGLE_FOLDERS[start:]) for start in range(len(KAGGLE_FOLDERS)))
    if found := next((root / path for path in deeper if (root / path / split).is_dir()), None):
        return f"{missing}; pass the folder that holds it: --data {found}"
    tars = list_tar_names(root) if root.is_dir() else []
    if tars:
        return f"{missing}, but {format_leading_names(tars)}; {describe_unpacking(split)}"
    return f"{missing}; expected {split}/<class>/<name>.JPEG, as in ImageNet"


def describe_empty_split(folder: Path, split: str) -> str:
    """Say what is there instead of a split's class folders, and what to do."""
    tars = list_tar_names(folder)
    if tars:
        return (
            f"{folder}: only tar files, {format_leading_names(tars)}; {describe_unpacking(split)}"
        )
    return f"{folder}: no images; expected {split}/<class>/<name>.JPEG, as in ImageNet"


def describe_unpacking(split: str) -> str:
    """Say what a split's tar files are unpacked to."""
    return f"unpack each tar file, so that the pictures are {split}/<class>/<name>.JPEG"


def describe_loose_pictures(folder: Path, split: str, count: int) -> str:
    """Say that pictures lie beside the class folders, and how their classes are known."""
    lie = "1 picture lies" if count == 1 else f"{count} pictures lie"
    known = ", by val_map.txt or the devkit's ground truth" if split == "val" else ""
    return f"{folder}: {lie} directly in {split}; sort them into class folders{known}"


def check_equal_class_folders(train: ImageNetSplit, val: ImageNetSplit) -> None:
    """Reject splits whose class folders differ: their labels would not mean the same."""
    unshared_classes = sorted(set(train.classes) ^ set(val.classes))
    if unshared_classes:
        raise RequestError(
            f"{train.root}: class folders differ between train and val:"
            f" {format_leading_names(unshared_classes)}"
        )
