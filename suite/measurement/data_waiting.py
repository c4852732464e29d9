"""The time that training waited for data: what the harness shows, and a workload's loader adds to.

Time that a batch was waited for is time in which nothing was computed on the CPU, and on a GPU
nothing that was not queued before.
"""

import time
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

B = TypeVar("B")
WAITED_FOR_DATA: Final = "waited_for_data"
"""In the value of `tracked_stats`: the share of the epoch that its steps waited for data."""


class DataWaitingClock:
    """Seconds that this process has waited for training data since it began."""

    def __init__(self) -> None:
        self.waited_s = 0.0


DATA_WAITING = DataWaitingClock()


class MeasuredBatches(Iterator[B], Generic[B]):
    """Batches whose reading is measured: two readings of the clock for each batch."""

    def __init__(self, batches: Iterator[B]) -> None:
        self._batches = batches

    def __next__(self) -> B:
        began_s = time.perf_counter()
        try:
            return next(self._batches)
        finally:
            DATA_WAITING.waited_s += time.perf_counter() - began_s
