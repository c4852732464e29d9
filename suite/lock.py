"""One command at a time in a results folder: two would move each other's logs aside."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from suite.errors import RequestError
from suite.layout import STATE

HELD: Final[dict[Path, int]] = {}
"""Lock -> the process that holds it: closing any descriptor of the lock's file would give the lock away."""


@contextmanager
def exclusive(results: Path) -> Iterator[None]:
    """Hold the results folder, once more where this process holds it already; RequestError where another process does.

    A POSIX record lock: it goes with its process, however that ends, and data loaders forked from it do not inherit it.
    """
    path = results.resolve() / STATE / "lock"
    if HELD.get(path) == os.getpid():
        yield
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    except OSError as error:
        raise RequestError(f"--results {results}: {error.strerror}") from error
    with file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RequestError(f"--results {results}: another podium command is at work there; wait for it, or name another folder") from error
        HELD[path] = os.getpid()
        try:
            yield
        finally:
            del HELD[path]
