"""Student's quantiles and Mann-Whitney's p are scipy's, which is no dependency of the light
core.
"""

import random
from math import log1p
from typing import Any

import pytest

from submissions.compare import mann_whitney
from submissions.compare.intervals import (
    compare_log_spreads,
    compute_detectable_difference,
    compute_needed_runs,
    compute_welch_p_value,
)
from suite.measurement import student
from suite.measurement.intervals import LogSpread

CASES = 1_000


@pytest.fixture(scope="module")
def stats() -> Any:
    """Load scipy's in the process that runs these tests alone: it takes a second."""
    from scipy import stats

    return stats


@pytest.mark.slow
def test_quantiles_are_scipys(stats: Any) -> None:
    """From one degree of freedom up, whole or not, as Welch's are."""
    draw = random.Random(1)
    for _ in range(CASES):
        dof, share = (
            draw.choice([draw.uniform(1, 3), draw.uniform(1, 30), 10 ** draw.uniform(0, 4)]),
            draw.uniform(0.5, 0.9999),
        )
        assert student.compute_t_quantile(share, dof) == pytest.approx(
            stats.t.ppf(share, dof), rel=1e-9, abs=1e-9
        )


def test_tails_are_scipys(stats: Any) -> None:
    """Also far out, where 1 - P has no digits left."""
    draw = random.Random(2)
    for _ in range(CASES):
        dof, t = (
            draw.uniform(1, 40),
            draw.choice([draw.uniform(0, 1e-3), draw.uniform(0, 5), draw.uniform(5, 60)]),
        )
        assert student.compute_t_two_sided(-t, dof) == pytest.approx(
            2 * stats.t.sf(t, dof), rel=1e-9, abs=1e-12
        )


@pytest.mark.parametrize(
    ("share", "dof"), [(0.4, 5.0), (1.0, 5.0), (0.9, 0.0), (float("nan"), 5.0)]
)
def test_what_no_distribution_has_is_refused(share: float, dof: float) -> None:
    """Instead of a search that never ends."""
    with pytest.raises(ValueError, match="no quantile"):
        student.compute_t_quantile(share, dof)


@pytest.mark.slow
def test_exact_ranks_are_scipys(stats: Any) -> None:
    """Of up to 12 runs a side, none equal to another."""
    draw = random.Random(3)
    for _ in range(CASES):
        first, other = (
            [draw.gauss(side, 1) for _ in range(draw.randint(1, 12))]
            for side in (0, draw.choice([0, 2]))
        )
        assert mann_whitney.compute_rank_p_value(first, other) == pytest.approx(
            stats.mannwhitneyu(first, other, method="exact").pvalue, rel=1e-9
        )


def test_equal_ranks_are_dealt_as_scipy_deals_them(stats: Any) -> None:
    """Two runs that missed are equally slow; scipy tries all permutations."""
    draw = random.Random(4)
    for _ in range(40):
        first, other = (
            [float(draw.randint(1, 4)) for _ in range(draw.randint(2, 5))] for _ in range(2)
        )
        every = stats.mannwhitneyu(
            first, other, method=stats.PermutationMethod(n_resamples=10**6)
        ).pvalue
        assert mann_whitney.compute_rank_p_value(first, other) == pytest.approx(every, rel=1e-9)


def test_many_runs_are_scipys_approximation(stats: Any) -> None:
    """Ways are counted up to EXACT_UP_TO runs."""
    draw = random.Random(5)
    first, other = (
        [draw.choice([draw.gauss(shift, 1), 9.0]) for _ in range(40)] for shift in (0, 0.5)
    )
    assert mann_whitney.compute_rank_p_value(first, other) == pytest.approx(
        stats.mannwhitneyu(first, other, method="asymptotic").pvalue, rel=1e-9
    )
    assert mann_whitney.compute_rank_p_value([1.0] * 40, [1.0] * 40) == 1.0


def test_welch_is_scipys(stats: Any) -> None:
    """On the logarithms, each side with its own spread."""
    draw = random.Random(6)
    for _ in range(100):
        first, other = (
            [draw.gauss(0, spread) for _ in range(draw.randint(3, 12))] for spread in (1, 3)
        )
        sides = [
            LogSpread(mean=sum(each) / len(each), variance=float(stats.tvar(each)), runs=len(each))
            for each in (first, other)
        ]
        found = compare_log_spreads(*sides, True)
        assert found and compute_welch_p_value(found) == pytest.approx(
            stats.ttest_ind(first, other, equal_var=False).pvalue, rel=1e-9
        )


@pytest.mark.parametrize(
    ("cv", "runs", "shown", "needed"),
    [(0.022, 5, 0.045, 5), (0.032, 5, 0.067, 8), (0.1, 10, 0.142, 67)],
)
def test_what_runs_can_show(stats: Any, cv: float, runs: int, shown: float, needed: int) -> None:
    """The spreads of ResNet-50, SSD and GNMT: 5 % take 5, 8 and 67 runs. The power is that of the
    noncentral t within 2 %.
    """
    side = LogSpread(mean=0.0, variance=cv**2, runs=runs)
    found = compare_log_spreads(side, side, True)
    assert (
        found
        and compute_detectable_difference(found, 0.95) == pytest.approx(shown, abs=1e-3)
        and compute_needed_runs(side, side, 0.05, 0.95) == needed
    )
    power = stats.nct.sf(
        student.compute_t_quantile(0.975, found.dof), found.dof, log1p(shown) / found.standard_error
    )
    assert power == pytest.approx(0.8, abs=0.02)
