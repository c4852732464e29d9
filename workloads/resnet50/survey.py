"""Surveys an ImageNet folder: classes, counts, broken images, hashes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from suite.dataset import Survey
from suite.errors import RequestError
from suite.rounds import HyperValue
from suite.workload import Run
from workloads.common.name_lists import format_left_out_names
from workloads.common.pictures import file_checks
from workloads.common.setting_values import require_flag_setting
from workloads.resnet50 import data
from workloads.resnet50.images import imagenet

IMAGENET_TRAIN_SPLIT, IMAGENET_VAL_SPLIT = IMAGENET_SPLITS = ("train", "val")


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
        train = self._index_training_split()
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
            {split: split for split in IMAGENET_SPLITS},
            {},
            remarks=[left_out] if left_out else (),
            classes=list(val.classes),
        )

    def _index_training_split(self) -> imagenet.ImageNetSplit | RequestError:
        try:
            return imagenet.index_imagenet_split(self.root, IMAGENET_TRAIN_SPLIT)
        except RequestError as error:
            if (self.root / IMAGENET_TRAIN_SPLIT).exists():
                raise
            return error

    def check(self, found: Mapping[str, Any]) -> None:
        """Reject broken images, unless the run skips them."""
        folders = {split: self.root / split for split in IMAGENET_SPLITS}
        file_checks.check_surveyed_splits(
            found, folders, skip=require_flag_setting(self._run.settings, "data.skip_broken")
        )


def resolve_imagenet_folder(run: Run) -> Path:
    """Return the folder of a run's images."""
    return run.data or data.prepare_embedded_image_folder(run.cache)


def index_usable_images(run: Run, found: Mapping[str, Any], split: str) -> imagenet.ImageNetSplit:
    """Index a split without its unreadable images: a run's first access to its data."""
    return file_checks.parse_split_survey(found, split).drop_broken_pictures(
        imagenet.index_imagenet_split(resolve_imagenet_folder(run), split)
    )
