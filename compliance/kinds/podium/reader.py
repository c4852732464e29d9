"""Read a location in a submission tree once, together with the files elsewhere in the tree that it
refers to.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from compliance.kinds.podium.documents import power, unjudged_files
from compliance.kinds.podium.documents.audit import Audit, read_audit
from compliance.kinds.podium.documents.checkpoint import CheckpointFile, read_checkpoint_file
from compliance.kinds.podium.documents.conditions import RunConditions, build_training_conditions
from compliance.kinds.podium.documents.inference import (
    InferenceEntry,
    LoadGenRun,
    parse_run_mode,
    read_accuracy_scores,
    read_loadgen_run,
    read_measurements_file,
)
from compliance.kinds.podium.documents.ledger import (
    LedgerFile,
    read_counted_files,
    read_ledger,
)
from compliance.kinds.podium.documents.power import RunPower
from compliance.kinds.podium.documents.power_session import MeasuredSession
from compliance.kinds.podium.documents.submission import Submission
from compliance.kinds.podium.documents.system_description import SystemFile, read_podium_system
from compliance.kinds.podium.documents.training import TrainingLog, TrainingSet, read_training_log
from compliance.logs import telemetry
from compliance.logs.source_file import ParseErrorKind, SourceFile
from compliance.logs.telemetry import TelemetryFile
from compliance.recognition.tree_path import (
    TRAINING_TELEMETRY_PATTERN,
    TreePosition,
    is_file,
    is_folder,
    iterate_performance_runs,
    iterate_subfolders,
    iterate_training_telemetry,
    iterate_unfinished_results,
    list_training_logs,
    locate_in_tree,
    match_organisation_folder,
    match_scenario_folder,
)
from compliance.verdict import Severity
from suite import registry
from suite.errors import PodiumError
from suite.files.layout import (
    ACCURACY_TEXT,
    CHECKPOINT_RECORD,
    CHECKPOINTS_FOLDER,
    find_owning_results,
    is_inside_folder,
    locate_ledger_file,
)
from suite.loadgen.scenario import Scenario
from suite.measurement.mlperf_power.session import SESSION_FILES, find_imported_session
from suite.rounds import Round
from suite.studies.answered_set import SCORER_EXCEPTIONS
from suite.terms import Division
from suite.workload import Mode, Scores

CHECKPOINT_NAME: Final = re.compile("[0-9a-f]{64}")
"""Name of a checkpoint's folder: the SHA-256 of its weights."""


