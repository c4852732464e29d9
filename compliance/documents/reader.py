"""Reads a location in a submission tree once, together with the files elsewhere in the tree that it
refers to.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from compliance.documents import unjudged_files
from compliance.documents.podium import power
from compliance.documents.podium.audit import Audit, read_audit
from compliance.documents.podium.checkpoint import CheckpointFile, read_checkpoint
from compliance.documents.podium.conditions import Conditions, of_training
from compliance.documents.podium.inference import (
    InferenceEntry,
    LoadGenRun,
    mode_of,
    read_measurements,
    read_run,
    read_scores,
)
from compliance.documents.podium.ledger import LedgerFile, read_ledger
from compliance.documents.podium.power import PoweredRun
from compliance.documents.podium.power_session import MeasuredSession
from compliance.documents.podium.submission import Submission
from compliance.documents.podium.system_description import SystemFile, read_system
from compliance.documents.podium.training import TrainingLog, TrainingSet, read_log
from compliance.logs import telemetry
from compliance.logs.source_file import Kind, SourceFile
from compliance.recognition.tree_path import (
    TRAINING_TELEMETRY,
    Place,
    folders,
    is_file,
    is_folder,
    performance_runs,
    scenario_of,
    training_logs,
    training_telemetry,
    unfinished,
)
from compliance.verdict import Severity
from suite import registry
from suite.errors import PodiumError
from suite.files.layout import ACCURACY_TEXT, CHECKPOINT_RECORD, CHECKPOINTS
from suite.loadgen.scenario import Scenario
from suite.measurement.mlperf_power.session import FILES, beside
from suite.rounds import Round
from suite.terms import Division
from suite.workload import Mode, Scores

DAMAGE: Final = (
    ValueError,
    LookupError,
    OSError,
    ArithmeticError,
    TypeError,
    MemoryError,
    RecursionError,
    struct.error,
)
"""Exceptions that a scorer may raise: answers and truth are untrusted bytes."""


class Library:
    """Documents by path; `sources` collects the files behind a document, to be judged as files."""

    def __init__(self, round: Round, truth: Path | None) -> None:
        self.round, self.truth = round, truth
        self.logs: dict[Path, TrainingLog] = {}
        self.sources: dict[Path, list[SourceFile]] = {}
        self.ledgers: dict[Path, LedgerFile] = {}

    def read(self) -> Iterator[Path]:
        """Yield every file that was read or looked for, except those of LoadGen runs."""
        yield from self.logs
        yield from (source.path for sources in self.sources.values() for source in sources)

    def log(self, path: Path, place: Place | None) -> TrainingLog:
        """Read a training log."""
        if path not in self.logs:
            self.logs[path] = read_log(path, self.round, place)
        return self.logs[path]

    def set(self, folder: Path, place: Place | None) -> TrainingSet:
        """Read a training set."""
        logs = [self.log(path, place) for path in training_logs(folder)]
        return TrainingSet(
            folder=folder,
            logs=logs,
            unfinished=tuple(unfinished(folder)),
            strays=tuple(unjudged_files.in_set(folder)),
            place=place,
        )

    def conditions(self, folder: Path) -> Iterator[tuple[SourceFile, Conditions | None]]:
        """Read the telemetry of a set, one per run and node; None if there is no log of that
        number.
        """
        logs = {log.number: log for path, log in self.logs.items() if path.parent == folder}
        for path in training_telemetry(folder):
            source = SourceFile(path, leniency=dict.fromkeys(Kind, Severity.WARNING))
            self.sources[path] = [source]
            match = TRAINING_TELEMETRY.fullmatch(path.name)
            log = logs.get(int(match[1])) if match else None
            if log is None:
                source.add(
                    Kind.FOREIGN,
                    "telemetry of a run that has no log",
                    "the log of the same number beside it",
                )
            yield source, of_training(log, telemetry.read(source)) if log else None

    def powered(self, group: TrainingSet) -> Iterator[PoweredRun]:
        """Read the power of a set's runs: of each log the first node's, which the log tells, then
        the other nodes'.
        """
        for log in group.logs:
            first = group.folder / f"telemetry_{log.number}.jsonl"
            others = (
                path
                for path in training_telemetry(group.folder)
                if path.name.startswith(f"{first.stem}_node")
            )
            found = (
                power.of_training(log, first),
                *(power.of_training(log, path, node=True) for path in others),
            )
            yield from (each for each in found if each)

    def session(self, run: LoadGenRun) -> MeasuredSession | None:
        """Return the MLPerf Power session beside a performance run; None without one."""
        session = beside(run.folder) if run.performance else None
        if session is None:
            return None
        self.sources[session.spl] = [SourceFile(session.path(name)) for name in FILES]
        return MeasuredSession(session=session)

    def system(self, path: Path, place: Place | None) -> SystemFile | None:
        """Read a system description."""
        source = SourceFile(path)
        self.sources[path] = [source]
        return read_system(source, place, self.round)

    def run(self, folder: Path) -> LoadGenRun:
        """Read a LoadGen run; its scenario is the name of the folder two or three levels up."""
        mode = mode_of(folder)
        above = folder.parent if mode is Mode.ACCURACY else folder.parent.parent
        return read_run(folder, mode, scenario_of(above.name), self.round)

    def entry(self, folder: Path, place: Place | None) -> InferenceEntry:
        """Read an inference entry with its training logs, truth, measurements and system
        description.
        """
        accuracy = self.run(folder / "accuracy") if is_folder(folder / "accuracy") else None
        performance = tuple(self.run(path) for path in performance_runs(folder))
        sources: list[SourceFile] = []
        text = SourceFile(folder / "accuracy" / ACCURACY_TEXT)
        measurements, measured = read_measurements(place, sources)
        found = InferenceEntry(
            folder=folder,
            scenario=scenario_of(folder.name),
            accuracy=accuracy,
            performance=performance,
            unfinished=(*unfinished(folder), *unfinished(folder / "performance")),
            strays=tuple(unjudged_files.in_entry(folder)),
            accuracy_text=read_scores(text) if accuracy else {},
            measurements=measurements,
            measurements_path=measured,
            system=self.system(place.system_file, place) if place and place.system_file else None,
            origins=(),
            truth=None,
            scores=None,
            unscored=None,
            place=place,
            round=self.round,
        )
        self.sources[folder] = [*sources, *([text] if accuracy else [])]
        found = replace(found, origins=tuple(self.origins(found)), truth=self.truth_of(found))
        scores, problem = score(found)
        return replace(found, scores=scores, unscored=problem)

    def audit(self, folder: Path, scenario: Scenario | None, entry: InferenceEntry | None) -> Audit:
        """Read a compliance test of an entry."""
        found = read_audit(folder, scenario, entry, self.round)
        copied = [SourceFile(found.copy)] if is_file(found.copy) else []
        self.sources[folder] = [
            *found.sources,
            *copied,
            *(source for run in found.runs for source in run.sources),
        ]
        return found

    def origins(self, entry: InferenceEntry) -> Iterator[TrainingLog]:
        """Yield the training logs in the tree that name the entry's checkpoint."""
        row = self.round.benchmarks.get(entry.workload or "")
        if entry.place is None or entry.record is None or row is None:
            return
        for home in homes_beside(entry.place.home):
            for system in folders(home / "results"):
                place = Place(home=home, system=system.name, benchmark=row.training_name)
                logs = (self.log(path, place) for path in training_logs(system / row.training_name))
                yield from (log for log in logs if log.checkpoint == entry.record.checkpoint_sha256)

    def truth_of(self, entry: InferenceEntry) -> Path | None:
        """Find the labels or references in the tree, else those that the user gave.

        The workload name in a record is untrusted and may be a path, in which case there is no
        truth.
        """
        if not entry.workload or "/" in entry.workload or entry.workload.startswith("."):
            return None
        packed = [entry.place.home / "truth" / entry.workload] if entry.place else []
        given = (
            [self.truth / "truth" / entry.workload, self.truth / entry.workload, self.truth]
            if self.truth
            else []
        )
        return next((folder for folder in (*packed, *given) if is_folder(folder)), None)

    def ledger(self, path: Path, submission: Submission, sealed: bool) -> LedgerFile:
        """Read a ledger, with the results that it must account for."""
        source = SourceFile(path)
        self.sources[path] = [source]
        self.ledgers[path] = read_ledger(source, submission, sealed)
        return self.ledgers[path]

    def checkpoints(self, tree: Path) -> Iterator[Path]:
        """Yield the checkpoint folders of a results folder."""
        for workload in folders(tree / CHECKPOINTS):
            yield from folders(workload)

    def checkpoint(self, folder: Path) -> CheckpointFile | None:
        """Read the record of a checkpoint."""
        source = SourceFile(folder / CHECKPOINT_RECORD)
        self.sources[folder] = [source]
        tree = folder.parents[2]  # the only tree whose logs it is compared with
        return read_checkpoint(
            source,
            tuple(log for path, log in self.logs.items() if path.is_relative_to(tree)),
            self.round,
        )


def homes_beside(home: Path) -> Sequence[Path]:
    """Return an organisation's folders in both divisions, its own first."""
    names = [division.value for division in Division]
    others = (
        [home.parent.parent / name / home.name for name in names]
        if home.parent.name in names
        else []
    )
    return [home, *(other for other in others if other != home and is_folder(other))]


def score(entry: InferenceEntry) -> tuple[Scores | None, str | None]:
    """Score the accuracy log with the workload's scorer; if that fails, return None and the
    reason.
    """
    if entry.accuracy is None or entry.workload is None:
        return None, "no accuracy run with a record"
    if entry.truth is None:
        return None, "no ground truth in the tree, and none given with --truth"
    if odd := [
        path.name for path in entry.truth.rglob("*") if not is_file(path) and not is_folder(path)
    ]:
        return None, f"{odd[0]} in the truth is no plain file"  # opening a pipe would block forever
    try:
        scorer = registry.scorer(entry.workload)
        return dict(scorer(entry.accuracy.answers, entry.truth)), None
    except PodiumError as error:
        return None, str(error)
    except DAMAGE as error:
        return None, f"the scorer cannot read the answers: {type(error).__name__}: {error}"
