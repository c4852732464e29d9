"""The columns of results: each is named and read once, for scores, comparisons, reports, sites,
costs and `podium.load`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

from submissions.cells import (
    describe_row_verdict,
    format_metric_name,
    format_result_interval,
    format_result_value,
)
from submissions.curves.point_columns import POINT_COLUMNS
from suite.columns import Column, Table, build_part_column
from suite.result import Result
from suite.rounds.compatibility import TRAINING_HALF

Text = str | None
Number = float | None
Count = int | None
Names = tuple[str, ...]
Scores = Mapping[str, float]

PLAIN_KINDS: Final[Mapping[str, Any]] = {
    "source": str,
    "folder": str,
    "verdict": str,
    "errors": Names,
    "round": str,
    "profile": str,
    "division": str,
    "org": str,
    "system": str,
    "accelerator": Text,
    "accelerators": Count,
    "nodes": Count,
    "engine": Text,
    "precision": Text,
    "workload": str,
    "half": str,
    "scenario": Text,
    "metric": str,
    "value": Number,
    "unit": str,
    "low": Number,
    "high": Number,
    "runs": tuple[Number, ...],
    "accuracy": Scores,
    "target": Scores,
    "noise": Names,
    "attempts": Count,
    "concurrency": Count,
    "tps_per_user": Number,
    "ttft_p90_ms": Number,
    "compliant": bool,
    "headline": Number,
    "machine": Any,
    "energy": Any,
}
"""Property or part of a result -> its type, where the column has its name."""
PART_COLUMNS: Final[Mapping[str, tuple[str, Any]]] = {
    "unjudged": ("judgement.unjudged", str),
    "warnings": ("judgement.warnings", int),
    "accepted": ("judgement.accepted", int),
    "problem": ("judgement.problem", str),
    "lower_is_better": ("quality.lower_is_better", Names),
    "within_run": ("figure.within_run", Any),
    "basis": ("figure.basis", str),
    "whole_run": ("figure.whole_run", Number),
    "whole_answers_per_s": ("figure.whole_answers_per_s", Number),
    "late_tokens": ("figure.late_tokens", Number),
    "tokens": ("figure.tokens", Any),
    "inferred": ("figure.inferred", bool),
    "asked": ("made_with.asked", str),
    "batch": ("made_with.batch", Count),
    "served": ("made_with.served", Any),
    "samples_per_second": ("made_with.samples_per_second", Number),
    "location": ("place.location", str),
    "benchmark": ("place.benchmark", str),
    "id": ("origin.id", str),
    "kind": ("origin.kind", str),
    "document": ("origin.document", str),
    "note": ("origin.note", str),
    "signed_by": ("origin.signed_by", str),
    "date": ("origin.date", str),
    "study": ("origin.study", str),
}
"""Column -> where its value is, and its type."""
POINT_NAMES: Final = (
    "path",
    "concurrency",
    "region",
    "offline",
    "system_tps",
    "tps_per_user",
    "ttft_p90_ms",
    "tps_per_kw",
    "declared_basis",
    "failed_rules",
)
"""What a point of a curve has besides."""


TOLD_CELLS: Final[Mapping[str, Callable[[Result], str]]] = {
    "scenario": lambda row: row.scenario or TRAINING_HALF,
    "metric": format_metric_name,
    "value": format_result_value,
    "interval": format_result_interval,
    "compliant": describe_row_verdict,
}
"""Column -> its words for people."""


def get_convergence_factor(result: Result) -> float | None:
    """Return the factor that MLCommons' tables multiply the minutes of a set by; None without
    one.
    """
    if result.convergence:
        return result.convergence.factor
    return None


def describe_convergence(result: Result) -> dict[str, Any] | None:
    """Describe a set's comparison with its reference convergence point, with the minutes times its
    factor; None without one.
    """
    found = result.convergence
    if found is None:
        return None
    return {
        "outcome": found.outcome,
        "factor": found.factor,
        "scaled": result.headline,
        "headline": "scaled" if found.factor > 1 else "value",
        "batch": found.batch,
        "point": found.point,
        "reference_mean": found.reference_mean,
        "least_mean": found.least_mean,
        "mean": found.mean,
        "spare_runs": found.spare_runs,
        "missing_runs": found.missing_runs,
        "others_need": found.others_need,
    }


RESULT_COLUMNS: Final[Mapping[str, Column[Result]]] = {
    each.name: replace(each, tell=TOLD_CELLS.get(each.name))
    for each in (
        *(Column(name, attrgetter(name), kind=kind) for name, kind in PLAIN_KINDS.items()),
        *(Column(name, attrgetter(path), kind=kind) for name, (path, kind) in PART_COLUMNS.items()),
        Column("convergence", describe_convergence, kind=Any),
        Column("factor", get_convergence_factor, kind=Number),
        Column("run_count", lambda row: len(row.runs), kind=int),
        Column("interval", attrgetter("figure.interval"), kind=Any),
    )
}
"""Name -> column."""


def select_columns(*names: str) -> tuple[Column[Result], ...]:
    """Select columns by their names, in this order."""
    return tuple(RESULT_COLUMNS[name] for name in names)


def rename_column(name: str, column: str) -> Column[Result]:
    """Return a column under another name."""
    return replace(RESULT_COLUMNS[column], name=name)


def select_text_columns(*names: str) -> tuple[Column[Result], ...]:
    """Select columns of texts in which an unknown one is empty."""
    return tuple(map(blank_unknown_text, select_columns(*names)))


def blank_unknown_text(column: Column[Result]) -> Column[Result]:
    """Return a column of texts in which an unknown one is empty."""
    return replace(column, read=lambda row: column.read(row) or "", kind=str)


SCORE_DATA: Final[Table[Result]] = Table(
    columns=select_columns(
        *("org", "system", "division", "profile", "round", "workload", "scenario", "metric"),
        *("value", "unit", "runs", "compliant", "unjudged", "machine", "precision"),
        *("accuracy", "target", "lower_is_better", "energy", "within_run", "attempts", "noise"),
        *("basis", "whole_run", "whole_answers_per_s", "late_tokens", "tokens", "inferred"),
        *("convergence", "served"),
    )
)
"""The keys of a score in JSON."""
POINT_DATA: Final[Table[Result]] = Table(
    columns=(
        *SCORE_DATA.columns,
        *(build_part_column(POINT_COLUMNS[name], attrgetter("point")) for name in POINT_NAMES),
    )
)
"""Those of a point of a curve."""


def iterate_score_data(rows: Sequence[Result]) -> Iterator[dict[str, Any]]:
    """Yield results and points of curves as JSON types."""
    for row in rows:
        table = POINT_DATA if row.point else SCORE_DATA
        yield from table.list_plain_rows([row])
