"""Check the order of events and the clock of a published training log."""

from collections.abc import Iterator, Sequence
from typing import Final

from compliance.documents.training.log import PROGRESS_FIELDS, PublishedLog
from compliance.documents.training.values import parse_metadata_numbers
from compliance.logs.mllog.legacy_text import TOTAL_RUNTIME_KEY
from compliance.logs.mllog.published import PublishedRecord
from compliance.rules import rule
from compliance.rules.training.log_identity import format_short_value
from compliance.verdict import About, Fault, Severity
from suite import events
from suite.units import NS_PER_S

EARLIEST_CLOCK_NS: Final = 1_483_228_800 * NS_PER_S
"""January 2017, before the first MLPerf round: an earlier clock was never set."""
START_TOLERANCE_NS: Final = NS_PER_S
"""Maximum difference between two processes that log the end of initialisation and the start of the
run.
"""
PROCESS_CLOCK_ERROR_NS: Final = 5 * NS_PER_S
"""Maximum difference between the clocks of a run's processes. No known accepted log has an event of
the run before its start.
"""
TRAINING_BEGIN_EVENTS: Final = (events.BLOCK_START, events.EPOCH_START)
TRAINING_END_EVENTS: Final = (events.BLOCK_STOP, events.EPOCH_STOP)
PUBLISHED_EVALUATION_EVENTS: Final = (events.EVAL_START, events.EVAL_STOP, events.EVAL_ACCURACY)
MAX_INTERVALS_AHEAD: Final = 3
"""Number of blocks or epochs that a logger begins ahead of the evaluation."""
TOTAL_RUNTIME_TOLERANCE_MIN: Final = 0.1
"""The text form has whole seconds, and its run starts when the first of many processes starts."""


def format_ns_as_seconds(nanoseconds: int) -> str:
    """Format a time span."""
    return f"{nanoseconds / NS_PER_S:.3f} s"


@rule("log.clock", PublishedLog)
def clock(log: PublishedLog) -> Iterator[Fault]:
    """Events have times from a clock that was set, and times never decrease from one line to the
    next; a run stops after its evaluations.

    Source: training_rules.adoc, Run Results: the clock may not be paused; in no accepted log do
    times decrease.
    Advice: submit the log exactly as the run wrote it; edited times are detected.
    """
    last: PublishedRecord | None = None
    for record in log.run:
        if record.time_ns < EARLIEST_CLOCK_NS:
            yield log.build_fault(
                f"{record.key} at {format_ns_as_seconds(record.time_ns)}",
                "a time from a clock that was set",
                record.line,
            )
            continue
        if last and record.time_ns < last.time_ns:
            gap = format_ns_as_seconds(last.time_ns - record.time_ns)
            accepted = None if is_early_stop(log, record, last) else weigh_loose_clock(log)
            yield log.build_fault(
                f"{record.key} {gap} before {last.key} in line {last.line}",
                "times that never decrease",
                record.line,
                accepted,
            )
        last = record


def is_early_stop(log: PublishedLog, record: PublishedRecord, last: PublishedRecord) -> bool:
    """Return whether a run stops before preceding events in its log, by more than clocks may
    differ, while the other events are in order.
    """
    if (
        record.key != events.RUN_STOP
        or record.time_ns >= last.time_ns - PROCESS_CLOCK_ERROR_NS
        or not log.row
        or log.row.evaluated_later
        or not log.row.data_set
    ):
        return False
    return is_otherwise_in_order(log, events.RUN_STOP)


def is_otherwise_in_order(log: PublishedLog, without: str) -> bool:
    """Return whether the other events of a run are in the order of their times. If so, that one
    event was moved, and clocks did not differ.
    """
    others = [each.time_ns for each in log.run if each.key != without]
    return all(late >= early for early, late in zip(others, others[1:], strict=False))


def weigh_loose_clock(log: PublishedLog) -> Severity | None:
    """Lower the severity of decreasing times if accepted logs of the benchmark contain events from
    several processes.
    """
    return Severity.WARNING if log.row and log.row.loose_clock else None


