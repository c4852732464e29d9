"""A row's thresholds of a served model, below and above."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compliance.rules import load_rules
from compliance.verdict import Fault
from suite import registry
from suite.rounds import Profile

RULE = load_rules("podium")["accuracy.threshold"]
ROW = replace(
    registry.load_round().benchmark("resnet50").inference[Profile.FULL],
    threshold={"rouge1": 0.38, "gen_len": 90.0},
    threshold_most={"gen_len": 110.0},
)


def judge(scores: dict[str, float] | None, row: Any = ROW, **stated: float) -> list[str]:
    """Return what is found of a served result: its recomputed scores, else the stated ones."""
    entry = SimpleNamespace(
        inference=row,
        scores=scores,
        accuracy_text={metric: (value, "", 1) for metric, value in stated.items()},
        folder=Path("Server"),
        build_fault=lambda found, required, file: Fault(
            file=file, line=None, found=found, required=required
        ),
    )
    return [f"{fault.found}, {fault.required}" for fault in RULE.check(entry)]


@pytest.mark.parametrize(
    ("length", "told"),
    [
        (89.0, ["gen_len 89, at least 90"]),
        (90.0, []),
        (110.0, []),
        (111.0, ["gen_len 111, at most 110"]),
        (float("nan"), ["gen_len nan, at least 90", "gen_len nan, at most 110"]),
    ],
)
def test_a_length_is_held_on_both_sides(length: float, told: list[str]) -> None:
    """Endless answers are as wrong as short ones, and NaN is on no side."""
    assert judge({"rouge1": 0.4, "gen_len": length}) == told


def test_stated_scores_are_held_where_none_was_recomputed() -> None:
    assert judge(None, rouge1=0.3, gen_len=200.0) == [
        "rouge1 0.3, at least 0.38",
        "gen_len 200, at most 110",
    ]


def test_a_row_without_thresholds_holds_nothing() -> None:
    bare = replace(ROW, threshold={}, threshold_most={})
    assert judge({"rouge1": 0.0, "gen_len": 1e9}, bare) == judge(None, None) == []
