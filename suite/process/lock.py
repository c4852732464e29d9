"""The lock of a results folder: one command at a time, because two would move each other's logs
aside.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from suite.errors import RequestError
from suite.files.layout import STATE_FOLDER
from suite.terms import Division

LOCK_HOLDERS: Final[dict[Path, int]] = {}
"""Lock -> the process that holds it: closing any descriptor of the lock file would release the
lock.
"""
LOCK_FILE: Final = "lock"
LOCK_TAKEN_ERRORS: Final = (errno.EACCES, errno.EAGAIN)
"""fcntl(2), F_SETLK: another process holds the lock. A network file system without locks gives
ENOLCK or ENOSYS.
"""
SCENARIO_FOLDER_DEPTH: Final = 5
"""Folder levels below a division, down to a scenario."""


@contextmanager
def lock_results_folder(results: Path) -> Iterator[None]:
    """Lock the results folder, reentrant within this process; RequestError if another process holds
    it.

    A POSIX record lock: it is released when its process ends, however that happens, and forked data
    loaders do not inherit it. If the block fails, empty folders that it created are removed, and so
    is the lock file if nothing else was created.
    """
    path = results.resolve() / STATE_FOLDER / LOCK_FILE
    if LOCK_HOLDERS.get(path) == os.getpid():
        yield
        return
    before = list_results_folders(results.resolve())
    with open_locked_file(path, results):
        LOCK_HOLDERS[path] = os.getpid()
        try:
            yield
        except BaseException:
            remove_created_folders(results.resolve(), before)
            raise
        finally:
            del LOCK_HOLDERS[path]


def open_locked_file(path: Path, results: Path) -> IO[str]:
    """Open and lock the lock file; try again if its last holder has deleted it meanwhile."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")
    except OSError as error:
        raise RequestError(f"--results {results}: {error.strerror}") from error
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        if error.errno not in LOCK_TAKEN_ERRORS:
            raise RequestError(
                f"--results {results}: its file system gives no locks ({error.strerror}); use a"
                " folder on another one"
            ) from error
        raise RequestError(
            f"--results {results}: another podium command is using it; wait for it, or use another"
            " folder"
        ) from error
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
    file.close()
    return open_locked_file(path, results)


def list_results_folders(results: Path) -> set[Path]:
    """Return the existing folders of a results tree, and those above it."""
    divisions = [results / division for division in Division]
    below = [
        path
        for division in divisions
        for depth in range(1, SCENARIO_FOLDER_DEPTH + 1)
        for path in division.glob("/".join("*" * depth))
    ]
    return {
        path
        for path in (*results.parents, results, results / STATE_FOLDER, *divisions, *below)
        if path.is_dir()
    }


def remove_created_folders(results: Path, before: set[Path]) -> None:
    """Remove empty folders created since, and the lock file if nothing else was created."""
    made = sorted(
        list_results_folders(results) - before, key=lambda path: len(path.parts), reverse=True
    )
    if results / STATE_FOLDER in made and [
        path.name for path in (results / STATE_FOLDER).iterdir()
    ] == [LOCK_FILE]:
        (results / STATE_FOLDER / LOCK_FILE).unlink()
    for folder in made:
        with suppress(OSError):  # not empty
            folder.rmdir()
