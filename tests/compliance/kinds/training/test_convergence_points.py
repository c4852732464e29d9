"""Reference convergence points: the closed form beside the official checker's search (PyPI
mlperf-logging), on every point of every round.
"""

import importlib
import math
from collections.abc import Iterator

import pytest

from compliance.kinds.training.convergence_points import (
    ConvergenceReference,
    compute_least_mean,
    find_convergence_reference,
    interpolate_points,
    prune_slow_points,
)
from compliance.kinds.training.round import load_training_round
from suite import registry

ROUNDS = tuple(
    name
    for name in registry.list_round_names()
    if name.startswith("training-v") and name >= "training-v1.0"
)
SEARCHED = 1e-4
"""The official checker halves until it is this near."""


def references() -> Iterator[tuple[str, str, ConvergenceReference]]:
    for name in ROUNDS:
        round = load_training_round(name)
        for benchmark, row in round.benchmarks.items():
            found = find_convergence_reference(round, benchmark, row)
            if found:
                yield name, benchmark, found


def test_every_benchmark_but_minigo_has_points() -> None:
    """A benchmark without points is never tested."""
    without = {
        (name, key)
        for name in ROUNDS
        for key, row in load_training_round(name).benchmarks.items()
        if find_convergence_reference(load_training_round(name), key, row) is None
    }
    assert {key for _, key in without} == {"minigo"}


@pytest.mark.parametrize("name", ROUNDS)
def test_points_and_limits_are_those_of_the_official_checker(name: str) -> None:
    """The same points survive pruning, and each allows the same mean; before v4.1 the deviation was
    another one, so that only the points are compared.
    """
    rcp_checker = importlib.import_module("mlperf_logging.rcp_checker.rcp_checker")
    round = load_training_round(name)
    for benchmark, found in (
        (key, find_convergence_reference(round, key, row)) for key, row in round.benchmarks.items()
    ):
        if found is None or benchmark == "dlrm":  # which the checker of today has forgotten
            continue
        theirs = rcp_checker.RCP_Checker(
            "training", f"{name.removeprefix('training-v')}.0", benchmark, False
        )
        points = {each["BS"]: each for each in theirs.pruned_rcp_data.values()}
        assert [point.batch for point in found.points] == sorted(points), benchmark
        for point in found.points:
            assert point.mean == pytest.approx(points[point.batch]["RCP Mean"], rel=1e-12)
            if not round.rules.deviation_without_ends:
                assert point.least == pytest.approx(
                    points[point.batch]["Min Epochs"], abs=2 * SEARCHED, rel=1e-9
                ), (benchmark, point)


def test_between_two_points_the_limit_is_the_official_one() -> None:
    rcp_checker = importlib.import_module("mlperf_logging.rcp_checker.rcp_checker")
    theirs = rcp_checker.RCP_Checker("training", "5.1.0", "llama2_70b_lora", False)
    low, high = sorted(theirs.pruned_rcp_data.values(), key=lambda each: each["BS"])[:2]
    _, wanted = theirs._create_interp_rcp(10, low, high)
    round = load_training_round("training-v5.1")
    found = find_convergence_reference(
        round, "llama2_70b_lora", round.benchmarks["llama2_70b_lora"]
    )
    assert found is not None
    point = found.find_point(10)
    assert point is not None
    assert (point.mean, point.least) == pytest.approx(
        (wanted["RCP Mean"], wanted["Min Epochs"]), abs=2 * SEARCHED
    )


def test_no_point_outside_the_smallest_and_the_largest_batch() -> None:
    for _, _, found in references():
        assert found.find_point(found.points[-1].batch + 1) is None
        assert found.find_point(found.points[0].batch - 1) is None
        assert found.find_point(found.points[0].batch) == found.points[0]


def test_runs_that_never_differ_allow_no_less() -> None:
    """A deviation of 0 leaves nothing to chance."""
    assert compute_least_mean(4.0, 0.0, 8, 5) == 4.0
    assert compute_least_mean(4.0, 0.5, 8, 5) < 4.0
    assert math.isfinite(compute_least_mean(4.0, 0.5, 4, 3))


def test_a_point_that_is_slower_than_its_neighbours_say_is_pruned() -> None:
    found = next(found for _, benchmark, found in references() if benchmark == "bert")
    first, last = found.points[0], found.points[-1]
    slow = interpolate_points(first, last, (first.batch + last.batch) // 2, found.runs)
    assert prune_slow_points([first, slow, last], found.runs) == (first, slow, last)
    slower = type(slow)(
        name="slow", batch=slow.batch, mean=slow.mean * 1.01, deviation=1.0, runs=18, least=1.0
    )
    assert prune_slow_points([first, slower, last], found.runs) == (first, last)