@rule(
    "log.span",
    PublishedLog,
    about=About.SCORE,
    doubt="the time to train",
)
def span(log: PublishedLog) -> Iterator[Fault]:
    """A run takes time, and its events happen after its start; the clocks of different processes
    may differ by 5 seconds.

    Source: training_rules.adoc, Run Results: a contiguous period that includes training and
    evaluation.
    Advice: submit the log exactly as the run wrote it.
    """
    start, stop = log.find_first_record(events.RUN_START), log.find_first_record(events.RUN_STOP)
    if start and stop and stop.time_ns <= start.time_ns:
        yield log.build_fault(
            f"run_stop {format_ns_as_seconds(start.time_ns - stop.time_ns)} before run_start",
            "a run that takes time",
            stop.line,
        )
    begun = [
        record.time_ns
        for record in log.list_records(events.INIT_START)
        if record.time_ns >= EARLIEST_CLOCK_NS
    ]
    mixed = not (log.row and log.row.data_set) or not (
        log.row.evaluated_later or is_otherwise_in_order(log, events.RUN_START)
    )
    for record in log.run if start else ():
        if start and record.time_ns < start.time_ns:
            near = record.time_ns >= start.time_ns - PROCESS_CLOCK_ERROR_NS or mixed
            accepted = (
                weigh_loose_clock(log)
                if near and (not begun or record.time_ns >= min(begun))
                else None
            )
            yield log.build_fault(
                f"{record.key} {format_ns_as_seconds(start.time_ns - record.time_ns)} before"
                " run_start",
                "a time after run_start",
                record.line,
                accepted,
            )


@rule("log.order", PublishedLog)
def order(log: PublishedLog) -> Iterator[Fault]:
    """The events are in this order in the file and by the clock: the start of initialisation, its
    end, the start of the run, its end.

    Source: training_rules.adoc, Run Results; mlcommons/logging, common.yaml: init_start before
    init_stop before run_start before run_stop.
    Advice: submit the log exactly as the run wrote it; start the clock where the rules require it.
    """
    if log.older:
        return
    init, start, stop = (
        log.find_first_record(key) for key in (events.INIT_STOP, events.RUN_START, events.RUN_STOP)
    )
    begun = log.list_records(events.INIT_START)
    if (
        log.round.rules.loose and init
    ):  # late lines of other processes still have the times of their events
        begun = [record for record in begun if record is begun[0] or record.time_ns > init.time_ns]
    pairs: list[tuple[PublishedRecord | None, PublishedRecord | None]] = [
        (begun[-1] if begun else None, init or start),
        (init, start),
        (start, stop),
    ]
    for before, after in pairs:
        if before and after and before.order > after.order:
            yield log.build_fault(
                f"{before.key} after {after.key} in line {after.line}",
                "the reverse order",
                before.line,
            )
    if start and init and init.time_ns > start.time_ns + START_TOLERANCE_NS:
        yield log.build_fault(
            f"init_stop {format_ns_as_seconds(init.time_ns - start.time_ns)} after run_start",
            "initialisation before the run",
            init.line,
        )
    if (
        init
        and begun
        and init.time_ns < min(record.time_ns for record in begun) - START_TOLERANCE_NS
    ):
        yield log.build_fault(
            "init_stop before the first init_start", "initialisation that takes time", init.line
        )
    if (
        start
        and begun
        and min(record.time_ns for record in begun) > start.time_ns + START_TOLERANCE_NS
    ):
        yield log.build_fault(
            "init_start after run_start", "initialisation before the run", begun[0].line
        )


@rule(
    "log.init",
    PublishedLog,
    about=About.RULES,
    doubt="the time to train, which leaves initialisation out",
)
def init(log: PublishedLog) -> Iterator[Fault]:
    """At most 20 minutes pass from the first init_start to init_stop and to the start of the run.
    From v1.0 on the limit is 30 minutes, in the open division 240.

    Source: training_rules.adoc, Run Results: a maximum of 20 minutes of model initialisation; the
    round's init_limit_min.
    Advice: start the clock when the limit is reached.
    """
    begun = [
        record.time_ns
        for record in log.list_records(events.INIT_START)
        if record.time_ns >= EARLIEST_CLOCK_NS
    ]
    limit = select_init_limit_min(log)
    for key in (events.INIT_STOP, events.RUN_START):
        end = log.find_first_record(key)
        taken = (end.time_ns - min(begun)) / (60 * NS_PER_S) if begun and end else 0.0
        if end and taken > limit:
            accepted = (
                Severity.WARNING if log.free and key == events.RUN_START else None
            )  # the rulesets since v1.0 check only init_stop
            yield log.build_fault(
                f"{taken:.2f} minutes to {key}", f"at most {limit:g}", end.line, accepted
            )


def select_init_limit_min(log: PublishedLog) -> float:
    """Return the limit for initialisation in minutes."""
    rules, own = log.round.rules, log.row.init_limit_min if log.row else None
    if not log.closed and rules.init_limit_open_min is not None:
        return rules.init_limit_open_min
    return rules.init_limit_min if own is None else own


