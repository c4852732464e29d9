"""Energy of a time window from readings: counters with wraparound, trapezoids under power readings,
error bound at the edges. Integer arithmetic on one clock.

Times are ns of any one clock, powers uW, energies uJ; results are joules and watts. A window that
the readings do not cover has no energy: nothing is extrapolated.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from suite.power import Quantity
from suite.units import NS_PER_MS, NS_PER_S

MICROS_PER_UNIT: Final = 1e6
"""uJ per J, uW per W."""
MAX_GAP_PERIODS, MAX_GAP_MS = 5, 2000
"""Longest gap between two readings: five periods or two seconds, whichever is longer. Source: house
rule.
"""
DEFAULT_COUNTER_LIMIT_W: Final = 20_000.0
"""Fastest growth of a counter that names no limit of its own. Source: house rule; a wrap of 262 kJ
within 0.1 s would be 2.6 MW.
"""
POWER_LIMIT_FACTOR: Final = 1.2
"""A part may briefly exceed its limit by this factor. Source: house rule."""
MIN_GROWTH_PERIODS, MIN_GROWTH_MS = 5, 1000
"""Shortest time over which a counter's growth is compared with what its part can draw: five periods
or a second, whichever is longer. Source: house rule; a counter that is refreshed each 100 ms rises
in steps, and two readings 2 ms apart may
have a whole step between them."""


class NoEnergyError(ValueError):
    """Readings that give no energy; the message says why in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelReadings:
    """Readings of one channel, in time order."""

    times_ns: Sequence[int]
    values: Sequence[int]
    """Microjoules or microwatts."""
    quantity: Quantity
    range_uj: int | None = None
    """Value at which a counter wraps; None: it must never decrease."""
    limit_w: float | None = None
    """Highest power that the part can draw."""
    period_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowEnergy:
    """Energy of a window."""

    joules: float
    average_w: float
    edge_j: float
    """Bound of the error at the two edges: the largest power x the two gaps between readings in
    which the window begins and ends.
    """
    readings: int
    """Readings strictly inside the window."""
    longest_gap_ms: int
    """Longest gap between two readings, including those that enclose the window."""
    mlperf_mean_w: float | None
    """Mean of the positive readings strictly inside the window, as MLPerf Power computes it; None
    for counters.
    """


def compute_window_energy(
    channel_readings: ChannelReadings, begin_ns: int, end_ns: int
) -> WindowEnergy:
    """Compute the energy between two times; NoEnergyError if the readings do not allow it."""
    if end_ns <= begin_ns:
        raise NoEnergyError("the window has no length")
    inside = select_covering_readings(channel_readings, begin_ns, end_ns)
    times, values = inside.times_ns, inside.values
    gap_ms = max(after - before for before, after in pairwise(times)) // NS_PER_MS
    allowed = max(MAX_GAP_PERIODS * channel_readings.period_ms, MAX_GAP_MS)
    if gap_ms > allowed:
        raise NoEnergyError(
            f"no reading for {gap_ms} ms; at most {allowed} ms may pass between two"
        )
    counter = channel_readings.quantity is Quantity.ENERGY
    if counter:
        grown = unwrap_energy_counter(inside)
    else:
        grown = sum_power_trapezoids_uj(times, values)
    joules = (
        interpolate_energy_uj(times, grown, end_ns, values, counter)
        - interpolate_energy_uj(times, grown, begin_ns, values, counter)
    ) / MICROS_PER_UNIT
    if counter:
        largest_w = compute_steepest_power_w(times, grown, channel_readings.period_ms * NS_PER_MS)
    else:
        largest_w = max(values) / MICROS_PER_UNIT
    strictly = values[bisect_right(times, begin_ns) : bisect_left(times, end_ns)]
    return WindowEnergy(
        joules=joules,
        average_w=joules * NS_PER_S / (end_ns - begin_ns),
        edge_j=largest_w * compute_edge_gaps_ns(times, channel_readings.period_ms) / NS_PER_S,
        readings=len(strictly),
        longest_gap_ms=gap_ms,
        mlperf_mean_w=None if counter else compute_mean_power_w(strictly),
    )


