"""Numbers in logs that somebody else wrote: finite, and small enough for arithmetic."""

from typing import Final, TypeGuard

MAX_LOGGED_NUMBER: Final = 1e30


def parse_finite_number(value: object) -> float | None:
    """Parse a finite number, or a numeric text; None for anything else."""
    if is_finite_number(value):
        return float(value)
    if not isinstance(value, str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    if is_finite_number(number):
        return number
    return None


def is_finite_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a finite number small enough for arithmetic; booleans do not
    count.
    """
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and -MAX_LOGGED_NUMBER < value < MAX_LOGGED_NUMBER
    )
