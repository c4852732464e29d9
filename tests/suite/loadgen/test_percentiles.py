"""LoadGen's percentiles; that the real LoadGen agrees is shown in
tests/harness/serving/test_session.py.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.loadgen.percentiles import (
    compute_percentile_index,
    convert_to_fraction,
)

KNOWN = (50.0, 90.0, 95.0, 97.0, 99.0, 99.9)


@pytest.mark.parametrize(
    ("percentile", "as_written"), list(zip(KNOWN, (0.5, 0.9, 0.95, 0.97, 0.99, 0.999), strict=True))
)
def test_fractions_are_the_doubles_that_loadgen_multiplies_with(
    percentile: float, as_written: float
):
    """One unit in the last place moves the result by a query where count * p is whole."""
    assert convert_to_fraction(percentile) == as_written


@pytest.mark.parametrize("wrong", [0.0, 0.9, 0.99, -1.0, 100.0, float("nan")])
def test_a_fraction_is_no_percentile(wrong: float):
    """0.99 read as a percentile would take one of the fastest queries."""
    with pytest.raises(ValueError, match="percentile"):
        convert_to_fraction(wrong)


@pytest.mark.parametrize(
    ("count", "percentile", "expected"),
    [(100, 99.0, 99), (1, 99.9, 0), (64, 90.0, 57), (1000, 99.9, 999), (10, 50.0, 5)],
)
def test_the_place_is_cut_not_rounded(count: int, percentile: float, expected: int):
    """results.cc casts a double to an index; the nearest rank would be one lower."""
    assert compute_percentile_index(count, percentile) == expected


@given(st.integers(1, 10**7), st.sampled_from(KNOWN))
def test_the_place_exists(count: int, percentile: float):
    """An index one past the end reads foreign memory in C++ and raises here."""
    assert 0 <= compute_percentile_index(count, percentile) < count


def test_nothing_has_no_percentile():
    """LoadGen leaves zeros for an empty run; they must not pass for a latency."""
    with pytest.raises(ValueError, match="needs values"):
        compute_percentile_index(0, 90.0)
