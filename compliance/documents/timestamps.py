"""Check timestamps against the round's dates, the current date, and one another."""

import time
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Final, NamedTuple

from compliance.verdict import Severity
from suite.units import S_PER_HOUR

MAX_ZONE_DIFFERENCE_H: Final = 26
"""Largest difference in hours between two clocks that show local time anywhere: from UTC-12 to
UTC+14.
"""
S_PER_YEAR: Final = 365.25 * 24 * S_PER_HOUR
USUAL_DISTANCE_YEARS: Final = 2
"""Usual distance from a round's publication date: results were made in the months before it."""
MAX_DISTANCE_YEARS: Final = 10
"""A clock that is decades off was never set, or was set wrong on purpose."""


UNSET_CLOCK_BEFORE_S: Final = datetime(2001, 1, 1, tzinfo=UTC).timestamp()
"""Clocks that were never set start at 1970, 1980 or 2000, which a board without a battery shows
until it has a network.
"""


class DateProblem(NamedTuple):
    """Why a timestamp does not fit its round."""

    found: str
    required: str
    severity: Severity


def find_date_problem(seconds: float, published: date | None = None) -> DateProblem | None:
    """Check a time in seconds since 1970, in any time zone; None if it has no problem.

    A time in the future cannot be the time of a run. One that is years away from the round's
    publication is reported: a round's rules can be used later, but not decades before they were
    written.
    """
    if seconds > time.time() + MAX_ZONE_DIFFERENCE_H * S_PER_HOUR:
        return DateProblem(
            f"dated {format_utc_day(seconds)}", "a date that is not in the future", Severity.ERROR
        )
    if published is None:
        return None
    years = (
        abs(
            seconds
            - datetime(published.year, published.month, published.day, tzinfo=UTC).timestamp()
        )
        / S_PER_YEAR
    )
    if years <= USUAL_DISTANCE_YEARS:
        return None
    required = f"a day near the round, whose results were published on {published}"
    return DateProblem(
        f"dated {format_utc_day(seconds)}",
        required,
        Severity.ERROR if years > MAX_DISTANCE_YEARS else Severity.WARNING,
    )


def is_from_unset_clock(seconds: float) -> bool:
    """Return whether a time is from a clock that was never set."""
    return seconds < UNSET_CLOCK_BEFORE_S


def format_utc_day(seconds: float) -> str:
    """Format a day."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.0f} s after 1970"


@lru_cache(256)
def parse_utc_seconds(text: str | None, form: str) -> float | None:
    """Parse a date and time as UTC, to seconds since 1970; None if invalid."""
    try:
        if not text:
            return None
        return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def compute_unexplained_gap_h(one: float, other: float) -> float | None:
    """Return the hours between two timestamps of the same moment if time zones cannot explain them,
    else None.
    """
    hours = abs(one - other) / S_PER_HOUR
    if hours > MAX_ZONE_DIFFERENCE_H:
        return hours
    return None
