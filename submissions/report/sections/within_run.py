"""Statistics over time slices of each performance run, as a table of a report."""

from collections.abc import Iterator

from submissions.metrics import LATENCY_PREFIX as METRIC
from submissions.report.document import Table
from submissions.score.score import Score
from submissions.tables import format_metric_value


def build_within_run_tables(score: Score) -> Iterator[Table]:
    """Show the statistics over ten time slices of each run; they are not an interval over runs."""
    rows = []
    for each in score.within_run:
        low, high = (
            format_metric_value(value, each.unit) if value is not None else "-"
            for value in (each.low, each.high)
        )
        rows.append(
            (
                f"run_{each.run}",
                format_record_metric(each.metric),
                format_metric_value(each.value, each.unit),
                low,
                high,
                each.problem or "-",
            )
        )
    if rows:
        columns = (
            "run",
            "metric",
            "value from its query record",
            "low",
            "high",
            "why there is no interval",
        )
        yield Table(
            title="Within each run, at confidence 0.95",
            columns=columns,
            rows=tuple(rows),
            numeric=(2, 3, 4),
        )


def format_record_metric(name: str) -> str:
    """Name a metric that was computed from the query record."""
    return (
        f"measured {name.removeprefix(METRIC)}"
        if name.startswith(METRIC)
        else name.replace("_", " ")
    )