class DocumentLibrary:
    """Documents by path; `sources` collects the files behind a document, to be judged as files."""

    def __init__(self, round: Round, truth: Path | None) -> None:
        self.round, self.truth = round, truth
        self.logs: dict[Path, TrainingLog] = {}
        self.sources: dict[Path, list[SourceFile]] = {}
        self.ledgers: dict[Path, LedgerFile] = {}
        self.counted_files: dict[Path, frozenset[str]] = {}
        """Ledger -> the files that its steps made."""

    def iterate_read_files(self) -> Iterator[Path]:
        """Yield every file that was read or looked for, except those of LoadGen runs."""
        yield from self.logs
        yield from (source.path for sources in self.sources.values() for source in sources)

    def read_log(self, path: Path, place: TreePosition | None) -> TrainingLog:
        """Read a training log."""
        if path not in self.logs:
            self.logs[path] = read_training_log(path, self.round, place)
        return self.logs[path]

    def read_set(self, folder: Path, place: TreePosition | None) -> TrainingSet:
        """Read a run set."""
        return TrainingSet(
            folder=folder,
            logs=self.remember_set_logs(folder, place),
            telemetry={
                path.name: self.read_training_telemetry(path)
                for path in iterate_training_telemetry(folder)
            },
            unfinished=tuple(iterate_unfinished_results(folder)),
            unexpected_files=tuple(unjudged_files.find_unexpected_set_files(folder)),
            place=place,
        )

    def remember_set_logs(self, folder: Path, place: TreePosition | None) -> list[TrainingLog]:
        """Read the logs of a run set, and keep them for documents that refer to them."""
        return [self.read_log(path, place) for path in list_training_logs(folder)]

    def read_training_telemetry(self, path: Path) -> TelemetryFile:
        """Read the telemetry of a training run on one node."""
        source = SourceFile(path, leniency=dict.fromkeys(ParseErrorKind, Severity.WARNING))
        self.sources[path] = [source]
        return telemetry.read_telemetry_file(source)

    def iterate_set_conditions(
        self, group: TrainingSet
    ) -> Iterator[tuple[SourceFile, RunConditions | None]]:
        """Yield the telemetry of a set, one per run and node; None if no log has that number."""
        logs = {log.number: log for log in group.logs}
        for name, found in group.telemetry.items():
            source = found.source
            match = TRAINING_TELEMETRY_PATTERN.fullmatch(name)
            log = logs.get(int(match[1])) if match else None
            if log is None:
                source.add_parse_error(
                    ParseErrorKind.FOREIGN,
                    "telemetry of a run without a log",
                    "the log with the same number beside it",
                )
                yield source, None
                continue
            yield source, build_training_conditions(log, found)

    def read_run_powers(self, group: TrainingSet) -> Iterator[RunPower]:
        """Read the power of a set's runs: for each log the first node's, which the log claims, then
        the other nodes'.
        """
        for log in group.logs:
            first = group.folder / f"telemetry_{log.number}.jsonl"
            others = (
                path
                for path in iterate_training_telemetry(group.folder)
                if path.name.startswith(f"{first.stem}_node")
            )
            found = (
                power.build_training_power(log, first),
                *(power.build_training_power(log, path, node=True) for path in others),
            )
            yield from (each for each in found if each)

    def find_power_session(self, run: LoadGenRun) -> MeasuredSession | None:
        """Return the MLPerf Power session beside a performance run; None without one."""
        session = find_imported_session(run.folder) if run.performance else None
        if session is None:
            return None
        self.sources[session.analyzer_log] = [
            SourceFile(session.locate_file(name)) for name in SESSION_FILES
        ]
        return MeasuredSession(session=session)

    def read_system(self, path: Path, place: TreePosition | None) -> SystemFile | None:
        """Read a system description."""
        source = SourceFile(path)
        self.sources[path] = [source]
        return read_podium_system(source, place, self.round)

    def read_run(self, folder: Path) -> LoadGenRun:
        """Read a LoadGen run; its scenario is the name of the folder two or three levels up."""
        mode = parse_run_mode(folder)
        above = folder.parent if mode is Mode.ACCURACY else folder.parent.parent
        return read_loadgen_run(folder, mode, match_scenario_folder(above.name), self.round)

    def read_entry(self, folder: Path, place: TreePosition | None) -> InferenceEntry:
        """Read an inference entry with its training logs, truth, measurements and system
        description.
        """
        accuracy = self.read_run(folder / "accuracy") if is_folder(folder / "accuracy") else None
        performance = tuple(self.read_run(path) for path in iterate_performance_runs(folder))
        sources: list[SourceFile] = []
        text = SourceFile(folder / "accuracy" / ACCURACY_TEXT)
        measurements, measured = read_measurements_file(place, sources)
        system = None
        if place and place.system_file:
            system = self.read_system(place.system_file, place)
        found = InferenceEntry(
            folder=folder,
            scenario=match_scenario_folder(folder.name),
            accuracy=accuracy,
            performance=performance,
            unfinished=(
                *iterate_unfinished_results(folder),
                *iterate_unfinished_results(folder / "performance"),
            ),
            unexpected_paths=tuple(unjudged_files.find_unexpected_entry_files(folder)),
            accuracy_text=read_accuracy_scores(text) if accuracy else {},
            measurements=measurements,
            measurements_path=measured,
            system=system,
            origins=(),
            has_unread_log=False,
            truth=None,
            scores=None,
            unscored=None,
            place=place,
            round=self.round,
        )
        self.sources[folder] = [*sources, *([text] if accuracy else [])]
        logs = list(self.iterate_training_logs(found))
        origins: list[TrainingLog] = []
        if found.record:
            served = found.record.system.checkpoint_sha256
            origins = [log for log in logs if log.checkpoint == served]
        found = replace(
            found,
            origins=tuple(origins),
            has_unread_log=any(log.is_unread for log in logs),
            truth=self.find_truth(found),
        )
        scores, problem = score_inference_entry(found)
        return replace(found, scores=scores, unscored=problem)

    def read_audit(
        self, folder: Path, scenario: Scenario | None, entry: InferenceEntry | None
    ) -> Audit:
        """Read a compliance test of an entry."""
        found = read_audit(folder, scenario, entry, self.round)
        copied = [SourceFile(found.copy)] if is_file(found.copy) else []
        self.sources[folder] = [
            *found.sources,
            *copied,
            *(source for run in found.runs for source in run.sources),
        ]
        return found

    def iterate_training_logs(self, entry: InferenceEntry) -> Iterator[TrainingLog]:
        """Yield the training logs of the entry's workload in the tree."""
        row = self.round.benchmarks.get(entry.workload or "")
        if entry.place is None or entry.record is None or row is None:
            return
        for home in list_division_folders(entry.place.organisation_folder):
            for system in iterate_subfolders(home / "results"):
                place = TreePosition(
                    organisation_folder=home, system=system.name, benchmark=row.training_name
                )
                yield from (
                    self.read_log(path, place)
                    for path in list_training_logs(system / row.training_name)
                )

    def find_truth(self, entry: InferenceEntry) -> Path | None:
        """Find the labels or references in the tree, else those that the user gave.

        The workload name in a record is untrusted and may be a path, in which case there is no
        truth.
        """
        if not entry.workload or "/" in entry.workload or entry.workload.startswith("."):
            return None
        packed = [entry.place.organisation_folder / "truth" / entry.workload] if entry.place else []
        given = []
        if self.truth:
            given = [self.truth / "truth" / entry.workload, self.truth / entry.workload, self.truth]
        return next((folder for folder in (*packed, *given) if is_folder(folder)), None)

    def read_ledger(self, path: Path, submission: Submission, sealed: bool) -> LedgerFile:
        """Read a ledger, with the results that it must account for."""
        source = SourceFile(path)
        self.sources[path] = [source]
        self.ledgers[path] = read_ledger(source, submission, sealed)
        return self.ledgers[path]

    def find_counting_ledger(self, path: Path, workload: str | None) -> str:
        """Return the name of the ledger by which a file of a run is a result; empty if it names no
        such file, and outside of a tree.
        """
        place = locate_in_tree(path, False, match_organisation_folder)
        if place is None or not workload or not is_inside_folder(workload):
            return ""
        results = place.organisation_folder.parent.parent
        home = find_owning_results(results) / place.organisation_folder.relative_to(results)
        ledger = locate_ledger_file(home, workload)
        if ledger not in self.counted_files:
            self.counted_files[ledger] = read_counted_files(ledger)
        if path.relative_to(results).as_posix() not in self.counted_files[ledger]:
            return ""
        return ledger.name

    def iterate_checkpoint_folders(self, tree: Path) -> Iterator[Path]:
        """Yield the checkpoint folders of a results folder, and others with files."""
        for workload in iterate_subfolders(tree / CHECKPOINTS_FOLDER):
            for folder in iterate_subfolders(workload):
                named = CHECKPOINT_NAME.fullmatch(folder.name)
                if named or not unjudged_files.has_no_file(folder):
                    yield folder

    def read_checkpoint(self, folder: Path) -> CheckpointFile | None:
        """Read the record of a checkpoint."""
        source = SourceFile(folder / CHECKPOINT_RECORD)
        self.sources[folder] = [source]
        tree = folder.parents[2]  # the only tree whose logs it is compared with
        return read_checkpoint_file(
            source,
            tuple(log for path, log in self.logs.items() if path.is_relative_to(tree)),
            self.round,
        )


