"""A meter that measures nothing: it reports given watts, to test the protocol and its users."""

import time
from pathlib import Path

from suite.errors import RequestError


class FakePowerProfile:
    """Watts over time: lines `UTC_NS WATTS` of a file, each valid from its time on; the file may
    grow while it is read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self()

    def __call__(self) -> float:
        """Return the present watts; before the first line's time, the first line's."""
        try:
            steps = [
                (int(moment), float(watts))
                for moment, watts in (
                    line.split()
                    for line in self.path.read_text("utf-8").splitlines()
                    if line.strip()
                )
            ]
            passed = [watts for moment, watts in steps if moment <= time.time_ns()]
            return passed[-1] if passed else steps[0][1]
        except (OSError, ValueError, IndexError) as error:
            raise RequestError(
                f"--profile {self.path}: not lines of UTC_NS WATTS:"
                f" {getattr(error, 'strerror', None) or error}"
            ) from error


def format_fake_greeting(period_ms: int) -> str:
    """Return the greeting."""
    return f"name=fake scope=system period_ms={period_ms}"
