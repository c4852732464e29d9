"""A log and a set of a published training round, with the row that judges them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from compliance.documents.base import FileDocument, FolderDocument, LogDocument
from compliance.kinds.training.documents.evaluations import PublishedEvaluation, parse_evaluations
from compliance.kinds.training.documents.mixture import LogMixture, find_log_mixture
from compliance.kinds.training.documents.retention import MAX_RUN_EVENTS, select_retained_records
from compliance.kinds.training.documents.system_description import DescribedSystem
from compliance.kinds.training.documents.values import parse_metadata_numbers
from compliance.kinds.training.logs import published
from compliance.kinds.training.logs.legacy_text import TOTAL_RUNTIME_KEY
from compliance.kinds.training.logs.published import Dialect, PublishedRecord
from compliance.kinds.training.logs.result_line import ResultLine, find_result_lines
from compliance.kinds.training.round import PublishedBenchmark, PublishedTraining
from compliance.kinds.training.round import QualityTarget as PublishedTarget
from compliance.logs.finite_numbers import is_finite_number, parse_finite_number
from compliance.logs.log_index import LogIndex
from compliance.logs.source_file import ParseErrorKind, SourceFile
from compliance.recognition.tree_path import (
    PUBLISHED_LOG_PATTERN,
    TRAINING_LOG_PATTERN,
    TreePosition,
    iterate_published_logs,
)
from suite import events
from suite.files.untrusted_files import open_regular_file
from suite.rounds.quality import has_reached_target
from suite.units import NS_PER_S, S_PER_MINUTE

BLOCK_EVENTS: Final = (events.BLOCK_START, events.BLOCK_STOP)
EPOCH_EVENTS: Final = (
    events.EPOCH_START,
    events.EPOCH_STOP,
    events.EVAL_START,
    events.EVAL_STOP,
    events.EVAL_ACCURACY,
)
PROGRESS_FIELDS: Final = dict.fromkeys(BLOCK_EVENTS, events.FIRST_EPOCH_NUM) | dict.fromkeys(
    EPOCH_EVENTS, events.EPOCH_NUM
)
"""Event -> the metadata field that gives its progress in the run."""
RESULT_LOGGING_DELAY_NS: Final = NS_PER_S // 10
"""Maximum time in which a logger logs a result after it has stopped the clock."""
CALLER_FIELDS: Final = ("file", "lineno")
"""Metadata that name the place in the program that logs a result."""
GLOBAL_BATCH_KEY: Final = "global_batch_size"
MAX_NOTE_BYTES: Final = 1024
"""Maximum size of a note that stands in place of a log."""
CONVERGED_DIGITS: Final = 3
"""Decimals of the epochs to converge, when compared with reference convergence points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedLog(FileDocument, LogDocument[PublishedRecord]):
    """One training run, from its log."""

    document_name: ClassVar[str] = "a training log"

    run: Sequence[PublishedRecord]
    """The events of the run in the file's order."""
    index: LogIndex[PublishedRecord]
    """Event -> its retained records."""
    counts: Mapping[str, int]
    """Event -> its number of records."""
    dialects: frozenset[Dialect]
    older: bool
    """Whether the log has the text form from before v0.6, which records few facts."""
    results: Sequence[ResultLine]
    """RESULT lines of the scripts around the run."""
    round: PublishedTraining
    place: TreePosition | None
    described: DescribedSystem | None
    """The description of the system that the log belongs to."""
    benchmark: str | None
    """The canonical name of the benchmark: from the log, else from its folder; None if the round
    does not have it.
    """
    row: PublishedBenchmark | None
    """The benchmark's row in the round."""
    target: Mapping[str, float]
    """Metric -> quality to reach, 0-1; empty if the benchmark is unknown."""
    above: Mapping[str, float]
    """Metric -> a bound that an evaluation must be above."""
    evaluations: Sequence[PublishedEvaluation]
    """In the file's order."""
    epochs: Mapping[str, Sequence[float | None]]
    """Event of the run -> the epoch in each of its records; None if it is not a number."""

    @property
    def number(self) -> int | None:
        """Return the number in the file name."""
        match = TRAINING_LOG_PATTERN.fullmatch(self.path.name)
        if match:
            return int(match[1])
        return None

    @property
    def division(self) -> str | None:
        """Return the division in the log, normalised; None if not stated."""
        stated = self.find_value(events.SUBMISSION_DIVISION)
        if isinstance(stated, str):
            return stated.casefold()
        return None

    @property
    def closed(self) -> bool:
        """Return whether the closed division's rules apply; they also apply to a log without a
        known division.
        """
        return self.division != "open"

    @property
    def free(self) -> bool:
        """Return whether the log is of v1.0 or later, whose accepted logs pair and number blocks
        and epochs freely.
        """
        return bool(self.row and self.row.progress)

    @property
    def status(self) -> object:
        """Return the status in run_stop; the text form has no status, so there a run that reached
        its target succeeded.

        Games are played after the run: the event that gives the time at which the winning model was
        ready also means success, if that time is above 0.
        """
        record = self.find_record(events.RUN_STOP)
        if record is None:
            if self.result_s:
                return events.SUCCESS
            return None
        if not self.older:
            return record.metadata.get(events.STATUS)
        if self.reached:
            return events.SUCCESS
        return events.ABORTED

    @property
    def succeeded(self) -> bool:
        """Return whether the log states that the run reached its target."""
        return self.status == events.SUCCESS

    @property
    def unfinished(self) -> bool:
        """Return whether the run began and was stopped before it reached its target or logged its
        end, and the log is whole up to there; only from v1.0 on.
        """
        began, ended = self.counts.get(events.RUN_START), self.counts.get(events.RUN_STOP)
        plays = self.row is not None and self.row.result_event is not None
        return (
            self.free
            and bool(began)
            and not ended
            and not plays
            and not self.source.has_parse_error(ParseErrorKind.RECORD)
            and not any(map(self.has_reached_target, self.evaluations))
        )

    @property
    def is_recordless(self) -> bool:
        """Return whether the file is readable text of any kind, without a record in it."""
        flaws = self.source.parse_errors
        return not self.counts and not any(
            each.about or each.kind in (ParseErrorKind.MISSING, ParseErrorKind.UNREADABLE)
            for each in flaws
        )

    @property
    def is_note(self) -> bool:
        """Return whether a short text stands in place of a log."""
        if not self.is_recordless:
            return False
        with open_regular_file(self.path) as stream:
            text = stream.read(MAX_NOTE_BYTES + 1).strip()
        return 0 < len(text) <= MAX_NOTE_BYTES

    @property
    def mixture(self) -> LogMixture | None:
        """Return what the file has more than one of: runs, or processes. Only its records of a run
        can then not be told apart; None for the text form, in which processes log alike.
        """
        if self.older:
            return None
        return find_log_mixture(self.index)

    @property
    def result_copies(self) -> int:
        """Return how often each result stands in the log: once, or once per process if all
        processes log the results of evaluations that one of them starts.
        """
        records = self.list_records(events.EVAL_ACCURACY)
        numbers = Counter(
            repr((each.value, {**each.metadata, **dict.fromkeys(CALLER_FIELDS)}))
            for each in records
        )
        copies = {*numbers.values()}
        is_copied = len(numbers) <= self.counts.get(events.EVAL_START, 0) < len(records)
        if is_copied and len(copies) == 1:
            return copies.pop()
        return 1

    @property
    def minutes(self) -> float | None:
        """Return the minutes from run_start to run_stop, or as the benchmark defines them; None if
        they cannot be computed.
        """
        start, stop = (
            self.find_record(events.RUN_START),
            self.find_record(events.RUN_STOP),
        )
        stated_minutes = self.find_value(TOTAL_RUNTIME_KEY)
        if is_finite_number(stated_minutes):
            return float(stated_minutes)
        if seconds := self.result_s:
            return seconds / S_PER_MINUTE
        if start is None or stop is None or not 0 < start.time_ns < stop.time_ns:
            return None
        return (
            stop.time_ns / NS_PER_S - start.time_ns / NS_PER_S
        ) / S_PER_MINUTE  # in the order in which the rounds' tables were computed: seconds first

    @property
    def result_s(self) -> float | None:
        """Return the seconds from run_start that the benchmark's own result event gives; None
        without such an event, or without a time in it.

        Games have a result for each model that was played: the first that reaches the target
        counts, or else the last, which ended the search.
        """
        if not self.row or not self.row.result_event:
            return None
        results = [
            (record, seconds)
            for record in self.list_records(self.row.result_event)
            if (seconds := parse_finite_number(record.metadata.get("timestamp"))) and seconds > 0
        ]
        goal = min(self.target.values(), default=None)
        winning = (
            seconds
            for record, seconds in results
            if goal is not None
            and (share := parse_finite_number(record.value)) is not None
            and share >= goal
        )
        return next(winning, results[-1][1] if results else None)

    @property
    def reached(self) -> bool:
        """Return whether the last evaluation before run_stop reaches the target in every metric;
        later ones were unfinished and do not count.

        For games, which are played after the run, any model may reach it; an evaluation's result
        may be logged right after run_stop.
        """
        stop = self.find_record(events.RUN_STOP)
        if self.row and self.row.evaluated_later:
            return any(map(self.has_reached_target, self.evaluations))
        if self.row is not None and not self.row.data_set:
            return any(map(self.has_reached_target, self.evaluations))
        if stop is None:
            return any(map(self.has_reached_target, self.evaluations[-1:]))
        before = self.list_evaluations_before(stop)
        behind = [
            each
            for each in self.evaluations[len(before) :]
            if each.entry.time_ns <= stop.time_ns + RESULT_LOGGING_DELAY_NS
        ]
        return any(
            self.has_reached_target(each) for each in (*(before or self.evaluations)[-1:], *behind)
        )

    def list_evaluations_before(self, stop: PublishedRecord) -> Sequence[PublishedEvaluation]:
        """List the evaluations that are logged before the end of the run; the last one counts."""
        return [each for each in self.evaluations if each.entry.order < stop.order]

    def has_reached_target(self, evaluation: PublishedEvaluation) -> bool:
        """Return whether an evaluation reaches the target in every metric."""
        row = self.row
        return bool(row and self.target) and has_reached_target(
            evaluation.scores, self.target, row.lower_is_better if row else (), self.above
        )

    @property
    def converged_at(self) -> float | None:
        """Return the progress of a successful run when it reached its target, as in the rules' own
        test; None for other runs, and if the log does not state it.

        Source: mlcommons/logging, rcp_checker.py: the last evaluation before run_stop, or the first
        checkpoint that passes; 3 decimals.
        """
        stop = self.find_record(events.RUN_STOP)
        if not self.succeeded or stop is None:
            return None
        if self.row and self.row.evaluated_later:
            return min(
                (
                    each.epoch
                    for each in self.evaluations
                    if each.epoch is not None and self.has_reached_target(each)
                ),
                default=None,
            )
        before = [
            each.epoch for each in self.list_evaluations_before(stop) if each.epoch is not None
        ]
        if len(before) > 1 and 2 * Counter(before).most_common(1)[0][1] > len(before):
            return self.find_trained_samples()
        if before:
            return round(before[-1], CONVERGED_DIGITS)
        return None

    def find_trained_samples(self) -> float | None:
        """Return the samples that a run trained on, by the benchmark's own event: most of
        its evaluations have the same number, which is not its progress. None without such an event.
        """
        event = None
        if self.row:
            event = self.row.samples_event
        if event:
            return parse_finite_number(self.find_value(event))
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSet(FolderDocument):
    """All training runs of one benchmark on one system, in one folder."""

    document_name: ClassVar[str] = "a run set"

    logs: Sequence[PublishedLog]
    others: Sequence[Path]
    """Other files in the folder."""
    round: PublishedTraining
    place: TreePosition | None

    @property
    def benchmark(self) -> str | None:
        """Return the canonical name of the benchmark: from the folder, else from most of the
        logs.
        """
        named = self.round.find_benchmark_name(self.folder.name)
        logged_benchmarks = Counter(log.benchmark for log in self.logs if log.benchmark)
        return named or (logged_benchmarks.most_common(1)[0][0] if logged_benchmarks else None)

    @property
    def row(self) -> PublishedBenchmark | None:
        """Return the benchmark's row in the round."""
        return self.round.benchmarks.get(self.benchmark or "")

    @property
    def counts_progress(self) -> bool:
        """Return whether the set is of v1.0 or later, when benchmarks count training progress in
        their own units.
        """
        return bool(self.row and self.row.progress)

    @property
    def missed_allowed(self) -> int:
        """Return the number of runs that may miss the target."""
        own = None
        if self.row:
            own = self.row.not_converged_allowed
        if own is None:
            return self.round.rules.not_converged_allowed
        return own

    @property
    def pardoned(self) -> Sequence[PublishedLog]:
        """Return the unfinished logs and, from v1.0 on, notes in place of logs, if including them
        no more runs missed the target than may: they count as runs that did.

        Source: mlcommons/logging, package_checker.py: as many files that do not comply are
        accepted, under olympic scoring; an accepted set of v1.0 has a note that says so.
        """
        missed = sum(not log.succeeded for log in self.logs)
        if missed > self.missed_allowed:
            return []
        return [
            log for log in self.logs if log.unfinished or (self.counts_progress and log.is_note)
        ]

    @property
    def is_renamed(self) -> bool:
        """Return whether the logs have other names than the round wants."""
        names = [log.path.name for log in self.logs]
        return bool(names) and not any(map(PUBLISHED_LOG_PATTERN.fullmatch, names))

    @property
    def is_flat(self) -> bool:
        """Return whether the logs are in the system's folder instead of a benchmark's."""
        return bool(self.place and self.place.system and not self.place.benchmark)


