"""Check the order of events and the clock of a published training log."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from compliance.kinds.training.documents.log import PublishedLog
from compliance.kinds.training.logs.legacy_text import TOTAL_RUNTIME_KEY
from compliance.kinds.training.logs.published import PublishedRecord
from compliance.kinds.training.rules.log_identity import format_short_value
from compliance.logs.finite_numbers import parse_finite_number
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite import events
from suite.units import NS_PER_S

EARLIEST_CLOCK_NS: Final = 1_483_228_800 * NS_PER_S
"""January 2017, before the first MLPerf round: an earlier clock was never set."""
PROCESS_CLOCK_ERROR_NS: Final = 5 * NS_PER_S
"""Maximum difference between the clocks of a run's processes. No known accepted log has an event of
the run before its start.
"""
EVALUATION_EVENTS: Final = frozenset({events.EVAL_START, events.EVAL_STOP, events.EVAL_ACCURACY})
TOTAL_RUNTIME_TOLERANCE_MIN: Final = 0.1
"""The text form has whole seconds, and its run starts when the first of many processes starts."""


def format_ns_as_seconds(nanoseconds: int) -> str:
    """Format a time span."""
    return f"{nanoseconds / NS_PER_S:.3f} s"


@rule("log.span", PublishedLog, About.SCORE, doubt="the time to train")
def span(log: PublishedLog) -> Iterator[Fault]:
    """A run takes time, and its work is between its start and its end. If a log mixes the lines of
    several processes, their clocks may differ by 5 seconds. Evaluations of the untrained model,
    before the end of initialisation, are a warning: an accepted set of v1.0 has one.

    Source: training_rules.adoc, Run Results: a contiguous period that includes training and
    evaluation. If the other events are in the order of their times, the log has one clock.
    Advice: log run_start before the first work on the data and run_stop after the last, by one
    process.
    """
    start, stop = log.find_record(events.RUN_START), log.find_record(events.RUN_STOP)
    for record in filter(None, (start, stop)):
        if record.time_ns < EARLIEST_CLOCK_NS:
            yield log.build_fault(
                f"{record.key} at {format_ns_as_seconds(record.time_ns)}",
                "a time from a clock that was set",
                record.line,
            )
    if start and stop and stop.time_ns <= start.time_ns:
        yield log.build_fault(
            f"run_stop {format_ns_as_seconds(start.time_ns - stop.time_ns)} before run_start",
            "a run that takes time",
            stop.line,
        )
    if not log.row or not log.row.data_set:
        return  # games are played after the run
    later = log.row.evaluated_later
    tolerance = 0
    if log.row.loose_clock:
        tolerance = PROCESS_CLOCK_ERROR_NS
    if stop and not later and is_otherwise_in_order(log, events.RUN_STOP):
        before = [record for record in log.run if record.order < stop.order]
        last = max(before, key=get_record_time_ns, default=stop)
        if stop.time_ns < last.time_ns - tolerance:
            yield log.build_fault(
                f"run_stop {format_ns_as_seconds(last.time_ns - stop.time_ns)} before {last.key}"
                f" in line {last.line}",
                "a run that ends after its work",
                stop.line,
            )
    if stop and not later:
        counted = log.list_evaluations_before(stop)
    else:
        counted = ()
    if counted and start and counted[-1].entry.time_ns < start.time_ns - tolerance:
        yield log.build_fault(
            "the evaluation that counts is before run_start",
            "an evaluation within the run",
            counted[-1].entry.line,
        )
    if counted and stop and counted[-1].entry.time_ns > stop.time_ns + PROCESS_CLOCK_ERROR_NS:
        yield log.build_fault(
            "the evaluation that counts is"
            f" {format_ns_as_seconds(counted[-1].entry.time_ns - stop.time_ns)} after run_stop",
            "an evaluation within the run",
            counted[-1].entry.line,
        )
    early = list_early_records(log, tolerance)
    if early and start and (later or is_otherwise_in_order(log, events.RUN_START)):
        first = min(early, key=get_record_time_ns)
        severity = None
        if are_initial_evaluations(log, early):
            severity = Severity.WARNING
        yield log.build_fault(
            f"{first.key} {format_ns_as_seconds(start.time_ns - first.time_ns)} before run_start",
            "a run that starts before its work",
            first.line,
            severity=severity,
        )


def are_initial_evaluations(log: PublishedLog, early: Sequence[PublishedRecord]) -> bool:
    """Return whether what happened before the start of a run are evaluations within its
    initialisation, before any training.
    """
    end = log.find_record(events.INIT_STOP)
    return end is not None and all(
        record.key in EVALUATION_EVENTS
        and record.order < end.order
        and record.time_ns <= end.time_ns
        for record in early
    )


def get_record_time_ns(record: PublishedRecord) -> int:
    return record.time_ns


def list_early_records(log: PublishedLog, tolerance_ns: int = 0) -> list[PublishedRecord]:
    """List the events of a run that happened before its start, by more than its clocks differ."""
    start = log.find_record(events.RUN_START)
    if start is None:
        return []
    limit = start.time_ns - tolerance_ns
    return [record for record in log.run if EARLIEST_CLOCK_NS <= record.time_ns < limit]


def is_otherwise_in_order(log: PublishedLog, without: str) -> bool:
    """Return whether the other events of a run are in the order of their times. If so, that one
    event was moved, and clocks did not differ.
    """
    others = [each.time_ns for each in log.run if each.key != without]
    return all(late >= early for early, late in zip(others, others[1:], strict=False))


@rule(
    "log.init",
    PublishedLog,
    About.RULES,
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
        end = log.find_record(key)
        taken = 0.0
        if begun and end:
            taken = (end.time_ns - min(begun)) / (60 * NS_PER_S)
        if end and taken > limit:
            unchecked = log.free and key == events.RUN_START  # rulesets since v1.0: init_stop alone
            yield log.build_fault(
                f"{taken:.2f} minutes to {key}",
                f"at most {limit:g}",
                end.line,
                about=About.FORM if unchecked else None,
            )


def select_init_limit_min(log: PublishedLog) -> float:
    """Return the limit for initialisation in minutes."""
    rules, own = log.round.rules, log.row.init_limit_min if log.row else None
    if not log.closed and rules.init_limit_open_min is not None:
        return rules.init_limit_open_min
    if own is None:
        return rules.init_limit_min
    return own


@rule(
    "log.cache",
    PublishedLog,
    About.RULES,
    doubt="the time to train, which begins with cleared caches",
)
def cache(log: PublishedLog) -> Iterator[Fault]:
    """Caches are cleared before the run. A cache_clear of false is a warning.

    Source: training_rules.adoc, Data State at Start of Run: flush the cache or restart the system;
    null, which many accepted logs have, makes no statement. mlcommons/logging accepts any value,
    and 11 accepted sets of v5.1 log false.
    Advice: clear the caches, and log cache_clear true.
    """
    records = log.list_records(events.CACHE_CLEAR)
    for record in records:
        stated: Any = record.value
        if isinstance(stated, str):
            stated = stated.strip().casefold()
        if stated is None:
            continue
        if stated not in (True, "true"):
            yield log.build_fault(
                f"cache_clear {format_short_value(record.value)}",
                "true",
                record.line,
                severity=Severity.WARNING,
            )
    start = log.find_record(events.RUN_START)
    if start and records and all(record.order > start.order for record in records):
        in_run = all(record.time_ns > start.time_ns for record in records)
        yield log.build_fault(
            "cache_clear after run_start" + ("" if in_run else ", with an earlier time"),
            "caches cleared before the run",
            records[0].line,
            about=None if in_run else About.FORM,
        )


@rule("log.uncleared", PublishedLog, severity=Severity.WARNING)
def uncleared(log: PublishedLog) -> Iterator[Fault]:
    """cache_clear is true, which states that caches were cleared. The value null does not state it.

    Source: training_rules.adoc, Data State at Start of Run; mlcommons/logging,
    training_0.6.0/common.yaml: cache_clear true.
    Advice: log cache_clear true.
    """
    record = log.find_record(events.CACHE_CLEAR)
    if record and record.value is None:
        yield log.build_fault("cache_clear null", "true", record.line)


@rule("log.total", PublishedLog, About.SCORE, doubt="the time to train")
def total(log: PublishedLog) -> Iterator[Fault]:
    """The runtime stated by the text format matches its own timestamps.

    Source: house rule: a log must not contradict itself; `Total runtime`, `run_start` and
    `run_stop` of the text form.
    Advice: print the runtime from the run's own time stamps.
    """
    record, start, stop = (
        log.find_record(TOTAL_RUNTIME_KEY),
        log.find_record(events.RUN_START),
        log.find_record(events.RUN_STOP),
    )
    stated = None
    if record:
        stated = parse_finite_number(record.value)
    if log.older and (stated is None or stated <= 0):
        found = "no 'Total runtime'"
        if record:
            found = f"Total runtime {stated}"
        yield log.build_fault(found, "the duration of the run in minutes")
    minutes = log.minutes
    if record and start and stop and minutes is not None:
        timed = (stop.time_ns - start.time_ns) / (60 * NS_PER_S)
        if abs(timed - minutes) > TOTAL_RUNTIME_TOLERANCE_MIN:
            yield log.build_fault(
                f"Total runtime {minutes:.4f} minutes, {timed:.4f} by the clock",
                "equal times",
                record.line,
            )
