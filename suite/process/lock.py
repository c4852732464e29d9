"""The lock of a results folder: one command at a time, because two would move each other's logs aside."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from suite.errors import RequestError
from suite.files.layout import STATE
from suite.terms import Division

HELD: Final[dict[Path, int]] = {}
"""Lock -> the process that holds it: closing any descriptor of the lock's file would give the lock away."""
LOCK: Final = "lock"
DEPTH: Final = 5
"""Levels of folders below a division, down to a scenario's."""


@contextmanager
def exclusive(results: Path) -> Iterator[None]:
    """Hold the results folder, once more where this process holds it already; RequestError if another process does.

    A POSIX record lock: it goes with its process, however that ends, and data loaders forked from it do not inherit it.
    A block that fails leaves no empty folders behind that were not there before, and no lock where nothing else was made.
    """
    path = results.resolve() / STATE / LOCK
    if HELD.get(path) == os.getpid():
        yield
        return
    before = folders(results.resolve())
    with locked(path, results):
        HELD[path] = os.getpid()
        try:
            yield
        except BaseException:
            tidy(results.resolve(), before)
            raise
        finally:
            del HELD[path]


def locked(path: Path, results: Path) -> IO[str]:
    """Open the lock's file and lock it; once more where its last holder has taken it away since."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    except OSError as error:
        raise RequestError(f"--results {results}: {error.strerror}") from error
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise RequestError(f"--results {results}: another podium command is using it; wait for it, or use another folder") from error
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
    file.close()
    return locked(path, results)


def folders(results: Path) -> set[Path]:
    """Name the folders of a results tree that are there, and those above it."""
    divisions = [results / division for division in Division]
    below = [path for division in divisions for depth in range(1, DEPTH + 1) for path in division.glob("/".join("*" * depth))]
    return {path for path in (*results.parents, results, results / STATE, *divisions, *below) if path.is_dir()}


def tidy(results: Path, before: set[Path]) -> None:
    """Take away the folders that have come since and hold nothing, and the lock where it is all that has come."""
    made = sorted(folders(results) - before, key=lambda path: len(path.parts), reverse=True)
    if results / STATE in made and [path.name for path in (results / STATE).iterdir()] == [LOCK]:
        (results / STATE / LOCK).unlink()
    for folder in made:
        with suppress(OSError):  # something is in it
            folder.rmdir()
