"""Surveys an ImageNet folder: classes, counts, broken images, hashes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from suite.dataset import Survey
from suite.errors import RequestError
from suite.rounds import HyperValue
from suite.workload import Run
from workloads.common.pictures import file_checks
from workloads.common.setting_values import require_flag_setting
from workloads.resnet50 import data
from workloads.resnet50.images import imagenet

TRAIN, VAL = SPLITS = ("train", "val")


class ImageNetSet:
    """Implements suite.dataset.DataSet."""

    parts: ClassVar = SPLITS
    settings: ClassVar[Mapping[str, HyperValue]] = {}

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def root(self) -> Path:
        """Return the user's folder, or the embedded one."""
        return root(self._run)

    def survey(self) -> Survey:
        """Index both splits, and check each picture; training pictures may be missing if a model is
        only served.
        """
        val = imagenet.find(self.root, VAL)
        train = self._train()
        if isinstance(train, imagenet.Pictures):
            imagenet.agree(train, val)
        return file_checks.collect_picture_survey(
            {TRAIN: train, VAL: val},
            {split: split for split in SPLITS},
            {},
            classes=list(val.classes),
        )

    def _train(self) -> imagenet.Pictures | RequestError:
        try:
            return imagenet.find(self.root, TRAIN)
        except RequestError as error:
            if (self.root / TRAIN).exists():
                raise
            return error

    def check(self, found: Mapping[str, Any]) -> None:
        """Reject broken pictures, unless the run skips them."""
        folders = {split: self.root / split for split in SPLITS}
        file_checks.check_surveyed_splits(
            found, folders, skip=require_flag_setting(self._run.settings, "data.skip_broken")
        )


def root(run: Run) -> Path:
    """Return the folder of a run's pictures."""
    return run.data or data.embedded_folder(run.cache)


def opened(run: Run, found: Mapping[str, Any], split: str) -> imagenet.Pictures:
    """Index a split without its unreadable pictures: a run's first access to its data."""
    return file_checks.parse_split_survey(found, split).drop_broken_pictures(
        imagenet.find(root(run), split)
    )
