"""Mask R-CNN's row: MLPerf's numbers in `full`, what the embedded scenes are in `smoke`, and
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
from workloads.maskrcnn import WORKLOAD
from workloads.maskrcnn.agreement import agree
from workloads.maskrcnn.data import MASKRCNN_SCENES
from workloads.maskrcnn.model import RegionCounts
from workloads.maskrcnn.settings import build_region_counts

ROUND = registry.load_round()
ROW = ROUND.benchmark("maskrcnn")
FULL = ROW.training[Profile.FULL]
TARGET = {"box_ap": 0.377, "mask_ap": 0.339}


def logged(profile: Profile, **chosen: int) -> dict[str, object]:
    return dict(
        WORKLOAD.select_hyperparameters(ROUND, resolve_settings(ROUND, "maskrcnn", profile, chosen))
    )


def test_both_targets_are_mlperf_s() -> None:
    """Box and mask, in smoke not below what v0.7 asks for."""
    assert FULL.target == TARGET and ROW.metrics == {"box_ap": "BBOX", "mask_ap": "SEGM"}
    assert all(
        ROW.training[Profile.SMOKE].target[metric] >= value for metric, value in TARGET.items()
    )


POINTS: dict[int, dict[str, object]] = {
    batch: {
        "opt_learning_rate_decay_steps": decay,
        "opt_base_learning_rate": rate,
        "num_image_candidates": candidates,
        "opt_learning_rate_warmup_factor": factor,
        "opt_learning_rate_warmup_steps": steps,
    }
    for batch, decay, rate, candidates, factor, steps in (
        (8, (144000, 192000), 0.01, 1000, 0.00002, 500),
        (48, (24000, 32000), 0.06, 6000, 0.000096, 800),
        (64, (18000, 24000), 0.08, 6000, 0.0001, 800),
        (96, (12000, 16000), 0.12, 6000, 0.000192, 625),
        (128, (9000, 12000), 0.16, 6000, 0.000256, 625),
        (256, (5625, 7500), 0.24, 6000, 0.000133, 1800),
        (272, (5294, 7058), 0.24, 6000, 0.000133, 1800),
    )
}
"""BS and Hyperparams of mlcommons/logging,
mlperf_logging/rcp_checker/training_2.1.0/rcps_maskrcnn.json.
"""
LONGEST = 20  # the largest of its `Epochs to converge`, of batch 64


@pytest.mark.parametrize("batch", sorted(POINTS.keys() - {8}))
def test_a_recipe_is_its_reference_convergence_point(batch: int) -> None:
    """Key by key: half of a point, with the warm-up of batch 16, is no point."""
    found = logged(Profile.FULL, global_batch_size=batch)
    assert {key: found[key] for key in POINTS[batch]} == POINTS[batch]


def test_no_point_is_missing_but_the_one_that_v0_7_forbids() -> None:
    """0.01 is no multiple of 0.02."""
    assert {recipe["global_batch_size"] for recipe in FULL.recipes} == POINTS.keys() - {8}
    refused = check_hyperparameter_constraints(
        FULL.constraints, logged(Profile.FULL, global_batch_size=8) | POINTS[8]
    )  # type: ignore[arg-type]
    assert [breach.key for breach in refused] == ["opt_base_learning_rate"]
    assert FULL.max_epochs == LONGEST


@pytest.mark.parametrize("batch", [16, *sorted(POINTS.keys() - {8})])
def test_full_as_it_stands_is_legal(batch: int) -> None:
    """The row's own settings and the reference convergence points pass the closed division's rules;
    nothing that is logged is missing.
    """
    found = logged(Profile.FULL, global_batch_size=batch)
    assert found.keys() == set(FULL.required)
    assert list(check_hyperparameter_constraints(FULL.constraints, found)) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("opt_base_learning_rate", 0.03),
        ("opt_learning_rate_warmup_factor", 0.0),
        ("num_image_candidates", 1500),
        ("opt_learning_rate_decay_factor", 0.2),
        ("opt_learning_rate_decay_steps", (60_000, 85_000)),
        ("min_image_size", 600),
        ("max_image_size", 1000),
    ],
)
def test_the_closed_division_is_that_of_v0_7(key: str, value: object) -> None:
    """One value changed, one finding."""
    assert [
        breach.key
        for breach in check_hyperparameter_constraints(
            FULL.constraints, logged(Profile.FULL) | {key: value}
        )
    ] == [key]  # type: ignore[arg-type]


def test_defaults_are_the_reference_s() -> None:
    """What `full` does not set comes from the settings' defaults, and those from the reference's
    config.
    """
    assert (
        build_region_counts(resolve_settings(ROUND, "maskrcnn", Profile.FULL, {})) == RegionCounts()
    )


def test_smoke_is_what_the_scenes_are() -> None:
    """Sizes are pinned, so nobody evaluates on fewer."""
    smoke = ROW.training[Profile.SMOKE]
    assert (
        smoke.eval_samples
        == ROW.inference[Profile.SMOKE].accuracy_samples
        == MASKRCNN_SCENES.pictures["val"]
    )


def test_the_pinned_truth_is_that_of_the_scenes(tmp_path: Path) -> None:
    """The judge holds every embedded result's truth against this hash; scenes or their annotations
    that change have to change it.
    """
    synthetic_scenes.write_scenes(
        replace(MASKRCNN_SCENES, pictures={"train": 0, "val": MASKRCNN_SCENES.pictures["val"]}),
        tmp_path / "data",
    )
    (tmp_path / "truth").mkdir()
    coco.write_coco_truth(coco.read_coco_split(tmp_path / "data", "val"), tmp_path / "truth")
    assert compute_folder_sha256(tmp_path / "truth") == ROW.inference[Profile.SMOKE].truth_sha256


@pytest.mark.slow
def test_the_pinned_size_of_the_training_set_is_that_of_the_scenes() -> None:
    """Who trains on fewer pictures has another benchmark."""
    described = (
        synthetic_scenes.describe_visible_objects(
            synthetic_scenes.generate_scene(MASKRCNN_SCENES, "train", number)
        )
        for number in range(MASKRCNN_SCENES.pictures["train"])
    )
    assert (
        sum(any(True for _ in objects) for objects in described)
        == ROW.training[Profile.SMOKE].train_samples
    )


@pytest.mark.parametrize("profile", list(Profile))
def test_every_scenario_is_a_house_rule(profile: Profile) -> None:
    """A campaign serves all four; MLPerf never had one of them, and the row says so."""
    scenarios = ROW.inference[profile].scenarios
    assert set(scenarios) == set(Scenario) and scenarios[Scenario.SERVER].bound_ns
    assert all(row.house_rule for row in scenarios.values())
    assert scenarios[Scenario.MULTI_STREAM].samples_per_query == 8


def test_the_judge_s_schema_knows_the_hyper_parameters() -> None:
    """A set's log is judged by it: a hyper-parameter that it lacks would be a finding in every
    honest log.
    """
    schema = json.loads(
        (files("workloads.maskrcnn") / "training.podium-v1.maskrcnn.json").read_text()
    )
    properties = schema["properties"]["hyperparameters"]["properties"]
    assert properties.keys() == {key for key, setting in ROW.settings.items() if setting.log}
    assert set(
        schema["properties"]["evaluations"]["items"]["properties"]["eval_accuracy"]["required"]
    ) == set(ROW.metrics.values())


def test_the_judge_asks_how_answers_agree() -> None:
    """By its entry point, where bytes differ."""
    assert registry.load_agreement("maskrcnn") is agree
