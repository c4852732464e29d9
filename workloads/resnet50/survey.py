"""The look over an ImageNet folder: classes, counts, broken pictures, hashes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from suite.dataset import Survey
from suite.errors import RequestError
from suite.rounds import HyperValue
from suite.workload import Run
from workloads.common import looking
from workloads.common.values import flag
from workloads.resnet50 import data, pictures

TRAIN, VAL = SPLITS = ("train", "val")


class ImageNetSet:
    """Implements suite.dataset.DataSet."""

    parts: ClassVar = SPLITS
    settings: ClassVar[Mapping[str, HyperValue]] = {}

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def root(self) -> Path:
        """Give the user's folder, or the embedded one."""
        return root(self._run)

    def survey(self) -> Survey:
        """Index both splits, and look at each picture; pictures to train on may be missing where a model is only served."""
        val = pictures.find(self.root, VAL)
        train = self._train()
        if isinstance(train, pictures.Pictures):
            pictures.agree(train, val)
        return looking.survey({TRAIN: train, VAL: val}, {split: split for split in SPLITS}, {}, classes=list(val.classes))

    def _train(self) -> pictures.Pictures | RequestError:
        try:
            return pictures.find(self.root, TRAIN)
        except RequestError as error:
            if (self.root / TRAIN).exists():
                raise
            return error

    def check(self, found: Mapping[str, Any]) -> None:
        """Refuse broken pictures, unless they are to be left out."""
        folders = {split: self.root / split for split in SPLITS}
        looking.check(found, folders, skip=flag(self._run.settings, "data.skip_broken"))


def root(run: Run) -> Path:
    """Say where a run's pictures lie."""
    return run.data or data.embedded_folder(run.cache)


def opened(run: Run, found: Mapping[str, Any], split: str) -> pictures.Pictures:
    """Index a split, and leave out what cannot be read: the first that a run sees of its data."""
    return looking.of(found, split).whole(pictures.find(root(run), split))
