"""SIGINT, SIGTERM and SIGHUP as exceptions of the main thread, so that an interrupted run can still end its log."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import ClassVar, Final

from suite.errors import PodiumError

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(PodiumError):
    """Ctrl-C."""

    exit_code: ClassVar[int] = 130


class Terminated(Interrupted):
    """SIGTERM, as a scheduler sends it."""

    exit_code: ClassVar[int] = 143


class HungUp(Interrupted):
    """SIGHUP: the terminal went."""

    exit_code: ClassVar[int] = 129


MEANING: Final = {signal.SIGINT: Interrupted, signal.SIGTERM: Terminated, signal.SIGHUP: HungUp}


class Signals:
    """What was received."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.received: Interrupted | None = None
        self.owner = os.getpid()

    def handle(self, number: int, _: FrameType | None) -> None:
        """Raise the first signal in the main thread; later ones find a run that is ending already."""
        if os.getpid() != self.owner:  # a forked loader worker: its parent ends it; SIGTERM is how
            if number == signal.SIGTERM:
                os._exit(128 + number)
            return
        if self.received is None:
            self.received = MEANING[signal.Signals(number)](f"interrupted by {signal.Signals(number).name}")
            raise self.received


@contextmanager
def raised() -> Iterator[Signals]:
    """Raise signals inside the block; outside the main thread, where Python allows no handlers, do nothing."""
    signals = Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before = {number: signal.signal(number, signals.handle) for number in ENDING}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
