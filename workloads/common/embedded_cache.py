"""Embedded data, generated once into the cache."""

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path


def create_cached_folder(cache: Path, name: str, write_content: Callable[[Path], None]) -> Path:
    """Return the folder `name` of the cache, written at first use; safe for concurrent
    processes.
    """
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / name
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released with its process, however that ends
        if not folder.is_dir():
            partial = folder.with_name(f"{name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            write_content(partial)
            partial.rename(folder)
    return folder
