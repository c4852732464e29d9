"""Figures of a closed loop: a rate lies within its own interval."""

import pytest

from suite.studies.batch_loop import BATCH_MEANS_PARTS, compute_rate_interval
from suite.units import NS_PER_S


def test_an_interval_lies_about_the_rate_that_is_shown() -> None:
    """LoadGen's mean latency is longer than that of podium's stamps, by more than the interval."""
    stamped = [118_000.0 + 100 * part for part in range(BATCH_MEANS_PARTS)]
    logged = 1.02 * sum(stamped) / len(stamped)
    low, high = compute_rate_interval(logged, stamped, 4)
    assert low is not None and high is not None
    assert low < 4 * NS_PER_S / logged < high
    assert high / low < 1.01
    assert compute_rate_interval(logged, stamped[1:], 4) == (None, None)


def test_an_interval_that_reaches_no_latency_has_no_upper_end() -> None:
    wild = [1.0, *(BATCH_MEANS_PARTS - 1) * [1e9]]
    low, high = compute_rate_interval(1e8, wild, 1)
    assert low is not None and low < 10 and high is None


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_intervals_scale_with_the_batch(factor: float) -> None:
    stamped = [1e6 + part for part in range(BATCH_MEANS_PARTS)]
    whole, part = (compute_rate_interval(1e6, stamped, batch) for batch in (8, int(8 * factor)))
    assert whole[0] and part[0] and part[0] / whole[0] == pytest.approx(factor)
