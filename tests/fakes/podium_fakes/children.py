"""What children do in tests of how they start and end; a new interpreter loads this module for each
of them, and nothing that only tests need.
"""

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

from harness.children.process import Abort, load_ahead, run_in_child
from suite.errors import JudgedError, MissingError, RequestError
from suite.process import garbage


def whoami(job: str, abort: Abort) -> tuple[str, int, bool, bool]:
    """Tell where it runs, and whether SIGINT is blocked there."""
    blocked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, set())
    return job, os.getpid(), threading.current_thread() is threading.main_thread(), blocked


def fail(job: str, abort: Abort) -> None:
    """Raise the error that is asked for."""
    raise {"judged": JudgedError, "request": RequestError, "missing": MissingError}.get(
        job, KeyError
    )(f"{job} on purpose")


def abort_elsewhere(job: str, abort: Abort) -> None:
    """A worker's thread fails while LoadGen would wait for ever."""
    for number in range(3):
        threading.Thread(target=abort, args=(JudgedError(f"worker {number}"),), daemon=True).start()
    time.sleep(60)


def end(job: str, abort: Abort) -> None:
    """Vanish without a word."""
    if job == "exit":
        os._exit(5)
    os.kill(os.getpid(), getattr(signal, job))
    time.sleep(60)


def note_and_sleep(job: str, abort: Abort) -> None:
    """Write its number into a file, and hang."""
    Path(job).write_text(str(os.getpid()))
    time.sleep(60)


def seen(job: str, abort: Abort) -> tuple[bool, str, str, str]:
    """Tell whether a module is loaded, and what was taken over."""
    assert (
        multiprocessing.get_start_method() == "spawn"
        and gc.get_threshold() == garbage.USUAL_THRESHOLDS
    )
    assert ("OWN" in os.environ) == (job in sys.modules), (
        "what a module set when it was loaded is kept"
    )
    return job in sys.modules, os.environ["WORD"], Path.cwd().name, str(os.getppid())


def parent_of(job: str, abort: Abort) -> int:
    """Tell who started it."""
    return os.getppid()


def in_a_process(answer: Connection) -> None:
    """Be a process of multiprocessing that has a child of its own."""
    load_ahead([])
    answer.send(run_in_child(whoami, "inside")[0])
