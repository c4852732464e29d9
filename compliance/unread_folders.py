"""Report folders of a result that cannot be read, instead of what seems to be missing in them."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from compliance.logs.source_file import ParseErrorKind, SourceFile
from compliance.recognition.tree_bounds import TreeExcess
from compliance.recognition.tree_path import is_folder
from compliance.rules import judge_document
from compliance.verdict import Finding
from suite.files.foreign_names import is_foreign_name

MAX_FOLDER_DEPTH: Final = 8
"""Levels below a PATH that are searched: from a results folder to an entry's `performance/run_1`.
"""
EXCESS_ADVICE: Final = "remove what no run has written, and check again."
UNREAD_FOLDER_ADVICE: Final = "make it readable (chmod -R u+rX), or ask its owner, and check again."


def find_unread_folders(
    folder: str | Path, depth: int = MAX_FOLDER_DEPTH
) -> Iterator[tuple[Path, str]]:
    """Yield each folder from this one on that cannot be listed or entered, with the reason; a path
    that is no folder is left to those who read it.
    """
    if not is_folder(folder):
        return
    try:
        os.stat(f"{folder}/.")  # noqa: PTH116 - refused if the folder may be listed, not entered
        with os.scandir(folder) as entries:
            below = sorted(
                entry.path
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and not is_foreign_name(entry.name)
            )
    except OSError as error:
        yield Path(folder), error.strerror or str(error)
        return
    if not depth:
        return
    for path in below:
        yield from find_unread_folders(path, depth - 1)


def report_tree_excess(excess: TreeExcess, round_name: str) -> tuple[Finding, ...]:
    """Return the finding about what is beyond a bound, for which nothing was read."""
    source = SourceFile(excess.path)
    source.add_parse_error(
        ParseErrorKind.UNREADABLE, excess.found, excess.required, advice=EXCESS_ADVICE
    )
    return tuple(judge_document(source, round_name))


def report_unread_folder(path: Path, reason: str, round_name: str) -> tuple[Finding, ...]:
    """Return the finding about a folder that cannot be read."""
    source = SourceFile(path)
    source.add_parse_error(
        ParseErrorKind.UNREADABLE, reason, "a readable folder", advice=UNREAD_FOLDER_ADVICE
    )
    return tuple(judge_document(source, round_name))


def replace_consequences(findings: Sequence[Finding], unread: Sequence[Finding]) -> list[Finding]:
    """Return findings without those about what is in unread folders, and about folders above them,
    which say what is missing there; and with those that say why.
    """
    kept = [
        each
        for each in findings
        if not any(is_on_one_path(each.file, cause.file) for cause in unread)
    ]
    return [*unread, *kept]


def is_on_one_path(first: str, second: str) -> bool:
    """Return whether one path is the other one or lies below it."""
    return Path(first).is_relative_to(second) or Path(second).is_relative_to(first)
