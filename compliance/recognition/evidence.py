"""Evidence in one file for its round: podium's own log header, LoadGen's seeds, a log's dialect,
date and benchmark.

Only what no two rounds share counts. LoadGen's version does not: `.5a1` occurs in the logs of three
rounds, and one round has logs of five versions. A round's qsl_rng_seed is unique, except that
podium-v1 uses a published round's seeds and is recognised only by podium's own stamps. A training
log in v0.7's dialect does not name its round; its date or else its benchmark indicates it.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

from compliance.documents.timestamps import format_utc_day
from compliance.logs.source_file import format_excerpt
from compliance.recognition.endpoints_files import ENDPOINTS_SUMMARY_FILES
from compliance.recognition.inference_rounds import (
    map_rounds_by_qsl_seed,
    map_rounds_by_schedule_seed,
)
from compliance.recognition.training_rounds import (
    TrainingLogEvidence,
    choose_training_round,
    normalise_benchmark_name,
)
from suite import registry
from suite.files.layout import RUN_RECORD, SUMMARY_LOG
from suite.files.untrusted_files import open_regular_file

PODIUM_ROUND: Final = registry.DEFAULT_ROUND
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
ROUND_STAMP_PATTERN: Final = re.compile(rb'"key": ?"podium_round", ?"value": ?"([^"\\]{1,40})"')
PODIUM_EVENT_PATTERN: Final = re.compile(rb'"key": ?"(?:podium_\w+|campaign_nonce)"')
"""podium's own events."""
LOADGEN_EVENT_PATTERN: Final = re.compile(rb'"key": ?"(?:loadgen_\w+|requested_\w+|effective_\w+)"')
"""LoadGen's events; its detail log has had JSON records since 1.0."""
TRAINING_DIALECTS: Final = (b":::MLL", b":::MLPv", b"MLPerf: ")
"""How the records of training logs begin."""
EVIDENCE_VERSION_PATTERN: Final = re.compile(
    rb'(?:"loadgen_version", ?"value": ?"|version : )([^\s"\\]{1,40})'
)
QSL_SEED_PATTERN: Final = re.compile(rb'qsl_rng_seed(?:", ?"value": ?| : )(\d{1,20})\b')
SCHEDULER_SEED_PATTERN: Final = re.compile(rb'"scheduler_random_seed":\s*(\d{1,20})\b')
TEST_MONTH_PATTERN: Final = re.compile(rb"Date \+ time of test: (\d{4}-\d\d)")
RECORD_TIME_PATTERN: Final = re.compile(rb'"time_(ms|s)": ?(\d{1,13})')
BENCHMARK_PATTERN: Final = re.compile(
    rb'"key": ?"submission_benchmark", ?"value": ?"([^"\\]{1,60})"'
)

FIRST_V07_TEST_MONTH: Final = "2020-04"
"""LoadGen tests dated this month or later were made for v0.7, where a run may have other seeds than
its round's. v0.5's results date from 2019.
"""
EARLIEST_MLLOG_TIME_S: Final = 1_569_888_000
"""October 2019, before any round used this dialect: an earlier clock was never set and is no
evidence.
"""


class RoundEvidence(NamedTuple):
    """The evidence in a file."""

    round: str | None
    """A known round; None for an unknown one."""
    indicated_by: str
    """Description of the evidence."""
    sure: bool = True
    """False if it rests only on convention; then other files of the same result are read first."""
    logs: tuple[TrainingLogEvidence, ...] = ()
    """Facts of training logs that could belong to several rounds."""


