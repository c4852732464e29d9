"""The time that training waited for data: what the harness shows, and a workload's loader adds to.

On a CPU that is the time in which a batch was read, for nothing is computed meanwhile. A GPU may
still have work that was queued before: there it is the part in which it had none.
"""

import time
from collections.abc import Iterator
from typing import Final, Generic, Protocol, TypeVar

B = TypeVar("B")
WAITED_FOR_DATA: Final = "waited_for_data"
"""In the value of `tracked_stats`: the share of the epoch that its steps waited for data."""


class DataWaitingClock:
    """Seconds that this process has waited for training data since it began."""

    def __init__(self) -> None:
        self.waited_s = 0.0


DATA_WAITING = DataWaitingClock()


class WaitTimer(Protocol):
    """Adds to `DATA_WAITING` what a device waits between two calls."""

    def begin_wait(self) -> None:
        """Begin: a batch is asked for."""

    def end_wait(self) -> None:
        """End: the batch is there."""


class HostWaitTimer:
    """Counts all of it: two readings of the clock."""

    def begin_wait(self) -> None:
        """Read the clock."""
        self._began_s = time.perf_counter()

    def end_wait(self) -> None:
        """Add what has passed."""
        DATA_WAITING.waited_s += time.perf_counter() - self._began_s


class MeasuredBatches(Iterator[B], Generic[B]):
    """Batches, and how long each was waited for."""

    def __init__(self, batches: Iterator[B], timer: WaitTimer) -> None:
        self._batches, self._timer = batches, timer

    def __next__(self) -> B:
        self._timer.begin_wait()
        try:
            return next(self._batches)
        finally:
            self._timer.end_wait()
