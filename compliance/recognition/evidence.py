"""Evidence in one file for its round: podium's own log header, LoadGen's seeds, a log's dialect,
date and benchmark.

Only what no two rounds share counts. LoadGen's version does not: `.5a1` occurs in the logs of three
rounds, and one round has
logs of five versions. A round's qsl_rng_seed is unique, except that podium-v1 uses a published
round's seeds and is recognised
only by podium's own stamps. A training log in v0.7's dialect does not name its round; its date or
else its benchmark indicates it.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

from compliance.documents.timestamps import day
from compliance.logs.source_file import shown
from compliance.recognition.training_rounds import Told, benchmark_of, round_of
from suite import registry
from suite.files.layout import RUN_RECORD, SUMMARY
from suite.files.untrusted_files import opened

PODIUM: Final = registry.DEFAULT_ROUND
CHUNK: Final = 1 << 20
READ_LIMIT: Final = 64 << 20
"""Bytes searched for a first record; 91 % of the lines of published training logs are not
records.
"""
HEAD: Final = 1 << 16
"""Bytes after the first record that contain podium's stamps, LoadGen's settings and a training
log's date.
"""

RECORD: Final = re.compile(
    rb':::MLLOG|:::MLL (?=[-\d])|:::MLPv|^MLPerf: \w+ \[\d|"ts": \d+ns : |^\S+ :'
    rb" LoadgenVersionInfo|version : \S+ @ ",
    re.MULTILINE,
)
"""The first record of a training log, or of a LoadGen detail log before 1.0, whose lines are plain
text.
"""
STAMP: Final = re.compile(rb'"key": ?"podium_round", ?"value": ?"([^"\\]{1,40})"')
MARK: Final = re.compile(rb'"key": ?"(?:podium_\w+|campaign_nonce)"')
"""podium's own events."""
SERVED: Final = re.compile(rb'"key": ?"(?:loadgen_\w+|requested_\w+|effective_\w+)"')
"""LoadGen's events; its detail log has had JSON records since 1.0."""
VERSION: Final = re.compile(rb'(?:"loadgen_version", ?"value": ?"|version : )([^\s"\\]{1,40})')
SEED: Final = re.compile(rb'qsl_rng_seed(?:", ?"value": ?| : )(\d{1,20})\b')
TESTED: Final = re.compile(rb"Date \+ time of test: (\d{4}-\d\d)")
TIME: Final = re.compile(rb'"time_(ms|s)": ?(\d{1,13})')
BENCHMARK: Final = re.compile(rb'"key": ?"submission_benchmark", ?"value": ?"([^"\\]{1,60})"')

SEEDS: Final = {
    3133965575612453542: "v0.5",
    12786827339337101903: "v0.7",
    7322528924094909334: "v1.0",
    1624344308455410291: "v1.1",
    6655344265603136530: "v2.0",
    14284205019438841327: "v2.1",
    10003631887983097364: "v3.0",
    148687905518835231: "v3.1",
    13281865557512327830: "v4.0",
    3066443479025735752: "v4.1",
    6023615788873153749: "v5.0",
    1780908523862526354: "v5.1",
    2465351861681999779: "v6.0",
    2085463073848966840: "v6.1",
}
"""qsl_rng_seed -> its round of MLPerf Inference. Source: mlcommons/inference, mlperf.conf of each
round's branch; submission-checker.py, seeds.
"""
FORMER: Final = "2020-04"
"""LoadGen tests dated this month or later were made for v0.7, where a run may have other seeds than
its round's. v0.5's results date from 2019.
"""
MLLOG_SINCE_S: Final = 1_569_888_000
"""October 2019, before any round used this dialect: an earlier clock was never set and is no
evidence.
"""


class Witness(NamedTuple):
    """The evidence in a file."""

    round: str | None
    """A known round; None if it is none of them."""
    seen: str
    """What indicates it."""
    sure: bool = True
    """False if it rests only on convention; then other files of the same result are read first."""
    logs: tuple[Told, ...] = ()
    """Facts of training logs that could belong to several rounds."""
    others: tuple[str, ...] = ()
    """Other rounds that a set outside of any tree may have been filed in."""


