"""What a comparison concludes, in one line for each result."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from submissions.compare.comparison import ComparedResult, Comparison
from submissions.compare.verdicts import SpeedVerdict
from suite.human_numbers import (
    MIN_KNOWN_DIGITS,
    format_plain_number,
    format_share_as_percent,
    format_significant_number,
)
from suite.rounds.compatibility import TRAINING_HALF

MIN_RATIO_DIGITS: Final = 2
MAX_RATIO_DIGITS: Final = 6
SMALL_RATIO: Final = 0.1
WIDE_INTERVAL: Final = 10.0
"""An interval whose upper end is as many times its lower one has no digits to tell apart."""
NOT_COMPARABLE: Final = "not comparable"
NOTHING_BESIDE: Final = "has nothing to be compared with"


class RatioText(NamedTuple):
    """A ratio and the ends of its interval for people; the ends are empty without an interval."""

    ratio: str
    low: str = ""
    high: str = ""


def name_result_kind(found: Comparison) -> str:
    """Name the workload, and the scenario or the training."""
    return f"{found.workload} {found.scenario or TRAINING_HALF}"


def list_conclusions(found: Sequence[Comparison], confidence: float) -> list[str]:
    """Return a line for each result but the baseline, and for each published row that was
    tested.
    """
    return [
        f"{name_result_kind(comparison)}: {told}"
        for comparison in found
        for told in iterate_conclusions(comparison, confidence)
    ]


def iterate_conclusions(found: Comparison, confidence: float) -> Iterator[str]:
    """Yield what is concluded of each result of one kind."""
    baseline = next((each for each in found.results if each.baseline), None)
    tested = [each for each in found.references if each.ratio is not None]
    others = [each for each in (*found.results, *tested) if not each.baseline]
    for each in others:
        yield describe_conclusion(each, baseline, confidence)
    if not others and baseline is not None:
        yield f"{baseline.label} {NOTHING_BESIDE}"


def describe_conclusion(
    found: ComparedResult, baseline: ComparedResult | None, confidence: float
) -> str:
    """Say in one line how fast a result is beside the baseline, or why nobody can tell."""
    if found.absent or baseline is None:
        return f"{found.label} {'; '.join(found.notes) if found.absent else found.why}"
    if found.reasons:
        more = len(found.reasons) - 1
        others = f", and {more} more difference{'s' * (more > 1)}" if more else ""
        return f"{found.label} is not comparable with {baseline.label}: {found.reasons[0]}{others}"
    if found.ratio is None:
        return f"{found.label} is {SpeedVerdict.NOT_TESTED}: {found.why or 'no ratio'}"
    interval, told = "", format_ratio_text(found)
    if told.low:
        share = format_share_as_percent(confidence)
        interval = f", {share} interval {told.low} to {told.high}"
    why = f", {found.why}" if found.why else ""
    return (
        f"{found.label} is {told.ratio}x as fast as {baseline.label}{interval}{why};"
        f" {found.verdict}"
    )


def format_ratio_text(found: ComparedResult) -> RatioText:
    """Format the ratio of a result that has one, with the ends of its interval."""
    ratio = found.ratio or 0.0
    if found.ratio_interval is None:
        return RatioText(format_ratio(ratio, MIN_RATIO_DIGITS))
    low, high = found.ratio_interval.low, found.ratio_interval.high
    if high > WIDE_INTERVAL * low:
        return RatioText(
            *(format_significant_number(each, MIN_KNOWN_DIGITS) for each in (ratio, low, high))
        )
    digits = choose_interval_digits(ratio, low, high)
    return RatioText(*(format_ratio(each, digits) for each in (ratio, low, high)))


def choose_interval_digits(ratio: float, low: float, high: float) -> int:
    """Return how many decimals show an interval that has a width and, if it does not contain 1,
    does not touch it either.
    """
    for digits in range(MIN_RATIO_DIGITS, MAX_RATIO_DIGITS):
        shown = [round(each, digits) for each in (low, ratio, high)]
        if shown[0] < shown[2] and (low <= 1 <= high or 1 not in shown):
            return digits
    return MAX_RATIO_DIGITS


def format_ratio(ratio: float, digits: int) -> str:
    """Format a ratio; small ones with three significant digits."""
    if abs(ratio) < SMALL_RATIO:
        return format_plain_number(ratio, MIN_KNOWN_DIGITS + 1)
    return f"{ratio:,.{digits}f}"


def format_conclusion_word(found: ComparedResult) -> str:
    """Format the conclusion in a word; what is not comparable could not be tested either."""
    if found.baseline:
        return "baseline"
    if found.reasons:
        return NOT_COMPARABLE
    return str(found.verdict or "-")


def count_conclusions(found: Sequence[Comparison]) -> str:
    """Count the conclusions of a comparison, such as `1 slower, 3 not separable`; empty without
    one.
    """
    words = Counter(
        format_conclusion_word(result)
        for each in found
        for result in each.results
        if result.verdict is not None and not result.baseline
    )
    order = [*map(str, SpeedVerdict), NOT_COMPARABLE]
    return ", ".join(f"{words[word]} {word}" for word in order if words[word])
