"""The reference's configuration at real size: 800 x 1,333 pixels, 81 classes' worth of heads,
frozen batch-norm, start weights.
"""

import hashlib
import pickle
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from testbed import quickest_format

from suite.rounds import Profile
from suite.workload import Run
from workloads.common.detection import synthetic_scenes
from workloads.maskrcnn import WORKLOAD, data, model, scoring


@pytest.mark.slow
def test_one_step_and_one_prediction(
    make_run: Callable[..., Run],
    blobs_of: Callable[[Any], dict[str, Any]],
    engine: Any,
    tmp_path: Path,
) -> None:
    """Every number of `full` but the batch: memory, shapes and arithmetic hold at the size that
    counts.
    """
    scenery = replace(
        data.MASKRCNN_SCENES,
        pictures={"train": 1, "val": 1},
        extents=((640, 480),),
        mean_objects=7.3,
        most_objects=20,
        radius=(0.05, 0.3),
    )
    state = {
        name: np.asarray(value) * 0.03
        for name, value in blobs_of(model.build_maskrcnn_backbone(frozen_norm=True).body).items()
    }
    path = tmp_path / "R-50.pkl"
    path.write_bytes(pickle.dumps(state, protocol=2))
    chosen: dict[str, Any] = {
        "global_batch_size": 1,
        "data__micro_batch": 1,
        "min_image_size": 800,
        "max_image_size": 1333,
    }
    chosen |= {
        "rpn__candidates_train": 2000,
        "rpn__candidates_test": 1000,
        "roi__detections": 100,
        "batching__max_batch": 1,
    }
    chosen |= {
        "model__start_weights": str(path),
        "model__start_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    run = make_run(
        data=synthetic_scenes.prepare_scene_folder(tmp_path / "scenes", scenery),
        profile=Profile.FULL,
        precision=quickest_format(),
        **chosen,
    )
    training = WORKLOAD.build_training(run)
    with closing(training.train_epoch(1)) as steps:
        assert next(steps) == 1
    assert np.isfinite(training.loss())
    (tmp_path / "checkpoint").mkdir()
    training.export(tmp_path / "checkpoint")
    system = WORKLOAD.build_inference(run, tmp_path / "checkpoint", engine)
    system.load([0])
    (answer,) = system.open(0, 1)([0])
    assert scoring.split_maskrcnn_answer(answer) is not None
