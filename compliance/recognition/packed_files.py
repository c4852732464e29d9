"""Find archives and compressed files where unpacked results are looked for."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from compliance.recognition.renamed_logs import summarise_names
from compliance.recognition.tree_path import iterate_subfolders, list_folder_names
from suite.files.archives import find_archive_format

MAX_FILES_TRIED: Final = 256
"""Files below a folder whose first bytes are read."""
PACKED_ADVICE: Final = "unpack them first: the judge reads no archives but podium's bundles."


def describe_packed_files(folder: Path, depth: int = 0) -> str:
    """Describe the packed files in a folder, and in folders down to a depth below it; empty if
    there are none.
    """
    formats = {
        str(path.relative_to(folder)): name
        for path in islice(iterate_files_below(folder, depth), MAX_FILES_TRIED)
        if (name := find_archive_format(path))
    }
    if not formats:
        return ""
    return f"packed files: {summarise_names([*formats])} ({', '.join(sorted({*formats.values()}))})"


def iterate_files_below(folder: Path, depth: int) -> Iterator[Path]:
    """Yield what is in a folder, and in folders down to a depth below it."""
    yield from (folder / name for name in sorted(list_folder_names(folder)))
    if not depth:
        return
    for below in iterate_subfolders(folder):
        yield from iterate_files_below(below, depth - 1)
