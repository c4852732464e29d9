"""Tables for people."""

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from suite.files.untrusted_files import replace_unprintable
from suite.human_numbers import (
    count_known_decimals,
    format_plain_number,
    format_rounded_number,
    format_whole_digits,
)
from suite.loadgen.headline import SAMPLE_RATE_UNIT, TOKEN_RATE_UNIT
from suite.measurement.intervals import (
    MIN_INTERVAL_RUNS,
)
from suite.measurement.metrics import LATENCY_PREFIX
from suite.result import Result
from suite.rounds.quality import format_target_value
from suite.units import NS_PER_MS

if TYPE_CHECKING:
    from suite.loadgen.token_figures import TokenFigures
    from suite.records import EnergyRecord

SCORE_COLUMNS: Final = ("workload", "scenario", "metric", "value", "accuracy/target", "ok")
SCORE_COLUMN_GAP: Final = "  "
NAMING_RATE_UNITS: Final = ("samples/s", "queries/s", "samples/query", "tokens/s")
"""Units that also name the metric."""
UNITLESS: Final = "1"
"""Unit of ratios and shares. Source: the `unit` column of published rows."""
ANSWER_COLOURS: Final = {"yes": "green", "no": "red"}
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
NON_TERMINAL_WIDTH: Final = 160
"""Width in columns of a table written to a file or a pipe."""


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
    unit = "ms" if figure.unit == "ns" else figure.unit
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


def build_score_figure(score: Result) -> KnownFigure:
    """Return a score's value with what is known of it."""
    interval = score.figure.interval
    return KnownFigure(
        value=score.value,
        unit=score.unit,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        disturbed=bool(score.noise),
        as_published=score.is_published,
    )


def print_scores(rows: Sequence[Result], paths: Iterable[Path]) -> None:
    """Print one line per set, in 80 columns, under a heading with what a system's rows share, and a
    summary at the end. `paths` are the scored paths.
    """
    lines = [(format_system_heading(row), part) for row in rows for part in iterate_score_rows(row)]
    shown_columns = [
        index for index in range(len(SCORE_COLUMNS)) if any(part[index] for _, part in lines)
    ]
    widths = [
        max(len(part[index]) for part in (SCORE_COLUMNS, *(part for _, part in lines)))
        for index in range(len(SCORE_COLUMNS))
    ]

    def format_line(part: Sequence[str]) -> str:
        return SCORE_COLUMN_GAP.join(
            apply_answer_colour(part[index].ljust(widths[index])) for index in shown_columns
        ).rstrip()

    for title in dict.fromkeys(title for title, _ in lines):
        click.echo(f"{title}\n{click.style(format_line(SCORE_COLUMNS), dim=True)}")
        click.echo("\n".join(format_line(part) for each, part in lines if each == title) + "\n")
    for row in rows:
        if row.figure.late_tokens is not None:
            click.echo(format_window_note(row))
    click.echo(format_score_summary(rows, paths))


def format_window_note(row: Result) -> str:
    """Say how much of a rate came after the window that it is divided by."""
    whole = format_metric_value(row.figure.whole_run, row.unit)
    return (
        f"{replace_unprintable(row.workload)} {row.scenario}: the rate is over the window until the"
        f" query issued last has ended; {row.figure.late_tokens:.1%} of it came later, over the"
        f" whole run it is {whole}"
    )


def format_system_heading(row: Result) -> str:
    """Format the properties that all rows of a system share."""
    where = [
        f"{row.round} {row.profile}",
        f"{row.division} division" if row.division else "",
        row.org,
    ]
    position = replace_unprintable(", ".join(filter(None, where)))
    return f"{replace_unprintable(row.system)}\n{position}".lstrip()


def iterate_score_rows(row: Result) -> Iterator[tuple[str, ...]]:
    """Yield the lines of a row: one, or one per score."""
    what = (row.scenario or "training") + (f" \u00d7{len(row.runs)}" if len(row.runs) > 1 else "")
    if tries := describe_tries(row):
        what += f", {tries}"
    value = format_known_value(build_score_figure(row)).replace("minutes", "min")
    first = (
        replace_unprintable(row.workload),
        what,
        format_metric_name(row),
        value.removesuffix(f" {row.unit}") if row.unit in NAMING_RATE_UNITS else value,
    )
    targets = {
        name: f"/{'<=' if name in row.quality.lower_is_better else ''}{format_score_value(target)}"
        for name, target in row.target.items()
    }
    scores = [
        f"{format_score_value(value)}{targets.get(name, '')} {COUNTED_METRICS.get(name, name)}"
        for name, value in row.accuracy.items()
    ]
    yield (*first, *scores[:1], *[""] * (not scores), describe_row_verdict(row))
    yield from (
        ("", "", *(beside or ("", "")), score or "", "")
        for beside, score in zip_longest(
            iterate_token_cells(row.figure.tokens, row.unit), scores[1:]
        )
    )
    for each in row.energy:
        yield from iterate_power_rows(each)
    yield from iterate_convergence_rows(row)


