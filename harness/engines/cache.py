"""The engines' file cache: exported networks and built engines, shared between processes."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def lock_cached_file(path: Path) -> Iterator[None]:
    """Lock a cached file against other processes; the lock ends with its process, however that
    ends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
