"""A training log and a run set, with the round's row that judges them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, TypeGuard

from compliance.documents.base import FileDocument, FolderDocument, LogDocument
from compliance.logs.finite_numbers import MAX_LOGGED_NUMBER, is_finite_number
from compliance.logs.log_index import LogIndex
from compliance.logs.mllog import mllog_lines
from compliance.logs.mllog.mllog_lines import MllogRecord
from compliance.logs.source_file import ParseErrorKind, SourceFile
from compliance.logs.telemetry import TelemetryFile
from compliance.recognition.tree_path import TRAINING_LOG_PATTERN, TreePosition
from suite import events
from suite.rounds import Benchmark, Round, TrainingRow
from suite.rounds.quality import has_reached_target
from suite.rounds.settings import resolve_settings
from suite.terms import Profile
from suite.units import MS_PER_MINUTE

HEADER_EVENTS: Final = (
    events.SUBMISSION_BENCHMARK,
    events.SUBMISSION_ORG,
    events.SUBMISSION_DIVISION,
    events.SUBMISSION_STATUS,
    events.SUBMISSION_PLATFORM,
    events.ROUND,
    events.PROFILE,
    events.WORKLOAD,
    events.VERSION,
    events.NONCE,
    events.RUN_INDEX,
    events.SEED,
    events.FRAMEWORK,
    events.INPUT,
    events.DEVICE,
    events.PRECISION,
    events.THREADS,
    events.WORLD_SIZE,
    events.SETTINGS,
    events.COMMAND_LINE,
)
"""Events that must come before all others: the run's identity and environment."""
INIT_EVENTS: Final = (
    events.TRAIN_SAMPLES,
    events.EVAL_SAMPLES,
    events.METRIC_SIGNATURE,
    events.QUALITY_TARGET,
)
"""Events that belong between init_start and init_stop."""
OPTIONAL_INIT_EVENTS: Final = (
    events.CORPUS_SAMPLES,
    events.GRADIENT_ACCUMULATION_STEPS,
    *events.DISCLOSED_EVENTS,
)
"""Additional facts: of workloads that drop samples because of their length, and of those whose logs
MLPerf asks for the steps of accumulation, or for precision and parallelism.
"""
AFTER_RUN_EVENTS: Final = (
    events.TELEMETRY_LOST,
    events.CHECKPOINT,
    events.REFERENCE_ACCURACY,
    events.TELEMETRY,
)
"""Events after run_stop: the second and third of a run that succeeded, the last only if power was
read, the first only if telemetry could not be kept.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEvaluation:
    """One evaluation: the epoch that preceded it, and its scores."""

    epoch: object
    """As logged; a number in a valid log."""
    samples: object
    """Samples trained so far, as logged; None if the workload counts epochs alone."""
    scores: Mapping[str, float | None]
    """Metric of the round -> value, None if it is not a finite number."""
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLog(FileDocument, LogDocument[MllogRecord]):
    """One training run, from its log."""

    document_name: ClassVar[str] = "a training log"

    records: Sequence[MllogRecord]
    """Without those that a resumed run voided."""
    void: Sequence[MllogRecord]
    index: LogIndex[MllogRecord]
    """Event name -> its records."""
    round: Round
    workload: str | None
    """As stamped, if the round knows it."""
    profile: Profile | None
    place: TreePosition | None

    @property
    def is_unread(self) -> bool:
        """Return whether the file could not be read, so that nothing in it is known."""
        return self.source.has_parse_error(ParseErrorKind.MISSING, ParseErrorKind.UNREADABLE)

    @property
    def row(self) -> Benchmark | None:
        """Return the workload's row in the round."""
        if not self.workload:
            return None
        return self.round.benchmarks.get(self.workload)

    @property
    def training(self) -> TrainingRow | None:
        """Return the row's training half under the stamped profile."""
        if self.row and self.profile:
            return self.row.training.get(self.profile)
        return None

    @property
    def settings(self) -> Mapping[str, Any]:
        """Return the run's settings as logged; for settings missing from the log, the row's value
        or the default.

        The podium that wrote the log may be older than a setting. A log that omits one is judged by
        the row's value.
        """
        table = self.find_value(events.SETTINGS)
        logged_settings = {}
        if isinstance(table, dict):
            logged_settings = {
                key: tuple(value) if isinstance(value, list) else value
                for key, value in table.items()
            }
        if self.workload and self.profile:
            return resolve_settings(self.round, self.workload, self.profile, logged_settings)
        return logged_settings

    @property
    def number(self) -> int | None:
        """Return the number in the file name."""
        match = TRAINING_LOG_PATTERN.fullmatch(self.path.name)
        return int(match[1]) if match else None

    @property
    def status(self) -> object:
        """Return the status in run_stop; None if there is none."""
        record = self.find_record(events.RUN_STOP)
        return record.event.metadata.get(events.STATUS) if record else None

    @property
    def minutes(self) -> float | None:
        """Return the minutes from run_start to run_stop; None if either is missing."""
        start, stop = (
            self.find_record(events.RUN_START),
            self.find_record(events.RUN_STOP),
        )
        return (
            (stop.event.time_ms - start.event.time_ms) / MS_PER_MINUTE if start and stop else None
        )

    @property
    def ended_ms(self) -> float | None:
        """Return the time of the last record; None without one."""
        times = [
            each.event.time_ms for each in self.records if is_finite_number(each.event.time_ms)
        ]
        return max(times, default=None)

    @property
    def opened_ms(self) -> float | None:
        """Return the time of the first record; None without one."""
        times = [
            each.event.time_ms for each in self.records if is_finite_number(each.event.time_ms)
        ]
        return min(times, default=None)

    @property
    def succeeded(self) -> bool:
        """Return whether the log states that the run reached its target."""
        return self.status == events.SUCCESS

    def iterate_evaluations(self) -> Iterator[LoggedEvaluation]:
        """Yield the evaluations in order."""
        metrics = self.row.metrics if self.row else {}
        for record in self.list_records(events.EVAL_ACCURACY):
            yield LoggedEvaluation(
                epoch=record.event.metadata.get(events.EPOCH_NUM),
                samples=record.event.metadata.get(events.SAMPLES_COUNT),
                scores=parse_logged_scores(record.value, metrics),
                line=record.line,
            )

    @property
    def reached(self) -> bool:
        """Return whether the last evaluation reaches the round's target in every metric."""
        last = list(self.iterate_evaluations())[-1:]
        return bool(last) and self.has_reached_target(last[0])

    def has_reached_target(self, evaluation: LoggedEvaluation) -> bool:
        """Return whether an evaluation reaches the round's target in every metric."""
        row, training = self.row, self.training
        return (
            row is not None
            and training is not None
            and has_reached_target(evaluation.scores, training.target, row.lower_is_better)
        )

    @property
    def checkpoint(self) -> str | None:
        """Return the hash of the exported weights."""
        value = self.find_value(events.CHECKPOINT)
        return value if isinstance(value, str) else None

    @property
    def reference(self) -> Mapping[str, float]:
        """Return metric -> reference accuracy, if the log has it in valid form."""
        value = self.find_value(events.REFERENCE_ACCURACY)
        if not isinstance(value, dict):
            return {}
        return {metric: float(score) for metric, score in value.items() if is_finite_number(score)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSet(FolderDocument):
    """All training runs of one benchmark on one system."""

    document_name: ClassVar[str] = "a run set"

    logs: Sequence[TrainingLog]
    telemetry: Mapping[str, TelemetryFile]
    """File name -> telemetry, one file per run and node."""
    unfinished: Sequence[Path]
    unexpected_files: Sequence[Path]
    """Files in its folder that are not logs."""
    place: TreePosition | None

    @property
    def training(self) -> TrainingRow | None:
        """Return the row by which the set is judged: that of its first log."""
        return self.logs[0].training if self.logs else None

    def find_telemetry(self, log: TrainingLog) -> TelemetryFile | None:
        """Return the telemetry of a run's first node, as far as it can be read."""
        found = self.telemetry.get(f"telemetry_{log.number}.jsonl")
        return found if found and found.is_valid else None


def read_training_log(path: Path, round: Round, place: TreePosition | None) -> TrainingLog:
    """Read a training log; problems are recorded as parse errors of its source."""
    source = SourceFile(path)
    live, void = split_voided_records(mllog_lines.read_mllog_records(source))
    index = LogIndex(live)
    workload, profile = (
        find_event_text(index, events.WORKLOAD),
        find_event_text(index, events.PROFILE),
    )
    return TrainingLog(
        source=source,
        records=live,
        void=void,
        index=index,
        round=round,
        workload=workload if workload in round.benchmarks else None,
        profile=next((each for each in Profile if each == profile), None),
        place=place,
    )


def find_event_text(index: LogIndex[MllogRecord], key: str) -> str | None:
    """Return a text value of an event's first record."""
    value = index.find_value(key)
    return value if isinstance(value, str) else None


def split_voided_records(
    records: Iterator[MllogRecord],
) -> tuple[list[MllogRecord], list[MllogRecord]]:
    """Separate the valid records from those voided by a `resumed` event: all those after the log
    offset that it names.
    """
    live: list[MllogRecord] = []
    void: list[MllogRecord] = []
    for record in records:
        offset = record.event.metadata.get("log_offset") if record.key == events.RESUMED else None
        while is_logged_count(offset) and live and live[-1].offset >= offset:
            void.append(live.pop())
        live.append(record)
    return live, void[::-1]


def parse_logged_scores(value: object, metrics: Mapping[str, str]) -> Mapping[str, float | None]:
    """Parse an eval_accuracy: a number if the round's row has a single metric without a key, else a
    dict of its keys.
    """
    if isinstance(value, dict):
        return {
            metric: float(value[key]) if is_finite_number(value.get(key)) else None
            for metric, key in metrics.items()
        }
    return {
        metric: float(value) if not key and is_finite_number(value) else None
        for metric, key in metrics.items()
    }


def list_evaluation_times(log: TrainingLog) -> list[float]:
    """Return the milliseconds of each evaluation, at least one, in order."""
    starts = {
        record.event.metadata.get(events.EPOCH_NUM): record.event.time_ms
        for record in log.list_records(events.EVAL_START)
    }
    stops = (
        (record.event.metadata.get(events.EPOCH_NUM), record.event.time_ms)
        for record in log.list_records(events.EVAL_STOP)
    )
    return [
        max(stop - starts[epoch], 1.0)
        for epoch, stop in stops
        if is_logged_count(epoch) and epoch in starts
    ]


def is_logged_count(value: object) -> TypeGuard[int]:
    """Return whether a value is a non-negative integer."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_LOGGED_NUMBER
