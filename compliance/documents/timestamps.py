"""Checks timestamps against the round's dates, against today, and against one another."""

import time
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Final, NamedTuple

from compliance.verdict import Severity

ZONES_H: Final = 26
"""Hours by which two clocks may differ that show the local time of any two places: from UTC-12 to UTC+14."""
S_PER_H: Final = 3600
NS_PER_S: Final = 1_000_000_000
S_PER_YEAR: Final = 365.25 * 24 * S_PER_H
NEAR_YEARS: Final = 2
"""Around the day on which a round's results were published: they were made in the months before it."""
FAR_YEARS: Final = 10
"""A clock that is decades off was never set, or was set to be."""


class Misdated(NamedTuple):
    """Why a time is not one of its round."""

    found: str
    required: str
    severity: Severity


def misdated(seconds: float, published: date | None = None) -> Misdated | None:
    """Judge a time in seconds since 1970, of whatever time zone; None if nothing is wrong with it.

    A time after today's is no time of a run. One that is years from its round's publication is told: rules of a round can be
    run by later on, but not decades before they were written.
    """
    if seconds > time.time() + ZONES_H * S_PER_H:
        return Misdated(f"dated {day(seconds)}", "a date that is not in the future", Severity.ERROR)
    if published is None:
        return None
    years = abs(seconds - datetime(published.year, published.month, published.day, tzinfo=UTC).timestamp()) / S_PER_YEAR
    if years <= NEAR_YEARS:
        return None
    required = f"a day near the round's, whose results were published on {published}"
    return Misdated(f"dated {day(seconds)}", required, Severity.ERROR if years > FAR_YEARS else Severity.WARNING)


def day(seconds: float) -> str:
    """Show a day."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.0f} s after 1970"


@lru_cache(256)
def moment(text: str | None, form: str) -> float | None:
    """Read a date and time, as if it were UTC, in seconds since 1970; None if it is none."""
    try:
        return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp() if text else None
    except ValueError:
        return None


def apart_h(one: float, other: float) -> float | None:
    """Return the hours between two stamps of one moment where no time zones explain them; None if they do."""
    hours = abs(one - other) / S_PER_H
    return hours if hours > ZONES_H else None
