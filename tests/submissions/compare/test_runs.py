"""What the runs of two results show: intervals, verdicts, tests that are adjusted together, and
published rounds beside each other.
"""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from changed_results import change_result, make_result

from submissions.compare.command import explain_missing_conclusions
from submissions.compare.comparison import ComparedResult, CompareRequest, compare_results
from submissions.compare.fitness import find_allowed_differences, find_incomparability_reasons
from submissions.compare.table_rows import describe_detectable_difference, format_result_cell
from submissions.compare.tables import print_comparisons
from submissions.compare.verdicts import SignificanceSettings
from suite.measurement.metrics import compute_olympic_mean
from suite.result import Machine, Result

SCORE = make_result(
    org="acme",
    system="host",
    division="open",
    profile="smoke",
    round="podium-v1",
    workload="resnet50",
    scenario=None,
    metric="time_to_train",
    value=10.0,
    unit="minutes",
    runs=(10.0,),
    compliant=True,
    precision="fp32",
    engine="torch",
)
TIMES = (10.0, 10.2, 9.9, 10.1, 10.0)


def training(path: str, runs: tuple[float | None, ...], **changes: Any) -> Result:
    """A run set of some runs."""
    mean = compute_olympic_mean(runs, 3)
    return change_result(SCORE, source=path, value=mean, runs=runs, **changes)


def others(*sides: Result, request: CompareRequest | None = None) -> list[ComparedResult]:
    """What is said of those after the first."""
    (found,) = compare_results(sides, [each.source for each in sides], request)
    return list(found.results[1:])


def test_a_ratio_has_its_interval_and_verdict() -> None:
    """Half the time is twice as fast, by all runs on logarithms."""
    (found,) = others(training("a", TIMES), training("b", tuple(run / 2 for run in TIMES)))
    assert (
        found.verdict == "faster"
        and found.ratio == pytest.approx(2.0)
        and found.p is not None
        and found.p < 1e-9
    )
    assert found.ratio_interval and found.interval and found.result.value
    assert (
        found.ratio_interval.low < 2 < found.ratio_interval.high
        and found.interval.low < found.result.value < found.interval.high
    )
    (found,) = others(training("a", TIMES), training("b", tuple(run * 2 for run in TIMES)))
    assert found.verdict == "slower" and found.ratio == pytest.approx(0.5)


def test_a_result_beside_itself_is_not_separable() -> None:
    """Whatever its runs are."""
    (found,) = others(training("a", TIMES), training("b", TIMES))
    assert found.verdict == "not separable" and found.ratio == 1.0 and found.p == 1.0
    assert found.shows == pytest.approx(0.0225, abs=2e-3)


@pytest.mark.parametrize(
    ("first", "other", "why"),
    [
        ((10.0,), (5.0,), "one run each, no interval"),
        ((10.0, 10.1), (5.0, 5.1), "2 runs each"),
        (TIMES, (5.0,), "5 and 1 runs"),
        (
            (10.0,) * 5,
            (9.0,) * 5,
            "all runs of a set are equal, so their spread is unknown",
        ),
    ],
)
def test_what_cannot_be_tested_is_told(
    first: tuple[float, ...], other: tuple[float, ...], why: str
) -> None:
    """The ratio stands, in brackets."""
    (found,) = others(training("a", first), training("b", other))
    assert (
        found.verdict == "not tested"
        and found.why == why
        and found.p is None
        and found.ratio_interval is None
        and found.ratio
    )


def test_a_run_that_missed_is_the_slowest_and_ranks_decide() -> None:
    """Nobody knows how slow it would have been, so there is no interval."""
    (found,) = others(training("a", (*TIMES, None)), training("b", (5.0, 5.1, 5.2, 4.9, 5.0, 4.8)))
    assert (
        found.verdict == "faster"
        and found.p == pytest.approx(2 / 924)
        and found.ratio_interval is None
    )
    assert found.why == "tested by ranks, because a run missed its target or has no time"
    (found,) = others(training("a", (10.0, 10.2, 9.9, None)), training("b", (5.0, 5.1, 5.2)))
    assert found.verdict == "not separable" and found.why.endswith(
        "4 and 3 runs are too few for that"
    )


def test_runs_of_any_size_give_numbers() -> None:
    """A log may say anything, and JSON has no infinity."""
    wild = training("a", (1e-300, 1.0, 1e29, 1e-200))
    (found,) = others(
        wild,
        training("b", (1e29, 2.0, 1e-299, 3.0)),
        request=CompareRequest(significance=SignificanceSettings(share=0.05)),
    )
    assert found.verdict == "not separable"
    assert "Infinity" not in json.dumps(asdict(found)) and "NaN" not in json.dumps(asdict(found))
    (found,) = others(training("a", (1e-300,)), training("b", (1e29,)))
    assert found.verdict == "not tested"


def test_the_more_rows_the_more_a_difference_has_to_show() -> None:
    """Holm: of 20 equal systems one would be faster by chance."""
    other = training("b", tuple(run * 0.983 for run in TIMES))
    (alone,) = others(training("a", TIMES), other)
    many = others(
        training("a", TIMES), other, *(training(f"c{number}", TIMES) for number in range(9))
    )
    assert alone.verdict == "faster" and alone.p and many[0].p == pytest.approx(10 * alone.p)
    assert many[0].verdict == "not separable" and many[0].ratio_interval == alone.ratio_interval


def test_the_baseline_is_the_one_that_was_asked_for() -> None:
    """And the order of the paths stays."""
    sides = [training("a", TIMES), training("b", tuple(run / 2 for run in TIMES))]
    (found,) = compare_results(sides, ["a", "b"], CompareRequest(baseline="b"))
    assert [(each.path, each.baseline, each.verdict) for each in found.results] == [
        ("a", False, "slower"),
        ("b", True, None),
    ]
    (found,) = compare_results([training("a", TIMES)], ["a", "b"], CompareRequest(baseline="b"))
    assert (
        found.results[0].why == "the baseline has no result of this kind"
        and found.results[0].ratio is None
        and not found.comparable
    )


