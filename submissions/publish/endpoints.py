"""The rows of `endpoints.csv`: one per point of each curve of MLPerf Endpoints on a site."""

import csv
import hashlib
import io
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from compliance.documents.endpoints.run import read_endpoints_run
from compliance.recognition.endpoints_files import POINT_SUMMARY
from compliance.rules.endpoints_curve.submission import list_run_keys
from compliance.verdict import Verdict
from submissions.curves.curve import ScoredCurve, ScoredPoint
from submissions.report.document import encode_invisible_characters
from submissions.report.sections.findings import VERDICT_LABELS
from suite.files.layout import compute_file_sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRow:
    """One point. The fields are the columns, in this order; rates are in tokens per second."""

    org: str
    submission: str
    system: str
    model: str
    dataset: str
    rules: str
    cohort: str
    concurrency: int | None
    region: str | None
    system_tps: float | None
    tps_per_user: float | None
    ttft_p90_ms: float | None
    tps_per_kw: float | None
    basis: str
    verdict: str


def convert_point_to_row(curve: ScoredCurve, point: ScoredPoint) -> PointRow:
    """Convert a point to a row."""
    return PointRow(
        org=curve.org,
        submission=curve.submission,
        system=curve.system,
        model=curve.model,
        dataset=curve.dataset,
        rules=curve.round,
        cohort=curve.cohort,
        concurrency=point.concurrency,
        region=point.region,
        system_tps=point.system_tps,
        tps_per_user=point.tps_per_user,
        ttft_p90_ms=point.ttft_p90_ms,
        tps_per_kw=point.tps_per_kw,
        basis=point.basis,
        verdict=VERDICT_LABELS[Verdict.VALID if point.compliant else Verdict.BROKEN],
    )


def format_points_csv(curves: Iterable[ScoredCurve]) -> str:
    """Format all points as CSV; an unknown value is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [each.name for each in fields(PointRow)], lineterminator="\n")
    writer.writeheader()
    for curve in curves:
        for point in curve.points:
            row = asdict(convert_point_to_row(curve, point))
            writer.writerow({name: encode_cell(value) for name, value in row.items()})
    return text.getvalue()


def encode_cell(value: object) -> object:
    """Escape what a reader would not see in a text; an unknown value becomes empty."""
    if value is None:
        return ""
    return encode_invisible_characters(value) if isinstance(value, str) else value


def list_curve_runs(curve: ScoredCurve) -> list[object]:
    """List what no other run has than those of a curve's points."""
    folders = [Path(each.path) for each in curve.points]
    runs = [read_endpoints_run(each, each / POINT_SUMMARY) for each in folders]
    return [key for run in runs for key in list_run_keys(run)]


def compute_submission_digest(folder: Path) -> str:
    """Return a SHA-256 of the names and the content of a submission's files, which names it on a
    site.
    """
    files = sorted(each for each in folder.rglob("*") if each.is_file() and not each.is_symlink())
    lines = [f"{compute_file_sha256(each)}  {each.relative_to(folder)}\n" for each in files]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