def select_covering_readings(
    channel_readings: ChannelReadings, begin_ns: int, end_ns: int
) -> ChannelReadings:
    """Return the readings from the last at or before a window's begin to the first at or after its
    end; NoEnergyError if one is missing.
    """
    if any(after <= before for before, after in pairwise(channel_readings.times_ns)):
        raise NoEnergyError("the readings' times do not increase")
    first, last = (
        bisect_right(channel_readings.times_ns, begin_ns) - 1,
        bisect_left(channel_readings.times_ns, end_ns),
    )
    if first < 0:
        raise NoEnergyError("no reading before the run began")
    if last >= len(channel_readings.times_ns):
        raise NoEnergyError("no reading after the run ended")
    return replace(
        channel_readings,
        times_ns=channel_readings.times_ns[first : last + 1],
        values=channel_readings.values[first : last + 1],
    )


def unwrap_energy_counter(channel_readings: ChannelReadings) -> list[int]:
    """Unwrap a counter; NoEnergyError if it decreases without wrapping, or grows faster than the
    part can draw, over MIN_GROWTH_PERIODS or MIN_GROWTH_MS.
    """
    values, grown, carried = channel_readings.values, [channel_readings.values[0]], 0
    for index in range(1, len(values)):
        if values[index] < values[index - 1]:
            if channel_readings.range_uj is None:
                raise NoEnergyError(
                    f"the counter fell from {values[index - 1]} to {values[index]} uJ"
                )
            carried += channel_readings.range_uj
        grown.append(values[index] + carried)
    span_ms = max(MIN_GROWTH_PERIODS * channel_readings.period_ms, MIN_GROWTH_MS)
    watts, limit_w = (
        compute_steepest_power_w(channel_readings.times_ns, grown, span_ms * NS_PER_MS),
        (channel_readings.limit_w or DEFAULT_COUNTER_LIMIT_W) * POWER_LIMIT_FACTOR,
    )
    if watts > limit_w:
        raise NoEnergyError(
            f"the counter rose by {watts:,.0f} W over {span_ms} ms; its part draws at most"
            f" {limit_w:,.0f} W"
        )
    return grown


def compute_steepest_power_w(times: Sequence[int], grown: Sequence[int], span_ns: int) -> float:
    """Return the largest mean power of a counter over any time of at least `span_ns`; of fewer
    readings, their growth over that time.
    """
    largest, first = (grown[-1] - grown[0]) / max(times[-1] - times[0], span_ns), 0
    for last in range(len(times)):
        if times[last] - times[first] < span_ns:
            continue
        while times[last] - times[first + 1] >= span_ns:
            first += 1
        largest = max(largest, (grown[last] - grown[first]) / (times[last] - times[first]))
    return largest / MICROS_PER_UNIT * NS_PER_S


def compute_edge_gaps_ns(times: Sequence[int], period_ms: int) -> int:
    """Return the time between the readings around a window's begin plus that around its end; each
    at least a period, since counters may be refreshed later.
    """
    return sum(
        max(times[index + 1] - times[index], period_ms * NS_PER_MS) for index in (0, len(times) - 2)
    )


def sum_power_trapezoids_uj(times: Sequence[int], values: Sequence[int]) -> list[int]:
    """Add up the trapezoids under powers, in uJ."""
    if min(values) < 0:
        raise NoEnergyError(f"a power of {min(values) / MICROS_PER_UNIT:g} W")
    grown = [0.0]
    for index in range(1, len(values)):
        grown.append(
            grown[-1]
            + (values[index] + values[index - 1]) / 2 * (times[index] - times[index - 1]) / NS_PER_S
        )
    return [round(each) for each in grown]


def interpolate_energy_uj(
    times: Sequence[int], grown: Sequence[int], moment_ns: int, values: Sequence[int], counter: bool
) -> float:
    """Return the energy up to a moment between two readings: counters are interpolated linearly,
    and so are powers.
    """
    index = min(max(bisect_right(times, moment_ns) - 1, 0), len(times) - 2)
    share = (moment_ns - times[index]) / (times[index + 1] - times[index])
    if counter:
        return grown[index] + share * (grown[index + 1] - grown[index])
    reached = values[index] + share * (values[index + 1] - values[index])
    return grown[index] + (values[index] + reached) / 2 * (moment_ns - times[index]) / NS_PER_S


def compute_mean_power_w(values: Sequence[int]) -> float | None:
    """Return the mean of the positive readings, in W; None if there are none."""
    positive = [value for value in values if value > 0]
    if positive:
        return sum(positive) / len(positive) / MICROS_PER_UNIT
    return None
