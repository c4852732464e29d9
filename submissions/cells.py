"""Figures of results in words: what stands in a cell of a table for people."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suite.human_numbers import (
    count_known_decimals,
    format_rounded_number,
)
from suite.loadgen.headline import SAMPLE_RATE_UNIT, TOKEN_RATE_UNIT
from suite.measurement.intervals import MIN_INTERVAL_RUNS, Interval
from suite.measurement.metrics import LATENCY_PREFIX
from suite.result import Result
from suite.rounds.quality import format_target_value
from suite.units import NS_PER_MS

if TYPE_CHECKING:
    from suite.loadgen.token_figures import TokenFigures

NAMING_RATE_UNITS: Final = ("samples/s", "queries/s", "samples/query", "tokens/s")
"""Units that also name the metric."""
UNITLESS: Final = "1"
"""Unit of ratios and shares. Source: the `unit` column of published rows."""
LOADGEN_DIGITS: Final = 6
"""Digits of a number in LoadGen's detail log, as C++ prints it."""
MIN_CUT_VALUE: Final = 10_000.0
"""From here on these digits are fewer than two decimals."""
COUNTED_METRICS: Final = {
    "gen_len": "characters generated",
    "unended": "answers cut at their limit",
}
"""Scores of generated answers that are counts: what they count."""
MIN_COUNT_SCORE: Final = 1000.0
"""From here on a score is a count or a length."""
SMALL_RUN_COUNTS: Final = ("no run", "one run", "two runs")


def format_metric_value(value: float | None, unit: str) -> str:
    """Format a value for display: latencies in milliseconds, small numbers with more digits."""
    if value is None:
        return "-"
    if unit == "ns":
        value, unit = value / NS_PER_MS, "ms"
    decimals = 2 if value >= 10 else 4
    if value >= MIN_CUT_VALUE and float(f"{value:.{LOADGEN_DIGITS}g}") == value:
        decimals = max(0, LOADGEN_DIGITS - len(f"{value:.0f}"))  # no digits that nobody measured
    return f"{value:,.{decimals}f} {unit}".removesuffix(f" {UNITLESS}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFigure:
    """A value with what is known of it: its interval, or that it has none."""

    value: float | None
    unit: str
    low: float | None = None
    high: float | None = None
    """Upper end of its interval; None if its runs allow none."""
    disturbed: bool = False
    """Whether something disturbed the machine in one of its runs."""
    as_published: bool = False
    """Whether a published round states its digits, which are then all shown."""

    def format_known_number(self, number: float) -> str:
        """Format the value or an end of its interval with the digits that are known of it."""
        factor = NS_PER_MS if self.unit == "ns" else 1.0
        low, high = (None if each is None else each / factor for each in (self.low, self.high))
        shown = number / factor
        decimals = count_known_decimals(shown, low, high, disturbed=self.disturbed)
        return format_rounded_number(shown, decimals)


def explain_missing_interval(runs: int) -> str:
    """Say that too few runs give no interval; empty if there are enough."""
    if runs >= MIN_INTERVAL_RUNS:
        return ""
    return f"{SMALL_RUN_COUNTS[runs]}, no interval"


def format_known_value(figure: KnownFigure) -> str:
    """Format a value with its unit and the digits that are known."""
    if figure.value is None or figure.as_published:
        return format_metric_value(figure.value, figure.unit)
    unit = "ms"
    if figure.unit != "ns":
        unit = figure.unit
    return f"{figure.format_known_number(figure.value)} {unit}".removesuffix(f" {UNITLESS}")


def format_known_interval(figure: KnownFigure) -> str:
    """Format an interval without its unit; empty if there is none."""
    if figure.low is None or figure.high is None:
        return ""
    ends = (figure.low, figure.high)
    if figure.as_published:
        return " to ".join(
            format_metric_value(each, figure.unit).partition(" ")[0] for each in ends
        )
    return " to ".join(map(figure.format_known_number, ends))


def build_result_figure(row: Result, interval: Interval | None) -> KnownFigure:
    """Return a result's value with what is known of it."""
    return KnownFigure(
        value=row.value,
        unit=row.unit,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        disturbed=bool(row.noise),
        as_published=row.is_published,
    )


def format_result_value(row: Result) -> str:
    """Format a result's value with its unit and the digits that are known."""
    return format_known_value(build_result_figure(row, row.figure.interval))


def format_result_interval(row: Result) -> str:
    """Format the interval of a result's value without its unit; empty if there is none."""
    return format_known_interval(build_result_figure(row, row.figure.interval))


def describe_row_verdict(row: Result) -> str:
    """Say whether a result is compliant, or that nobody can tell here."""
    if row.judgement.unjudged:
        return "not judged"
    if row.compliant:
        return "yes"
    return "no"


def iterate_token_cells(tokens: "TokenFigures | None", unit: str) -> Iterator[tuple[str, str]]:
    """Yield what stands beside the value, in `unit`, of a result that measures tokens: the other
    rate, and tokens' latencies; metric and value.
    """
    if tokens is None:
        return
    if unit == TOKEN_RATE_UNIT:
        rate, rate_unit = tokens.answers_per_s, SAMPLE_RATE_UNIT
    else:
        rate, rate_unit = tokens.tokens_per_s, TOKEN_RATE_UNIT
    if rate is not None:
        yield rate_unit, format_metric_value(rate, "").rstrip()
    for name, found in (("TTFT", tokens.ttft_ns), ("TPOT", tokens.tpot_ns)):
        for percentile, value_ns in found.items():
            yield f"{percentile} {name}", format_metric_value(value_ns, "ns")


def format_metric_name(row: Result) -> str:
    """Format a metric for display, with the percentile of a latency."""
    if row.metric.startswith(LATENCY_PREFIX):
        return f"{row.metric.removeprefix(LATENCY_PREFIX)} latency"
    if row.unit in NAMING_RATE_UNITS:
        return row.unit
    return row.metric.replace("_", " ")


def format_score_value(score: float) -> str:
    """Format a score: shares with four decimals, BLEU and similar scores with two, lengths with
    none.
    """
    if abs(score) >= MIN_COUNT_SCORE:
        return f"{score:,.0f}"
    return f"{score:.{2 if abs(score) >= 10 else 4}f}"


def format_named_score(metric: str, score: float) -> str:
    """Name a score for a sentence; a count is named by what it counts, so that nobody takes it for
    an accuracy.
    """
    if metric in COUNTED_METRICS:
        return f"{score:,.0f} {COUNTED_METRICS[metric]}"
    return f"{metric} {format_score_value(score)}"


def describe_tries(score: Result) -> str:
    """Count the attempts at a result if there were more than it has runs; empty otherwise."""
    expected = 1
    if score.scenario:
        expected = len(score.runs)
    if score.attempts and score.attempts > expected:
        return f"{score.attempts} tries"
    return ""


def format_score_target(row: Result, metric: str) -> str:
    """Format the target of a score for a sentence."""
    text = format_score_value(row.target[metric])
    return format_target_value(metric, text, row.quality.lower_is_better)
