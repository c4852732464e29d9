"""When Python looks for garbage: seldom while a process loads its modules, as usual while it is measured, not at its end.

PyTorch makes hundreds of thousands of objects when it is loaded, hardly any of them garbage. By default Python looks for some after
every 700, and through all of them when a process ends. Loading it and ending takes 2.00 s of CPU time without both, 2.74 s with them
(means of 6, Python 3.11.7, AMD EPYC, Zen 3).
"""

import atexit
import gc
from typing import Final

SELDOM: Final = 20_000
USUAL: Final = gc.get_threshold()


def look_seldom() -> None:
    """Look for garbage after many more objects than usual, and leave what is there at the end to the system."""
    gc.set_threshold(SELDOM)
    atexit.register(gc.freeze)


def look_as_usual() -> None:
    """Return to Python's own threshold, which bounds how long one look takes; call it before a clock starts."""
    gc.set_threshold(*USUAL)
