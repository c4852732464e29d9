"""The formulas of a curve."""

import numpy
import pytest

from suite.measurement.shares import compute_share_interval
from suite.registry import load_endpoints_round
from suite.studies.answer_figures import (
    AnswerTimes,
    compute_window_in_flight,
    count_window_tokens,
    find_steady_window,
    select_percentiles_ms,
)
from suite.studies.concurrency_curve import (
    CURVE_ROUND,
    CurveFigures,
    compute_curve_figures,
    count_most_in_flight,
    divide_into_regions,
    drop_times_per_token,
    find_curve_region,
)

MS = 1_000_000


def times(*rows: tuple[float, float, float, int], first_tokens: int = 1) -> AnswerTimes:
    """The times of answers: start, first and last token in ms, number of tokens."""
    starts, first, last, tokens = arrays(*rows) if rows else [numpy.zeros(0, "<i8")] * 4
    return AnswerTimes(
        starts_ns=starts,
        first_ns=first,
        last_ns=last,
        tokens=tokens,
        first_tokens=numpy.full_like(tokens, first_tokens).clip(max=tokens),
    )


def arrays(*rows: tuple[float, float, float, int]) -> list[numpy.ndarray]:
    """Start, first and last token in ms, number of tokens."""
    table = numpy.array([(*(int(time * MS) for time in row[:3]), row[3]) for row in rows], "<i8")
    return list(table.T)


def test_figures_of_two_users() -> None:
    """Two in flight for 100 ms: 4 + 5 + 1 tokens."""
    figures = compute_curve_figures(
        times((0, 10, 40, 4), (0, 20, 100, 5), (40, 90, 100, 1)), samples=2, logged_tps=99.0
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
    assert compute_curve_figures(times(*rows), samples=1, logged_tps=1.0) is None


def test_tokens_that_come_first_have_no_time_per_token() -> None:
    """Three at once, then four in 40 ms: 10 ms each, not 6.7."""
    figures = compute_curve_figures(times((0, 10, 50, 7), first_tokens=3), 1, 1.0)
    assert figures is not None and figures.tpot_p90_ms == pytest.approx(10.0)
    assert compute_curve_figures(times((0, 10, 50, 3), first_tokens=3), 1, 1.0) is None


def test_the_steady_window_is_without_the_first_answers_and_the_drain() -> None:
    """Two in flight: the first two end at 40 and 60 ms, the last prompt begins at 160."""
    rows = [(0, 10, 40, 4), (0, 10, 60, 6), (40, 50, 90, 5), (60, 70, 160, 10), (90, 100, 170, 8)]
    found = times(*rows, (160, 170, 400, 24))
    window = find_steady_window(found, 2)
    assert window is not None
    assert (window.begin_ns, window.end_ns) == (60 * MS, 160 * MS)
    assert compute_window_in_flight(found, window) == pytest.approx(2.0)
    # 3 of the third answer, all 10 of the fourth, of the fifth its first and 7 * 60 / 70
    assert count_window_tokens(found, window) == pytest.approx(4 * 30 / 40 + 10 + 1 + 7 * 60 / 70)


def test_a_point_without_answers_behind_the_first_has_no_window() -> None:
    assert find_steady_window(times((0, 10, 40, 4), (0, 10, 60, 6)), 2) is None
    rows = [(0, 10, 1000, 4), (0, 10, 990, 6), (990, 1000, 1010, 3), (1000, 1001, 1020, 3)]
    assert find_steady_window(times(*rows), 2) is None


@pytest.mark.parametrize(
    ("first_ms", "token_ms", "within"),
    [(None, None, 3), (15, None, 2), (None, 12, 2), (15, 12, 1), (15, 9, 0), (200, 200, 3)],
)
def test_a_request_is_good_within_both_bounds(
    first_ms: float | None, token_ms: float | None, within: int
) -> None:
    """TTFT 10, 20 and 12 ms; TPOT 10, none and 20 ms."""
    found = times((0, 10, 40, 4), (0, 20, 20, 1), (0, 12, 92, 5))
    bounds = [None if each is None else int(each * MS) for each in (first_ms, token_ms)]
    assert found.count_within(*bounds) == within


def test_percentiles_are_loadgens() -> None:
    values = numpy.arange(1, 101) * MS
    assert select_percentiles_ms(values) == (51.0, 91.0, 100.0)
    assert select_percentiles_ms(values[:0]) == (None, None, None)


@pytest.mark.parametrize(
    ("good", "of", "ends"),
    [(99, 100, (0.9455, 0.9982)), (0, 20, (0.0, 0.1611)), (20, 20, (0.8389, 1.0))],
)
def test_shares_have_wilsons_interval(good: int, of: int, ends: tuple[float, float]) -> None:
    """As scipy's binomtest(...).proportion_ci(method="wilson") gives."""
    assert compute_share_interval(good, of) == pytest.approx(ends, abs=1e-4)


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


def test_bursts_leave_no_time_per_token() -> None:
    """Nor a speed per user; the rate and the time to the first token stay."""
    known = CurveFigures(
        answers=9,
        tokens=90,
        duration_s=1.0,
        system_tps=90.0,
        ttft_p90_ms=5.0,
        tpot_p90_ms=0.01,
        tps_per_user=100_000.0,
        in_flight_mean=1.0,
        passes=1.0,
        loadgen_tps=90.0,
        tpot_p50_ms=0.0,
        itl_p99_ms=0.1,
    )
    found = drop_times_per_token(known)
    assert (found.system_tps, found.ttft_p90_ms) == (90.0, 5.0)
    assert {found.tps_per_user, found.tpot_p90_ms, found.tpot_p50_ms, found.itl_p99_ms} == {None}
