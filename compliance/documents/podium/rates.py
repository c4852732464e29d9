"""Studies of rates: speed alone, and the search for a peak; `study.json` with the LoadGen runs
behind it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from compliance.documents.headline import indexed
from compliance.documents.podium.inference import RECORD, RUN_FIELDS
from compliance.documents.podium.training import finite
from compliance.logs.loadgen import query_times
from compliance.logs.mllog import mllog_lines
from compliance.logs.mllog.mllog_lines import Record
from compliance.logs.source_file import SourceFile, read_document
from compliance.recognition.tree_path import folders, homes, is_file, performance_runs
from compliance.verdict import Fault
from suite.files.layout import DETAIL, PARTIAL, QUERIES, RUN_RECORD, stays_inside
from suite.files.untrusted_files import UnreadableError, read
from suite.records import RunRecord
from suite.rounds import Round
from suite.studies.documents import STUDY
from suite.studies.rates import (
    PEAK,
    SPEED,
    TRIAL,
    Peak,
    Speed,
    SpeedRow,
    Stamps,
    Trial,
    TrialRecord,
)

D = TypeVar("D", Peak, Speed)
PEAKS: Final = msgspec.json.Decoder(Peak)
SPEEDS: Final = msgspec.json.Decoder(Speed)
TRIALS: Final = msgspec.json.Decoder(TrialRecord)
STAMPED: Final = (
    "workload",
    "profile",
    "checkpoint_sha256",
    "engine",
    "precision",
    "framework",
    "device",
    "threads",
    "system",
    "version",
)
"""What a run's record says of system and weights too."""
FIELDS: Final[Mapping[Any, frozenset[str]]] = {
    kind: frozenset(each.name for each in fields(kind)) for kind in (Peak, Speed, TrialRecord)
}


class Kinded(msgspec.Struct, frozen=True):
    """What every study says of itself."""

    kind: str = ""


KINDS: Final = msgspec.json.Decoder(Kinded)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRun:
    """One LoadGen run of a study of rates."""

    told: SpeedRow | Trial
    """The run's row in the table."""
    folder: Path
    record: RunRecord | None
    trial: TrialRecord | None
    """Of a search; None of speed alone."""
    index: Mapping[str, Sequence[Record]]
    """Key in the detail log -> its records."""
    latencies_ns: Any
    """Of the queries in order of issue, an array; None without the record of queries."""

    def value(self, key: str) -> Any:
        """Return the first value of a key in the detail log; None if there is none."""
        return self.index[key][0].value if key in self.index else None

    def number(self, key: str) -> float | None:
        """Return a detail-log value as a finite number, or None."""
        value = self.value(key)
        return float(value) if finite(value) else None

    def fault(self, found: str, required: str, file: str = DETAIL, key: str = "") -> Fault:
        """Build a Fault for this run, at the line of a key."""
        return Fault(
            file=self.folder / file,
            line=self.index[key][0].line if key in self.index else None,
            found=found,
            required=required,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RateStudy(Generic[D]):
    """A study of rates with its runs."""

    folder: Path
    study: D
    runs: Sequence[RateRun]
    folders: Sequence[str]
    """Folders with the record of a trial, or of a performance run of these weights on this system,
    relative to the study's.
    """
    round: Round

    def fault(self, found: str, required: str) -> Fault:
        """Build a Fault for the table."""
        return Fault(file=self.folder / STUDY, found=found, required=required)


class PeakFile(RateStudy[Peak]):
    """A search for the peak with its runs."""


class SpeedFile(RateStudy[Speed]):
    """Speed alone, with its runs."""


AnyRates: TypeAlias = PeakFile | SpeedFile


def kind_of(folder: Path) -> str:
    """Return the kind that a study says it is; empty if it cannot be read."""
    try:
        return read(folder / STUDY, KINDS.decode).kind
    except UnreadableError:
        return ""


def read_rates(folder: Path, round: Round, sources: list[SourceFile]) -> AnyRates | None:
    """Read a study of rates; None if its table cannot be read. Files that were read are appended to
    `sources`.
    """
    table = SourceFile(folder / STUDY)
    sources.append(table)
    if kind_of(folder) == PEAK:
        peak = read_document(table, PEAKS, FIELDS[Peak])
        return (
            None
            if peak is None
            else PeakFile(
                folder=folder,
                study=peak,
                runs=runs_of(folder, peak.trials, sources),
                folders=trials_in(folder),
                round=round,
            )
        )
    speed = read_document(table, SPEEDS, FIELDS[Speed])
    if speed is None:
        return None
    served = served_in(folder, speed.stamps)
    return SpeedFile(
        folder=folder,
        study=speed,
        runs=runs_of(folder, speed.rows, sources),
        folders=served,
        round=round,
    )


def trials_in(folder: Path) -> tuple[str, ...]:
    """Return the folders of a study that hold a trial; what is unfinished is none."""
    below = [each for system in folders(folder) for each in folders(system)]
    return tuple(
        each.relative_to(folder).as_posix()
        for each in below
        if is_file(each / TRIAL) and not each.name.endswith(PARTIAL)
    )


def served_in(folder: Path, stamps: Stamps) -> tuple[str, ...]:
    """Return the performance runs in a study's folder that are of its system and weights."""
    scenarios = (
        each
        for home in homes(folder)
        for system in folders(home / "results")
        for bench in folders(system)
        for each in folders(bench)
    )
    runs = (run for scenario in scenarios for run in performance_runs(scenario))
    return tuple(run.relative_to(folder).as_posix() for run in runs if is_of(run, stamps))


def is_of(run: Path, stamps: Stamps) -> bool:
    """Tell whether a run's record has these stamps; of one that cannot be read nothing is known."""
    try:
        record = read(run / RUN_RECORD, RECORD.decode)
    except UnreadableError:
        return False
    return all(getattr(record, name) == getattr(stamps, name) for name in STAMPED)


def runs_of(
    folder: Path, rows: Sequence[SpeedRow | Trial], sources: list[SourceFile]
) -> tuple[RateRun, ...]:
    """Read the runs that a table names."""
    return tuple(
        read_run(row, folder / row.folder, sources)
        for row in rows
        if row.folder and stays_inside(row.folder)
    )


def read_run(told: SpeedRow | Trial, folder: Path, sources: list[SourceFile]) -> RateRun:
    """Read one run."""
    detail, record, trial, times = (
        SourceFile(folder / name) for name in (DETAIL, RUN_RECORD, TRIAL, QUERIES)
    )
    index = indexed(list(mllog_lines.read(detail)))
    searched = isinstance(told, Trial)
    sources += [detail, record, *([trial] if searched else [])]
    queries = None
    if is_file(folder / QUERIES):
        sources.append(times)
        queries = query_times.read(times)
    return RateRun(
        told=told,
        folder=folder,
        record=read_document(record, RECORD, RUN_FIELDS),
        trial=read_document(trial, TRIALS, FIELDS[TrialRecord]) if searched else None,
        index=index,
        latencies_ns=queries.done_ns - queries.issued_ns if queries is not None else None,
    )


def is_rates(folder: Path) -> bool:
    """Tell whether a study is one of rates."""
    return kind_of(folder) in (PEAK, SPEED)
