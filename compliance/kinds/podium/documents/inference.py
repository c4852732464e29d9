"""A LoadGen run and an inference entry, with the round's row that judges them."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from compliance.documents.base import FolderDocument
from compliance.documents.loadgen import EntryRun
from compliance.kinds.podium.documents import unjudged_files
from compliance.kinds.podium.documents.system_description import SystemFile
from compliance.kinds.podium.documents.training import TrainingLog
from compliance.logs import telemetry
from compliance.logs.loadgen import (
    accuracy_log,
    log_probabilities,
    prompt_usage,
    query_times,
    token_times,
)
from compliance.logs.loadgen import summary as summary_text
from compliance.logs.loadgen.accuracy_log import AnswerIndex
from compliance.logs.loadgen.summary import LoadGenSummary
from compliance.logs.log_index import LogIndex
from compliance.logs.mllog import mllog_lines
from compliance.logs.mllog.mllog_lines import MllogRecord
from compliance.logs.source_file import (
    ParseErrorKind,
    SourceFile,
    read_json_document,
    read_source_text,
)
from compliance.logs.telemetry import TelemetryFile
from compliance.recognition.tree_path import TreePosition, is_file, match_scenario_folder
from compliance.verdict import Severity
from suite.audits.rules import AuditRules
from suite.files.layout import (
    ACCURACY_LOG,
    DETAIL_LOG,
    LOGPROB_FILE,
    QUERY_RECORD_FILE,
    REFERENCE_LOGPROB_FILE,
    RUN_RECORD,
    SUMMARY_LOG,
    SYSTEM_RECORD,
    TELEMETRY_FILE,
    TOKEN_RECORD_FILE,
    USAGE_RECORD_FILE,
    compute_folder_sha256,
)
from suite.loadgen.headline import (
    REQUESTED_TOKENS_KEY,
    SCENARIO_KEY,
    LoggedHeadline,
    find_logged_headline,
)
from suite.loadgen.loadgen_errors import is_harmless_error
from suite.loadgen.query_record import QueryTimes
from suite.loadgen.scenario import Scenario
from suite.loadgen.token_record import TokenTimes
from suite.loadgen.usage_record import PromptUsage
from suite.records import (
    RUN_RECORD_DECODER,
    SYSTEM_RECORD_DECODER,
    CalibrationRecord,
    RunRecord,
    ServedRun,
    SystemUnderTest,
    find_system_folder,
    join_served_run,
)
from suite.rounds import Benchmark, InferenceRow, Round, ScenarioRow
from suite.terms import Profile
from suite.workload import Mode, Scores

RUN_RECORD_FIELDS: Final = frozenset(field.name for field in fields(RunRecord))
SYSTEM_RECORD_FIELDS: Final = frozenset(field.name for field in fields(SystemUnderTest))
POWER_TIME_FORMAT: Final = "%m-%d-%Y %H:%M:%S.%f"
"""mlcommons/inference, loadgen/utils.cc: DateTimeStringForPower."""
ACCURACY_LINE_PATTERN: Final = re.compile(
    r"([A-Za-z0-9_.-]+)=([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?),"
    r" hash=([0-9a-f]{64})"
)


class Measurements(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The measurements file of a scenario (schema measurements.json)."""

    input_data_types: str
    retraining: str
    starting_weights_filename: str
    weight_data_types: str
    weight_transformations: str
    workload: str
    round: str
    profile: str
    scenario: str
    engine: str
    precision: str
    framework: str
    device: str
    threads: int
    checkpoint_sha256: str
    weights_origin: str = ""
    """Where weights come from that were not trained here (suite.records.CheckpointRecord)."""
    reference_accuracy: Mapping[str, float]
    truth_sha256: str
    """suite.files.layout.compute_folder_sha256 of the truth used for scoring."""
    settings: Mapping[str, Any]
    engine_description: Mapping[str, Any]
    calibration: Mapping[str, CalibrationRecord] = {}
    """Network -> the calibration data behind its quantisation ranges."""


