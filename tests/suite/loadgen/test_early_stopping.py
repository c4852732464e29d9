"""Early stopping against scipy and LoadGen's published numbers; the real LoadGen is asked in
test_loadgen_session.py.
"""

import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.loadgen.early_stopping import (
    EARLY_STOPPING_CONFIDENCE,
    compute_queries_needed,
    compute_regularised_beta,
    estimate_early_stopping,
    find_min_passing_queries,
    is_percentile_proven,
    is_server_run_proven,
)
from suite.loadgen.percentiles import convert_to_fraction

Beta = Callable[[float, float, float], float]
PERCENTILES = (90.0, 97.0, 99.0)


@pytest.fixture(scope="module")
def betainc() -> Beta:
    """Load scipy's in the process that runs these tests alone."""
    from scipy import special

    return special.betainc


@pytest.mark.parametrize(
    ("percentile", "h_min", "floor"), [(90.0, 44, 64), (97.0, 152, 219), (99.0, 459, 662)]
)
def test_the_floors_are_loadgens(percentile: float, h_min: int, floor: int):
    """MLCommons' documents name these query counts; with others a short run would pass."""
    assert find_min_passing_queries(0, percentile) == h_min == compute_queries_needed(0, percentile)
    assert (
        compute_queries_needed(1, percentile)
        == floor
        == estimate_early_stopping(10, percentile).queries_needed
    )


@settings(max_examples=200)
@given(st.floats(0.5, 0.999), st.integers(1, 5_000_000), st.integers(1, 60_000))
def test_the_beta_function_is_scipys(betainc: Beta, x: float, a: int, b: int):
    """A continued fraction that stops early is wrong in the third digit, where the verdict lies."""
    assert compute_regularised_beta(x, a, b) == pytest.approx(
        betainc(a, b, x), rel=1e-6, abs=1e-280
    )


@pytest.mark.parametrize("percentile", PERCENTILES)
def test_the_smallest_count_passes_and_one_less_does_not(betainc: Beta, percentile: float):
    """An off-by-one would differ from LoadGen's verdict at the edge."""
    for over in (0, 1, 2, 10, 137, 5_000):
        h = find_min_passing_queries(over, percentile)
        limit = 1 - EARLY_STOPPING_CONFIDENCE
        assert (
            betainc(h, 1 + over, convert_to_fraction(percentile))
            < limit
            <= betainc(h - 1, 1 + over, convert_to_fraction(percentile))
        )


@pytest.mark.slow
@given(st.sampled_from(PERCENTILES), st.integers(662, 300_000))
def test_the_estimate_discards_as_many_as_it_may(percentile: float, queries: int):
    """One more query discarded would be a latency that is not proven."""
    t = estimate_early_stopping(queries, percentile).rank_from_top
    assert t is not None and t >= 1
    assert is_percentile_proven(queries - t, t, percentile) and not is_percentile_proven(
        queries - t - 1, t + 1, percentile
    )


@pytest.mark.parametrize(
    ("queries", "percentile", "discarded"), [(50_666, 99.0, 453), (36_418, 99.0, 319)]
)
def test_the_estimate_is_the_one_in_real_logs(queries: int, percentile: float, discarded: int):
    """LoadGen 6.0.17 printed `Would discard N highest latency queries` for these runs: t - 1."""
    assert estimate_early_stopping(queries, percentile).rank_from_top == discarded + 1


@pytest.mark.parametrize("percentile", PERCENTILES)
def test_too_few_queries_prove_nothing(percentile: float):
    """A place beyond the end would be read as the fastest query."""
    floor = compute_queries_needed(1, percentile)
    assert estimate_early_stopping(floor - 1, percentile).rank_from_top is None
    assert estimate_early_stopping(floor, percentile).rank_from_top == 1


def test_a_server_run_needs_more_queries_for_each_that_is_late():
    """Late queries are made up for by 100 others at p99, not forgiven."""
    assert is_server_run_proven(459, 0, 99.0) and not is_server_run_proven(458, 0, 99.0)
    assert not is_server_run_proven(459, 1, 99.0) and is_server_run_proven(662, 1, 99.0)
    assert not is_server_run_proven(100_432, 16_000, 99.0)


def test_long_runs_are_judged_at_once():
    """LoadGen's own search tries every count; a run of ten minutes at 10,000 queries/s must not
    take minutes to judge.
    """
    start = time.process_time()
    assert estimate_early_stopping(6_000_000, 99.0).rank_from_top == pytest.approx(59_400, rel=0.01)
    assert time.process_time() - start < 1.0


@pytest.mark.parametrize("percentile", [0.9, 0.99, 100.0])
def test_a_fraction_is_refused(percentile: float):
    """The wrong unit raises instead of proving anything."""
    with pytest.raises(ValueError, match="percentile"):
        find_min_passing_queries(0, percentile)
