"""When Python looks for garbage: seldom while a process loads its modules, as usual while it is
measured, not at its end.

PyTorch makes hundreds of thousands of objects when it is loaded, hardly any of them garbage. Python
3.11 looks whenever there are 700 more
objects than at the last look, and through everything when a process ends; benchmarks/process_end.py
measures what that costs.
"""

import atexit
import gc
from typing import Final

SELDOM: Final = 20_000
"""House rule: objects made since the last look, less those freed; PyTorch is loaded with some
thirty looks.
"""
USUAL: Final = gc.get_threshold()


def look_seldom() -> None:
    """Look after many more objects than usual, and not at the end: objects in circles are not
    finalised then, and the system takes the memory.
    """
    gc.set_threshold(SELDOM)
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)


def keep_loaded() -> None:
    """Look through nothing that is there any more, and as usual from here on: for a process that
    serves until its end, or is forked.
    """
    gc.freeze()
    look_as_usual()


def look_as_usual() -> None:
    """Look through everything once, and at Python's own threshold from here on; call it before a
    clock starts.

    Without the one look, the first through everything that was loaded would fall behind the start.
    """
    gc.collect()
    gc.set_threshold(*USUAL)