def read_round_evidence(path: Path) -> RoundEvidence | None:
    """Read the evidence in one file; None if it has no record or cannot be read."""
    if path.name == RUN_RECORD:
        return RoundEvidence(PODIUM_ROUND, "podium's record of a run")
    head = read_first_record(path)
    if path.name in ENDPOINTS_SUMMARY_FILES:
        return parse_client_evidence(head)
    if path.suffix == ".json":
        return (
            RoundEvidence(PODIUM_ROUND, "podium's system description")
            if b'"podium"' in head
            else None
        )
    if head.startswith(b":::MLLOG"):
        stamp = ROUND_STAMP_PATTERN.search(head)
        if stamp or PODIUM_EVENT_PATTERN.search(head):
            return RoundEvidence(
                resolve_stamped_round(stamp[1].decode("latin-1") if stamp else PODIUM_ROUND),
                "podium's stamps",
            )
        return (
            parse_loadgen_evidence(head)
            if LOADGEN_EVENT_PATTERN.search(head)
            else parse_training_evidence(head, path)
        )
    if head.startswith((b":::MLL ", b"MLPerf: ")):
        return RoundEvidence("training-v0.6", "a training log in v0.6's format")
    if head.startswith(b":::MLPv"):
        return RoundEvidence(None, f"a training log that begins with '{format_excerpt(head[:12])}'")
    return parse_loadgen_evidence(head, path.name == SUMMARY_LOG)


def resolve_stamped_round(name: str) -> str:
    """Return a stamped round if it can be run here, else podium's own: the judge then reports the
    stamp.
    """
    return (
        name
        if name in registry.list_round_names() and registry.load_round_kind(name) == "podium"
        else PODIUM_ROUND
    )


def parse_loadgen_evidence(head: bytes, summary: bool = False) -> RoundEvidence | None:
    """Read LoadGen's seed; without a round's own seed a summary gives no evidence, and a text
    detail log belongs to v0.5 or v0.7 by its date.
    """
    version, seed = EVIDENCE_VERSION_PATTERN.search(head), QSL_SEED_PATTERN.search(head)
    if version is None and seed is None:
        return None
    name = map_rounds_by_qsl_seed().get(int(seed[1])) if seed else None
    program = f"LoadGen {version[1].decode('latin-1')}" if version else "LoadGen's summary"
    indicated_by = f"{program} with qsl_rng_seed {int(seed[1])}" if seed else program
    if name is not None:
        return RoundEvidence(name, f"{indicated_by}, that of {name}")
    if summary:
        return None
    if head.startswith(b":::MLLOG"):
        return RoundEvidence(None, indicated_by, sure=False)
    tested = TEST_MONTH_PATTERN.search(head)
    return RoundEvidence(
        (
            "inference-v0.7"
            if tested and tested[1].decode() >= FIRST_V07_TEST_MONTH
            else "inference-v0.5"
        ),
        indicated_by,
        sure=False,
    )


def parse_client_evidence(summary: bytes) -> RoundEvidence | None:
    """Read the seed in a summary of the Endpoints client; None if it is no round's."""
    seed = SCHEDULER_SEED_PATTERN.search(summary)
    name = map_rounds_by_schedule_seed().get(int(seed[1])) if seed else None
    if seed is None or name is None:
        return None
    return RoundEvidence(
        name, f"the Endpoints client with scheduler_random_seed {int(seed[1])}, that of {name}"
    )


def parse_training_evidence(head: bytes, path: Path) -> RoundEvidence:
    """Read the date and benchmark of a training log in v0.7's dialect, which all later rounds
    share. A record within a JSON string has its quotes escaped.
    """
    head = head.replace(b'\\"', b'"')
    times = [
        int(number) // (1 if unit == b"s" else 1000)
        for unit, number in RECORD_TIME_PATTERN.findall(head)
    ]
    began = next((seconds for seconds in times if seconds >= EARLIEST_MLLOG_TIME_S), None)
    benchmark = BENCHMARK_PATTERN.search(head)
    name = format_excerpt(benchmark[1]) if benchmark else ""
    indicated_by = (
        "a training"
        f" log{f' of {name}' if name else ''}{f' from {format_utc_day(began)}' if began else ''}"
    )
    unset = bool(times) and began is None
    logs = (TrainingLogEvidence(began, normalise_benchmark_name(name), unset, str(path.parent)),)
    return RoundEvidence(
        choose_training_round(logs),
        indicated_by + " with a clock that was not set" * unset,
        sure=began is not None,
        logs=logs,
    )


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
