"""Energy from readings: additive over windows, blind to wraps, monotone in power; and no energy
where the readings do not give it.
"""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from suite.energy import (
    ChannelReadings,
    NoEnergyError,
    WindowEnergy,
    compute_window_energy,
    unwrap_energy_counter,
)
from suite.power import Quantity
from suite.units import NS_PER_S

MS = 1_000_000
RANGE = 262_143_328_850
"""uJ: max_energy_range_uj of many Intel processors."""


def powers(values: list[int], period_ms: int = 100) -> ChannelReadings:
    return ChannelReadings(
        times_ns=[n * period_ms * MS for n in range(len(values))],
        values=values,
        quantity=Quantity.POWER,
        period_ms=period_ms,
    )


def counter(
    values: list[int],
    *,
    range_uj: int | None = RANGE,
    limit_w: float | None = None,
    period_ms: int = 100,
) -> ChannelReadings:
    times = [n * period_ms * MS for n in range(len(values))]
    return ChannelReadings(
        times_ns=times,
        values=values,
        quantity=Quantity.ENERGY,
        range_uj=range_uj,
        limit_w=limit_w,
        period_ms=period_ms,
    )


WATTS = st.lists(st.integers(0, 500_000_000), min_size=12, max_size=40)
"""uW."""


@given(WATTS, st.integers(1, 1_099 * MS), st.integers(1, 1_099 * MS), st.integers(1, 1_099 * MS))
def test_energy_is_additive_over_windows(values: list[int], one: int, two: int, three: int) -> None:
    """Where two windows meet, nothing is counted twice or lost."""
    begin, middle, end = sorted((one, two, three))
    assume(begin < middle < end)
    series = powers(values)
    parts = (
        compute_window_energy(series, begin, middle).joules
        + compute_window_energy(series, middle, end).joules
    )
    assert parts == pytest.approx(compute_window_energy(series, begin, end).joules, abs=1e-5)


@given(st.lists(st.integers(0, 40_000_000), min_size=5, max_size=30), st.integers(0, RANGE - 1))
def test_a_counter_that_begins_anew_gives_what_it_gives_without(
    steps: list[int], start: int
) -> None:
    """RAPL's counter wraps every 22 minutes at 200 W."""
    plain, wrapped, total = [0], [start], 0
    for step in steps:
        total += step
        plain.append(total)
        wrapped.append((start + total) % RANGE)
    end = (len(steps) - 1) * 100 * MS
    assert compute_window_energy(counter(wrapped), MS, end).joules == pytest.approx(
        compute_window_energy(counter(plain), MS, end).joules, abs=1e-6
    )


@given(WATTS, st.integers(0, 100_000_000))
def test_more_power_is_never_less_energy(values: list[int], more: int) -> None:
    low, high = powers(values), powers([value + more for value in values])
    assert (
        compute_window_energy(high, MS, 1_050 * MS).joules
        >= compute_window_energy(low, MS, 1_050 * MS).joules
    )


def test_constant_power_is_told_exactly() -> None:
    found = compute_window_energy(powers([50_000_000] * 30), 150 * MS, 2_150 * MS)
    assert found == WindowEnergy(
        joules=100.0,
        average_w=50.0,
        edge_j=10.0,
        readings=20,
        longest_gap_ms=100,
        mlperf_mean_w=50.0,
    )