def read_published_log(
    path: Path,
    round: PublishedTraining,
    place: TreePosition | None = None,
    described: DescribedSystem | None = None,
) -> PublishedLog:
    """Read a log; problems are recorded as parse errors of its source."""
    source = SourceFile(path)
    run, index, dropped = select_retained_records(published.read_published_records(source))
    if not events.RUN_EVENTS.isdisjoint(dropped):
        source.add_parse_error(
            ParseErrorKind.RECORD,
            f"more than {MAX_RUN_EVENTS} events in a run",
            f"at most {MAX_RUN_EVENTS}",
        )
    benchmark = find_logged_benchmark(index, path, round, place)
    row = round.benchmarks.get(benchmark or "")
    goal = select_published_target(index, row)
    dialects = frozenset([record.dialect for records in index.values() for record in records])
    epochs = {}
    if not (row and row.progress):
        epochs = {
            key: parse_metadata_numbers(index.get(key, ()), field)
            for key, field in PROGRESS_FIELDS.items()
        }
    return PublishedLog(
        source=source,
        run=run,
        index=index,
        counts={key: len(records) + dropped.get(key, 0) for key, records in index.items()},
        dialects=dialects,
        older=Dialect.TEXT in dialects,
        results=list(find_result_lines(source)),
        round=round,
        place=place,
        described=described,
        benchmark=benchmark,
        row=row,
        target=goal.metrics if goal else {},
        above={**dict.fromkeys(row.lower_is_better if row else (), 0.0)}
        | dict(goal.above if goal else {}),
        evaluations=parse_evaluations(index.get(events.EVAL_ACCURACY, ()), row),
        epochs=epochs,
    )


