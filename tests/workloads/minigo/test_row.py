"""Mini-Go's row: pins, schema, hyper-parameters, statistics of the target."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from compliance.kinds.podium.documents import json_document
from suite import registry
from suite.files.layout import compute_folder_sha256, compute_names_sha256
from suite.rounds import Profile
from suite.rounds.settings import resolve_settings
from workloads.minigo import scoring
from workloads.minigo.positions import embedded
from workloads.minigo.recipe import (
    MINIGO_LOGGED_HYPERPARAMETERS,
    MiniGoRecipe,
    select_minigo_hyperparameters,
)

ROUND = registry.load_round()
ROW = ROUND.benchmark("minigo")


def test_the_pins_are_those_of_the_embedded_positions(tmp_path: Path) -> None:
    """Labels and answers cannot be written anew together."""
    row = ROW.inference[Profile.SMOKE]
    mine = [
        (move, (1 if winner == "B" else -1) * (-1 if len(moves) % 2 else 1))
        for part, moves, move, winner in embedded.read_embedded_positions()
        if part == "val"
    ]
    scoring.write_truth_labels(tmp_path, mine)
    assert compute_folder_sha256(tmp_path) == row.truth_sha256 and len(mine) == row.accuracy_samples
    names = list(embedded.iterate_calibration_records())
    listed = row.calibration["calibration"]
    assert (len(names), compute_names_sha256(names)) == (listed.samples, listed.names_sha256)


@pytest.mark.parametrize(
    ("profile", "error"), [(Profile.SMOKE, 0.06), (Profile.QUICK, 0.03), (Profile.FULL, 0.03)]
)
def test_an_evaluation_is_long_enough(profile: Profile, error: float) -> None:
    """The standard error of the win rate is bounded, whatever the rate is; the row's sizes are
    those of its settings. Smoke plays fewer games, after each generation.
    """
    recipe = MiniGoRecipe.build_from_settings(
        resolve_settings(ROUND, "minigo", profile, {"data.workers": 1})
    )
    row = ROW.training[profile]
    assert math.sqrt(0.25 / recipe.eval_games) < error and row.eval_samples == recipe.eval_games
    assert row.train_samples in (None, recipe.examples)


def test_smoke_has_a_course() -> None:
    """Figures of a training with one evaluation are one dot."""
    assert ROW.training[Profile.SMOKE].evaluate_every_epochs == 1


def test_a_log_has_the_keys_of_v07() -> None:
    """closed_minigo.yaml's; the games of a generation are as many as they must be."""
    told = select_minigo_hyperparameters(resolve_settings(ROUND, "minigo", Profile.SMOKE, {}))
    assert (
        told["actual_selfplay_games_per_generation"]
        == told["min_selfplay_games_per_generation"]
        == 160
    )
    assert set(told) >= set(ROW.training[Profile.SMOKE].required)
    assert set(MINIGO_LOGGED_HYPERPARAMETERS) == {
        key for key, setting in ROW.settings.items() if setting.log
    }


def schema(workload: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        json.dumps(
            dict(json_document.read_published_schemas()[f"training.podium-v1.{workload}.json"])
        )
    )
    return found


def test_the_schema_names_what_the_row_names() -> None:
    """The facts of a log are the same for all workloads; what is Mini-Go's own is the row's."""
    own, other = schema("minigo"), schema("resnet50")
    assert set(own["properties"]["hyperparameters"]["properties"]) == set(
        MINIGO_LOGGED_HYPERPARAMETERS
    )
    assert (
        set(own["properties"]["reference_accuracy"]["properties"])
        == set(ROW.scored_metrics)
        == set(ROW.reference_within)
        == {"moves", "results"}
    )
    for found in (own, other):
        del found["$id"], found["title"]
        for key in (
            "submission_benchmark",
            "podium_workload",
            "quality_target",
            "reference_accuracy",
            "hyperparameters",
        ):
            del found["properties"][key]
    assert own == other


def test_the_schema_refuses_other_metrics() -> None:
    """A win rate is no accuracy of answers."""
    properties = schema("minigo")["properties"]
    assert Draft202012Validator(properties["quality_target"]).is_valid({"win_rate": 0.8})
    assert not Draft202012Validator(properties["reference_accuracy"]).is_valid({"win_rate": 0.8})
