"""Checks that LoadGen's files are complete."""

import re
from pathlib import Path
from typing import Final

from suite.errors import JudgedError, MissingError, PodiumError
from suite.files.layout import (
    ACCURACY_LOG,
    DETAIL_LOG,
    DISK_FULL_ERRORS,
    PARTIAL_SUFFIX,
    SUMMARY_LOG,
    sync_to_disk,
)
from suite.loadgen.detail_log import read_detail_log
from suite.loadgen.logged_answers import TruncatedAnswersError, read_logged_answers

LAST_DETAIL_KEY: Final = "power_end"
"""LoadGen writes it when all queries are answered (loadgen.cc, RunPerformanceMode,
RunAccuracyMode); a verdict follows in performance mode.
"""
DETAIL_LINE_END: Final = b"}}\n"
SUMMARY_END_PATTERN: Final = re.compile(
    rb"\n(No errors encountered during test|(1 ERROR|\d+ ERRORS) encountered\. See detailed"
    rb" log)\.\n\Z"
)
"""loadgen/logging.cc, AsyncLog::SetLogFiles: the last line of a summary."""
TRACE_FILE: Final = "mlperf_log_trace.json"
ROOM_PROBE_BYTES: Final = 65_536
"""What is written to see whether a disk is full: more than a stream of C++ holds back."""


def check_loadgen_files(folder: Path) -> None:
    """Refuse a folder with truncated files (JudgedError; MissingError if the disk is full); delete
    the empty trace, which is switched off.
    """
    (folder / TRACE_FILE).unlink(missing_ok=True)
    for name in (SUMMARY_LOG, DETAIL_LOG, ACCURACY_LOG):
        if not (folder / name).is_file():
            raise JudgedError(f"LoadGen wrote no {name}")
    if not SUMMARY_END_PATTERN.search((folder / SUMMARY_LOG).read_bytes()):
        raise build_truncation_error(folder, SUMMARY_LOG)
    if (
        not (folder / DETAIL_LOG).read_bytes().endswith(DETAIL_LINE_END)
        or LAST_DETAIL_KEY not in read_detail_log(folder).values
    ):
        raise build_truncation_error(folder, DETAIL_LOG)
    try:
        for _ in read_logged_answers(folder):
            pass
    except TruncatedAnswersError as error:
        raise build_truncation_error(folder, ACCURACY_LOG) from error


def build_truncation_error(folder: Path, name: str) -> PodiumError:
    """Return why a file of LoadGen's ends early: a full disk, of which LoadGen says nothing
    (MissingError), or something else (JudgedError).
    """
    probe = folder / f"{name}{PARTIAL_SUFFIX}"
    try:
        probe.write_bytes(bytes(ROOM_PROBE_BYTES))
        sync_to_disk(probe)
    except OSError as error:
        if error.errno in DISK_FULL_ERRORS:
            return MissingError(f"{folder / name}: {error.strerror}")
    finally:
        probe.unlink(missing_ok=True)
    return JudgedError(f"{name} is truncated")
