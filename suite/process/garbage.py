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

SELDOM_THRESHOLD: Final = 20_000
"""House rule: objects made since the last look, less those freed; PyTorch is loaded with some
thirty looks.
"""
USUAL_THRESHOLDS: Final = gc.get_threshold()


def reduce_garbage_collection() -> None:
    """Have garbage collected more rarely than usual, and not at the end: objects in circles are not
    finalised then, and the system takes the memory.
    """
    gc.set_threshold(SELDOM_THRESHOLD)
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)


def freeze_loaded_objects() -> None:
    """Ignore all existing objects, and collect as usual from here on: for a process that
    serves until its end, or is forked.
    """
    gc.freeze()
    collect_garbage_as_usual()


def collect_garbage_as_usual() -> None:
    """Collect everything once, and at Python's own threshold from here on; call it before a
    clock starts.

    Without the one look, the first through everything that was loaded would fall behind the start.
    """
    gc.collect()
    gc.set_threshold(*USUAL_THRESHOLDS)
