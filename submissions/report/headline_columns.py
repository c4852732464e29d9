"""The keys of a result in the JSON form of a report."""

from dataclasses import replace
from typing import Any, Final

from submissions.machines import describe_published_system
from submissions.result_columns import RESULT_COLUMNS, describe_convergence, select_columns
from suite.columns import Column, Table
from suite.records import EnergyRecord
from suite.result import Result


def describe_shown_checkpoint(result: Result) -> str | None:
    """Return the first digits of the hash of the checkpoint that was served."""
    found = result.made_with.said.get("checkpoint")
    if found:
        return str(found)
    return None


HEADLINE_DATA: Final[Table[Result]] = Table(
    name="Headline",
    columns=(
        *select_columns("workload", "scenario", "metric", "value", "unit", "runs", "low", "high"),
        *select_columns("compliant", "system", "org", "division", "profile", "round", "accuracy"),
        *select_columns("target", "precision", "engine", "accelerator", "accelerators", "nodes"),
        Column("described", describe_published_system, kind=dict[str, str]),
        Column("checkpoint", describe_shown_checkpoint, kind=str | None),
        *select_columns("attempts", "noise"),
        Column("convergence", lambda row: describe_convergence(row) or {}, kind=dict[str, Any]),
        *select_columns("lower_is_better", "date"),
        replace(RESULT_COLUMNS["energy"], kind=tuple[EnergyRecord, ...]),
        *select_columns("asked"),
    ),
)