def witness(path: Path) -> Witness | None:
    """Read the evidence in one file; None if it has no record or cannot be read."""
    if path.name == RUN_RECORD:
        return Witness(PODIUM, "podium's record of a run")
    head = first_record(path)
    if path.suffix == ".json":
        return Witness(PODIUM, "podium's system description") if b'"podium"' in head else None
    if head.startswith(b":::MLLOG"):
        stamp = STAMP.search(head)
        if stamp or MARK.search(head):
            return Witness(
                known(stamp[1].decode("latin-1") if stamp else PODIUM), "podium's stamps"
            )
        return of_loadgen(head) if SERVED.search(head) else of_training(head, path)
    if head.startswith((b":::MLL ", b"MLPerf: ")):
        return Witness("training-v0.6", "a training log of v0.6's form")
    if head.startswith(b":::MLPv"):
        return Witness(None, f"a training log that begins with '{shown(head[:12])}'")
    return of_loadgen(head, path.name == SUMMARY)


def known(name: str) -> str:
    """Return a stamped round if it can be run here, else podium's own: the judge then objects to
    the stamp.
    """
    return (
        name
        if name in registry.round_names() and registry.kind_of_round(name) == "podium"
        else PODIUM
    )


def of_loadgen(head: bytes, summary: bool = False) -> Witness | None:
    """Read LoadGen's seed; without a round's own seed a summary gives no evidence, and a text
    detail log belongs to v0.5 or v0.7 by its date.
    """
    version, seed = VERSION.search(head), SEED.search(head)
    if version is None and seed is None:
        return None
    name = SEEDS.get(int(seed[1])) if seed else None
    told = f"LoadGen {version[1].decode('latin-1')}" if version else "LoadGen's summary"
    seen = f"{told} with qsl_rng_seed {int(seed[1])}" if seed else told
    if name is not None:
        round_name = f"inference-{name}"
        return Witness(
            round_name if round_name in registry.round_names() else None,
            f"{seen}, that of MLPerf Inference {name}",
        )
    if summary:
        return None
    if head.startswith(b":::MLLOG"):
        return Witness(None, seen, sure=False)
    tested = TESTED.search(head)
    return Witness(
        "inference-v0.7" if tested and tested[1].decode() >= FORMER else "inference-v0.5",
        seen,
        sure=False,
    )


def of_training(head: bytes, path: Path) -> Witness:
    """Read the date and benchmark of a training log in v0.7's dialect, which all later rounds
    share.
    """
    times = [int(number) // (1 if unit == b"s" else 1000) for unit, number in TIME.findall(head)]
    began = next((seconds for seconds in times if seconds >= MLLOG_SINCE_S), None)
    benchmark = BENCHMARK.search(head)
    name = shown(benchmark[1]) if benchmark else ""
    seen = f"a training log{f' of {name}' if name else ''}{f' from {day(began)}' if began else ''}"
    unset = bool(times) and began is None
    logs = (Told(began, benchmark_of(name), unset, str(path.parent)),)
    return Witness(
        round_of(logs), seen + " whose clock was not set" * unset, sure=began is not None, logs=logs
    )


def first_record(path: Path) -> bytes:
    """Read from the first record on; a document or summary has no record and is read from its
    start; empty if reading fails.
    """
    try:
        with opened(path) as stream:
            block = stream.read(CHUNK)
            if path.name == SUMMARY or path.suffix == ".json":
                return block
            while not (match := RECORD.search(block)) and stream.tell() < READ_LIMIT:
                more = stream.read(CHUNK)
                if not more:
                    return b""
                block = block[-HEAD:] + more
            if match is None:
                return b""
            return block[match.start() :] + stream.read(HEAD)
    except (OSError, ValueError):
        return b""
