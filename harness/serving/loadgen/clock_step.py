"""Whether somebody sets the machine's clock while LoadGen measures.

LoadGen reads the wall clock (loadgen/utils.h, PerfClock: std::chrono::high_resolution_clock, which
is the system clock with libstdc++), so a clock that is set is part of a latency. Linux slews wall
clock and monotonic clock alike, so their difference changes only when the clock is set, or when the
machine sleeps.
"""

import time
from typing import Final

from suite.units import NS_PER_MS, NS_PER_S

MAX_CLOCK_STEP_NS: Final = 1_000_000
"""House rule: less than that LoadGen's threads wait for a core now and then."""
OFFSET_READINGS: Final = 5


class ClockSetError(Exception):
    """The machine's clock was set during a run; `step_ns` says by how much."""

    def __init__(self, step_ns: int) -> None:
        super().__init__(step_ns)
        self.step_ns = step_ns


def read_clock_offset_ns() -> int:
    """Return the wall clock's lead over the monotonic clock: the reading that took least time."""
    readings = []
    for _ in range(OFFSET_READINGS):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        readings.append((after - before, wall - (before + after) // 2))
    return min(readings)[1]


def require_steady_clock(offset_ns: int) -> None:
    """ClockSetError if the wall clock's lead is no longer what it was."""
    step_ns = read_clock_offset_ns() - offset_ns
    if abs(step_ns) > MAX_CLOCK_STEP_NS:
        raise ClockSetError(step_ns)


def describe_clock_step(step_ns: int) -> str:
    """Say by how much a clock was set, in the unit that fits."""
    if abs(step_ns) < NS_PER_S:
        return f"the machine's clock was set by {step_ns / NS_PER_MS:+.0f} ms"
    return f"the machine's clock was set by {step_ns / NS_PER_S:+,.1f} s, or it slept"
