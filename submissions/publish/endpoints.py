"""The rows of `endpoints.csv`: one per point of each curve of MLPerf Endpoints on a site."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from compliance.results.curves import ScoredCurve
from compliance.verdict import Verdict
from submissions.curves.point_columns import POINT_COLUMNS
from submissions.report.document import encode_invisible_characters
from submissions.report.sections.findings import VERDICT_LABELS
from submissions.round_readers import load_result_reader
from suite.columns import Column, Table, build_part_column
from suite.files.layout import compute_file_sha256
from suite.result import ScoredPoint


class CurveRow(NamedTuple):
    """One point with its curve."""

    curve: ScoredCurve
    point: ScoredPoint


FIGURE_NAMES: Final = (
    *("concurrency", "region", "system_tps", "tps_per_user", "ttft_p90_ms", "tps_per_kw", "basis"),
)


def build_site_point_column(name: str) -> Column[CurveRow]:
    """Return a column of points for those of a site."""
    return build_part_column(POINT_COLUMNS[name], lambda row: row.point)


POINT_TABLE: Final[Table[CurveRow]] = Table(
    columns=(
        Column("org", lambda row: row.curve.org),
        Column("submission", lambda row: row.curve.submission),
        Column("system", lambda row: row.curve.system),
        Column("model", lambda row: row.curve.model),
        Column("dataset", lambda row: row.curve.dataset),
        Column("rules", lambda row: row.curve.round),
        Column("cohort", lambda row: row.curve.cohort),
        *(build_site_point_column(name) for name in FIGURE_NAMES),
        Column("verdict", lambda row: format_point_verdict(row.point)),
    )
)
"""Rates are in tokens per second."""


def format_point_verdict(point: ScoredPoint) -> str:
    """Format the judge's verdict on a point."""
    return VERDICT_LABELS[Verdict.VALID if point.compliant else Verdict.BROKEN]


def format_points_csv(curves: Iterable[ScoredCurve]) -> str:
    """Format all points as CSV; an unknown value is empty."""
    rows = [CurveRow(curve, point) for curve in curves for point in curve.points]
    return POINT_TABLE.format_csv_text(rows, encode_invisible_characters)


def list_curve_runs(curve: ScoredCurve) -> list[object]:
    """List what no other run has than those of a curve's points."""
    list_run_keys = load_result_reader(curve.round, "list_run_keys")
    return [key for point in curve.points for key in list_run_keys(Path(point.path))]


def compute_submission_digest(folder: Path) -> str:
    """Return a SHA-256 of the names and the content of a submission's files, which names it on a
    site.
    """
    files = sorted(each for each in folder.rglob("*") if each.is_file() and not each.is_symlink())
    lines = [f"{compute_file_sha256(each)}  {each.relative_to(folder)}\n" for each in files]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