def describe_row_verdict(row: Result) -> str:
    """Say whether a result is compliant, or that nobody can tell here."""
    if row.judgement.unjudged:
        return "not judged"
    return "yes" if row.compliant else "no"


def iterate_power_rows(energy: "EnergyRecord") -> Iterator[tuple[str, ...]]:
    """Yield the power of a channel and, for generated answers, its energy per token."""
    channel = f"{replace_unprintable(energy.name)}, {energy.grade}{energy.edge_error_note}"
    yield ("", "", "power", f"{energy.average_w:,.2f} W", channel, "")
    if energy.per_token_j is not None:
        yield ("", "", "J/token", format_plain_number(energy.per_token_j), channel, "")


def iterate_token_cells(tokens: "TokenFigures | None", unit: str) -> Iterator[tuple[str, str]]:
    """Yield what stands beside the value, in `unit`, of a result that measures tokens: the other
    rate, and tokens' latencies; metric and value.
    """
    if tokens is None:
        return
    rate, rate_unit = (
        (tokens.answers_per_s, SAMPLE_RATE_UNIT)
        if unit == TOKEN_RATE_UNIT
        else (tokens.tokens_per_s, TOKEN_RATE_UNIT)
    )
    if rate is not None:
        yield rate_unit, format_metric_value(rate, "").rstrip()
    for name, found in (("TTFT", tokens.ttft_ns), ("TPOT", tokens.tpot_ns)):
        for percentile, value_ns in found.items():
            yield f"{percentile} {name}", format_metric_value(value_ns, "ns")


def iterate_convergence_rows(row: Result) -> Iterator[tuple[str, ...]]:
    """Yield the RCP comparison of a training set: the minutes times the factor, which MLCommons'
    tables show, and the reference convergence point.
    """
    convergence = row.convergence
    if convergence is None:
        return
    if convergence.factor > 1 and row.headline is not None:
        headline = f"MLCommons' headline: times {format_whole_digits(convergence.factor, 6)}"
        yield ("", "", headline, format_metric_value(row.headline, "min"), "", "")
    name = f"{convergence.outcome}: {convergence.point or 'none'}"
    yield ("", "", name, f"batch {convergence.batch:g}", "", "")


def format_metric_name(row: Result) -> str:
    """Format a metric for display, with the percentile of a latency."""
    if row.metric.startswith(LATENCY_PREFIX):
        return f"{row.metric.removeprefix(LATENCY_PREFIX)} latency"
    return row.unit if row.unit in NAMING_RATE_UNITS else row.metric.replace("_", " ")


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
    expected = len(score.runs) if score.scenario else 1
    return f"{score.attempts} tries" if score.attempts and score.attempts > expected else ""


def format_score_target(row: Result, metric: str) -> str:
    """Format the target of a score for a sentence."""
    text = format_score_value(row.target[metric])
    return format_target_value(metric, text, row.quality.lower_is_better)


def apply_answer_colour(cell: str) -> str:
    """Colour yes and no."""
    return (
        click.style(cell, fg=ANSWER_COLOURS[cell.strip()])
        if cell.strip() in ANSWER_COLOURS
        else cell
    )


def format_score_summary(rows: Sequence[Result], paths: Iterable[Path]) -> str:
    """Count the results that are compliant, with the command that shows the reasons for the
    others.
    """
    good = sum(row.compliant for row in rows)
    total = f"{len(rows)} result{'s' if len(rows) != 1 else ''}, {good} compliant"
    return (
        total
        if good == len(rows)
        else f"{total}; for the reasons: podium check {shlex.join(map(str, paths))}"
    )


class TextConsole(Console):
    """A console whose texts are somebody else's: they cannot move the cursor or give commands to
    the terminal.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """Convert a string to the text that is printed."""
        return super().render_str("\n".join(map(replace_unprintable, text.split("\n"))), **options)


def create_table_console() -> TextConsole:
    """Create a console as wide as the terminal; without one, as wide as a table needs."""
    console = TextConsole()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        return TextConsole(width=NON_TERMINAL_WIDTH)
    return console


def print_table(table: Table) -> None:
    """Print a table as wide as the terminal; without one, as wide as its content needs."""
    create_table_console().print(table)


def format_exact_number(value: float) -> str:
    """Format a number for a program with all its digits, a whole one without a point."""
    return repr(value).removesuffix(".0")
