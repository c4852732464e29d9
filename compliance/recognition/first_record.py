"""Find the first record of a log: most lines of published training logs are none."""

import re
from pathlib import Path
from typing import Final

from suite.files.layout import SUMMARY_LOG
from suite.files.untrusted_files import open_regular_file

EVIDENCE_CHUNK_BYTES: Final = 1 << 20
MAX_SEARCHED_BYTES: Final = 64 << 20
"""Bytes searched for a first record; 91 % of the lines of published training logs are not
records.
"""
EVIDENCE_HEAD_BYTES: Final = 1 << 16
"""Bytes after the first record that contain podium's stamps, LoadGen's settings and a training
log's date.
"""

FIRST_RECORD_PATTERN: Final = re.compile(
    rb':::MLLOG|:::MLL (?=[-\d])|:::MLPv|^MLPerf: \w+ \[\d|"ts": \d+ns : |^\S+ :'
    rb" LoadgenVersionInfo|version : \S+ @ ",
    re.MULTILINE,
)
"""The first record of a training log, or of a LoadGen detail log before 1.0, whose lines are plain
text.
"""
LOADGEN_EVENT_PATTERN: Final = re.compile(rb'"key": ?"(?:loadgen_\w+|requested_\w+|effective_\w+)"')
"""LoadGen's events; its detail log has had JSON records since 1.0."""
TRAINING_DIALECTS: Final = (b":::MLL", b":::MLPv", b"MLPerf: ")
"""How the records of training logs begin."""


def is_training_log(path: Path, limit: int | None = None) -> bool:
    """Return whether a file's first records are those of a training, in any dialect; they begin
    within the limit in bytes.
    """
    head = read_first_record(path, limit)
    return head.startswith(TRAINING_DIALECTS) and not LOADGEN_EVENT_PATTERN.search(head)


def read_first_record(path: Path, limit: int | None = None) -> bytes:
    """Read from the first record on, searched for within the limit in bytes (MAX_SEARCHED_BYTES); a
    document or summary has no record and is read from its start; empty if reading fails.
    """
    try:
        with open_regular_file(path) as stream:
            block = stream.read(EVIDENCE_CHUNK_BYTES)
            if path.name == SUMMARY_LOG or path.suffix == ".json":
                return block
            while not (match := FIRST_RECORD_PATTERN.search(block)) and stream.tell() < (
                limit or MAX_SEARCHED_BYTES
            ):
                more = stream.read(EVIDENCE_CHUNK_BYTES)
                if not more:
                    return b""
                block = block[-EVIDENCE_HEAD_BYTES:] + more
            if match is None:
                return b""
            return block[match.start() :] + stream.read(EVIDENCE_HEAD_BYTES)
    except (OSError, ValueError):
        return b""
