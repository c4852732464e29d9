"""How child processes start, and that none outlives its parent.

Only the parent receives Ctrl-C (children start with SIGINT blocked); the parent then ends the
child. The child watches a pipe that only the parent holds, so it
ends with its parent, however that ended.
"""

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from suite.process import main_module


def start_child_process(process: SpawnProcess) -> None:
    """Start the child with SIGINT blocked; the resource tracker first, since starting it would
    unblock SIGINT.
    """
    resource_tracker.ensure_running()
    with block_interrupts(), main_module.hide_main_module():
        process.start()


@contextmanager
def block_interrupts() -> Iterator[None]:
    """Block SIGINT in this thread and in processes started meanwhile."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent(sentinel: int | None = None, unless: Sequence[Connection] = ()) -> None:
    """End this process when the parent is gone, which closes the sentinel; return if one of
    `unless` is ready first.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None  # only called in a child
    ready = wait([parent.sentinel if sentinel is None else sentinel, *unless])
    if not any(one in ready for one in unless):
        os._exit(1)
