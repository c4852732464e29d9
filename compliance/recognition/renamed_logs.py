"""Find training logs under names other than MLCommons', by their first records."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from compliance.recognition.first_record import EVIDENCE_CHUNK_BYTES, is_training_log
from suite.files.layout import ACCURACY_TEXT, DETAIL_LOG, SUMMARY_LOG

LOADGEN_TEXT_FILES: Final = frozenset({SUMMARY_LOG, DETAIL_LOG, ACCURACY_TEXT})
LOG_SUFFIX_PATTERN: Final = re.compile(
    r"\.(?:txt|log|out|err|mllog|stdout|stderr|output|[oe]?\d+)$", re.IGNORECASE
)
"""Suffixes under which schedulers, containers and shells store what a program prints."""
MAX_FILES_WITHOUT_RECORD: Final = 64
"""After this many files without a record a folder is not one of logs."""
DIGITS_PATTERN: Final = re.compile(r"(\d+)")
MAX_LISTED_NAMES: Final = 3


def iterate_renamed_logs(folder: Path, names: Iterable[str]) -> Iterator[Path]:
    """Yield the training logs among the names in a folder, the numbers in them ascending."""
    strangers = 0
    fitting = [name for name in names if "." not in name or LOG_SUFFIX_PATTERN.search(name)]
    for name in sorted({*fitting} - LOADGEN_TEXT_FILES, key=split_numbers):
        if os.path.isfile(path := folder / name):  # noqa: PTH113 - Path.is_file may raise
            if is_training_log(path, EVIDENCE_CHUNK_BYTES):
                yield path
            elif (strangers := strangers + 1) >= MAX_FILES_WITHOUT_RECORD:
                return


def split_numbers(name: str) -> list[tuple[bool, int, str]]:
    """Split a name into texts and numbers, so that run_10 is sorted behind run_2."""
    parts = DIGITS_PATTERN.split(name)
    return [(True, int(part), "") if part.isdecimal() else (False, 0, part) for part in parts]


def summarise_names(names: Sequence[str]) -> str:
    """Summarise the names of files by what they share: `slurm-*.out`."""
    if len(names) == 1:
        return names[0]
    front = os.path.commonprefix(names).rstrip("0123456789")
    rests = [name[len(front) :][::-1] for name in names]
    back = os.path.commonprefix(rests)[::-1].lstrip("0123456789")
    if front or back:
        return f"{front}*{back}"
    more = len(names) - MAX_LISTED_NAMES
    return ", ".join(names[:MAX_LISTED_NAMES]) + (f" and {more} more" if more > 0 else "")
