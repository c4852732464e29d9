"""SSD's row: MLPerf's numbers in `full`, what the embedded scenes are in `smoke`, and
hyper-parameters that the judge knows.
"""

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from suite import registry
from suite.files.layout import compute_folder_sha256
from suite.loadgen.scenario import Scenario
from suite.rounds import Profile
from suite.rounds.legality import check_hyperparameter_constraints
from suite.rounds.settings import resolve_settings
from workloads.common.detection import coco, synthetic_scenes
from workloads.common.optimisation.schedules import iterate_epoch_blocks
from workloads.common.pictures import cloth
from workloads.ssd import WORKLOAD
from workloads.ssd.data import SSD_SCENES

ROUND = registry.load_round()
ROW = ROUND.benchmark("ssd")
FULL = ROW.training[Profile.FULL]
LEGAL = {
    "global_batch_size": 1024,
    "model_bn_span": 32,
    "max_samples": 1,
    "opt_base_learning_rate": 0.0025,
    "opt_weight_decay": 5e-4,
    "opt_learning_rate_warmup_factor": 0,
    "opt_learning_rate_warmup_steps": 300,
    "opt_learning_rate_decay_boundary_epochs": (44, 55),
}


def test_full_is_evaluated_at_the_epochs_of_the_rule() -> None:
    """40, 50, 55 and so on to 80, and never between."""
    assert [block[-1] for block in iterate_epoch_blocks(FULL)] == [40, 50, 55, 60, 65, 70, 75, 80]
    assert (FULL.train_samples, FULL.eval_samples, FULL.runs) == (117_266, 5_000, 5)
    assert FULL.target == {"box_ap": 0.23} and ROW.inference[Profile.FULL].threshold == {
        "box_ap": 0.2277
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_samples", 2),
        ("model_bn_span", 0),
        ("opt_learning_rate_warmup_factor", -1),
        ("opt_learning_rate_warmup_steps", 0),
        ("opt_learning_rate_decay_boundary_epochs", (40, 51)),
    ],
)
def test_the_closed_division_is_that_of_v0_7(key: str, value: object) -> None:
    """Boundaries stretch together, in tenths."""
    assert list(check_hyperparameter_constraints(FULL.constraints, LEGAL)) == []
    assert [
        breach.key
        for breach in check_hyperparameter_constraints(FULL.constraints, LEGAL | {key: value})
    ] == [key]  # type: ignore[arg-type]


def test_full_as_it_stands_is_legal() -> None:
    """The row's own settings pass its own rules, and nothing that has to be logged is missing."""
    hyper = WORKLOAD.select_hyperparameters(ROUND, resolve_settings(ROUND, "ssd", Profile.FULL, {}))
    assert set(FULL.required) == hyper.keys()
    assert list(check_hyperparameter_constraints(FULL.constraints, hyper)) == []


def test_smoke_is_what_the_scenes_are() -> None:
    """Sizes are pinned, so nobody evaluates on fewer."""
    assert (
        ROW.training[Profile.SMOKE].eval_samples
        == ROW.inference[Profile.SMOKE].accuracy_samples
        == SSD_SCENES.pictures["val"]
    )
    assert ROW.training[Profile.SMOKE].target["box_ap"] >= 0.23


@pytest.mark.slow
def test_the_pinned_truth_is_that_of_the_scenes(tmp_path: Path) -> None:
    """The judge holds every embedded result's truth against this hash; scenes or their annotations
    that change have to change it.
    """
    synthetic_scenes.write_scenes(
        replace(SSD_SCENES, pictures={"train": 0, "val": SSD_SCENES.pictures["val"]}),
        tmp_path / "data",
    )
    (tmp_path / "truth").mkdir()
    coco.write_coco_truth(coco.read_coco_split(tmp_path / "data", "val"), tmp_path / "truth")
    assert compute_folder_sha256(tmp_path / "truth") == ROW.inference[Profile.SMOKE].truth_sha256


@pytest.mark.slow
def test_the_pinned_size_of_the_training_set_is_that_of_the_scenes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who trains on fewer pictures has another benchmark."""
    monkeypatch.setattr(
        cloth, "draw_cloth_outline", lambda *anything, **cloths: None
    )  # paint, which no annotation depends on
    scenes = (
        synthetic_scenes.generate_scene(SSD_SCENES, "train", number)
        for number in range(SSD_SCENES.pictures["train"])
    )
    assert (
        sum(any(synthetic_scenes.describe_visible_objects(scene)) for scene in scenes)
        == ROW.training[Profile.SMOKE].train_samples
    )


@pytest.mark.parametrize("profile", list(Profile))
def test_every_profile_has_every_scenario(profile: Profile) -> None:
    """A campaign serves all four."""
    scenarios = ROW.inference[profile].scenarios
    assert set(scenarios) == set(Scenario) and scenarios[Scenario.SERVER].bound_ns
    assert scenarios[Scenario.MULTI_STREAM].samples_per_query == 8


@pytest.mark.parametrize("serving", [False, True])
def test_full_trains_and_serves_300_px(serving: bool) -> None:
    """A house rule: MLPerf serves 1200 px, with weights of its own; a user's own choice, in the
    open division, holds for both.
    """
    assert (
        resolve_settings(ROUND, "ssd", Profile.FULL, {}, serving=serving)["model.configuration"]
        == "300"
    )
    assert all(row.house_rule for row in ROW.inference[Profile.FULL].scenarios.values())
    assert (
        resolve_settings(
            ROUND, "ssd", Profile.QUICK, {"model.configuration": "1200"}, serving=serving
        )["model.configuration"]
        == "1200"
    )


def test_the_judge_s_schema_knows_the_hyper_parameters() -> None:
    """A set's log is judged by it: a hyper-parameter that it lacks would be a finding in every
    honest log.
    """
    schema = json.loads((files("workloads.ssd") / "training.podium-v1.ssd.json").read_text())
    properties = schema["properties"]["hyperparameters"]["properties"]
    assert properties.keys() == {key for key, setting in ROW.settings.items() if setting.log}
    assert schema["properties"]["submission_benchmark"] == {"const": "ssd"}
