"""Published inference results: one LoadGen run, and an entry with everything that belongs to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from compliance.documents.base import FolderDocument
from compliance.documents.loadgen import EntryRun
from compliance.kinds.inference_text.documents.entry_files import Claims, MeasurementsFolder
from compliance.kinds.inference_text.documents.top1 import Top1
from compliance.kinds.inference_text.logs import legacy_summary
from compliance.kinds.inference_text.logs.legacy_detail import (
    GeneratedQuerySet,
    LegacyDetailLog,
    LegacyRunPhase,
    LoadedSampleSet,
    LoggedSetting,
    normalise_test_mode,
    parse_setting_number,
)
from compliance.kinds.inference_text.logs.legacy_detail import LegacyTestMode as LoadGenMode
from compliance.kinds.inference_text.logs.legacy_summary import LegacySummary
from compliance.kinds.inference_text.round import (
    InferenceTextBenchmark,
    InferenceTextRound,
    InferenceTextScenario,
)
from compliance.logs.loadgen.accuracy_counts import AnswerCounts
from compliance.logs.source_file import SourceFile
from compliance.recognition.loadgen_folders import find_performance_folders
from compliance.recognition.tree_path import match_scenario_folder
from suite.files.layout import SUMMARY_LOG
from suite.loadgen.scenario import Scenario


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
class TextRun(EntryRun[LoggedSetting]):
    """One LoadGen run: its folder's files, and the round that judges it."""

    document_name: ClassVar[str] = "a LoadGen run"

    scenario: Scenario | None
    """From the folder, else from the log."""
    benchmark: str | None
    closed: bool
    summary: LegacySummary
    detail: LegacyDetailLog
    tally: AnswerCounts
    detail_source: SourceFile
    accuracy_source: SourceFile
    round: InferenceTextRound

    @property
    def path(self) -> Path:
        """Return the file that faults are about if they name no other."""
        return self.detail_source.path

    @property
    def row(self) -> InferenceTextBenchmark | None:
        """Return the benchmark's row in the round."""
        if self.benchmark:
            return self.round.benchmarks.get(self.benchmark)
        return None

    @property
    def rule(self) -> InferenceTextScenario | None:
        """Return the round's requirements for the scenario."""
        if not self.scenario:
            return None
        return self.round.find_scenario_rules(self.benchmark, self.scenario)

    @property
    def logged_mode(self) -> str | None:
        """Return LoadGen's requested mode, from the log."""
        stated = self.find_record("effective_test_mode") or self.summary.values.get("Mode")
        if stated:
            return normalise_test_mode(stated.text)
        return None

    @property
    def logged_scenario(self) -> Scenario | None:
        """Return the scenario in the log, else in the summary."""
        stated = self.find_record("effective_scenario") or self.summary.values.get("Scenario")
        if stated:
            return match_scenario_folder(stated.text.replace(" ", ""))
        return None

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
        if phase and phase.generated:
            return phase.generated[-1]
        return None

    @property
    def loaded(self) -> LoadedSampleSet | None:
        """Return the samples that a performance run had in memory."""
        phase = self.detail.find_phase(LoadGenMode.PERFORMANCE)
        if phase and phase.loaded:
            return phase.loaded[-1]
        return None

    def find_number(self, key: str) -> float | None:
        """Return a setting as a number, from the detail log, else from the summary."""
        shown = self.summary.parameters.get(key.removeprefix("effective_"))
        return parse_setting_number(self.find_record(key) or shown)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextAuditTest(FolderDocument):
    """One compliance test of an entry, as submitted."""

    document_name: ClassVar[str] = "a compliance test of an inference entry"

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
class TextEntry(FolderDocument):
    """One scenario of a benchmark on a system: accuracy and performance runs, and all its submitted
    files.
    """

    document_name: ClassVar[str] = "an inference entry"

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
        if self.benchmark:
            return self.round.benchmarks.get(self.benchmark)
        return None

    @property
    def rule(self) -> InferenceTextScenario | None:
        """Return the round's requirements for the scenario."""
        if not self.scenario:
            return None
        return self.round.find_scenario_rules(self.benchmark, self.scenario)

    @property
    def inferred(self) -> bool:
        """Return whether its result is inferred from SingleStream logs."""
        return self.scenario in self.round.loadgen.inferred and any(
            run.scenario is Scenario.SINGLE_STREAM for run in self.performance
        )

    @property
    def runs(self) -> Sequence[TextRun]:
        """Return all LoadGen runs."""
        if self.accuracy:
            return [self.accuracy, *self.performance]
        return list(self.performance)


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
    if not values:
        return None
    return EntryHeadline(metric, min(values), unit, tuple(values), inferred)


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
    if latency and rule and rule.bound_ns:
        return float(rule.bound_ns // latency)
    return None


def parse_summary_scenario(summary: LegacySummary) -> Scenario | None:
    stated = summary.values.get("Scenario")
    if stated:
        return match_scenario_folder(stated.text.replace(" ", ""))
    return None
