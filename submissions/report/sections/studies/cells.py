"""What the tables of several kinds of studies share."""

from typing import Final

from suite.units import NS_PER_MS

NO_RESULT_NOTE: Final = (
    "A study is not an MLPerf result and not part of a score; every figure comes from a LoadGen "
    "run that is kept."
)


def format_generated_rate(samples: float | None, tokens: float | None) -> str:
    """Format a rate, of generated answers with that of their tokens."""
    rate = format_study_rate(samples)
    if tokens is None:
        return rate
    return f"{rate} ({tokens:,.1f} tokens/s)"


def format_study_rate(value: float | None) -> str:
    """Format a rate; a dash if there is none."""
    if value is None:
        return "-"
    return f"{value:,.1f}"


def format_ns_as_ms(value_ns: float | None) -> str:
    """Format a latency; a dash if there is none."""
    if value_ns is None:
        return "-"
    return f"{value_ns / NS_PER_MS:,.2f}"


def format_threads(threads: int) -> str:
    """Format a number of CPU threads."""
    return f"{threads} thread{'s' * (threads != 1)}"
