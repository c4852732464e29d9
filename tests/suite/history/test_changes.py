"""Tests of change points: known values, noise without changes, and what must not move a change."""

import math
import random

import numpy as np
import pytest
from scipy import stats

from suite.history.changes import MAX_P, LevelNoise, find_changes, find_split, limit_outliers


def draw_series(seed: int, noise: float, *levels: tuple[int, float]) -> list[float]:
    """Draw so many results of each level."""
    generator = random.Random(seed)
    return [
        level * math.exp(generator.gauss(0, noise))
        for length, level in levels
        for _ in range(length)
    ]


def test_a_split_is_students_test() -> None:
    """Of two samples with equal variances, against scipy."""
    log_C = np.array([0.01, -0.02, 0.0, 0.01, 0.02, -0.01, 0.05, 0.06, 0.04, 0.055])
    found = find_split(log_C, LevelNoise(), floor=1e-6)
    assert found.place == 6
    assert found.p == pytest.approx(stats.ttest_ind(log_C[:6], log_C[6:]).pvalue)
    assert found.noise.dof == 5
    assert found.noise.squares == pytest.approx(5 * np.var(log_C[:6], ddof=1))


@pytest.mark.parametrize("seed", range(20))
def test_a_step_is_found_within_five_commits(seed: int) -> None:
    values = draw_series(seed, 0.01, (20, 100.0), (5, 95.0))
    *_, found = find_changes(values)
    assert abs(found.index - 20) <= 2
    assert found.ratio == pytest.approx(0.95, abs=0.02)
    assert found.ratio == pytest.approx(found.after / found.before)
    assert found.found_at <= 24 and found.p < MAX_P


def test_a_known_noise_keeps_small_steps_silent() -> None:
    """Equal runs of this machine differ by 5 %, whatever these few results look like."""
    values = draw_series(1, 0.002, (20, 100.0), (8, 95.0))
    assert find_changes(values)
    assert find_changes(values, noise=0.05) == []


def test_noise_has_few_changes() -> None:
    found = [find_changes(draw_series(seed, 0.02, (250, 7.0))) for seed in range(8)]
    assert sum(map(len, found)) <= 2


@pytest.mark.parametrize("seed", range(6))
def test_later_results_move_no_change(seed: int) -> None:
    """CI accepts a change by its commit: a later run must find the same one."""
    values = draw_series(seed, 0.02, (30, 100.0), (25, 90.0), (30, 99.0))
    wanted = [(each.index, each.found_at, each.p) for each in find_changes(values)]
    assert len(wanted) >= 2
    for end in range(len(values)):
        found = [(each.index, each.found_at, each.p) for each in find_changes(values[:end])]
        assert found == [each for each in wanted if each[1] < end]


@pytest.mark.parametrize("seed", range(6))
def test_units_and_direction_do_not_matter(seed: int) -> None:
    """Rates or times, in whatever unit."""
    values = draw_series(seed, 0.01, (20, 100.0), (20, 94.0))
    wanted = find_changes(values)
    for others, power in (
        ([3600 * each for each in values], 1),
        ([1 / each for each in values], -1),
    ):
        found = find_changes(others)
        assert [each.index for each in found] == [each.index for each in wanted]
        assert [each.ratio**power for each in found] == pytest.approx(
            [each.ratio for each in wanted], rel=1e-3
        )


@pytest.mark.parametrize("wrong", [0.3, 3.0])
def test_one_disturbed_result_is_no_change(wrong: float) -> None:
    values = draw_series(2, 0.01, (40, 100.0))
    values[25] *= wrong
    assert find_changes(values) == []


def test_a_short_or_constant_series_has_no_change() -> None:
    assert find_changes([]) == find_changes([1.0]) == find_changes([1.0, 9.0] * 3) == []
    assert find_changes([5.0] * 40) == []


def test_counts_that_never_vary_may_change() -> None:
    [found] = find_changes([5.0] * 20 + [4.0] * 5)
    assert (found.index, found.before, found.after) == (20, 5.0, 4.0)


def test_outliers_count_as_far() -> None:
    assert limit_outliers(np.array([0.0, 0.01, -0.01, 5.0, -5.0]), 0.01).tolist() == pytest.approx(
        [0.0, 0.01, -0.01, 0.035, -0.035]
    )


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_result_that_is_no_rate_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        find_changes([1.0, value])
    if value != 0.0:
        with pytest.raises(ValueError, match="share"):
            find_changes([1.0], noise=value)
