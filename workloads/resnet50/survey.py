"""Surveys an ImageNet folder: classes, counts, broken images, hashes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from suite.dataset import Survey
from suite.rounds import HyperValue
from suite.workload import Run
from workloads.common.data_messages import format_left_out_names
from workloads.common.pictures import file_checks
from workloads.resnet50 import data
from workloads.resnet50.images import imagenet

IMAGENET_TRAIN_SPLIT, IMAGENET_VAL_SPLIT = IMAGENET_SPLITS = ("train", "val")
IMAGENET_FOLDERS: Final[Mapping[str, str]] = {split: split for split in IMAGENET_SPLITS}


class ImageNetDataSet:
    """Implements suite.dataset.DataSet."""

    parts: ClassVar = IMAGENET_SPLITS
    settings: ClassVar[Mapping[str, HyperValue]] = {}

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def root(self) -> Path:
        """Return the user's folder, or the embedded one."""
        return resolve_imagenet_folder(self._run)

    def survey(self) -> Survey:
        """Index both splits, and check each image; training images may be missing if a model is
        only served.
        """
        val = imagenet.index_imagenet_split(self.root, IMAGENET_VAL_SPLIT)
        train = file_checks.read_optional_split(
            lambda: imagenet.index_imagenet_split(self.root, IMAGENET_TRAIN_SPLIT),
            self.root / IMAGENET_TRAIN_SPLIT,
        )
        if isinstance(train, imagenet.ImageNetSplit):
            imagenet.check_equal_class_folders(train, val)
        left_out = format_left_out_names(
            name
            for split in (train, val)
            if isinstance(split, imagenet.ImageNetSplit)
            for name in split.left_out
        )
        return file_checks.collect_picture_survey(
            {IMAGENET_TRAIN_SPLIT: train, IMAGENET_VAL_SPLIT: val},
            IMAGENET_FOLDERS,
            {},
            remarks=[left_out] if left_out else (),
            classes=list(val.classes),
        )

    def check(self, found: Mapping[str, Any]) -> None:
        """Reject broken images, unless the run skips them."""
        file_checks.check_surveyed_splits(found, self._run, self.root, IMAGENET_FOLDERS)


def resolve_imagenet_folder(run: Run) -> Path:
    """Return the folder of a run's images."""
    return run.data or data.prepare_embedded_image_folder(run.cache)


def index_usable_images(run: Run, found: Mapping[str, Any], split: str) -> imagenet.ImageNetSplit:
    """Index a split without its unreadable images: a run's first access to its data."""
    return file_checks.parse_split_survey(found, split).drop_broken_pictures(
        imagenet.index_imagenet_split(resolve_imagenet_folder(run), split)
    )
