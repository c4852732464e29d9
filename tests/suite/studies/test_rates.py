"""What a search counts and says where LoadGen bounds first and further tokens."""

from typing import Final

import numpy

from suite.studies.rates import (
    PeakRequest,
    compute_token_latencies,
    count_attempt_queries,
    format_peak_bound,
    select_latency_keys,
)

SOUGHT: Final = PeakRequest(
    scenario="Server",
    percentile=90.0,
    bound_ns=200_000_000,
    of_round=True,
    min_queries=64,
    min_duration_ms=5000,
    tolerance=0.02,
    seen=90.0,
    budget_s=600.0,
    per_token_ns=10_000_000,
)


def test_the_latencies_of_tokens_follow_from_their_times() -> None:
    """An answer of one token has no further ones, and is not late for them."""
    first, further = compute_token_latencies(
        issued_ns=numpy.array([0, 10]),
        first_ns=numpy.array([100, 20]),
        last_ns=numpy.array([500, 20]),
        tokens=numpy.array([5, 1]),
    )
    assert (first.tolist(), further.tolist()) == ([100, 10], [100, 0])


def test_a_run_counts_by_the_bound_that_more_answers_are_over() -> None:
    """LoadGen asks for each bound on its own: an answer over both is not late twice, and answers
    over one do not add to those over the other.
    """
    first = numpy.array([300, 300, 1, 1, 1, 1]) * 1_000_000
    further = numpy.array([1, 1, 1, 11, 11, 11]) * 1_000_000
    assert count_attempt_queries(SOUGHT, (first, further), 0)[:2] == (6, 3)
    assert count_attempt_queries(SOUGHT, (first, further), 4)[:2] == (2, 2)
    assert count_attempt_queries(SOUGHT, (first, further // 2), 0)[:2] == (6, 2)


def test_both_bounds_are_named() -> None:
    """With what a run reached of each."""
    both = "200 ms to the first token and 10 ms per further one"
    assert format_peak_bound(SOUGHT) == both
    reached = format_peak_bound(SOUGHT, 27_640_000, 6_600_000)
    assert reached == "27.6 of 200 ms to the first token and 6.6 of 10 ms per further one"
    assert select_latency_keys(SOUGHT) == (
        "result_first_token_90.00_percentile_latency_ns",
        "result_time_per_output_token_90.00_percentile_ns",
    )