# ---- published rounds ----


def published(path: str, round_name: str, **changes: Any) -> Result:
    """A set of a published round."""
    return training(
        path, TIMES, round=round_name, profile="published", division="closed", **changes
    )


def test_compatible_rounds_are_compared_and_others_not() -> None:
    """MLCommons says which: ResNet-50's rules stayed from v0.6 to v0.7; all clocks changed in
    v0.6.
    """
    first = published("a", "training-v0.6")
    assert list(find_incomparability_reasons(first, published("b", "training-v0.7"))) == []
    assert list(find_allowed_differences(first, published("b", "training-v0.7"))) == [
        "round: training-v0.6 and training-v0.7"
    ]
    assert list(find_incomparability_reasons(first, published("b", "training-v0.5"))) == [
        "round: training-v0.6 and training-v0.5"
    ]
    assert "round: training-v0.6 and podium-v1" in list(
        find_incomparability_reasons(first, training("b", TIMES))
    )


def test_accelerators_and_nodes_are_always_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 times the chips are no better system."""
    monkeypatch.delenv("COLUMNS", raising=False)
    few, many = (Machine(accelerator="TPU v3", accelerators=count, nodes=2) for count in (16, 1024))
    first, other = (
        replace(published("a", "training-v0.6"), machine=few),
        replace(published("b", "training-v0.6"), machine=many),
    )
    assert list(find_allowed_differences(first, other)) == ["accelerators: 16 and 1024"]
    assert (
        list(
            find_allowed_differences(
                first, replace(first, machine=replace(few, accelerator="tpu-v3"))
            )
        )
        == []
    ), "another spelling is no other chip"
    print_comparisons(compare_results([first, other], ["a", "b"]))
    out = capsys.readouterr().out
    assert "16 x TPU v3, 2 nodes" in out and "1024 x TPU v3, 2 nodes" in out
    assert list(find_allowed_differences(first, published("b", "training-v0.6"))) == [
        "accelerator: TPU v3 and unknown",
        "accelerators: 16 and unknown",
        "nodes: 2 and unknown",
    ]


@pytest.mark.parametrize(
    ("share", "told"),
    [
        (0.045, "these runs could have detected a difference of 4.5 % or more"),
        (0.999, "these runs could have detected a difference of 100 % or more"),
        (1100.0, "these runs could only have detected a result 1,100 times as fast"),
    ],
)
def test_what_the_runs_could_detect_has_no_exponent(share: float, told: str) -> None:
    assert describe_detectable_difference(share) == told


def test_what_a_ratio_is_made_of_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """9.69 and 39.5 ms with a ratio of 0.10: the figures are the slowest runs."""
    mine, theirs = training("a", (9.0, 10.0, 30.0)), training("b", (20.0, 20.1, 20.2))
    (found,) = compare_results([mine, theirs], ["a", "b"])
    baseline, other = found.results
    assert baseline.geometric_mean == pytest.approx(2700 ** (1 / 3))
    assert other.statistic == "geometric mean" and baseline.statistic is None
    assert other.ratio == pytest.approx((baseline.geometric_mean or 0) / other.geometric_mean)
    assert "geometric mean 20.1 minutes\n3 runs" in format_result_cell(other)
    print_comparisons([found])
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    cells = [[cell.strip() for cell in line if cell] for line in lines]
    assert ["of", "result", "geometric mean", "interval", "n"] in cells
    assert ["A", "10 minutes", "14 minutes", "2.7 to 73", "3"] in cells


def test_a_ratio_of_results_has_no_mean(capsys: pytest.CaptureFixture[str]) -> None:
    """One run each: nothing else is known."""
    (found,) = compare_results([training("a", (9.0,)), training("b", (4.5,))], ["a", "b"])
    assert found.results[1].statistic == "result" and found.results[1].geometric_mean is None
    print_comparisons([found])
    out = capsys.readouterr().out
    assert "geometric" not in out
    assert "B is 2.00x as fast as A, one run each, no interval; not tested" in out


SERVER = {"scenario": "Server", "metric": "result_completed_samples_per_sec", "unit": "samples/s"}


@pytest.mark.parametrize(
    ("runs", "asked", "hints"),
    [
        (
            TIMES,
            "300 samples/s",
            ["rates that were searched for: podium run resnet50 --runs 3 --peak"],
        ),
        ((5.0,), "", ["three runs on each side: podium run resnet50 --runs 3"]),
        (
            (5.0,),
            "300 samples/s",
            ["three runs on each side", "rates that were searched for"],
        ),
        (TIMES, "", []),
    ],
)
def test_the_closing_hint_is_about_what_is_missing(
    runs: tuple[float, ...], asked: str, hints: list[str]
) -> None:
    """Three runs were asked for where both sides had three, and only a rate had not been searched
    for.
    """
    sides = [
        training(path, tuple(run * times for run in runs), **SERVER, asked=asked)
        for path, times in (("a", 1.0), ("b", 1.01))
    ]
    told = explain_missing_conclusions(compare_results(sides, ["a", "b"]))
    assert len(told) == len(hints)
    assert all(hint in line for hint, line in zip(hints, told, strict=True))


def test_nothing_is_advised_where_nothing_helps() -> None:
    """More runs make no two profiles comparable."""
    sides = [training("a", (5.0,)), training("b", (5.0,), profile="full")]
    assert explain_missing_conclusions(compare_results(sides, ["a", "b"])) == []
