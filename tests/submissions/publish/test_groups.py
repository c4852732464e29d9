"""Groups instead of ranks: what cannot be told apart shares a letter, and nothing else does."""

import random
from typing import Any

import pytest
from changed_results import change_result, make_result

from submissions.publish.groups import (
    NO_OTHER,
    REQUESTED_RATE,
    build_site_table_key,
    format_group_letter,
    group_site_rows,
)
from suite.result import Result

ROW = make_result(
    id="0" * 64,
    round="podium-v1",
    profile="full",
    division="closed",
    org="acme",
    system="box",
    engine="torch",
    precision="fp32",
    workload="resnet50",
    half="training",
    metric="time_to_train",
    unit="minutes",
    value=10.0,
    runs=(10.0,),
    attempts=1,
    compliant=True,
    kind="bundle",
)


def row(name: str, runs: tuple[float, ...], **changes: Any) -> Result:
    return change_result(ROW, system=name, runs=runs, value=sum(runs) / len(runs), **changes)


def around(mean: float, seed: int) -> tuple[float, ...]:
    rng = random.Random(seed)
    return tuple(mean * (1 + rng.gauss(0, 0.01)) for _ in range(5))


def test_results_far_apart_have_letters_of_their_own() -> None:
    found = group_site_rows(
        [row("slow", around(30, 1)), row("fast", around(10, 2)), row("middle", around(20, 3))]
    )
    assert [each.system for each in found.rows] == ["fast", "middle", "slow"]
    assert found.letters == ("A", "B", "C")


def test_results_that_no_test_tells_apart_share_a_letter() -> None:
    assert group_site_rows([row("one", around(10, 1)), row("two", around(10.02, 2))]).letters == (
        "A",
        "A",
    )


def test_single_runs_have_no_letter() -> None:
    """A site that ranks single runs ranks noise: a shared A said that they had been tested."""
    assert group_site_rows([row("one", (10.0,)), row("two", (99.0,))]).letters == (
        "one run, no interval",
        "one run, no interval",
    )


def test_single_runs_among_others_open_no_group() -> None:
    rows = [row("single", (9.0,)), row("best", around(10, 1)), row("slow", around(20, 2))]
    assert group_site_rows(rows).letters == ("one run, no interval", "A", "B")


def test_one_set_of_runs_beside_single_ones_was_tested_against_nothing() -> None:
    """Its A said that a test had been made."""
    rows = [row("best", around(10, 1)), row("single", (20.0,))]
    assert group_site_rows(rows).letters == (NO_OTHER, "one run, no interval")


def test_the_first_that_differs_from_its_groups_best_opens_the_next() -> None:
    rows = [
        row("a", around(10.0, 1)),
        row("b", around(10.05, 2)),
        row("c", around(13, 3)),
        row("d", around(13.05, 4)),
    ]
    assert group_site_rows(rows).letters == ("A", "A", "B", "B")


def test_more_is_better_for_rates() -> None:
    rows = [
        row("low", around(10, 1), metric="samples_per_second"),
        row("high", around(20, 2), metric="samples_per_second"),
    ]
    assert [each.system for each in group_site_rows(rows).rows] == ["high", "low"]


def test_a_result_without_a_value_stands_last_without_a_letter() -> None:
    found = group_site_rows(
        [change_result(ROW, system="missed", value=None, runs=(None,)), row("fine", (5.0,))]
    )
    assert [each.system for each in found.rows] == ["fine", "missed"] and found.letters == (
        "one run, no interval",
        "",
    )


def test_the_order_of_the_input_decides_nothing() -> None:
    rows = [
        row(str(number), around(10 + number % 3, number), id=f"{number:064x}")
        for number in range(12)
    ]
    assert group_site_rows(rows) == group_site_rows(rows[::-1])


@pytest.mark.parametrize("field", ["round", "profile", "division", "unit"])
def test_what_may_not_be_compared_has_another_table(field: str) -> None:
    assert build_site_table_key(ROW) != build_site_table_key(change_result(ROW, **{field: "other"}))


def test_letters_go_on_behind_z() -> None:
    assert [format_group_letter(number) for number in (0, 25, 26, 27, 701, 702)] == [
        "A",
        "Z",
        "AA",
        "AB",
        "ZZ",
        "AAA",
    ]


def test_requested_rates_have_no_letter() -> None:
    """The site gave letters to rates that `podium compare` does not test."""
    rates = {"metric": "result_completed_samples_per_sec", "unit": "samples/s"}
    rows = [
        row("one", around(10, 1), asked="12 samples/s", **rates),
        row("two", around(20, 2), asked="a share of a probe's rate", **rates),
        row("searched", around(30, 3), **rates),
    ]
    assert group_site_rows(rows).letters == (NO_OTHER, REQUESTED_RATE, REQUESTED_RATE)


def test_two_bundles_of_one_system_have_two_names() -> None:
    """All figures of one system stood under one name, in one cell."""
    rows = [
        row("box", around(10, 1), id="ab" * 32, date="2026-11-28"),
        row("box", around(20, 2), id="cd" * 32, date="2026-11-29"),
        row("other", around(30, 3)),
    ]
    names = group_site_rows(rows).names
    assert names == ("box [abababab]", "box [cdcdcdcd]", "other")