def list_division_folders(organisation_folder: Path) -> Sequence[Path]:
    """Return an organisation's folders in both divisions, its own first."""
    names = [division.value for division in Division]
    others = []
    if organisation_folder.parent.name in names:
        others = [
            organisation_folder.parent.parent / name / organisation_folder.name for name in names
        ]
    return [
        organisation_folder,
        *(other for other in others if other != organisation_folder and is_folder(other)),
    ]


def score_inference_entry(entry: InferenceEntry) -> tuple[Scores | None, str | None]:
    """Score the accuracy log with the workload's scorer; if that fails, return None and the
    reason.
    """
    if entry.accuracy is None or entry.workload is None:
        return None, "no accuracy run with a record"
    if entry.truth is None:
        return None, "no ground truth in the tree or from --truth"
    if odd := [
        path.name for path in entry.truth.rglob("*") if not is_file(path) and not is_folder(path)
    ]:
        return (
            None,
            f"{odd[0]} in the ground truth is not a plain file",
        )  # opening a pipe would block forever
    try:
        scorer = registry.load_scorer(entry.workload)
        return dict(scorer(entry.accuracy.answers, entry.truth)), None
    except PodiumError as error:
        return None, str(error)
    except SCORER_EXCEPTIONS as error:
        return None, f"the scorer cannot read the answers: {type(error).__name__}: {error}"
