"""Folders for temporary files that do not outlive their process by much, and one for all those of
a command that may leave nothing behind.

Libraries and killed worker processes leave theirs in the system's folder for such files: PyTorch a
folder for compiled kernels, loaders one for their sockets.
"""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from suite.errors import MissingError

SCRATCH_PREFIX: Final = "podium-scratch-"
FOLDER_VARIABLE: Final = "TMPDIR"
ABANDONED_AFTER_S: Final = 60.0
"""A younger folder may be one whose process has not locked it yet."""
OPEN_FOLDERS: Final[list[Path]] = []
"""Folders of this process: what is nested in another one's block has a part of its folder."""


@contextmanager
def create_temporary_folder() -> Iterator[Path]:
    """Create an empty folder for temporary files, and remove it at the end; remove those of
    processes that were killed, too. MissingError without room for one.
    """
    try:
        parent = Path(tempfile.gettempdir())
        remove_abandoned_folders(parent)
        folder = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX)).resolve()
    except OSError as error:
        raise MissingError(f"temporary files: {error.strerror}; set {FOLDER_VARIABLE}") from error
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks: nobody takes it for abandoned
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield folder
    finally:
        os.close(descriptor)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def collect_temporary_files() -> Iterator[Path]:
    """Put the temporary files of this process and of its children into one folder, and remove it at
    the end.

    Yields an empty folder below it. Processes that live until the command's end keep the folder's
    path, so a nested block changes nothing but that.
    """
    if OPEN_FOLDERS:
        with create_temporary_folder() as part:
            yield part
        return
    named, known = os.environ.get(FOLDER_VARIABLE), tempfile.tempdir
    with create_temporary_folder() as folder:
        os.environ[FOLDER_VARIABLE] = tempfile.tempdir = str(folder)
        OPEN_FOLDERS.append(folder)
        try:
            with create_temporary_folder() as part:
                yield part
        finally:
            OPEN_FOLDERS.remove(folder)
            tempfile.tempdir = known
            forget_folder_variables(folder)
            if named is not None:
                os.environ[FOLDER_VARIABLE] = named


def forget_folder_variables(folder: Path) -> None:
    """Delete the variables of the environment that lead into a folder: libraries set some, too."""
    for name, value in list(os.environ.items()):
        if Path(value).is_relative_to(folder):
            del os.environ[name]


def remove_abandoned_folders(parent: Path) -> None:
    """Remove this user's scratch folders whose process was killed: nobody holds their lock."""
    for folder in parent.glob(f"{SCRATCH_PREFIX}*"):
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                found = os.fstat(descriptor)
                age_s = time.time() - found.st_mtime
                if found.st_uid == os.getuid() and age_s > ABANDONED_AFTER_S:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)
