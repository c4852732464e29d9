"""Lets a program that podium starts end with it."""

import ctypes
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1
"""Source: prctl(2)."""
SYSTEM_CALLS: Final = ctypes.CDLL(None)


def ask_kernel_to_end_with_parent() -> None:
    """Let the kernel end this process when the one that started it is gone, however that ended;
    other kernels than Linux's have no such call.
    """
    if sys.platform == "linux":
        SYSTEM_CALLS.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
