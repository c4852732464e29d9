"""How long OpenMP threads spin before they sleep; the library reads it when loaded, so it is set before PyTorch is imported.

libgomp, which PyTorch's Linux wheels carry, lets a thread that waits for the others spin 300,000 times, some milliseconds, wherever there
are as many cores as threads. While another program holds a core, each of a network's many small kernels then waits for a thread that is
not running, and takes its core from it. A short spin covers the gap between two kernels, which is what spinning is for.
"""

from collections.abc import MutableMapping
from typing import Final

SPINS: Final = "GOMP_SPINCOUNT"
FEW_SPINS: Final = "3000"
"""Some tens of microseconds. GNMT's training steps on two quiet cores: 0.96 of the usual rate, within its spread; 0.90 with 1,000 and 0.32 with none."""
USERS: Final = (SPINS, "OMP_WAIT_POLICY")
"""Whoever has set one of these has chosen."""


def spin_briefly(environment: MutableMapping[str, str]) -> None:
    """Set the spins for this process and those that it starts, unless the user has chosen."""
    if not any(name in environment for name in USERS):
        environment[SPINS] = FEW_SPINS
