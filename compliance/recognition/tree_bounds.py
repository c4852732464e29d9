"""Bounds of what is looked into: a folder from somebody else may hold a million files, thousands of
folders within one another, and files of a terabyte that take no room on its disk.
"""

import os
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from compliance.recognition.tree_path import is_folder
from suite.files.layout import CHECKPOINT_RECORD, CHECKPOINTS_FOLDER, STATE_FOLDER

MAX_FOLDER_LEVELS: Final = 200
"""Folders within one another; results have 10. Python's own walks end at about 1,000."""
MAX_FOLDER_FILES: Final = 10_000
"""Files and folders in one folder; those of results have up to a few hundred."""
MAX_TREE_FILES: Final = 100_000
"""Files and folders at or below a path, without those in folders that are not read; whole
published rounds have some ten thousand.
"""
MAX_READ_BYTES: Final = 16 << 30
"""Size in bytes of a file that the judge may read; the largest, accuracy logs of whole data sets,
have a few GB.
"""
UNREAD_FOLDERS: Final = frozenset({STATE_FOLDER, CHECKPOINTS_FOLDER, "code", ".git"})
"""Folders of which nothing is read but records of checkpoints: they may hold many and large
files.
"""


class TreeExcess(NamedTuple):
    """A part of a folder that is beyond a bound."""

    path: Path
    found: str
    required: str

    @property
    def sentence(self) -> str:
        """Return what is wrong in one sentence."""
        return f"{self.path}: {self.found}; {self.required}"


class ListedFolder(NamedTuple):
    """A folder that is looked into."""

    path: str
    level: int
    """Folders between it and the one that was asked for."""
    is_read: bool
    """Whether the judge reads its files."""


def find_tree_excess(path: Path) -> TreeExcess | None:
    """Return the first thing at or below a path that is beyond a bound, without following links;
    None if there is none.
    """
    if not is_folder(path):
        return find_file_excess(path)
    pending = [ListedFolder(str(path), 0, True)]
    count = 0
    while pending:
        folder = pending.pop()
        entries = list_first_entries(folder.path)
        if len(entries) > MAX_FOLDER_FILES and folder.is_read:
            return build_folder_excess(folder.path, f"{MAX_FOLDER_FILES:,} files")
        count += len(entries) if folder.is_read else 1
        if count > MAX_TREE_FILES:
            return build_folder_excess(str(path), f"{MAX_TREE_FILES:,} files")
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                is_read = folder.is_read and entry.name not in UNREAD_FOLDERS
                pending.append(ListedFolder(entry.path, folder.level + 1, is_read))
            elif (folder.is_read or entry.name == CHECKPOINT_RECORD) and (
                found := find_file_excess(Path(entry.path))
            ):
                return found
        if folder.level > MAX_FOLDER_LEVELS:
            return build_folder_excess(str(path), f"{MAX_FOLDER_LEVELS} folders within one another")
    return None


def list_first_entries(folder: str) -> list[os.DirEntry[str]]:
    """Return one entry more than a folder may have, at most; none if it cannot be read, which
    others report.
    """
    try:
        with os.scandir(folder) as entries:
            return list(islice(entries, MAX_FOLDER_FILES + 1))
    except OSError:
        return []


def find_file_excess(path: Path) -> TreeExcess | None:
    """Return why a file is too large to be read; None if it is not."""
    try:
        size = path.lstat().st_size
    except (OSError, ValueError):  # ValueError: a null byte, which no path has
        return None
    if size <= MAX_READ_BYTES:
        return None
    return TreeExcess(path, f"{size:,} bytes", f"a file of at most {MAX_READ_BYTES:,} bytes")


def build_folder_excess(folder: str, bound: str) -> TreeExcess:
    """Return what is wrong with a folder that is beyond a bound."""
    return TreeExcess(Path(folder), f"more than {bound}", f"at most {bound}, as results have")
