"""Comparisons as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from submissions.compare.comparison import ComparedResult, Comparison
from submissions.result_columns import RESULT_COLUMNS
from suite.columns import Column, Table

UNKNOWN_IF_ABSENT: Final = ("org", "system", "round", "division")
"""Columns that are null for a path without a result of this kind."""


def build_result_column(name: str, column: str = "") -> Column[ComparedResult]:
    """Return a column of results for the results of a comparison."""
    read = RESULT_COLUMNS[column or name].read

    def read_compared(row: ComparedResult) -> Any:
        if row.absent and name in UNKNOWN_IF_ABSENT:
            return None
        return read(row.result)

    return Column(name, read_compared)


def build_own_column(name: str) -> Column[ComparedResult]:
    """Return a column of what the comparison itself found."""
    return Column(name, lambda row: getattr(row, name))


COMPARED_DATA: Final[Table[ComparedResult]] = Table(
    columns=(
        *map(build_own_column, ("path", "label")),
        *map(build_result_column, ("org", "system", "machine", "round", "division", "precision")),
        *map(build_result_column, ("engine", "metric", "unit", "value", "runs", "asked")),
        build_result_column("attempts"),
        *map(build_own_column, ("interval", "geometric_mean", "statistic", "baseline")),
        *map(build_own_column, ("ratio", "ratio_interval", "verdict")),
        *map(build_own_column, ("p", "shows", "runs_for", "why", "derived")),
        build_result_column("samples_per_second"),
        *map(build_own_column, ("reasons", "notes")),
        build_result_column("source", "document"),
        build_result_column("study"),
        *map(build_result_column, ("within_run", "tokens")),
        Column("convergence_factor", lambda row: row.result.figure.factor),
        *map(build_result_column, ("accuracy", "noise")),
        Column("compliant", lambda row: row.absent or row.result.compliant),
    )
)


def convert_comparison_to_data(found: Comparison) -> Mapping[str, Any]:
    """Convert a comparison to JSON types."""
    kind = ("workload", "scenario", "metric", "unit", "comparable")
    return {name: msgspec.to_builtins(getattr(found, name)) for name in kind} | {
        "results": COMPARED_DATA.list_plain_rows(found.results),
        "references": COMPARED_DATA.list_plain_rows(found.references),
    }


def list_comparison_data(found: Sequence[Comparison]) -> list[Mapping[str, Any]]:
    """Return comparisons as JSON types."""
    return [convert_comparison_to_data(each) for each in found]
