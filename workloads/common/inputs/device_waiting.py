"""How long a GPU had nothing to do while a batch was read.

The host runs ahead of a GPU. It may wait for a batch while the GPU computes what was queued before,
and a run that a GPU limits would look as if its loader did.
"""

from collections import deque

import torch

from suite.measurement.data_waiting import DATA_WAITING, HostWaitTimer, WaitTimer
from suite.units import MS_PER_S


class CudaWaitTimer:
    """Marks the stream that computes when a batch is asked for, and when it is there. The GPU notes
    when it comes to each mark: the second at once behind the first if it had work until then.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._marks: deque[tuple[torch.cuda.Event, torch.cuda.Event]] = deque()

    def begin_wait(self) -> None:
        """Mark the end of what was queued so far."""
        self._began = self._mark_stream()

    def end_wait(self) -> None:
        """Mark the beginning of what is queued next; add the waits whose marks the GPU has passed.
        The host waits for none.
        """
        self._marks.append((self._began, self._mark_stream()))
        while self._marks and self._marks[0][1].query():  # type: ignore[no-untyped-call]
            began, ended = self._marks.popleft()
            DATA_WAITING.waited_s += began.elapsed_time(ended) / MS_PER_S

    def _mark_stream(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event


def open_wait_timer(device: torch.device) -> WaitTimer:
    """Return what measures the waits of a device."""
    return CudaWaitTimer(device) if device.type == "cuda" else HostWaitTimer()
