"""SSD through DALI: cropped by overlap and mirrored as by the default pipeline, with the same
objects.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from testbed import SETTINGS, a_run
from tiny_scenes import TINY

from suite import registry
from suite.input import Means, Place
from suite.workload import Run
from workloads.common.detection import coco, synthetic_scenes
from workloads.common.inputs.batches import SampleKey
from workloads.common.pictures.files import PictureFiles
from workloads.ssd import WORKLOAD, data

pytest.importorskip(
    "nvidia.dali", reason="nvidia-dali is not installed: podium-suite[dali] brings it"
)

MEANS = Means(device="cpu", place=Place.CPU, workers=0)
TOLERANCE = 0.5
"""Mean absolute difference of a picture's bytes (0.2 was seen)."""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run on a few small scenes."""
    folder = synthetic_scenes.prepare_scene_folder(tmp_path / "tiny", TINY)
    return a_run("ssd", folder, tmp_path / "cache", SETTINGS["ssd"])


@pytest.mark.parametrize("split", ["train", "val"])
def test_pictures_and_targets_are_the_default_s(run: Run, split: str) -> None:
    """The same crop, or the targets would lie beside their objects."""
    found = coco.read_coco_split(data.resolve_ssd_folder(run), split)
    plan: list[list[Any]] = [
        [SampleKey(index=index, epoch=epoch) for index in range(5)] for epoch in (1, 2)
    ]
    album: Any = data.SSDTrainingAlbum(found.drop_empty_pictures(), 128, 3, 20)
    if split == "val":
        album = PictureFiles(partial(data.build_square_view, size=128))
        plan = [[found.path(key.index) for key in keys] for keys in plan]
    readers = [
        registry.load_input_pipeline(name).open(album, MEANS) for name in ("default", "dali")
    ]
    for (ours, mine), (dali, other) in zip(*(reader.read(plan) for reader in readers), strict=True):
        assert float((ours.float() - dali.float()).abs().flatten(1).mean(dim=1).max()) < TOLERANCE
        assert mine is other is None or (
            torch.equal(mine.box_NO4, other.box_NO4) and torch.equal(mine.label_NO, other.label_NO)
        )


def test_it_trains_and_evaluates(run: Run) -> None:
    """Through the workload's own entrance."""
    training = WORKLOAD.build_training(replace(run, input="dali"))
    assert next(training.train_epoch(1)) == 4
    assert 0 < training.loss() < 100
    assert 0 <= training.evaluate()["box_ap"] <= 1
