"""Embedded data, generated once into the cache."""

from collections.abc import Callable
from pathlib import Path

from suite.files.cache import fill_cache_entry


def create_cached_folder(cache: Path, name: str, write_content: Callable[[Path], None]) -> Path:
    """Return the folder `name` of the cache, written at first use; safe for concurrent processes.
    PodiumError if the cache cannot be written.
    """
    folder = cache / name
    with fill_cache_entry(folder) as partial:
        if partial is not None:
            write_content(partial)
    return folder
