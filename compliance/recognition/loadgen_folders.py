"""Find the folders of performance runs, whatever their spelling."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from compliance.recognition.path_kind import has_loadgen_logs
from compliance.recognition.tree_path import iterate_subfolders

RUN_FOLDER_PATTERN: re.Pattern[str] = re.compile(r"run_?(\d+)")


def find_child_ignoring_case(folder: Path, name: str) -> Path | None:
    """Find a file or folder by name, ignoring case if there is no exact match."""
    if os.path.lexists(folder / name):
        return folder / name
    try:
        return next(
            (each for each in sorted(folder.iterdir()) if each.name.casefold() == name.casefold()),
            None,
        )
    except OSError:
        return None


def find_performance_folders(entry: Path) -> Iterator[Path]:
    """Yield the folders of an entry's performance runs by number; the logs may also be directly in
    performance/.
    """
    parent = find_child_ignoring_case(entry, "performance")
    if parent is None:
        return
    found = [
        (int(match[1][:9]), folder)
        for folder in iterate_subfolders(parent)
        if (match := RUN_FOLDER_PATTERN.fullmatch(folder.name.casefold()))
    ]
    yield from (folder for _, folder in sorted(found))
    if not found and has_loadgen_logs(parent):
        yield parent