RECORDS_BY_MODE: Final = {
    Mode.PERFORMANCE: (QUERY_RECORD_FILE, TOKEN_RECORD_FILE, USAGE_RECORD_FILE, TELEMETRY_FILE),
    Mode.ACCURACY: (LOGPROB_FILE, REFERENCE_LOGPROB_FILE),
}
"""What podium may write beside LoadGen's files."""
REQUESTED_QUERIES_KEY: Final = "requested_min_query_count"
MEASUREMENTS_DECODER: Final = msgspec.json.Decoder(Measurements)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGenRun(EntryRun[MllogRecord]):
    """One LoadGen run: its three files and podium's records of it and of its system."""

    document_name: ClassVar[str] = "a LoadGen run"

    scenario: Scenario | None
    """From its folder name, else from the detail log."""
    summary: LoadGenSummary
    detail: Sequence[MllogRecord]
    answers: AnswerIndex
    record: ServedRun | None
    system_source: SourceFile
    """The file of its system's record, which runs share."""
    queries: QueryTimes | None
    """None if the query record is missing, as in older runs, or damaged."""
    tokens: TokenTimes | None
    """None if answers are not generated token by token, or their record is missing or damaged."""
    usage: PromptUsage | None
    """None if no server counted the tokens of prompts, or if the record is damaged."""
    telemetry: TelemetryFile | None
    """None if the run has none."""
    said: Any
    """Rows of logprobs.npy of an accuracy run; None without it, or if it is damaged."""
    reference: Any
    """Rows of reference_logprobs.npy; None as above."""
    sources: Sequence[SourceFile]
    unexpected_paths: Sequence[Path]
    """Unexpected entries of its folder."""
    round: Round
    audited_by: AuditRules | None = None
    """For a compliance test's run, the rules of the test."""
    is_studied: bool = False
    """Whether it belongs to a study, so that it is no result."""

    @property
    def row(self) -> Benchmark | None:
        """Return the workload's row in the round."""
        if not self.record:
            return None
        return self.round.benchmarks.get(self.record.system.workload)

    @property
    def inference(self) -> InferenceRow | None:
        """Return the row's inference half under the record's profile."""
        profile = next(
            (each for each in Profile if self.record and each == self.record.system.profile), None
        )
        if self.row and profile:
            return self.row.inference.get(profile)
        return None

    @property
    def rule(self) -> ScenarioRow | None:
        """Return the scenario's row, with the bounds of tokens that the record's settings ask for;
        for a compliance test's run that requested fewer queries, the test's own requirement.
        """
        row = None
        if self.inference and self.scenario:
            row = self.inference.scenarios.get(self.scenario)
        if row is not None and self.record is not None:
            row = row.select_token_bounds(self.record.settings)
        if (
            row is None
            or self.scenario is None
            or self.audited_by is None
            or (self.find_number(REQUESTED_QUERIES_KEY) or 0) >= row.min_queries
        ):
            return row
        return self.audited_by.resolve_run_conditions(self.scenario, row)

    @property
    def measures_tokens(self) -> bool:
        """Return whether LoadGen measured first and further tokens."""
        return bool(self.find_value(REQUESTED_TOKENS_KEY))

    def find_numbers(self, *keys: str) -> tuple[float, ...] | None:
        """Return several detail-log numbers; None if any is missing."""
        found = [self.find_number(key) for key in keys]
        if None in found:
            return None
        return tuple(each for each in found if each is not None)

    @property
    def voiding_errors(self) -> Sequence[MllogRecord]:
        """Return the errors that LoadGen logged, without those that leave the run valid."""
        return list_voiding_errors(self.detail)

    @property
    def headline(self) -> LoggedHeadline | None:
        """Return the result; None if the scenario is unknown or the detail log has no such
        number.
        """
        return find_logged_headline(self.scenario, self.measures_tokens, self.index.find_number)

    @property
    def span_ms(self) -> float | None:
        """Return the milliseconds from query generation to the result, by the detail log's clock;
        slightly longer than the run.
        """
        begin, end = map(self.find_record, ("generated_query_count", "result_validity"))
        if begin and end:
            return end.event.time_ms - begin.event.time_ms
        return None

    @property
    def wall_ms(self) -> float | None:
        """Return the milliseconds between LoadGen's wall-clock timestamps around the queries; None
        if the log has none (before 1.1).
        """
        begin, end = (
            parse_power_time(self.find_value(key)) for key in ("power_begin", "power_end")
        )
        if begin and end:
            return (end - begin).total_seconds() * 1000
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceEntry(FolderDocument):
    """One scenario of one benchmark on one system: an accuracy run and performance runs."""

    document_name: ClassVar[str] = "an inference entry"

    scenario: Scenario | None
    accuracy: LoadGenRun | None
    performance: Sequence[LoadGenRun]
    unfinished: Sequence[Path]
    unexpected_paths: Sequence[Path]
    """Unexpected entries of its folders."""
    accuracy_text: Mapping[str, tuple[float, str, int]]
    """accuracy.txt: metric -> score, hash, line."""
    measurements: Measurements | None
    measurements_path: Path | None
    system: SystemFile | None
    origins: Sequence[TrainingLog]
    """Training logs in the tree that name this entry's checkpoint."""
    has_unread_log: bool
    """Whether a training log in the tree could not be read, which may name the checkpoint."""
    truth: Path | None
    """The folder of truth used for scoring: packed, or the user's."""
    scores: Scores | None
    """Recomputed from the accuracy log and the truth; None if that was impossible."""
    unscored: str | None
    """The reason, if `scores` is None."""
    place: TreePosition | None
    round: Round

    @property
    def runs(self) -> Sequence[LoadGenRun]:
        """Return all LoadGen runs."""
        return [*([self.accuracy] if self.accuracy else []), *self.performance]

    @property
    def record(self) -> ServedRun | None:
        """Return the record of the accuracy run, else of the first run that has one."""
        return next((run.record for run in self.runs if run.record), None)

    @property
    def rule(self) -> ScenarioRow | None:
        """Return the scenario's row."""
        return next((run.rule for run in self.runs if run.rule), None)

    @property
    def inference(self) -> InferenceRow | None:
        """Return the row's inference half."""
        return next((run.inference for run in self.runs if run.inference), None)

    @property
    def workload(self) -> str | None:
        """Return the workload, from the system's record."""
        return self.record.system.workload if self.record else None

    @property
    def truth_sha256(self) -> str | None:
        """Return the hash of the truth; None if it is missing or unreadable."""
        try:
            return compute_folder_sha256(self.truth) if self.truth else None
        except OSError:
            return None


