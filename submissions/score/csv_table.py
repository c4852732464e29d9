"""Scores as CSV, for spreadsheets and data frames: one column per thing, one unit per column."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from submissions.curves.point_columns import POINT_COLUMNS
from submissions.result_columns import RESULT_COLUMNS, rename_column, select_columns
from suite.columns import Column, Table
from suite.loadgen.headline import TOKEN_RATE_UNIT
from suite.loadgen.token_figures import TOKEN_LATENCIES
from suite.measurement.metrics import MINUTES_UNIT
from suite.records import EnergyRecord
from suite.result import Result
from suite.units import NS_PER_MS

UNIT_COLUMNS: Final[Mapping[str, tuple[str, float]]] = {
    "minutes": (MINUTES_UNIT, 1),
    "latency_ms": ("ns", NS_PER_MS),
    "samples_per_s": ("samples/s", 1),
    "queries_per_s": ("queries/s", 1),
    "tokens_per_s": (TOKEN_RATE_UNIT, 1),
    "samples_per_query": ("samples/query", 1),
}
"""Column -> the unit of a score whose value stands in it, and the number to divide it by."""
POINT_FIGURES: Final = (
    "concurrency",
    "region",
    "system_tps",
    "tps_per_user",
    "ttft_p90_ms",
    "tps_per_kw",
)
"""Columns for the figures of the points of curves."""
TOKEN_LATENCY_COLUMNS: Final[Mapping[str, str]] = {f"{name}_ms": name for name in TOKEN_LATENCIES}
"""Column -> the latency among a score's figures of tokens."""
CONVERGENCE_COLUMNS: Final = {
    "convergence_factor": "factor",
    "convergence": "outcome",
    "convergence_point": "point",
    "batch": "batch",
}
"""Column -> field of the comparison with a reference convergence point."""


def get_unit_value(row: Result, name: str) -> float | None:
    """Return the value in the column of its unit; of a rate of answers also that of its tokens."""
    unit, divisor = UNIT_COLUMNS[name]
    if row.unit == unit and row.value is not None:
        return row.value if divisor == 1 else row.value / divisor
    tokens = row.figure.tokens
    if tokens and unit == TOKEN_RATE_UNIT:
        return tokens.tokens_per_s
    return None


def get_point_or_token_value(row: Result, name: str) -> object:
    """Return a figure of a curve's point, or a percentile of a latency of tokens in ms."""
    if row.point:
        if name not in POINT_COLUMNS:
            return None
        return POINT_COLUMNS[name].read(row.point)
    if row.figure.tokens is None or name not in TOKEN_LATENCY_COLUMNS:
        return None
    value_ns = row.figure.tokens.find_latency_ns(TOKEN_LATENCY_COLUMNS[name])
    return None if value_ns is None else value_ns / NS_PER_MS


def get_convergence_value(row: Result, name: str) -> object:
    """Return a field of the comparison with a reference convergence point."""
    return getattr(row.convergence, CONVERGENCE_COLUMNS[name], None)


def compose_columns(
    names: Sequence[str], read: Callable[[Result, str], object]
) -> tuple[Column[Result], ...]:
    """Return a column for each name, which tells what is read."""

    def build_column(name: str) -> Column[Result]:
        return Column(name, lambda row: read(row, name))

    return tuple(map(build_column, names))


SCORE_COLUMNS: Final[tuple[Column[Result], ...]] = (
    *select_columns("round", "profile", "division"),
    rename_column("organisation", "org"),
    *select_columns("system", "accelerator", "accelerators", "nodes"),
    rename_column("benchmark", "workload"),
    *select_columns("scenario", "precision"),
    Column("compliant", RESULT_COLUMNS["compliant"].format_cell),
    *select_columns("metric", "value", "unit"),
    *compose_columns(list(UNIT_COLUMNS), get_unit_value),
    Column("scaled_minutes", lambda row: row.headline if row.convergence else None),
    *select_columns("basis", "whole_run", "whole_answers_per_s", "late_tokens"),
    *compose_columns(
        list(dict.fromkeys((*POINT_FIGURES, *TOKEN_LATENCY_COLUMNS))), get_point_or_token_value
    ),
    *compose_columns(list(CONVERGENCE_COLUMNS), get_convergence_value),
    *select_columns("run_count", "runs", "attempts"),
)


def get_metric(row: Result, number: int) -> str | None:
    """Return the metric of a number that was measured or is required; None if it has fewer."""
    metrics = list(dict.fromkeys([*row.accuracy, *row.target]))
    if not number <= len(metrics):
        return None
    return metrics[number - 1]


def describe_lower_metric(row: Result, metric: str) -> str:
    """Say whether a metric is better the lower it is."""
    if metric in row.quality.lower_is_better:
        return "yes"
    return "no"


ACCURACY_COLUMNS: Final[Mapping[str, Callable[[Result, str], object]]] = {
    "accuracy_metric": lambda row, metric: metric,
    "accuracy": lambda row, metric: row.accuracy.get(metric),
    "accuracy_target": lambda row, metric: row.target.get(metric),
    "accuracy_lower_is_better": describe_lower_metric,
}
"""Column of each accuracy metric -> its value."""
ENERGY_COLUMNS: Final[Mapping[str, Callable[[EnergyRecord], object]]] = {
    "power_channel": lambda energy: energy.name,
    "power_grade": lambda energy: energy.grade,
    "power_scope": lambda energy: energy.scope,
    "joules": lambda energy: energy.joules,
    "average_w": lambda energy: energy.average_w,
    "j_per_token": lambda energy: energy.per_token_j,
}
"""Column of each power channel -> its value."""


def build_accuracy_columns(number: int) -> list[Column[Result]]:
    """Build the columns of one accuracy metric of each result."""

    def build_column(name: str, read: Callable[[Result, str], object]) -> Column[Result]:
        def read_metric(row: Result) -> object:
            metric = get_metric(row, number)
            return None if metric is None else read(row, metric)

        return Column(number_column(name, number), read_metric)

    return [build_column(name, read) for name, read in ACCURACY_COLUMNS.items()]


def build_energy_columns(number: int) -> list[Column[Result]]:
    """Build the columns of one power channel of each result."""

    def build_column(name: str, read: Callable[[EnergyRecord], object]) -> Column[Result]:
        def read_channel(row: Result) -> object:
            if not number <= len(row.energy):
                return None
            return read(row.energy[number - 1])

        return Column(number_column(name, number), read_channel)

    return [build_column(name, read) for name, read in ENERGY_COLUMNS.items()]


def number_column(name: str, number: int) -> str:
    """Name the column of an item; the first one's has no number."""
    return name if number == 1 else f"{name}_{number}"


def format_scores_csv(rows: Sequence[Result]) -> str:
    """Format the rows as CSV. Columns of the second and further accuracy metrics and power channels
    have a number; the values of runs are in `unit`, separated by spaces, a failed run is a dash.
    """
    metrics = max((len({*row.accuracy, *row.target}) for row in rows), default=0)
    channels = max((len(row.energy) for row in rows), default=0)
    added: list[Column[Result]] = []
    for number in range(1, max(metrics, 1) + 1):
        added += build_accuracy_columns(number)
    for number in range(1, max(channels, 1) + 1):
        added += build_energy_columns(number)
    return Table(columns=(*SCORE_COLUMNS, *added)).format_csv_text(rows)
