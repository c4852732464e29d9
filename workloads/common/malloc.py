"""Makes glibc keep freed memory in the process; otherwise it returns each large activation to the
system and faults it in again.

Measured on 2 cores with ResNet-50 at 32 px, batch 32, fp32: 332 ms per training step without, 259
ms with it; 4,300 page faults per step without, 250 with it.
"""

import ctypes
from typing import Final

# glibc, malloc.h: parameters of mallopt
M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
MALLOC_THRESHOLD_BYTES: Final = 1 << 30


def keep_freed_memory() -> bool:
    """Set both thresholds; False if the C library has no mallopt."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, MALLOC_THRESHOLD_BYTES)) and bool(
        mallopt(M_TRIM_THRESHOLD, MALLOC_THRESHOLD_BYTES)
    )
