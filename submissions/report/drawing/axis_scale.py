"""The axes of a chart: where a value lies, which values are labelled, and how."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from submissions.report.document import Axis

MAX_AXIS_TICKS: Final = 5
"""Maximum number of ticks on an axis."""
THOUSANDS_FROM: Final = 10_000
"""Values from which thousands are written as k and millions as M: longer numbers do not fit beside
the axis of a narrow screen.
"""
LARGEST_DRAWN: Final = 1e250
SMALLEST_RANGE: Final = 1e-250
"""Ends of what an axis shows: differences and quotients of such numbers are numbers, and those of
the largest and smallest that a file may state are not.
"""
MIN_TICK_DISTANCE: Final = 30
"""Minimum distance between labelled values on an axis of whole numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisScale:
    """Maps values to positions on an axis."""

    low: float
    high: float
    begin: float
    end: float
    log: bool
    whole: bool = False
    values: tuple[float, ...] = ()
    """Values on the axis: a logarithmic axis of whole numbers labels only these."""

    def map_value(self, value: float) -> float:
        """Map a value to a position, clamped to the axis."""
        if self.log:
            share = (math.log(max(value, self.low)) - math.log(self.low)) / (
                math.log(self.high) - math.log(self.low)
            )
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.begin + (self.end - self.begin) * min(max(share, 0.0), 1.0)

    def choose_ticks(self) -> list[float]:
        """Return round values on the axis."""
        if self.log and self.whole:
            return self.select_spaced_values()
        if self.log:
            return compute_log_ticks(self.low, self.high)
        return compute_even_ticks(self.low, self.high, least=1.0 if self.whole else 0.0)

    def select_spaced_values(self) -> list[float]:
        """Return the values on the axis, leaving out those too close to the previous one."""
        spaced: list[float] = []
        for value in sorted(set(self.values)):
            if (
                not spaced
                or abs(self.map_value(value) - self.map_value(spaced[-1])) >= MIN_TICK_DISTANCE
            ):
                spaced.append(value)
        return spaced


def choose_axis_scale(
    axis: Axis, values: Sequence[float], begin: float, end: float, room: bool = False
) -> AxisScale:
    """Choose the range of an axis."""
    if axis.low is None:
        low = min(values, default=0.0)
    else:
        low = min(axis.low, *values, axis.low)
    if axis.high is None:
        high = max(values, default=1.0)
    else:
        high = max(axis.high, *values, axis.high)
    low, high = (max(-LARGEST_DRAWN, min(end, LARGEST_DRAWN)) for end in (low, high))
    if axis.log:
        low, high = max(low, 1e-12), max(high, 1e-12)
        spread = (high / low) ** 0.06 if room else 1.0
        if high > low:
            high = high * spread
        else:
            high = low * 2
        return AxisScale(
            low=low / spread,
            high=high,
            begin=begin,
            end=end,
            log=True,
            whole=axis.whole,
            values=tuple(values),
        )
    if high - low < SMALLEST_RANGE:
        margin = 0.1 * abs(low)
        if margin <= SMALLEST_RANGE:
            margin = 0.5
        low, high = low - margin, high + margin
    spread = 0.06 * (high - low) if room else 0.0
    if axis.low is None:
        low = low - spread
    return AxisScale(
        low=low,
        high=high if axis.high is not None else high + spread,
        begin=begin,
        end=end,
        log=False,
        whole=axis.whole,
    )


def compute_even_ticks(low: float, high: float, least: float = 0.0) -> list[float]:
    """Return evenly spaced round values, at least `least` apart, five at most."""
    raw = (high - low) / MAX_AXIS_TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = max(
        least,
        next(
            factor * power
            for factor in (1, 2, 2.5, 5, 10, 20)
            if (high - low) / (factor * power) <= MAX_AXIS_TICKS
        ),
    )
    if least:
        step = float(math.ceil(step))
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def compute_log_ticks(low: float, high: float) -> list[float]:
    """Return powers of ten, with values in between if there are few."""
    for factors in (
        (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8, 9),
        (1, 1.5, 2, 3, 4, 5, 6, 8),
        (1, 2, 5),
        (1, 3),
        (1,),
    ):
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        ticks = [
            factor * 10.0**power
            for power in powers
            for factor in factors
            if low * 0.999 <= factor * 10.0**power <= high * 1.001
        ]
        if len(ticks) <= MAX_AXIS_TICKS:
            break
    if len(ticks) >= 2:
        return ticks[:: math.ceil(len(ticks) / MAX_AXIS_TICKS)]
    return [low, high]


def format_tick(value: float) -> str:
    """Format a value on an axis."""
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.0e}".replace("e+0", "e").replace("e-0", "e-")
    if abs(value) >= THOUSANDS_FROM:
        if abs(value) >= 1e6:
            return f"{value / 1e6:.6g}M"
        return f"{value / 1e3:.6g}k"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{round(value, 10):.6g}"


def format_axis_title(axis: Axis) -> str:
    """Label an axis, with its unit."""
    if axis.unit and axis.unit != axis.name:
        return f"{axis.name} ({axis.unit})"
    return axis.name