@rule(
    "log.cache",
    PublishedLog,
    about=About.RULES,
    doubt="the time to train, which begins with cleared caches",
)
def cache(log: PublishedLog) -> Iterator[Fault]:
    """Caches are cleared before the run; cache_clear must not be false.

    Source: training_rules.adoc, Data State at Start of Run: flush the cache or restart the system;
    null, which many accepted logs have, makes no statement.
    Advice: clear the caches, and log cache_clear true.
    """
    records = log.list_records(events.CACHE_CLEAR)
    for record in records:
        stated = record.value.strip().casefold() if isinstance(record.value, str) else record.value
        if stated is None:
            continue
        if stated not in (True, "true"):
            yield log.build_fault(
                f"cache_clear {format_short_value(record.value)}", "true", record.line
            )
    start = log.find_first_record(events.RUN_START)
    if (
        start
        and records
        and all(record.order > start.order and record.time_ns > start.time_ns for record in records)
    ):
        yield log.build_fault(
            "cache_clear after run_start", "caches cleared before the run", records[0].line
        )
    elif start and records and all(record.order > start.order for record in records):
        found = f"cache_clear after run_start in line {start.line}, with an earlier time"
        yield log.build_fault(
            found,
            "caches cleared, and the event logged, before the run",
            records[0].line,
            Severity.WARNING,
        )


@rule("log.uncleared", PublishedLog, severity=Severity.WARNING)
def uncleared(log: PublishedLog) -> Iterator[Fault]:
    """cache_clear is true, which states that caches were cleared; null does not.

    Source: training_rules.adoc, Data State at Start of Run; mlcommons/logging,
    training_0.6.0/common.yaml: cache_clear true.
    Advice: log cache_clear true.
    """
    record = log.find_first_record(events.CACHE_CLEAR)
    if record and record.value is None:
        yield log.build_fault("cache_clear null", "true", record.line)


@rule("log.after", PublishedLog)
def after(log: PublishedLog) -> Iterator[Fault]:
    """No training happens after run_stop. Unfinished work is reported if it is clear which
    evaluation counts.

    Source: training_rules.adoc, Run Results and Quality measure: the time to evaluate is included;
    the loggers of accepted logs work ahead of the evaluation, so blocks, epochs and evaluations may
    begin or end after run_stop.
    Advice: stop the clock when the last evaluation is done.
    """
    stop, row = log.find_first_record(events.RUN_STOP), log.row
    if stop is None or row is None or not row.strict:
        return
    behind = [record for record in log.run if record.order > stop.order]
    if not behind:
        return
    settled = not log.succeeded or log.reached
    trained = has_training_after_stop(behind)
    for record in behind:
        if record.key in TRAINING_END_EVENTS and not trained:
            continue
        allowed = (
            settled
            if record.key in PUBLISHED_EVALUATION_EVENTS
            else record.key in TRAINING_BEGIN_EVENTS and not trained
        )
        yield log.build_fault(
            f"{record.key} after run_stop",
            "no events of the run after its end",
            record.line,
            Severity.WARNING if allowed else None,
        )


def has_training_after_stop(behind: Sequence[PublishedRecord]) -> bool:
    """Return whether one epoch or block both begins and ends after run_stop, or more of them begin
    than can be unfinished.
    """
    for begin, end in zip(TRAINING_BEGIN_EVENTS, TRAINING_END_EVENTS, strict=True):
        begun = [record for record in behind if record.key == begin]
        ended = [record for record in behind if record.key == end]
        started = {
            number: record.order
            for number, record in zip(
                parse_metadata_numbers(begun, PROGRESS_FIELDS[begin]), begun, strict=True
            )
        }
        stopped = zip(parse_metadata_numbers(ended, PROGRESS_FIELDS[end]), ended, strict=True)
        if len(begun) > MAX_INTERVALS_AHEAD or any(
            number in started and record.order > started[number] for number, record in stopped
        ):
            return True
    return False


@rule(
    "log.total",
    PublishedLog,
    about=About.SCORE,
    doubt="the time to train",
)
def total(log: PublishedLog) -> Iterator[Fault]:
    """The runtime stated by the text format matches its own timestamps.

    Source: house rule: a log must not contradict itself; `Total runtime`, `run_start` and
    `run_stop` of the text form.
    Advice: submit the log exactly as the run wrote it.
    """
    record, start, stop = (
        log.find_first_record(TOTAL_RUNTIME_KEY),
        log.find_first_record(events.RUN_START),
        log.find_first_record(events.RUN_STOP),
    )
    if log.older and record is None:
        yield log.build_fault("no 'Total runtime'", "the duration of the run in minutes")
    minutes = log.minutes
    if record and start and stop and minutes is not None:
        timed = (stop.time_ns - start.time_ns) / (60 * NS_PER_S)
        if abs(timed - minutes) > TOTAL_RUNTIME_TOLERANCE_MIN:
            yield log.build_fault(
                f"Total runtime {minutes:.4f} minutes, {timed:.4f} by the clock",
                "equal times",
                record.line,
            )
