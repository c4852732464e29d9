"""Check the date of a published training log, and the duration in the run script's RESULT line."""

from collections.abc import Iterator
from typing import Final

from compliance.documents.timestamps import (
    compute_unexplained_gap_h,
    find_date_problem,
    format_utc_day,
    parse_utc_seconds,
)
from compliance.kinds.training.documents.log import PublishedLog
from compliance.kinds.training.logs.published import Dialect
from compliance.kinds.training.rules.log_clock import EARLIEST_CLOCK_NS
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite import events
from suite.units import NS_PER_S, S_PER_MINUTE

SCRIPT_START_FORMAT: Final = "%Y-%m-%d %I:%M:%S %p"
"""Date formats of the reference's run scripts."""
SCRIPT_TIME_TOLERANCE_S: Final = 1.0
"""The scripts have whole seconds. In the accepted logs they took 20 to 46 seconds more than the run
that they started.
"""
MAX_SCRIPT_OVERHEAD_S: Final = 60.0
"""Maximum time that a script may take besides initialisation and run."""
MIN_WHOLE_SECOND_EVENTS: Final = 5
"""Minimum number of events at which whole seconds are not a coincidence: one clock in 10^15."""


@rule("log.date", PublishedLog)
def dated(log: PublishedLog) -> Iterator[Fault]:
    """A run was made during its round and not after today. Years late is a warning, decades late an
    error.

    Source: house rule: the run's own clock gives its day; accepted logs were made in the three
    months before their round was published.
    Advice: set the machine's clock and repeat the run.
    """
    for record in filter(None, map(log.find_record, (events.RUN_START, events.RUN_STOP))):
        wrong = None
        if record.time_ns >= EARLIEST_CLOCK_NS:
            wrong = find_date_problem(record.time_ns / NS_PER_S, log.round.rules.published)
        if wrong:
            yield log.build_fault(
                f"{record.key} {wrong.found}", wrong.required, record.line, severity=wrong.severity
            )
            return


@rule("log.rounded", PublishedLog, severity=Severity.WARNING)
def rounded(log: PublishedLog) -> Iterator[Fault]:
    """A run's times have millisecond resolution.

    Source: mlcommons/logging, mllog.py: time.time() in milliseconds; except the text form and logs
    with time_s, which have whole seconds.
    Advice: log time_ms in whole milliseconds, as mllog does by default.
    """
    if log.older or Dialect.SECONDS in log.dialects or len(log.run) < MIN_WHOLE_SECOND_EVENTS:
        return
    if not any(record.time_ns % NS_PER_S for record in log.run):
        yield log.build_fault(
            f"all {len(log.run)} events of the run at whole seconds",
            "times in milliseconds",
            log.run[0].line,
        )


@rule("log.result", PublishedLog, About.SCORE, doubt="the time to train")
def result(log: PublishedLog) -> Iterator[Fault]:
    """The duration and date in the RESULT line match the run's own clock.

    Source: mlcommons/training, run_and_time.sh: RESULT,<benchmark>,<seed>,<seconds>,<user>,<date of
    its start>; in every accepted log it begins before the run and ends after it.
    Advice: print the RESULT line from the run's own run_start and run_stop.
    """
    start, stop = log.find_record(events.RUN_START), log.find_record(events.RUN_STOP)
    if not start or not stop:
        return
    took = (stop.time_ns - start.time_ns) / NS_PER_S
    longest = took + log.round.rules.init_limit_min * S_PER_MINUTE + MAX_SCRIPT_OVERHEAD_S
    for result_line in log.results:
        if result_line.seconds < took - SCRIPT_TIME_TOLERANCE_S:
            unsure = Severity.WARNING if log.free else None  # known only for v0.6 and v0.7
            yield log.build_fault(
                f"RESULT {result_line.seconds} s",
                f"at least the {took:.3f} s from run_start to run_stop",
                result_line.line,
                severity=unsure,
            )
        elif result_line.seconds > longest:
            yield log.build_fault(
                f"RESULT {result_line.seconds} s",
                f"about the {took:.3f} s from run_start to run_stop",
                result_line.line,
                severity=Severity.WARNING,
            )
        began = parse_utc_seconds(result_line.began, SCRIPT_START_FORMAT)
        if began is not None and (
            hours := compute_unexplained_gap_h(began, start.time_ns / NS_PER_S)
        ):
            found = (
                f"RESULT of a script started on {format_utc_day(began)}, {hours:.0f} hours from"
                " run_start"
            )
            yield log.build_fault(
                found,
                "the same day, allowing for time zones",
                result_line.line,
                severity=Severity.WARNING if log.free else None,
            )