def test_a_window_between_two_readings_is_interpolated() -> None:
    """Watts that rise from 0 to 100 within a second: 12.5 J in the first half, 37.5 J in the
    second.
    """
    series = ChannelReadings(
        times_ns=[0, int(NS_PER_S)],
        values=[0, 100_000_000],
        quantity=Quantity.POWER,
        period_ms=1000,
    )
    assert compute_window_energy(series, 0, int(NS_PER_S) // 2).joules == pytest.approx(12.5)
    assert compute_window_energy(series, int(NS_PER_S) // 2, int(NS_PER_S)).joules == pytest.approx(
        37.5
    )


def test_the_mean_of_mlperf_leaves_out_what_is_not_positive_and_ours_does_not() -> None:
    """Readings of 0 W vanish from the official mean: beside ours, both can be compared."""
    found = compute_window_energy(powers([0, 100_000_000] * 10), 0, 1_900 * MS)
    assert found.mlperf_mean_w == 100.0 and found.average_w == pytest.approx(50.0)


@pytest.mark.parametrize(
    ("series", "begin", "end", "sentence"),
    [
        (powers([1] * 10), 0, 0, "no length"),
        (powers([1] * 10), -1, 100 * MS, "no reading before the run began"),
        (powers([1] * 10), 0, 901 * MS, "no reading after the run ended"),
        (powers([1, 1, 1], 3000), 0, 6000 * MS, None),
        (
            ChannelReadings(
                times_ns=[0, 2_100 * MS, 2_200 * MS],
                values=[1] * 3,
                quantity=Quantity.POWER,
                period_ms=100,
            ),
            0,
            2_150 * MS,
            "no reading for 2100 ms",
        ),
        (powers([1, -1, 1]), 0, 150 * MS, "a power of -1e-06 W"),
        (counter([5, 4, 6], range_uj=None), 0, 150 * MS, "the counter fell from 5 to 4 uJ"),
        (counter([50_000_000, 40_000_000, 60_000_000]), 0, 150 * MS, "the counter rose by"),
        (
            counter([n * 20_000_000 for n in range(12)], limit_w=100.0),
            0,
            1_050 * MS,
            "its part draws at most 120 W",
        ),
        (
            ChannelReadings(
                times_ns=[0, 0, 5], values=[1] * 3, quantity=Quantity.POWER, period_ms=100
            ),
            0,
            3,
            "do not increase",
        ),
        (powers([]), 0, 1, "no reading before"),
    ],
    ids=[
        "empty",
        "before",
        "after",
        "slow meter",
        "gap",
        "negative",
        "fall",
        "fall as wrap",
        "limit",
        "order",
        "none",
    ],
)
def test_readings_that_give_no_energy_say_why(
    series: ChannelReadings, begin: int, end: int, sentence: str | None
) -> None:
    """A cut tail, a falling counter or a hole must not become a number."""
    if sentence is None:
        assert compute_window_energy(series, begin, end).joules >= 0
        return
    with pytest.raises(NoEnergyError, match=sentence):
        compute_window_energy(series, begin, end)


def test_a_square_wave_is_told_within_one_percent() -> None:
    """0.7 s of 20 W and 0.7 s of 100 W, sampled every 100 ms for 10 s."""
    values = [100_000_000 if (n * 100 // 700) % 2 else 20_000_000 for n in range(110)]
    true_j = sum(100.0 if ms // 700 % 2 else 20.0 for ms in range(10_000)) / 1000
    assert compute_window_energy(powers(values), 0, int(10 * NS_PER_S)).joules == pytest.approx(
        true_j, rel=0.01
    )


SPANS = st.lists(st.tuples(st.integers(100, 1_900), st.integers(0, 200)), min_size=4, max_size=40)
"""ms until the next reading, at least a period, and the watts drawn until then: the bound knows
powers that last for a period.
"""


@pytest.mark.slow
@given(SPANS, st.data())
def test_the_error_at_the_edges_is_within_its_bound(
    spans: list[tuple[int, int]], data: st.DataObject
) -> None:
    """A counter that is read late: between two readings all that was drawn may lie on either side
    of the window's edge.
    """
    times, counts = [0], [0]
    for ms, watts in spans:
        times.append(times[-1] + ms * MS)
        counts.append(counts[-1] + watts * ms * 1000)
    begin, end = sorted(
        data.draw(st.tuples(st.integers(0, times[-1] - 1), st.integers(1, times[-1])))
    )
    assume(begin < end)
    found = compute_window_energy(
        ChannelReadings(times_ns=times, values=counts, quantity=Quantity.ENERGY, period_ms=100),
        begin,
        end,
    )
    first, last = (
        next(n for n in range(len(times) - 1) if times[n] <= moment <= times[n + 1])
        for moment in (begin, end)
    )
    most = counts[last + 1] - counts[first]
    least = max(0, counts[last] - counts[first + 1])
    assert max(most / 1e6 - found.joules, found.joules - least / 1e6) <= found.edge_j + 1e-6


def test_the_bound_at_an_edge_is_that_of_the_gap_around_it() -> None:
    """A busy machine reads 1.9 s late just where the work begins: 75 J of 309 J are missing, and
    the period of 100 ms knows nothing of it.
    """
    times = [n * 100 * MS for n in range(10)] + [2_800 * MS + n * 100 * MS for n in range(20)]
    found = compute_window_energy(
        ChannelReadings(
            times_ns=times,
            values=[20_000_000] * 10 + [100_000_000] * 20,
            quantity=Quantity.POWER,
            period_ms=100,
        ),
        910 * MS,
        4_000 * MS,
    )
    assert abs(found.joules - 100 * 3.09) == pytest.approx(75, abs=1)
    assert found.edge_j == pytest.approx(100 * 1.9 + 100 * 0.1)


def test_two_readings_in_quick_succession_do_not_inflate_the_bound() -> None:
    """The sampler reads once more at the end, 2 ms after the last time: 20 J and 2 ms are no 10
    kW.
    """
    wave = [100 if n // 7 % 2 else 20 for n in range(110)]
    times, counts = [0], [0]
    for watts in wave:
        times.append(times[-1] + 100 * MS)
        counts.append(counts[-1] + watts * 100_000)
    times.insert(60, times[60] - 2 * MS)
    counts.insert(60, counts[59])
    found = compute_window_energy(
        ChannelReadings(times_ns=times, values=counts, quantity=Quantity.ENERGY, period_ms=100),
        250 * MS,
        10_250 * MS,
    )
    assert found.edge_j == pytest.approx(20, rel=0.03)


def stepped(watts: float, refresh_ms: int, times_ms: list[float]) -> ChannelReadings:
    """A counter of 300 W at most that is refreshed from time to time."""
    values = [round(int((ms + 37) // refresh_ms) * refresh_ms * watts * 1000) for ms in times_ms]
    return ChannelReadings(
        times_ns=[round(ms * MS) for ms in times_ms],
        values=values,
        quantity=Quantity.ENERGY,
        limit_w=300.0,
        period_ms=100,
    )


@pytest.mark.parametrize("refresh_ms", [1, 20, 100])
@pytest.mark.parametrize("late_ms", [0.3, 1.5, 31, 97])
def test_a_counter_that_rises_in_steps_is_no_jump(refresh_ms: int, late_ms: float) -> None:
    """NVML refreshes its counter each 100 ms; the sampler catches up at once, and reads once more
    when it ends.
    """
    times = sorted(
        [*(n * 100.0 for n in range(50)), *(n * 100.0 + late_ms for n in range(0, 50, 7))]
    )
    series = stepped(290.0, refresh_ms, times)
    assert unwrap_energy_counter(series)[-1] > 0
    assert compute_window_energy(series, 500 * MS, 4_500 * MS).average_w == pytest.approx(
        290, rel=0.06
    )


@pytest.mark.parametrize("more_j", [400, 70_000])
def test_a_counter_that_jumps_within_a_second_is_found_at_any_period(more_j: int) -> None:
    """A reset or an edited counter: 400 J at once, of a part that draws 300 W at most."""
    for period_ms in (20, 100):
        values = [
            n * period_ms * 200_000 + (more_j * 1_000_000 if n > 40 else 0) for n in range(100)
        ]
        series = ChannelReadings(
            times_ns=[n * period_ms * MS for n in range(100)],
            values=values,
            quantity=Quantity.ENERGY,
            limit_w=300.0,
            period_ms=period_ms,
        )
        with pytest.raises(NoEnergyError, match="over 1000 ms; its part draws at most 360 W"):
            compute_window_energy(series, MS, 99 * period_ms * MS)
