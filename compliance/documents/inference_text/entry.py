"""Published inference results: one LoadGen run, and an entry with everything that belongs to it."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from compliance.documents.inference_text.entry_files import Claims, MeasurementsFolder
from compliance.documents.inference_text.top1 import Top1
from compliance.logs.loadgen import legacy_summary
from compliance.logs.loadgen.accuracy_counts import AnswerCounts
from compliance.logs.loadgen.legacy_detail import (
    GeneratedQuerySet,
    LegacyDetailLog,
    LegacyRunPhase,
    LoadedSampleSet,
    normalise_test_mode,
)
from compliance.logs.loadgen.legacy_detail import LegacyTestMode as LoadGenMode
from compliance.logs.loadgen.legacy_summary import LegacySummary
from compliance.logs.source_file import SourceFile
from compliance.recognition.path_kind import has_loadgen_logs
from compliance.recognition.tree_path import list_subfolders, match_scenario_folder
from compliance.verdict import About, Fault, Severity
from suite.files.layout import SUMMARY_LOG
from suite.loadgen.scenario import Scenario
from suite.rounds.inference_text import (
    InferenceTextBenchmark,
    InferenceTextRound,
    InferenceTextScenario,
)
from suite.workload import Mode

RUN_FOLDER_PATTERN: re.Pattern[str] = re.compile(r"run_?(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPosition:
    """A result's position in a submission tree."""

    organisation_folder: Path
    """`<division>/<org>`."""
    division: str | None
    """closed or open, from the folder; None if the tree has no such level."""
    system: str
    model: str
    """The benchmark's folder."""
    scenario: str
    """The scenario's folder."""

    @property
    def org(self) -> str:
        """Return the organisation's folder."""
        return self.organisation_folder.name

    @property
    def parts(self) -> tuple[str, str, str]:
        """Return the three levels below results, measurements and audit."""
        return self.system, self.model, self.scenario


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextRun:
    """One LoadGen run: its folder's files, and the round that judges it."""

    document_name: ClassVar[str] = "a LoadGen run"

    folder: Path
    mode: Mode
    """From the folder name."""
    scenario: Scenario | None
    """From the folder, else from the log."""
    benchmark: str | None
    closed: bool
    summary: LegacySummary
    detail: LegacyDetailLog
    tally: AnswerCounts
    summary_source: SourceFile
    detail_source: SourceFile
    accuracy_source: SourceFile
    round: InferenceTextRound

    @property
    def performance(self) -> bool:
        """Return whether the folder is that of a performance run."""
        return self.mode is Mode.PERFORMANCE

    @property
    def row(self) -> InferenceTextBenchmark | None:
        """Return the benchmark's row in the round."""
        return self.round.benchmarks.get(self.benchmark) if self.benchmark else None

    @property
    def rule(self) -> InferenceTextScenario | None:
        """Return the round's requirements for the scenario."""
        return (
            self.round.find_scenario_rules(self.benchmark, self.scenario) if self.scenario else None
        )

    @property
    def logged_mode(self) -> str | None:
        """Return LoadGen's requested mode, from the log."""
        stated = self.detail.effective.get("Test mode") or self.summary.values.get("Mode")
        return normalise_test_mode(stated.text) if stated else None

    @property
    def logged_scenario(self) -> Scenario | None:
        """Return the scenario in the log, else in the summary."""
        stated = self.detail.effective.get("Scenario") or self.summary.values.get("Scenario")
        return match_scenario_folder(stated.text.replace(" ", "")) if stated else None

    @property
    def phase(self) -> LegacyRunPhase | None:
        """Return the half of the log that matches the folder's mode."""
        return self.detail.find_phase(
            LoadGenMode.PERFORMANCE if self.performance else LoadGenMode.ACCURACY
        )

    @property
    def generated(self) -> GeneratedQuerySet | None:
        """Return the queries that a performance run generated."""
        phase = self.detail.find_phase(LoadGenMode.PERFORMANCE)
        return phase.generated[-1] if phase and phase.generated else None

    @property
    def loaded(self) -> LoadedSampleSet | None:
        """Return the samples that a performance run had in memory."""
        phase = self.detail.find_phase(LoadGenMode.PERFORMANCE)
        return phase.loaded[-1] if phase and phase.loaded else None

    def find_setting(self, name: str) -> float | None:
        """Return an effective setting as a number, from the detail log, else from the summary."""
        value = self.detail.effective.get(name) or self.summary.parameters.get(name)
        try:
            return float(value.text) if value else None
        except ValueError:
            return None

    def find_setting_line(self, name: str) -> int | None:
        """Return the line of an effective setting in the detail log."""
        value = self.detail.effective.get(name)
        return value.line if value else None

    def build_detail_fault(
        self, found: str, required: str, line: int | None = None, severity: Severity | None = None
    ) -> Fault:
        """Build a Fault for the detail log."""
        return Fault(
            file=self.detail_source.path,
            line=line,
            found=found,
            required=required,
            severity=severity,
        )

    def build_summary_fault(
        self, name: str, found: str, required: str, severity: Severity | None = None
    ) -> Fault:
        """Build a Fault for a value of the summary."""
        return Fault(
            file=self.summary_source.path,
            line=self.summary.find_line(name),
            found=found,
            required=required,
            severity=severity,
        )

    def build_answers_fault(
        self, found: str, required: str, line: int | None = None, severity: Severity | None = None
    ) -> Fault:
        """Build a Fault for the accuracy log."""
        return Fault(
            file=self.accuracy_source.path,
            line=line,
            found=found,
            required=required,
            severity=severity,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextAuditTest:
    """One compliance test of an entry, as submitted."""

    document_name: ClassVar[str] = "a compliance test of an inference entry"

    folder: Path
    name: str
    """TEST01, TEST03, TEST04-A, TEST04-B or TEST05."""
    run: TextRun | None
    compared_run: TextRun | None
    """The run that the test is compared with: TEST04-A's for TEST04-B; None means the entry's
    runs.
    """
    answers: AnswerCounts | None
    """TEST01's log of answers; None if there is none."""
    verdicts: Sequence[SourceFile]
    """The files that state the test's outcome."""
    claims: Mapping[str, Claims]
    """File in accuracy/ -> the score it claims for the answers of a performance run, or for the
    same samples in the accuracy run.
    """
    top1: Top1 | None
    """Recomputed from those answers; None if that is impossible."""
    entry: "TextEntry"
    round: InferenceTextRound


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextEntry:
    """One scenario of a benchmark on a system: accuracy and performance runs, and all its submitted
    files.
    """

    document_name: ClassVar[str] = "an inference entry"

    folder: Path
    position: EntryPosition | None
    """None outside a submission tree."""
    benchmark: str | None
    scenario: Scenario | None
    accuracy: TextRun | None
    performance: Sequence[TextRun]
    claims: Claims
    top1: Top1 | None
    """Recomputed top-1; None if that is impossible."""
    top1_problem: str | None
    """Why it could not be recomputed."""
    measurements: MeasurementsFolder | None
    system_file: Path | None
    """Path of the system description; None outside a tree."""
    system_type: str | None
    """The kind of system in its description; None if not stated."""
    audit: Path | None
    """Folder of its compliance tests; None if there are none."""
    unexpected_folders: Sequence[Path]
    """Unexpected folders among its runs."""
    round: InferenceTextRound

    @property
    def closed(self) -> bool:
        """Return whether it was submitted to the closed division."""
        return self.position is not None and self.position.division == "closed"

    @property
    def row(self) -> InferenceTextBenchmark | None:
        """Return the benchmark's row in the round."""
        return self.round.benchmarks.get(self.benchmark) if self.benchmark else None

    @property
    def rule(self) -> InferenceTextScenario | None:
        """Return the round's requirements for the scenario."""
        return (
            self.round.find_scenario_rules(self.benchmark, self.scenario) if self.scenario else None
        )

    @property
    def inferred(self) -> bool:
        """Return whether its result is inferred from SingleStream logs."""
        return self.scenario in self.round.loadgen.inferred and any(
            run.scenario is Scenario.SINGLE_STREAM for run in self.performance
        )

    @property
    def runs(self) -> Sequence[TextRun]:
        """Return all LoadGen runs."""
        return [*([self.accuracy] if self.accuracy else []), *self.performance]

    def build_fault(
        self,
        found: str,
        required: str,
        file: Path | None = None,
        line: int | None = None,
        severity: Severity | None = None,
        *,
        about: About | None = None,
    ) -> Fault:
        """Build a Fault for this entry."""
        return Fault(
            file=file or self.folder,
            line=line,
            found=found,
            required=required,
            severity=severity,
            about=about,
        )


class EntryHeadline(NamedTuple):
    """The result of an entry."""

    metric: str
    """As named in LoadGen's summary."""
    value: float
    unit: str
    """ns, samples/query, queries/s or samples/s."""
    runs: tuple[float, ...]
    """The value of each performance run that has one; the lowest counts."""
    inferred: bool = False
    """Whether it was computed from SingleStream's logs."""


SUMMARY_HEADLINES = {
    Scenario.SINGLE_STREAM: ("90th percentile latency", "ns"),
    Scenario.MULTI_STREAM: ("Samples per query", "samples/query"),
    Scenario.SERVER: ("Scheduled samples per second", "queries/s"),
    Scenario.OFFLINE: ("Samples per second", "samples/s"),
}
"""Scenario -> its result in the summary. Source: mlcommons/inference, submission-checker.py,
RESULT_FIELD.
"""


def read_entry_headline(
    entry: Path, round: InferenceTextRound | None = None
) -> EntryHeadline | None:
    """Read the result of an entry's folder from the summaries of its performance runs, by the
    round's rules; None if there is none.

    Source: inference_rules.adoc v0.5, Scenarios: of Server's five runs the lowest result counts.
    """
    summaries = [
        legacy_summary.read_legacy_summary(SourceFile(run / SUMMARY_LOG))
        for run in find_performance_folders(entry)
    ]
    logged = next(
        (
            scenario_stated
            for each in summaries
            if (scenario_stated := parse_summary_scenario(each))
        ),
        None,
    )
    scenario = match_scenario_folder(entry.name) or logged
    if scenario is None:
        return None
    metric, unit = SUMMARY_HEADLINES[scenario]
    inferred = bool(
        round and scenario in round.loadgen.inferred and logged is Scenario.SINGLE_STREAM
    )
    if round and inferred:
        rule = round.find_scenario_rules(round.find_benchmark(entry.parent.name, None), scenario)
        values = [
            value
            for each in summaries
            if (value := compute_inferred_summary_result(each, scenario, rule)) is not None
        ]
    else:
        values = [value for each in summaries if (value := each.find_number(metric)) is not None]
    return EntryHeadline(metric, min(values), unit, tuple(values), inferred) if values else None


def compute_inferred_summary_result(
    summary: LegacySummary, scenario: Scenario, rule: InferenceTextScenario | None
) -> float | None:
    """Infer a result from SingleStream's: Offline's rate is that of its queries; MultiStream's is
    the number of queries in an interval.

    Source: mlcommons/inference, tools/submission/submission-checker.py of branch r0.7,
    check_results_dir.
    """
    if scenario is Scenario.OFFLINE:
        return summary.find_number("QPS w/o loadgen overhead")
    latency = summary.find_number(SUMMARY_HEADLINES[Scenario.SINGLE_STREAM][0])
    return float(rule.bound_ns // latency) if latency and rule and rule.bound_ns else None


def parse_summary_scenario(summary: LegacySummary) -> Scenario | None:
    """Return the scenario stated in a summary."""
    stated = summary.values.get("Scenario")
    return match_scenario_folder(stated.text.replace(" ", "")) if stated else None


def find_child_ignoring_case(folder: Path, name: str) -> Path | None:
    """Find a file or folder by name, ignoring case if there is no exact match."""
    if os.path.lexists(folder / name):
        return folder / name
    try:
        return next(
            (each for each in sorted(folder.iterdir()) if each.name.casefold() == name.casefold()),
            None,
        )
    except OSError:
        return None


def find_performance_folders(entry: Path) -> Iterator[Path]:
    """Yield the folders of an entry's performance runs by number; the logs may also be directly in
    performance/.
    """
    parent = find_child_ignoring_case(entry, "performance")
    if parent is None:
        return
    found = [
        (int(match[1][:9]), folder)
        for folder in list_subfolders(parent)
        if (match := RUN_FOLDER_PATTERN.fullmatch(folder.name.casefold()))
    ]
    yield from (folder for _, folder in sorted(found))
    if not found and has_loadgen_logs(parent):
        yield parent
