"""A published training log: its date, and the run script's account of its time."""

from collections.abc import Iterator
from typing import Final

from compliance.documents.timestamps import apart_h, day, misdated, moment
from compliance.documents.training.log import NS_PER_S, S_PER_MINUTE, PublishedLog
from compliance.logs.mllog.published import Dialect
from compliance.rules import rule
from compliance.rules.training.log_clock import CLOCK_SET_NS
from compliance.verdict import Fault, Severity
from suite import events

STAMPED: Final = "%Y-%m-%d %I:%M:%S %p"
"""How the reference's run scripts write when they began."""
SLACK_S: Final = 1.0
"""The scripts have whole seconds. In the accepted logs they took 20 to 46 seconds more than the run
that they started.
"""
AROUND_S: Final = 60.0
"""What a script may take besides initialisation and run."""
FEWEST: Final = 5
"""Events of a run from which on whole seconds are no chance: one clock in 10^15."""


@rule("log.date", PublishedLog)
def dated(log: PublishedLog) -> Iterator[Fault]:
    """A run was made during its round and not after today; years late is a warning, decades an
    error.

    Source: house rule: a run's day is told by its own clock; accepted logs were made in the three
    months before their round was published.
    Advice: set the clock and repeat the run; do not edit the log.
    """
    for record in filter(None, map(log.first, (events.RUN_START, events.RUN_STOP))):
        wrong = (
            misdated(record.time_ns / NS_PER_S, log.round.rules.published)
            if record.time_ns >= CLOCK_SET_NS
            else None
        )
        if wrong:
            yield log.fault(
                f"{record.key} {wrong.found}", wrong.required, record.line, wrong.severity
            )
            return


@rule("log.rounded", PublishedLog, severity=Severity.WARNING)
def rounded(log: PublishedLog) -> Iterator[Fault]:
    """A run's times have millisecond resolution.

    Source: mlcommons/logging, mllog.py: time.time() in milliseconds; the text form and logs with
    time_s, which have whole seconds, aside.
    Advice: submit the log exactly as the run wrote it: rounded times show.
    """
    if log.older or Dialect.SECONDS in log.dialects or len(log.run) < FEWEST:
        return
    if not any(record.time_ns % NS_PER_S for record in log.run):
        yield log.fault(
            f"all {len(log.run)} events of the run at whole seconds",
            "times in milliseconds",
            log.run[0].line,
        )


@rule("log.result", PublishedLog)
def result(log: PublishedLog) -> Iterator[Fault]:
    """The duration and date in the RESULT line match the run's own clock.

    Source: mlcommons/training, run_and_time.sh: RESULT,<benchmark>,<seed>,<seconds>,<user>,<date of
    its start>; it begins before the run
    and ends behind it, in every accepted log.
    Advice: submit the log exactly as the run wrote it; a RESULT shorter than its run means that one
    of the two was edited.
    """
    start, stop = log.first(events.RUN_START), log.first(events.RUN_STOP)
    if not start or not stop:
        return
    took = (stop.time_ns - start.time_ns) / NS_PER_S
    longest = took + log.round.rules.init_limit_min * S_PER_MINUTE + AROUND_S
    for told in log.results:
        if told.seconds < took - SLACK_S:
            unsure = Severity.WARNING if log.free else None  # known of v0.6 and v0.7 alone
            yield log.fault(
                f"RESULT {told.seconds} s",
                f"at least the {took:.3f} s from run_start to run_stop",
                told.line,
                unsure,
            )
        elif told.seconds > longest:
            yield log.fault(
                f"RESULT {told.seconds} s",
                f"about the {took:.3f} s from run_start to run_stop",
                told.line,
                Severity.WARNING,
            )
        began = moment(told.began, STAMPED)
        if began is not None and (hours := apart_h(began, start.time_ns / NS_PER_S)):
            found = f"RESULT of a script started on {day(began)}, {hours:.0f} hours from run_start"
            yield log.fault(
                found,
                "the same day, allowing for time zones",
                told.line,
                Severity.WARNING if log.free else None,
            )
