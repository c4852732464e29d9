"""The cache folder, for everything that podium can regenerate."""

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp
from typing import IO, Final

from suite.errors import MissingError, PodiumError, RequestError
from suite.files.layout import (
    DISK_FULL_ERRORS,
    PARTIAL_SUFFIX,
    find_existing_parent,
    sync_to_disk,
)

CACHE_ADVICE: Final = "set PODIUM_CACHE to a writable folder"
ENGINE_CACHE_FOLDER: Final = "engines"
"""In the cache: networks that engines exported or compiled."""
LOCK_SUFFIX: Final = ".lock"
NO_LOCK_ERRORS: Final = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)
"""flock(2) on file systems without locks: Lustre without the mount option `flock` gives ENOSYS,
network file systems without a lock manager ENOLCK or EOPNOTSUPP.
"""


def locate_cache_folder() -> Path:
    """Folder of embedded data and compiled engines: `$PODIUM_CACHE`, else `$XDG_CACHE_HOME/podium`,
    else `~/.cache/podium`; RequestError if the user has no home folder.
    """
    own = os.environ.get("PODIUM_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "podium"
    except RuntimeError as error:  # no HOME, and no entry in the table of users
        raise RequestError(
            f"cache: user id {os.getuid()} has no home folder; {CACHE_ADVICE}"
        ) from error


def build_cache_error(folder: Path, error: OSError) -> PodiumError:
    """Return the error for a folder of the cache that cannot be read or written: a full disk is the
    machine's, anything else the request's.
    """
    full = error.errno in DISK_FULL_ERRORS
    # mkdir says "File exists" where a file has the folder's name
    reason = os.strerror(errno.ENOTDIR) if error.errno == errno.EEXIST else error.strerror
    return (MissingError if full else RequestError)(f"cache {folder}: {reason}; {CACHE_ADVICE}")


def check_cache_writable(folder: Path) -> None:
    """Write and lock a file in a folder of the cache, or where it would be created; PodiumError if
    that fails.
    """
    try:
        check_folder_writable(folder)
    except OSError as error:
        raise build_cache_error(folder, error) from error


def check_folder_writable(folder: Path) -> None:
    """Write and lock a file without a name in a folder, or where it would be created; OSError if
    that fails.
    """
    place = find_existing_parent(folder)
    check_folder_creatable(place, folder.absolute().relative_to(place).parts)
    with TemporaryFile(dir=place) as probe:
        probe.write(b"podium")
        probe.flush()
        take_lock(probe)


def check_folder_creatable(place: Path, missing: Sequence[str]) -> None:
    """OSError if folders below an existing one cannot be created for their names: one is too long,
    or that of a link which leads nowhere.
    """
    if missing and (place / missing[0]).is_symlink():
        (place / missing[0]).stat()  # what it leads to is missing, or it leads to itself
    if any(len(os.fsencode(name)) > os.pathconf(place, "PC_NAME_MAX") for name in missing):
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))


def is_cache_writable(folder: Path) -> bool:
    """Return whether a folder of the cache can be written to."""
    try:
        check_cache_writable(folder)
    except PodiumError:
        return False
    return True


@contextmanager
def fill_cache_entry(path: Path) -> Iterator[Path | None]:
    """Yield where to write a file or folder of the cache, or None if it is there; see
    `fill_shared_entry`. PodiumError if the cache cannot be written.
    """
    is_reading = False
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
        with fill_shared_entry(path) as partial:
            is_reading = True
            yield partial
            is_reading = False
    except OSError as error:
        # the writer reads files from elsewhere, too; what only writing gives is the cache's
        if is_reading and error.errno not in (*DISK_FULL_ERRORS, errno.EROFS):
            raise
        raise build_cache_error(path.parent, error) from error


@contextmanager
def fill_shared_entry(path: Path) -> Iterator[Path | None]:
    """Yield a path to write a file or folder to, which then gets its name; None if it exists, for
    which nothing is written or locked.

    Processes wait for one another by a lock, which ends with its process, however that ends. Where
    the file system has no locks, each writes under a name of its own, and the first to finish
    wins.
    """
    if path.exists():
        yield None
        return
    with path.with_name(path.name + LOCK_SUFFIX).open("w") as lock:
        is_locked = take_lock(lock)
        if path.exists():
            yield None
            return
        private = None
        if not is_locked:
            private = Path(mkdtemp(PARTIAL_SUFFIX, path.name, path.parent))
        if private is None:
            partial = path.with_name(path.name + PARTIAL_SUFFIX)
        else:
            partial = private / "new"
        remove_cache_entry(partial)  # of a process that was killed
        try:
            yield partial
            sync_to_disk(partial)
            move_into_place(partial, path)
        finally:
            remove_cache_entry(private or partial)


@contextmanager
def lock_cache_entry(path: Path) -> Iterator[None]:
    """Hold the lock of a file of the cache that is written more than once, whose writers would
    share its `.partial`; not reentrant. Without a lock where the file system has none or cannot be
    written: who writes there is told.
    """
    with ExitStack() as opened:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            take_lock(opened.enter_context(path.with_name(path.name + LOCK_SUFFIX).open("w")))
        yield


def take_lock(file: IO[str] | IO[bytes]) -> bool:
    """Wait for an exclusive lock of an open file; False if the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in NO_LOCK_ERRORS:
            raise
        return False
    return True


def move_into_place(partial: Path, path: Path) -> None:
    """Rename a finished file or folder; a folder that another process has put there meanwhile is
    kept.
    """
    try:
        partial.replace(path)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
    sync_to_disk(path.parent)


def remove_cache_entry(path: Path) -> None:
    """Remove a file or a folder, if it exists."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
