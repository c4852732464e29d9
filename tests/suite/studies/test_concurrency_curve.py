"""The formulas of a curve."""

import numpy
import pytest

from suite.registry import load_endpoints_round
from suite.studies.concurrency_curve import (
    CURVE_ROUND,
    compute_curve_figures,
    count_most_in_flight,
    divide_into_regions,
    find_curve_region,
)

MS = 1_000_000


def arrays(*rows: tuple[float, float, float, int]) -> list[numpy.ndarray]:
    """Start, first and last token in ms, number of tokens."""
    table = numpy.array([(*(int(time * MS) for time in row[:3]), row[3]) for row in rows], "<i8")
    return list(table.T)


def test_figures_of_two_users() -> None:
    """Two in flight for 100 ms: 4 + 5 + 1 tokens."""
    figures = compute_curve_figures(
        *arrays((0, 10, 40, 4), (0, 20, 100, 5), (40, 90, 100, 1)), samples=2, logged_tps=99.0
    )
    assert figures is not None
    assert (figures.answers, figures.tokens, figures.passes) == (3, 10, 1.5)
    assert figures.duration_s == pytest.approx(0.1)
    assert figures.system_tps == pytest.approx(100.0)
    assert figures.ttft_p90_ms == pytest.approx(50.0)
    assert figures.tpot_p90_ms == pytest.approx(20.0)  # of 10 and 20: one answer has a single token
    assert figures.tps_per_user == pytest.approx(50.0)
    assert figures.in_flight_mean == pytest.approx(2.0)


@pytest.mark.parametrize("rows", [(), ((0, 10, 10, 1),), ((0, 10, 10, 2),)])
def test_without_a_second_token_there_are_no_figures(
    rows: tuple[tuple[float, float, float, int], ...],
) -> None:
    empty = [numpy.zeros(0, "<i8")] * 4
    assert (
        compute_curve_figures(*(arrays(*rows) if rows else empty), samples=1, logged_tps=1.0)
        is None
    )


def test_an_answer_that_ends_as_another_begins_is_not_beside_it() -> None:
    starts, _, ends, _ = arrays((0, 1, 10, 2), (10, 11, 20, 2), (5, 6, 12, 2))
    assert count_most_in_flight(starts, ends) == 2


def test_regions_are_those_of_the_rules() -> None:
    """(1, 256): low up to 7, medium up to 41 (Endpoints rules, 5.5)."""
    regions = divide_into_regions(load_endpoints_round(CURVE_ROUND), (1, 4, 256))
    assert [find_curve_region(regions, number) for number in (1, 7, 8, 41, 42, 256)] == [
        "low_latency",
        "low_concurrency",
        "med_concurrency",
        "med_concurrency",
        "high_concurrency",
        "high_concurrency",
    ]
    assert divide_into_regions(load_endpoints_round(CURVE_ROUND), (1, 4, 32)) is None
    assert find_curve_region(None, 4) is None
