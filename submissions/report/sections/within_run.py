"""Statistics over time slices of each performance run, as a table of a report."""

from collections.abc import Iterator
from typing import Final

from submissions.cells import format_metric_value
from submissions.report.document import Table
from submissions.report.shown_table import build_shown_table
from suite import columns as shown
from suite.columns import UNKNOWN_CELL, Column
from suite.measurement.metrics import LATENCY_PREFIX as METRIC
from suite.result import Result, WithinRun


def format_record_metric(name: str) -> str:
    """Name a metric that was computed from the query record."""
    if name.startswith(METRIC):
        return f"measured {name.removeprefix(METRIC)}"
    return name.replace("_", " ")


def format_slice_end(value: float | None, unit: str) -> str:
    """Format an end of an interval over time slices; a dash if there is none."""
    if value is None:
        return UNKNOWN_CELL
    return format_metric_value(value, unit)


WITHIN_RUN_TABLE: Final[shown.Table[WithinRun]] = shown.Table(
    columns=(
        Column("run", lambda each: f"run_{each.run}"),
        Column("metric", lambda each: format_record_metric(each.metric)),
        Column(
            "value from its query record",
            lambda each: format_metric_value(each.value, each.unit),
            numeric=True,
        ),
        Column("low", lambda each: format_slice_end(each.low, each.unit), numeric=True),
        Column("high", lambda each: format_slice_end(each.high, each.unit), numeric=True),
        Column("why there is no interval", lambda each: each.problem or UNKNOWN_CELL),
    )
)


def build_within_run_tables(score: Result) -> Iterator[Table]:
    """Show the statistics over ten time slices of each run; they are not an interval over runs."""
    if score.figure.within_run:
        title = "Within each run, at confidence 0.95"
        yield build_shown_table(title, WITHIN_RUN_TABLE, score.figure.within_run)
