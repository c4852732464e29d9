"""Whether scores reach their targets, from above and from below."""

from dataclasses import replace

import pytest

from suite import registry
from suite.errors import RequestError
from suite.rounds.load import check_lower_metrics
from suite.rounds.quality import (
    format_target_sign,
    format_target_value,
    has_reached_target,
    select_worst_scores,
)

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
    check_lower_metrics("minigo", replace(row, lower_is_better=("win_rate",)))
    with pytest.raises(RequestError, match=r"minigo\.lower_is_better: 'loss' is not one of its"):
        check_lower_metrics("minigo", replace(row, lower_is_better=("loss",)))
    with pytest.raises(RequestError, match="'win_rate' is served, too"):
        check_lower_metrics(
            "minigo", replace(row, lower_is_better=("win_rate",), served_metrics=())
        )
