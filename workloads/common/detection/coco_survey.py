"""Surveys a folder in COCO's layout: reads and checks annotations and images, for every workload
that reads COCO.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from suite.dataset import Survey
from suite.errors import RequestError
from suite.files.layout import file_sha256
from suite.rounds import HyperValue
from suite.workload import Run
from workloads.common.detection import coco
from workloads.common.detection.coco import Category, Split
from workloads.common.pictures import file_checks
from workloads.common.setting_values import flag

TRAIN, VAL = SPLITS = ("train", "val")
FOLDERS: Final[Mapping[str, str]] = {split: f"{split}2017" for split in SPLITS}
DOCUMENTS: Final[Mapping[str, str]] = {
    split: f"annotations/instances_{split}2017.json" for split in SPLITS
}


class CocoSet:
    """Implements suite.dataset.DataSet."""

    parts: ClassVar = (*DOCUMENTS.values(), *FOLDERS.values())
    settings: ClassVar[Mapping[str, HyperValue]] = {}

    def __init__(self, run: Run, root: Path) -> None:
        self._run, self.root = run, root

    def survey(self) -> Survey:
        """Read both annotation files, and check each picture; training data may be missing if a
        model is only served.
        """
        val = coco.read(self.root, VAL)
        train = self._train()
        if isinstance(train, Split):
            coco.agree(train, val)
        categories = [msgspec.to_builtins(category) for category in val.categories]
        hashes = {
            part: file_sha256(self.root / part)
            for part in DOCUMENTS.values()
            if (self.root / part).exists()
        }
        return file_checks.survey({TRAIN: train, VAL: val}, FOLDERS, hashes, categories=categories)

    def _train(self) -> Split | RequestError:
        try:
            return coco.read(self.root, TRAIN).with_objects()
        except RequestError as error:
            if (self.root / DOCUMENTS[TRAIN]).exists():
                raise
            return error

    def check(self, found: Mapping[str, Any]) -> None:
        """Reject broken pictures, unless the run skips them."""
        folders = {split: self.root / folder for split, folder in FOLDERS.items()}
        file_checks.check(found, folders, skip=flag(self._run.settings, "data.skip_broken"))


def categories(found: Mapping[str, Any]) -> tuple[Category, ...]:
    """Read the object classes from the survey that the run was given."""
    return msgspec.convert(found["categories"], tuple[Category, ...])


def opened(root: Path, found: Mapping[str, Any], split: str) -> Split:
    """Read a split without pictures that are unreadable or have nothing to learn: a run's first
    access to its data.
    """
    every = coco.read(root, split)
    return file_checks.of(found, split).whole(every.with_objects() if split == TRAIN else every)
