"""Other programs that take the cores, for tests and benchmarks; each ends by itself, whatever
becomes of who started it.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

LOOP: Final = (
    "import sys, time; end = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end:"
    " pass"
)


def start(seconds: float) -> subprocess.Popen[bytes]:
    """Keep one core busy for so long."""
    return subprocess.Popen([sys.executable, "-c", LOOP, str(seconds)])


@contextmanager
def loops(each_s: Sequence[float]) -> Iterator[None]:
    """Keep a core busy for each of these times, and none when the block ends."""
    running = [start(seconds) for seconds in each_s]
    try:
        yield
    finally:
        for loop in running:
            loop.kill()
            loop.wait()