def find_logged_benchmark(
    index: LogIndex[PublishedRecord],
    path: Path,
    round: PublishedTraining,
    place: TreePosition | None,
) -> str | None:
    """Return the benchmark named in the log, else that of its folder."""
    stated = index.find_value(events.SUBMISSION_BENCHMARK)
    known = None
    if isinstance(stated, str):
        known = round.find_benchmark_name(stated)
    return known or round.find_benchmark_name(place.benchmark if place else path.parent.name)


def select_published_target(
    index: LogIndex[PublishedRecord], row: PublishedBenchmark | None
) -> PublishedTarget | None:
    """Look up the target, which depends on the batch size for some benchmarks."""
    batch = index.find_number(GLOBAL_BATCH_KEY) or 0
    if row:
        fitting = [each for each in row.targets if each.batch_from <= batch]
    else:
        fitting = []
    if fitting:
        return fitting[-1]
    return None


def read_published_set(
    folder: Path,
    round: PublishedTraining,
    place: TreePosition | None = None,
    described: DescribedSystem | None = None,
) -> PublishedSet:
    """Read the logs of a folder, by number, and note the other files in it."""
    paths = list(iterate_published_logs(folder))
    try:
        others = sorted(
            path for path in folder.iterdir() if path not in paths and not path.name.startswith(".")
        )
    except OSError:
        others = []
    logs = [read_published_log(path, round, place, described) for path in paths]
    return PublishedSet(folder=folder, logs=logs, others=others, round=round, place=place)
