"""Numbers as people read them: with the digits that are known, thousands apart, and never with an
exponent. What a program reads has all digits (`format_exact_number`).
"""

import math
from typing import Final

MIN_KNOWN_DIGITS: Final = 2
"""Digits that every figure is shown with, however wide its interval."""
SINGLE_RUN_DIGITS: Final = 3
"""Digits of a figure without an interval: what one run shows of a machine that nothing
disturbed.
"""
SHOWN_DIGITS: Final = 4
"""Digits of a number of which no more is known."""
MAX_SHOWN_DECIMALS: Final = 12
"""A number that needs more decimals is shown as below the smallest of them."""
MAX_SHOWN_NUMBER: Final = 1e15
"""A larger number is shown as above this one: no figure is as large."""


def format_plain_number(value: float, digits: int = SHOWN_DIGITS) -> str:
    """Format a number with its first digits, without zeros at the end: 32,650 or 0.0125."""
    text = format_significant_number(value, digits)
    if "." in text:
        return text.rstrip("0").rstrip(".")
    return text


def format_whole_digits(value: float, digits: int = SHOWN_DIGITS) -> str:
    """Format a number with its first digits, and with all of those before its point."""
    if not math.isfinite(value):
        return format_significant_number(value, digits)
    return format_plain_number(value, max(digits, find_first_place(value) + 1))


def format_significant_number(value: float, digits: int) -> str:
    """Format a number with so many digits: 32,650 or 0.01250."""
    if math.isnan(value):
        return "unknown"
    if abs(value) > MAX_SHOWN_NUMBER:
        return f"{'less than -' if value < 0 else 'more than '}{MAX_SHOWN_NUMBER:,.0f}"
    return format_rounded_number(value, digits - 1 - find_first_place(value))


def format_rounded_number(value: float, decimals: int) -> str:
    """Format a number that is rounded to a place; `decimals` below 0 round before the point."""
    if decimals > MAX_SHOWN_DECIMALS:
        least = 10.0**-MAX_SHOWN_DECIMALS
        if 0 < abs(value) < least:
            return f"{'-' if value < 0 else ''}below {least:.{MAX_SHOWN_DECIMALS}f}"
        decimals = MAX_SHOWN_DECIMALS
    return f"{round(value, decimals):,.{max(0, decimals)}f}"


def find_first_place(value: float) -> int:
    """Return the place of a number's first digit: 3 for 8,125, -2 for 0.0125, 0 for zero. A number
    that two digits round up, as 9.97 to 10, still has its own place.
    """
    if value:
        return math.floor(math.log10(abs(value)))
    return 0


def format_share_as_percent(share: float) -> str:
    """Format a share in percent, with two digits or more."""
    return f"{format_whole_digits(100 * share, MIN_KNOWN_DIGITS)} %"


def count_known_decimals(
    value: float, low: float | None, high: float | None, *, disturbed: bool
) -> int:
    """Return the decimals that are known of a figure: down to the first digit of half of its
    interval. Without an interval it has three digits, or two from a disturbed machine, and always
    at least two.
    """
    place = find_first_place(value)
    if low is None or high is None or not high > low:
        digits = MIN_KNOWN_DIGITS if disturbed else SINGLE_RUN_DIGITS
        return digits - 1 - place
    return max(-find_first_place((high - low) / 2), MIN_KNOWN_DIGITS - 1 - place)


def format_exact_number(value: float) -> str:
    """Format a number for a program with all its digits, a whole one without a point."""
    return repr(value).removesuffix(".0")
