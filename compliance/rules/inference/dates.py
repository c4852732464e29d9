"""Dates of a published round's LoadGen run, from the timestamps of its detail log."""

from collections.abc import Iterator
from typing import Final

from compliance.documents.inference.entry import ServedRun
from compliance.documents.timestamps import apart_h, day, misdated, moment
from compliance.rules import rule
from compliance.verdict import Fault, Severity

TESTED: Final = "Date + time of test"
TESTED_FORM: Final = "%Y-%m-%dT%H:%M:%SZ"
BUILT: Final = "build_date_utc"
BUILT_FORM: Final = "%Y-%m-%dT%H:%M:%S.%f"
POWER_FORM: Final = "%m-%d-%Y %H:%M:%S.%f"
"""Source: mlcommons/inference, loadgen/utils.cc: CurrentDateTimeISO8601 and DateTimeStringForPower;
loadgen/version_generator.py.
"""


@rule("served.date", ServedRun)
def dated(run: ServedRun) -> Iterator[Fault]:
    """A run was made during its round, not after today, on a single day according to all
    timestamps, and after its LoadGen was built.

    Source: mlcommons/inference, loadgen: the date of the test, the power stamps around its queries
    and the date of the build are of one clock;
    in accepted logs they are hours apart at most, but for a build that is older.
    Advice: set the clock and repeat the run; do not edit the log.
    """
    told = run.detail.about.get(TESTED)
    tested = moment(told.text, TESTED_FORM) if told else None
    if told is None or tested is None:
        return
    if wrong := misdated(tested, run.round.filing.published):
        yield run.in_detail(wrong.found, wrong.required, told.line, wrong.severity)
    for phase in run.detail.phases:
        for what, _, stamp, line in phase.power:
            at = moment(stamp, POWER_FORM)
            if at is not None and (hours := apart_h(at, tested)):
                found = f"POWER_{what} on {day(at)}, {hours:.0f} hours from the date of the test"
                yield run.in_detail(found, f"{day(tested)}, whatever the time zone", line)
    built = moment(run.detail.text(BUILT), BUILT_FORM)
    if built is not None and built > tested and apart_h(built, tested):
        line = run.detail.about[BUILT].line
        yield run.in_detail(
            f"LoadGen built on {day(built)}",
            f"a build from before the test, {day(tested)}",
            line,
            Severity.WARNING,
        )
