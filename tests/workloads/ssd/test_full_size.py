"""Both of MLPerf's configurations at their real size: a training step and a prediction each, on
synthetic pictures of COCO's size.
"""

import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from testbed import quickest_format

from suite.rounds import Profile
from suite.workload import Run
from workloads.common.detection import synthetic_scenes
from workloads.common.detection.scene_looks import WeavingParameters
from workloads.common.pictures.shapes import OUTLINES_PD
from workloads.ssd.inference import SSDInference
from workloads.ssd.training import SSDTraining

MakeRun = Callable[..., Run]
REAL = synthetic_scenes.SceneParameters(
    pictures={"train": 2, "val": 2},
    classes=tuple(sorted(OUTLINES_PD)),
    extents=((640, 480), (480, 640)),
    mean_objects=7.3,
    most_objects=20,
    radius=(0.03, 0.3),
    crowd_share=0.0,
    empty_share=0.0,
    surfaces=WeavingParameters(
        periods_px=(5.0, 8.0), ground_strength=0.5, rags=(1, 4), rag_radius=(0.07, 0.2)
    ),
)


@pytest.mark.slow
@pytest.mark.timeout(1800)  # a minute and a half of a core to itself, where there is no AVX-512
@pytest.mark.parametrize(("configuration", "pictures"), [("300", 2), ("1200", 1)])
def test_a_step_and_a_prediction_at_full_size(
    make_run: MakeRun, tmp_path: Path, engine: Any, configuration: str, pictures: int
) -> None:
    """8,732 and 15,130 boxes, from JPEG to weights and from JPEG to answers: shapes that only fit
    at 128 px would show here.
    """
    folder = synthetic_scenes.prepare_scene_folder(tmp_path, REAL)
    chosen: dict[str, Any] = {
        "model__configuration": configuration,
        "model__start_weights": "random",
        "precision": quickest_format(),
    }
    chosen |= {"global_batch_size": pictures, "model_bn_span": pictures}
    training = SSDTraining(make_run(data=folder, profile=Profile.FULL, **chosen))
    with closing(training.train_epoch(1)) as steps:
        assert next(steps) == pictures
    assert training.loss() > 0
    (tmp_path / "export").mkdir()
    training.export(tmp_path / "export")
    system = SSDInference(
        make_run(data=folder, profile=Profile.FULL, serving=True, **chosen),
        tmp_path / "export",
        engine,
    )
    asked = [1, 0][:pictures]
    system.load(asked)
    answers = system.open(0, pictures)(asked)
    assert [next(struct.iter_unpack("<7f", answer))[0] for answer in answers] == asked
    assert all(len(answer) <= 200 * 28 for answer in answers)
