"""One command at a time in a results folder: two would move each other's logs aside."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from suite.errors import RequestError
from suite.layout import STATE


@contextmanager
def alone(results: Path) -> Iterator[None]:
    """Hold the results folder; RequestError where another process does.

    A POSIX record lock: it goes with its process, however that ends, and data loaders forked from it do not inherit it.
    """
    path = results / STATE / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RequestError(f"--results {results}: another podium command is at work there; wait for it, or name another folder") from error
        yield
