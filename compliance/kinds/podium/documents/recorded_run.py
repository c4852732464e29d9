"""A run with the records that podium keeps beside it: which there must be, by the version of podium
that ran it, and which there are.

What a version writes beside every run is as much a part of the result as its logs: without it, a
rule about it has nothing to check.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from compliance.documents.base import Document
from compliance.kinds.podium.documents.inference import LoadGenRun
from compliance.kinds.podium.documents.training import TrainingLog
from compliance.recognition.tree_path import is_file
from suite import events
from suite.files.layout import QUERY_RECORD_FILE, TELEMETRY_FILE, TOKEN_RECORD_FILE

VERSION_PATTERN: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?!\d)")
FIRST_VERSION: Final = "0.2.0"
"""The first version of podium that wrote every record of these tables and a ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRecord:
    """A file that podium writes beside a performance run."""

    name: str
    since: str
    """The first version that writes it."""
    is_due: Callable[[LoadGenRun], bool]
    """Whether podium writes it for such a run."""
    is_readable: Callable[[LoadGenRun], bool]


def has_queries(run: LoadGenRun) -> bool:
    """Return whether the record of queries can be read."""
    return run.queries is not None


def has_tokens(run: LoadGenRun) -> bool:
    """Return whether the record of tokens can be read."""
    return run.tokens is not None


def has_telemetry(run: LoadGenRun) -> bool:
    """Return whether there are readings."""
    found = run.telemetry
    return found is not None and found.is_valid and bool(found.segments)


def is_measured(run: LoadGenRun) -> bool:
    """Return whether it measures performance: podium samples no accuracy run."""
    return run.performance


def is_measured_in_tokens(run: LoadGenRun) -> bool:
    """Return whether LoadGen was told of each answer's tokens."""
    return run.performance and run.measures_tokens


SERVING_RECORDS: Final = (
    ServingRecord(
        name=QUERY_RECORD_FILE, since=FIRST_VERSION, is_due=is_measured, is_readable=has_queries
    ),
    ServingRecord(
        name=TOKEN_RECORD_FILE,
        since=FIRST_VERSION,
        is_due=is_measured_in_tokens,
        is_readable=has_tokens,
    ),
    ServingRecord(
        name=TELEMETRY_FILE, since=FIRST_VERSION, is_due=is_measured, is_readable=has_telemetry
    ),
)
"""Beside a training log that was not aborted there is `telemetry_<n>.jsonl`, and in a tree with
results of a workload its ledger, both since the same version.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentRecord:
    """A record that podium writes, and that is not there or cannot be read."""

    name: str
    is_damaged: bool
    """Whether there is a file."""
    reason: str
    """Why it was not kept, in the run's own words; empty if it does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun(Document):
    """A run that has ended, with the records that it lacks."""

    document_name: ClassVar[str] = "a run with its records"

    path: Path
    """The training log, or the run's folder."""
    version: str
    """Of podium, as the run states it."""
    absent: tuple[AbsentRecord, ...]
    counted_by: str
    """What counts the run as complete: its ledger, or its study; empty if nothing does."""


def is_written_since(version: str, since: str) -> bool:
    """Return whether a version of podium is at least another; one that is no version counts as the
    newest, since nothing excuses it.
    """
    stated, first = map(parse_version, (version, since))
    return stated is None or first is None or stated >= first


def parse_version(text: str) -> tuple[int, ...] | None:
    """Return the three numbers of a version; None for other text."""
    match = VERSION_PATTERN.match(text)
    if match is None:
        return None
    return tuple(int(number or 0) for number in match.groups())


def build_recorded_serving(run: LoadGenRun, counted_by: str) -> RecordedRun | None:
    """Build what a LoadGen run's records are judged by; None without its own record, whose absence
    is an error already.
    """
    if run.record is None:
        return None
    lost, version = run.record.lost, run.record.system.version
    absent = (
        AbsentRecord(
            name=each.name,
            is_damaged=is_file(run.folder / each.name),
            reason=next((words for words in lost if words.startswith(each.name)), ""),
        )
        for each in SERVING_RECORDS
        if is_written_since(version, each.since) and each.is_due(run) and not each.is_readable(run)
    )
    return RecordedRun(
        path=run.folder, version=version, absent=tuple(absent), counted_by=counted_by
    )


def build_recorded_training(
    log: TrainingLog, readable: Collection[Path], counted_by: str
) -> RecordedRun | None:
    """Build what a training run's records are judged by, from the telemetry files of its set that
    can be read; None of a run without a version, which is an error already, or that has not ended,
    or was aborted: its sampler may have died with it.
    """
    version = log.find_value(events.VERSION)
    if not isinstance(version, str) or log.status in (None, events.ABORTED):
        return None
    absent: tuple[AbsentRecord, ...] = ()
    telemetry = log.path.parent / f"telemetry_{log.number}.jsonl"
    if is_written_since(version, FIRST_VERSION) and telemetry not in readable:
        found = AbsentRecord(
            name=telemetry.name,
            is_damaged=is_file(telemetry),
            reason=str(log.find_value(events.TELEMETRY_LOST) or ""),
        )
        absent = (found,)
    return RecordedRun(path=log.path, version=version, absent=absent, counted_by=counted_by)
