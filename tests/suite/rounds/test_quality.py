"""Whether scores reach their targets, from above and from below."""

from dataclasses import replace
from typing import Any

import pytest

from suite import registry
from suite.errors import RequestError
from suite.loadgen.scenario import Scenario
from suite.rounds.quality import (
    format_target_sign,
    format_target_value,
    has_reached_target,
    is_possible_value,
    select_worst_scores,
)
from suite.rounds.row_checks import check_row
from suite.terms import Profile

LOWER = ("loss", "fid")


@pytest.mark.parametrize(
    ("scores", "target", "reached"),
    [
        ({"loss": 3.3}, {"loss": 3.3}, True),
        ({"loss": 3.2999}, {"loss": 3.3}, True),
        ({"loss": 3.3001}, {"loss": 3.3}, False),
        ({"loss": 0.0}, {"loss": 3.3}, False),
        ({"loss": None}, {"loss": 3.3}, False),
        ({"loss": float("nan")}, {"loss": 3.3}, False),
        ({}, {"loss": 3.3}, False),
        ({"top1": 0.759}, {"top1": 0.759}, True),
        ({"top1": 0.7589}, {"top1": 0.759}, False),
        ({"fid": 90.0, "clip": 0.15}, {"fid": 90.0, "clip": 0.15}, True),
        ({"fid": 89.0, "clip": 0.14}, {"fid": 90.0, "clip": 0.15}, False),
        ({"fid": 91.0, "clip": 0.16}, {"fid": 90.0, "clip": 0.15}, False),
    ],
)
def test_a_loss_reaches_its_target_from_above(
    scores: dict[str, float | None], target: dict[str, float], reached: bool
) -> None:
    """A sign turned round would end a run at its first evaluation, or never."""
    assert has_reached_target(scores, target, LOWER) is reached


def test_a_bound_that_is_not_believed_must_be_passed() -> None:
    """Published rounds have losses of 0, and targets that have to be passed."""
    assert not has_reached_target({"loss": 0.0}, {"loss": 3.3}, LOWER, {"loss": 0.0})
    assert has_reached_target({"loss": 0.1}, {"loss": 3.3}, LOWER, {"loss": 0.0})
    assert not has_reached_target({"reward": 0.69}, {"reward": 0.69}, (), {"reward": 0.69})


def test_the_worst_of_several_runs_is_the_one_furthest_from_the_target() -> None:
    """The best loss of a set would hide the run that barely reached its target."""
    runs = [{"loss": 3.1, "top1": 0.8}, {"loss": 3.3, "top1": 0.9}, {"top1": 0.76}]
    assert select_worst_scores(runs, LOWER) == {"loss": 3.3, "top1": 0.76}
    assert select_worst_scores([], LOWER) == {}


def test_words_and_signs_say_the_direction() -> None:
    assert (format_target_sign("loss", LOWER), format_target_sign("top1", LOWER)) == ("<=", ">=")
    assert format_target_value("loss", "3.3", LOWER) == "at most 3.3"
    assert format_target_value("top1", "0.759", LOWER) == "0.759"


def test_a_row_has_a_lower_metric_and_does_not_serve_it() -> None:
    """Of a served score 99 % of the reference is required, which a loss of any height has."""
    row = registry.load_round().benchmark("minigo")
    check_row("minigo", replace(row, lower_is_better=("win_rate",), evaluations_below={}))
    with pytest.raises(RequestError, match=r"minigo\.lower_is_better: 'loss' is not one of its"):
        check_row("minigo", replace(row, lower_is_better=("loss",)))
    with pytest.raises(RequestError, match="'win_rate' is served, too"):
        check_row("minigo", replace(row, lower_is_better=("win_rate",), served_metrics=()))


def test_the_method_of_a_limit_is_a_setting() -> None:
    """A log could not state another one."""
    row = registry.load_round().benchmark("transformer")
    check_row("transformer", row)
    limit = replace(row.settings["max_sequence_length"], method="data.none")
    wrong = replace(row, settings={**row.settings, "max_sequence_length": limit})
    with pytest.raises(RequestError, match=r"max_sequence_length\.method: 'data\.none' is not"):
        check_row("transformer", wrong)


@pytest.mark.parametrize(
    ("value", "metric", "possible"),
    [
        (1.0, "top1", True),
        (1.0000001, "top1", False),
        (85.0, "top1", False),
        (-0.1, "top1", False),
        (float("nan"), "top1", False),
        (0.0, "top1", True),
        (1.0, "bleu", False),
        (0.9999, "bleu", True),
        (7.3, "loss", True),
        (float("inf"), "loss", False),
    ],
)
def test_a_perfect_score_is_possible_unless_the_row_says_otherwise(
    value: float, metric: str, possible: bool
) -> None:
    """MLCommons' checker refuses it of its own benchmarks alone."""
    assert is_possible_value(value, metric, LOWER, {"bleu": 1.0}) is possible


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"target": {"top1": 85.0}}, "training.smoke.target.top1: 85: expected"),
        ({"target": {"top1": float("nan")}}, "training.smoke.target.top1: nan"),
        ({"target": {"top1": 0.0}}, "training.smoke.target.top1: 0: expected"),
        ({"target": {"top1": 1.0}}, "target.top1: 1: expected a finite number, at least 0 and bel"),
        ({"target": {"top5": 0.5}}, "training.smoke.target.top5: is not one of the metrics, top1"),
        ({"target": {}}, "training.smoke.target: names no metric"),
        ({"runs": 0}, "training.smoke.runs: 0 is below 1"),
        ({"max_epochs": 0}, "training.smoke.max_epochs: 0 is below 1"),
        ({"evaluate_every_epochs": 0}, "evaluate_every_epochs: 0 is below 1"),
        ({"expected_epochs": -1.0}, "expected_epochs: -1 is not a number above 0"),
    ],
)
def test_a_row_with_which_no_run_ends_well_is_refused(
    change: dict[str, Any], sentence: str
) -> None:
    """Hours of training end at a target that no score can have."""
    row = registry.load_round().benchmark("resnet50")
    wrong = replace(row, training={Profile.SMOKE: replace(row.training[Profile.SMOKE], **change)})
    with pytest.raises(RequestError) as caught:
        check_row("resnet50", wrong)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("scenario", "change", "sentence"),
    [
        (Scenario.OFFLINE, {"percentile": 900.0}, "scenarios.offline.percentile: 900 is not betw"),
        (Scenario.OFFLINE, {"min_queries": 0}, "scenarios.offline.min_queries: 0 is below 1"),
        (Scenario.SERVER, {"bound_ns": None}, "scenarios.server.bound_ns: is missing"),
        (Scenario.SERVER, {"bound_ns": 0}, "scenarios.server.bound_ns: 0 is below 1"),
    ],
)
def test_conditions_that_no_run_can_meet_are_refused(
    scenario: Scenario, change: dict[str, Any], sentence: str
) -> None:
    """LoadGen would call each run INVALID."""
    row = registry.load_round().benchmark("resnet50")
    inference = row.inference[Profile.SMOKE]
    scenarios = {scenario: replace(inference.scenarios[scenario], **change)}
    wrong = replace(row, inference={Profile.SMOKE: replace(inference, scenarios=scenarios)})
    with pytest.raises(RequestError) as caught:
        check_row("resnet50", wrong)
    assert sentence in str(caught.value)
