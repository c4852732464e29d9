"""Scores as CSV, for spreadsheets and data frames: one column per thing, one unit per column."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from submissions.metrics import MINUTES_UNIT
from suite.loadgen.token_figures import TOKEN_PERCENTILES
from suite.units import NS_PER_MS

if TYPE_CHECKING:
    from submissions.score.score import Score

UNIT_COLUMNS: Final[Mapping[str, tuple[str, float]]] = {
    MINUTES_UNIT: ("minutes", 1),
    "ns": ("latency_ms", NS_PER_MS),
    "samples/s": ("samples_per_s", 1),
    "queries/s": ("queries_per_s", 1),
    "tokens/s": ("tokens_per_s", 1),
    "samples/query": ("samples_per_query", 1),
}
"""Unit of a score -> the column for values of this unit, and the number to divide by."""
POINT_COLUMNS: Final = (
    "concurrency",
    "region",
    "system_tps",
    "tps_per_user",
    "ttft_p90_ms",
    "tps_per_kw",
)
"""Columns for the figures of the points of curves."""
TOKEN_LATENCY_COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    f"{name}_{percentile}_ms": (f"{name}_ns", percentile)
    for name in ("ttft", "tpot")
    for percentile in (f"p{each:g}" for each in TOKEN_PERCENTILES)
}
"""Column -> the latency among a score's figures of tokens, and its percentile."""
RESULT_COLUMNS: Final = (
    "round",
    "profile",
    "division",
    "organisation",
    "system",
    "accelerator",
    "accelerators",
    "nodes",
    "benchmark",
    "scenario",
    "precision",
    "compliant",
    "metric",
    "value",
    "unit",
    *(column for column, _ in UNIT_COLUMNS.values()),
    "scaled_minutes",
    "basis",
    "whole_run",
    "whole_answers_per_s",
    "late_tokens",
    *dict.fromkeys((*POINT_COLUMNS, *TOKEN_LATENCY_COLUMNS)),
    "convergence_factor",
    "convergence",
    "convergence_point",
    "batch",
    "run_count",
    "runs",
    "attempts",
)
ACCURACY_COLUMNS: Final = (
    "accuracy_metric",
    "accuracy",
    "accuracy_target",
    "accuracy_lower_is_better",
)
ENERGY_COLUMNS: Final = (
    "power_channel",
    "power_grade",
    "power_scope",
    "joules",
    "average_w",
    "j_per_token",
)


def format_scores_csv(rows: Iterable["Score"]) -> str:
    """Format the rows as CSV. Columns of the second and further accuracy metrics and power channels
    have a number; the values of runs are in `unit`, separated by spaces, a failed run is a dash.
    """
    lines = [build_score_cells(row) for row in rows]
    added = dict.fromkeys(name for line in lines for name in line if name not in RESULT_COLUMNS)
    accuracy, power = (
        list(sort_numbered_columns(columns, added))
        for columns in (ACCURACY_COLUMNS, ENERGY_COLUMNS)
    )
    text = io.StringIO()
    columns = [*RESULT_COLUMNS, *(accuracy or ACCURACY_COLUMNS), *(power or ENERGY_COLUMNS)]
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def sort_numbered_columns(columns: Iterable[str], present: Iterable[str]) -> Iterator[str]:
    """Yield the present columns of a group, all of the first item, then of the second."""
    found, names = set(present), tuple(columns)
    number = 1
    while any(number_column(name, number) in found for name in names):
        yield from (number_column(name, number) for name in names)
        number += 1


def number_column(name: str, number: int) -> str:
    """Name the column of an item; the first one's has no number."""
    return name if number == 1 else f"{name}_{number}"


def build_score_cells(row: "Score") -> dict[str, object]:
    """Build the cells of one row by column."""
    convergence = row.convergence or {}
    return {
        "round": row.round,
        "profile": row.profile,
        "division": row.division,
        "organisation": row.org,
        "system": row.system,
        "accelerator": row.machine.accelerator,
        "accelerators": row.machine.accelerators,
        "nodes": row.machine.nodes,
        "benchmark": row.workload,
        "scenario": row.scenario,
        "precision": row.precision,
        "compliant": "yes" if row.compliant else "no",
        "metric": row.metric,
        "value": row.value,
        "unit": row.unit,
        **{name: getattr(row, name, None) for name in POINT_COLUMNS},
        **build_token_cells(row),
        **build_unit_cell(row),
        "basis": row.basis,
        "whole_run": row.whole_run,
        "whole_answers_per_s": row.whole_answers_per_s,
        "late_tokens": row.late_tokens,
        "scaled_minutes": convergence.get("scaled"),
        "convergence_factor": convergence.get("factor"),
        "convergence": convergence.get("outcome"),
        "convergence_point": convergence.get("point"),
        "batch": convergence.get("batch"),
        "run_count": len(row.runs),
        "runs": " ".join("-" if run is None else repr(run) for run in row.runs),
        "attempts": row.attempts,
        **build_accuracy_cells(row),
        **build_energy_cells(row),
    }


def build_unit_cell(row: "Score") -> dict[str, object]:
    """Build the cell of the value in the column of its unit."""
    if row.value is None or row.unit not in UNIT_COLUMNS:
        return {}
    column, divisor = UNIT_COLUMNS[row.unit]
    return {column: row.value if divisor == 1 else row.value / divisor}


def build_token_cells(row: "Score") -> dict[str, object]:
    """Build the cells of tokens' latencies, and of the rate of tokens where it is not the value."""
    tokens = row.tokens
    if tokens is None:
        return {}
    latencies = {
        column: getattr(tokens, name)[percentile] / NS_PER_MS
        for column, (name, percentile) in TOKEN_LATENCY_COLUMNS.items()
        if percentile in getattr(tokens, name)
    }
    return latencies | {"tokens_per_s": tokens.tokens_per_s}


def build_accuracy_cells(row: "Score") -> dict[str, object]:
    """Build the cells of each accuracy metric that was measured or is required."""
    metrics = dict.fromkeys([*row.accuracy, *row.target])
    return {
        number_column(name, number): cell
        for number, metric in enumerate(metrics, 1)
        for name, cell in zip(
            ACCURACY_COLUMNS,
            (
                metric,
                row.accuracy.get(metric),
                row.target.get(metric),
                "yes" if metric in row.lower_is_better else "no",
            ),
            strict=True,
        )
    }


def build_energy_cells(row: "Score") -> dict[str, object]:
    """Build the cells of each power channel."""
    return {
        number_column(name, number): cell
        for number, each in enumerate(row.energy, 1)
        for name, cell in zip(
            ENERGY_COLUMNS,
            (
                each.name,
                each.grade,
                " ".join(each.scope),
                each.joules,
                each.average_w,
                each.per_token_j,
            ),
            strict=True,
        )
    }
