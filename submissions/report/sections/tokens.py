"""The tokens of generated answers in a report: the distributions of the time to the first token and
of the time per output token, with the bounds and percentiles that count.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from compliance.results.run_figures import FIRST_TOKEN_NAME, OUTPUT_TOKEN_NAME, LoadGenFigures
from submissions.cells import format_metric_value, iterate_token_cells
from submissions.report.document import Axis, Chart, Line, Mark, Table
from submissions.report.records import queries as recorded
from submissions.report.records.tokens import RecordedTokens
from submissions.report.shown_table import build_shown_table
from suite import columns
from suite.columns import UNKNOWN_CELL, Column
from suite.human_numbers import format_whole_digits
from suite.loadgen.scenario import Scenario
from suite.result import Result
from suite.rounds import ScenarioRow
from suite.units import NS_PER_MS

Row = TypeVar("Row")

TOKENS_TABLE_TITLE: Final = "Latencies of tokens, as measured by {}"
SHOWN_PERCENTILES: Final = (50.0, 90.0, 99.0)
"""Percentiles in the tables of runs."""
ANSWER_SHARE_AXIS: Final = Axis(name="share of answers", unit="%", low=0.0)
DEFAULT_PERCENTILE: Final = 90.0
"""Marked where the round's row is unknown."""


def build_token_charts(
    tokens: RecordedTokens, where: str, run: str, scenario: Scenario | None, row: ScenarioRow | None
) -> Iterator[Chart]:
    """Draw the latencies of tokens; in Offline, where all queries are issued at once, only the time
    per output token says something of the system.
    """
    if scenario is not Scenario.OFFLINE:
        bound_ns = row.first_token_ns if row else None
        yield from build_token_latency_charts(
            f"ttft-{where}", f"{FIRST_TOKEN_NAME}{run}", tokens.first_token_Q, row, bound_ns
        )
    bound_ns = row.per_token_ns if row else None
    yield from build_token_latency_charts(
        f"tpot-{where}", f"{OUTPUT_TOKEN_NAME}{run}", tokens.per_token_S, row, bound_ns
    )


def build_token_latency_charts(
    chart_id: str,
    name: str,
    latency_Q: npt.NDArray[np.int64],
    row: ScenarioRow | None,
    bound_ns: int | None,
) -> Iterator[Chart]:
    """Draw one distribution; nothing if no answer has such a latency."""
    if not len(latency_Q):
        return
    if row:
        wanted = row.percentile
    else:
        wanted = DEFAULT_PERCENTILE
    percentiles = recorded.compute_latency_percentiles(latency_Q)
    words = ", ".join(format_percentile_ms(percent, value) for percent, value in percentiles)
    marks = [
        Mark(name=format_percentile_ms(percent, value), value=value, upright=True)
        for percent, value in percentiles
        if percent in (50.0, wanted)
    ]
    if bound_ns is not None:
        bound = f"bound {format_metric_value(bound_ns, 'ns')}"
        marks.append(Mark(name=bound, value=bound_ns / NS_PER_MS, upright=True))
    yield Chart(
        id=chart_id,
        title=name[0].upper() + name[1:],
        description=(
            f"Distribution over {len(latency_Q):,} answers on a logarithmic axis, as recorded by"
            f" podium: {words}."
        ),
        x=Axis(name=name.partition(" (")[0], unit="ms", log=True),
        y=ANSWER_SHARE_AXIS,
        lines=(
            Line(
                name="answers",
                points=tuple(recorded.compute_latency_distribution(latency_Q)),
                filled=True,
            ),
        ),
        marks=tuple(marks),
    )


def describe_token_bounds(row: ScenarioRow | None) -> str:
    """Describe the bounds of first and further tokens; empty if there are none."""
    if row is None or row.first_token_ns is None or row.per_token_ns is None:
        return ""
    return (
        f" {row.percentile:g} % of the answers must begin within"
        f" {format_metric_value(row.first_token_ns, 'ns')}, and {row.percentile:g} % take at most"
        f" {format_metric_value(row.per_token_ns, 'ns')} per further token."
    )


def describe_token_rates(score: Result) -> str:
    """Describe what stands beside the result where LoadGen measures tokens."""
    beside = [
        f"{name} {value}" for name, value in iterate_token_cells(score.figure.tokens, score.unit)
    ]
    if beside:
        return f" Beside it: {', '.join(beside)}."
    return ""


class RunTokenLatency(NamedTuple):
    """A latency of tokens in a run."""

    run: str
    latency: str
    percentiles: Mapping[float, float]


def build_percentile_columns(
    get_percentiles: Callable[[Row], Mapping[float, float]], by: str = ""
) -> Iterator[Column[Row]]:
    """Yield the columns of latencies in ms by percentile, which are a dash where they are unknown;
    `by` says whose they are.
    """

    def build_column(percent: float) -> Column[Row]:
        def tell_latency(row: Row) -> str:
            found = get_percentiles(row).get(percent)
            if found is None:
                return UNKNOWN_CELL
            return format_whole_digits(found)

        return Column(f"{by}p{percent:g} ms", tell_latency, numeric=True)

    return map(build_column, SHOWN_PERCENTILES)


TOKEN_LATENCY_TABLE: Final[columns.Table[RunTokenLatency]] = columns.Table(
    columns=(
        Column("run", lambda row: row.run),
        Column("latency", lambda row: row.latency),
        *build_percentile_columns(lambda row: row.percentiles),
    )
)


def build_token_latency_tables(runs: Sequence[LoadGenFigures]) -> Iterator[Table]:
    """Show the latencies of tokens, if LoadGen counted tokens."""
    rows = [
        RunTokenLatency(run.folder.name, name, percentiles)
        for run in runs
        for name, percentiles in run.token_latencies.items()
    ]
    if rows:
        title = TOKENS_TABLE_TITLE.format(runs[0].measured_by)
        yield build_shown_table(title, TOKEN_LATENCY_TABLE, rows)


def format_percentile_ms(percent: float, value_ms: float) -> str:
    """Format a percentile of latencies, as in p90 12.5 ms."""
    return f"p{percent:g} {format_whole_digits(value_ms)} ms"
