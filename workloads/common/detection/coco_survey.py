"""Surveys a folder in COCO's layout: reads and checks annotations and images, for every workload
that reads COCO.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from suite.dataset import Survey
from suite.files.layout import compute_file_sha256
from suite.rounds import HyperValue
from suite.workload import Run
from workloads.common.detection import coco
from workloads.common.detection.coco import CocoCategory, CocoSplit
from workloads.common.pictures import file_checks

COCO_TRAIN_SPLIT, COCO_VAL_SPLIT = COCO_SPLITS = ("train", "val")
COCO_IMAGE_FOLDERS: Final[Mapping[str, str]] = {split: f"{split}2017" for split in COCO_SPLITS}
COCO_ANNOTATION_FILES: Final[Mapping[str, str]] = {
    split: f"annotations/instances_{split}2017.json" for split in COCO_SPLITS
}


class CocoDataSet:
    """Implements suite.dataset.DataSet."""

    parts: ClassVar = (*COCO_ANNOTATION_FILES.values(), *COCO_IMAGE_FOLDERS.values())
    settings: ClassVar[Mapping[str, HyperValue]] = {}

    def __init__(self, run: Run, root: Path) -> None:
        self._run, self.root = run, root

    def survey(self) -> Survey:
        """Read both annotation files, and check each image; training data may be missing if a
        model is only served.
        """
        val = coco.read_coco_split(self.root, COCO_VAL_SPLIT)
        train = file_checks.read_optional_split(
            lambda: coco.read_coco_split(self.root, COCO_TRAIN_SPLIT).drop_empty_pictures(),
            self.root / COCO_ANNOTATION_FILES[COCO_TRAIN_SPLIT],
        )
        coco.check_file_names(val)
        if isinstance(train, CocoSplit):
            coco.check_equal_categories(train, val)
            coco.check_file_names(train)
        categories = [msgspec.to_builtins(category) for category in val.categories]
        hashes = {
            part: compute_file_sha256(self.root / part)
            for part in COCO_ANNOTATION_FILES.values()
            if (self.root / part).exists()
        }
        return file_checks.collect_picture_survey(
            {COCO_TRAIN_SPLIT: train, COCO_VAL_SPLIT: val},
            COCO_IMAGE_FOLDERS,
            hashes,
            categories=categories,
        )

    def check(self, found: Mapping[str, Any]) -> None:
        """Reject broken images, unless the run skips them."""
        file_checks.check_surveyed_splits(found, self._run, self.root, COCO_IMAGE_FOLDERS)


def parse_surveyed_categories(found: Mapping[str, Any]) -> tuple[CocoCategory, ...]:
    """Read the object classes from the survey that the run was given."""
    return msgspec.convert(found["categories"], tuple[CocoCategory, ...])


def load_usable_coco_split(root: Path, found: Mapping[str, Any], split: str) -> CocoSplit:
    """Read a split without images that are unreadable or have nothing to learn: a run's first
    access to its data.
    """
    split_pictures = coco.read_coco_split(root, split)
    return file_checks.parse_split_survey(found, split).drop_broken_pictures(
        split_pictures.drop_empty_pictures() if split == COCO_TRAIN_SPLIT else split_pictures
    )
