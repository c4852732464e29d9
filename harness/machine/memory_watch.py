"""Watches how much memory this process and its children take."""

import os
import threading
from types import TracebackType
from typing import Final, Self

import psutil

from harness.machine.telemetry.host import ProcessFamily

WATCHING_PERIOD_S: Final = 0.25


class MemoryWatch:
    """Context manager that samples the memory of this process and its descendants."""

    def __init__(self) -> None:
        """Prepare; nothing is read yet."""
        self._family = ProcessFamily(os.getpid())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample_memory, daemon=True)
        self.free_bytes = int(psutil.virtual_memory().available)
        """What programs could use without swapping, before the work that is watched."""
        self.peak_bytes = 0
        """Largest sum of resident memory so far, in bytes; pages that processes share count in
        each.
        """

    def __enter__(self) -> Self:
        """Begin to sample."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End, after a last sample."""
        self._ended.set()
        self._thread.join()

    def _sample_memory(self) -> None:
        over = False
        while not over:
            over = self._ended.wait(WATCHING_PERIOD_S)
            self._family.sum_cpu_s()
            self.peak_bytes = max(self.peak_bytes, self._family.rss_bytes)
