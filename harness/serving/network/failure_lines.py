"""Lines about failed requests: whoever sends millions of them must not fill the server's disk."""

import threading
import time
from collections.abc import Callable
from typing import Final

import click

LEAST_PAUSE_S: Final = 1.0
"""Between two lines."""


class FailureLines:
    """Prints at most one line per second; the next one says how many were left out."""

    def __init__(self, read_clock: Callable[[], float] = time.monotonic) -> None:
        self.read_clock = read_clock
        self.lock = threading.Lock()
        self.next_at, self.omitted = 0.0, 0

    def print_failure(self, what: str, error: Exception) -> None:
        """Print what failed and why; any thread may call it."""
        with self.lock:
            now = self.read_clock()
            if now < self.next_at:
                self.omitted += 1
                return
            more = f" ({self.omitted:,} failures before it are not listed)" if self.omitted else ""
            self.next_at, self.omitted = now + LEAST_PAUSE_S, 0
        click.echo(f"{what} failed: {describe_call_failure(error)}{more}", err=True)


def describe_call_failure(error: Exception) -> str:
    """Describe an exception on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