def list_voiding_errors(detail: Sequence[MllogRecord]) -> Sequence[MllogRecord]:
    """Return the errors that LoadGen logged, without those that leave the run valid."""
    return [
        record
        for record in detail
        if record.event.metadata.get("is_error") and not is_harmless_error(str(record.value))
    ]


def parse_power_time(text: object) -> datetime | None:
    """Parse one of LoadGen's wall-clock timestamps; None if invalid."""
    try:
        if not isinstance(text, str):
            return None
        return datetime.strptime(text, POWER_TIME_FORMAT)
    except ValueError:
        return None


R = TypeVar("R")


def read_optional_file(
    sources: Mapping[str, SourceFile], name: str, read: Callable[[SourceFile], R | None]
) -> R | None:
    if name not in sources:
        return None
    return read(sources[name])


def read_loadgen_run(
    folder: Path,
    mode: Mode,
    scenario: Scenario | None,
    round: Round,
    audited_by: AuditRules | None = None,
) -> LoadGenRun:
    """Read a run's four files; problems are recorded as parse errors of its source."""
    sources = {
        name: SourceFile(folder / name)
        for name in (SUMMARY_LOG, DETAIL_LOG, ACCURACY_LOG, RUN_RECORD)
    }
    detail = list(mllog_lines.read_mllog_records(sources[DETAIL_LOG]))
    index = LogIndex(detail)
    system_source = SourceFile(find_system_folder(folder) / SYSTEM_RECORD)
    # rules/records.py says what one that cannot be read means for the run
    optional_files = [name for name in RECORDS_BY_MODE[mode] if is_file(folder / name)]
    sources |= {
        name: SourceFile(folder / name, leniency=dict.fromkeys(ParseErrorKind, Severity.WARNING))
        for name in optional_files
    }
    return LoadGenRun(
        folder=folder,
        mode=mode,
        scenario=scenario or match_scenario_folder(index.find_value(SCENARIO_KEY)),
        summary=summary_text.read_loadgen_summary(sources[SUMMARY_LOG]),
        summary_source=sources[SUMMARY_LOG],
        detail=detail,
        index=index,
        answers=accuracy_log.index_accuracy_log(sources[ACCURACY_LOG]),
        record=read_run_records(sources[RUN_RECORD], system_source),
        system_source=system_source,
        queries=read_optional_file(sources, QUERY_RECORD_FILE, query_times.read_query_times),
        tokens=read_optional_file(sources, TOKEN_RECORD_FILE, token_times.read_token_times),
        usage=read_optional_file(sources, USAGE_RECORD_FILE, prompt_usage.read_prompt_usage),
        telemetry=read_optional_file(sources, TELEMETRY_FILE, telemetry.read_telemetry_file),
        said=read_optional_file(sources, LOGPROB_FILE, log_probabilities.read_said_logprobs),
        reference=read_optional_file(
            sources, REFERENCE_LOGPROB_FILE, log_probabilities.read_reference_logprobs
        ),
        sources=tuple(sources.values()),
        unexpected_paths=tuple(unjudged_files.find_unexpected_run_files(folder, mode)),
        round=round,
        audited_by=audited_by,
    )


