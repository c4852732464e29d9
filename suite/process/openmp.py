"""Limits how long OpenMP threads spin before they sleep; libgomp reads the setting when loaded, so
it is set before PyTorch is imported.

libgomp, which PyTorch's Linux wheels bundle, lets a waiting thread spin 300,000 times, some
milliseconds, unless there are more threads than cores. While another program occupies a core, each
of a network's many small kernels then waits for a thread that is not running, spinning on the core
that this thread needs. A short spin covers the gap between two kernels, which is what spinning is
for.
"""

from collections.abc import MutableMapping
from typing import Final

SPIN_COUNT_VARIABLE: Final = "GOMP_SPINCOUNT"
LIMITED_SPIN_COUNT: Final = "3000"
"""Some tens of microseconds. GNMT's training steps on two quiet cores: 0.96 of the usual rate,
within its spread; 0.90 with 1,000 and 0.32 with none.
"""
USER_SPIN_VARIABLES: Final = (SPIN_COUNT_VARIABLE, "OMP_WAIT_POLICY")
"""Variables by which a user overrides this."""


def limit_openmp_spinning(environment: MutableMapping[str, str]) -> None:
    """Limit spinning in this process and its children, unless the user has configured it."""
    if not any(name in environment for name in USER_SPIN_VARIABLES):
        environment[SPIN_COUNT_VARIABLE] = LIMITED_SPIN_COUNT
