"""Dates of a published round's LoadGen run, from the timestamps of its detail log."""

from collections.abc import Iterator
from typing import Final

from compliance.documents.timestamps import (
    compute_unexplained_gap_h,
    find_date_problem,
    format_utc_day,
    parse_utc_seconds,
)
from compliance.kinds.inference_text.documents.entry import TextRun
from compliance.rules import rule
from compliance.verdict import Fault, Severity

TEST_DATE_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"
BUILD_DATE_KEY: Final = "loadgen_build_date_utc"
BUILD_DATE_FORMAT: Final = "%Y-%m-%dT%H:%M:%S.%f"
POWER_STAMP_FORMAT: Final = "%m-%d-%Y %H:%M:%S.%f"
"""Source: mlcommons/inference, loadgen/utils.cc: CurrentDateTimeISO8601 and DateTimeStringForPower;
loadgen/version_generator.py.
"""


@rule("inference-text.date", TextRun, former="served.date")
def dated(run: TextRun) -> Iterator[Fault]:
    """A run was made during its round, not after today, on a single day according to all
    timestamps, and after its LoadGen was built.

    Source: mlcommons/inference, loadgen: the date of the test, the power timestamps around its
    queries and the build date come from one clock; in accepted logs they differ by at most hours,
    except for older builds.
    Advice: set the machine's clock and repeat the run.
    """
    logged_date = run.find_record("test_datetime")
    tested = None
    if logged_date:
        tested = parse_utc_seconds(logged_date.text, TEST_DATE_FORMAT)
    if logged_date is None or tested is None:
        return
    if wrong := find_date_problem(tested, run.round.filing.published):
        yield run.build_fault(
            wrong.found, wrong.required, logged_date.line, severity=wrong.severity
        )
    for phase in run.detail.phases:
        for what, _, stamp, line in phase.power:
            at = parse_utc_seconds(stamp, POWER_STAMP_FORMAT)
            if at is not None and (hours := compute_unexplained_gap_h(at, tested)):
                found = (
                    f"POWER_{what} on {format_utc_day(at)}, {hours:.0f} hours from the date of the"
                    " test"
                )
                yield run.build_fault(found, f"{format_utc_day(tested)}, in any time zone", line)
    built = parse_utc_seconds(run.find_value(BUILD_DATE_KEY), BUILD_DATE_FORMAT)
    if built is not None and built > tested and compute_unexplained_gap_h(built, tested):
        yield run.build_fault(
            f"LoadGen built on {format_utc_day(built)}",
            f"a build before the test, {format_utc_day(tested)}",
            BUILD_DATE_KEY,
            severity=Severity.WARNING,
        )
