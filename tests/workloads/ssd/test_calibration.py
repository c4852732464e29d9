"""Calibration of SSD: listed scenes, found where COCO has them, prepared as the served ones are."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from suite import registry
from suite.engine import Plan
from suite.files.layout import compute_names_sha256
from suite.rounds import Profile
from suite.terms import Precision
from suite.workload import Run
from workloads.common import weights
from workloads.common.detection import coco
from workloads.common.inputs.default import draw_picture_view
from workloads.common.pictures.decoding import read_rgb_picture
from workloads.ssd import data, model
from workloads.ssd.inference import SSDInference

MakeRun = Callable[..., Run]


@pytest.fixture(scope="module")
def checkpoint(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    description = model.SSDDescription(
        workload="ssd", configuration="64", categories=coco.read_coco_split(tiny, "val").categories
    )
    weights.write_exported_weights(model.build_ssd("64", 4), description, folder)
    return folder


def test_the_embedded_list_is_the_rounds() -> None:
    """The judge knows it by the hash of its names; all of them are training scenes."""
    names = tuple(data.iterate_ssd_calibration_names())
    row = (
        registry.load_round()
        .benchmark("ssd")
        .inference[Profile.SMOKE]
        .calibration[data.SSD_CALIBRATION_LIST]
    )
    assert (row.samples, row.names_sha256, row.of_accuracy_set) == (
        len(names),
        compute_names_sha256(names),
        False,
    )
    assert (
        all(name.startswith("train2017/") for name in names)
        and len(names) <= data.SSD_SCENES.pictures["train"]
    )


@pytest.mark.slow
def test_listed_scenes_are_found_with_and_without_their_folder(
    make_run: MakeRun, checkpoint: Path, engine: Any, tiny: Path, tmp_path: Path
) -> None:
    """MLPerf's COCO list gives file names alone, and they are the training set's, though the
    accuracy set may have files of the same name.
    """
    path = tmp_path / "coco_cal_images_list.txt"
    path.write_text("000000000002.jpg\ntrain2017/000000000009.jpg\n")
    SSDInference(
        make_run(precision=Precision.INT8, calibration__list=str(path)), checkpoint, engine
    ).close()
    plan: Plan[torch.Tensor] = engine.plan
    assert plan.calibration is not None
    assert (plan.calibration.list_name, plan.calibration.touched) == ("coco_cal_images_list", ())
    (picture_1CHW,), _ = plan.calibration.inputs
    picture = read_rgb_picture(tiny / "train2017" / "000000000002.jpg")
    wanted = draw_picture_view(picture, data.build_square_view(picture.size, 64))
    assert picture_1CHW.shape == (1, 3, 64, 64)
    assert (
        abs(float(picture_1CHW[0, 0, 5, 7]) - (float(wanted[5, 7, 0]) / 255 - 0.485) / 0.229) < 1e-4
    )


@pytest.mark.slow
def test_an_fp32_run_is_not_calibrated(make_run: MakeRun, checkpoint: Path, engine: Any) -> None:
    SSDInference(make_run(), checkpoint, engine).close()
    assert engine.plan.calibration is None