def read_run_records(run: SourceFile, system: SourceFile) -> ServedRun | None:
    """Read the records of a run and of its system; None if one of them cannot be read."""
    record = read_json_document(run, RUN_RECORD_DECODER, RUN_RECORD_FIELDS)
    served = read_json_document(system, SYSTEM_RECORD_DECODER, SYSTEM_RECORD_FIELDS)
    if record and served:
        return join_served_run(record, served)
    return None


def parse_run_mode(folder: Path) -> Mode:
    """Return the run's mode from its folder name."""
    if folder.name.casefold() == Mode.ACCURACY:
        return Mode.ACCURACY
    return Mode.PERFORMANCE


def read_accuracy_scores(source: SourceFile) -> Mapping[str, tuple[float, str, int]]:
    """Read accuracy.txt: metric -> score, hash, line; a line in any other form is a parse error."""
    found: dict[str, tuple[float, str, int]] = {}
    text = read_source_text(source, 1 << 20)
    for number, line in enumerate(text.splitlines(), 1):
        match = ACCURACY_LINE_PATTERN.fullmatch(line.strip())
        if match is None:
            source.add_parse_error(
                ParseErrorKind.RECORD,
                f"'{line[:80]}'",
                "<metric>=<score>, hash=<SHA-256 of the accuracy log>",
                number,
            )
        elif match[1] in found:
            source.add_parse_error(
                ParseErrorKind.DUPLICATE, f"'{match[1]}' occurs twice", "each metric once", number
            )
        else:
            found[match[1]] = (float(match[2]), match[3], number)
    return found


def read_measurements_file(
    place: TreePosition | None, sources: list[SourceFile]
) -> tuple[Measurements | None, Path | None]:
    """Read the single measurements file of an entry in a tree."""
    if place is None or not (place.system and place.benchmark and place.scenario):
        return None, None
    folder = (
        place.organisation_folder
        / "measurements"
        / place.system
        / place.benchmark
        / place.scenario.folder
    )
    path = folder / f"{place.system}_podium_{place.scenario.folder}.json"
    source = SourceFile(path)
    sources.append(source)
    return read_json_document(source, MEASUREMENTS_DECODER), path
