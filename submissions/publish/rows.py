"""The rows of a site: one per result of each bundle, the same in JSON and CSV."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import msgspec

from submissions.compare.intervals import MIN_INTERVAL_RUNS, estimate_value_interval
from submissions.published_rows import PublishedRow
from submissions.report.document import Headline, Part, encode_invisible_characters
from submissions.report.sections.headlines import INTERVAL_CONFIDENCE
from submissions.report.sections.names import PROCESSOR_FIELD
from suite.rounds.compatibility import INFERENCE_HALF, TRAINING_HALF

SEAL_PREFIX_DIGITS: Final = 12
"""Number of digits of a seal in a page's name."""
SIGNED_BY_NOBODY: Final = "not signed"
NOT_JUDGED: Final = "not judged here"
BUNDLE_KIND: Final = "bundle"
REPORTED_KIND: Final = "reported"
"""Kind of figures from documents, which have neither runs nor logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One result. Equal field names in JSON and CSV, in this order."""

    id: str
    """SHA-256 in its bundle's seal; the id of a published row."""
    round: str
    profile: str
    division: str
    org: str
    system: str
    accelerator: str
    accelerators: int | None
    nodes: int | None
    processor: str
    """Model of the host's processors; empty if the description does not state it."""
    engine: str
    precision: str
    workload: str
    half: str
    """training or inference."""
    scenario: str
    """LoadGen's name; empty for training, and for figures from documents."""
    metric: str
    unit: str
    value: float | None
    low: float | None
    high: float | None
    """Upper end of the value's 95 % interval; empty with fewer than three runs."""
    n: int
    runs: tuple[float | None, ...]
    attempts: int | None
    """Number of attempts according to its ledger; empty without a ledger."""
    verdict: str
    noise: tuple[str, ...]
    """The judge's rules that detected a disturbed host."""
    signed_by: str
    kind: str
    """`bundle`, `recomputed` (from published logs), or `reported` (by a document)."""
    source: str
    """Source of a published row; empty for bundles."""
    note: str
    """Details that distinguish a published row from others of its system, such as batch size and
    precision.
    """

    @property
    def page(self) -> str:
        """Path of the report, relative to the site; empty for published rows."""
        return "" if self.source else f"r/{self.id[:SEAL_PREFIX_DIGITS]}/index.html"


def build_bundle_rows(part: Part, signed_by: str) -> list[Row]:
    """Return the rows of a bundle."""
    return [convert_headline_to_row(each, part, signed_by) for each in part.headlines]


def convert_headline_to_row(each: Headline, part: Part, signed_by: str) -> Row:
    """Convert a headline of the report to a row of the site."""
    return Row(
        id=part.seal,
        round=each.round,
        profile=each.profile,
        division=each.division,
        org=each.org,
        system=each.system,
        accelerator=each.accelerator or "",
        accelerators=each.accelerators,
        nodes=each.nodes,
        processor=each.described.get(PROCESSOR_FIELD, ""),
        engine=each.engine or "",
        precision=each.precision or "",
        workload=each.workload,
        half=INFERENCE_HALF if each.scenario else TRAINING_HALF,
        scenario=each.scenario or "",
        metric=each.metric,
        unit=each.unit,
        value=each.value,
        low=each.low,
        high=each.high,
        n=len(each.runs),
        runs=each.runs,
        attempts=each.attempts,
        verdict=part.verdict if each.compliant else "Not compliant",
        noise=each.noise,
        signed_by=signed_by,
        kind=BUNDLE_KIND,
        source="",
        note="",
    )


def convert_reference_to_row(row: PublishedRow) -> Row:
    """Convert a published row to a row of the site; it was neither judged nor signed here."""
    interval = (
        estimate_value_interval(row.value, row.runs, INTERVAL_CONFIDENCE)
        if len(row.runs) >= MIN_INTERVAL_RUNS
        else None
    )
    return Row(
        id=row.id,
        round=row.round,
        profile="published",
        division=row.division,
        org=row.org,
        system=row.system,
        accelerator=row.accelerator,
        accelerators=row.accelerators,
        nodes=row.nodes,
        processor="",
        engine="",
        precision="",
        workload=row.workload,
        half=row.half,
        scenario=row.scenario,
        metric=row.metric,
        unit=row.unit,
        value=row.value,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        n=len(row.runs),
        runs=row.runs,
        attempts=None,
        verdict=NOT_JUDGED,
        noise=(),
        signed_by="",
        kind=row.kind,
        source=row.source,
        note=row.note,
    )


def format_site_json(rows: Sequence[Row], title: str) -> str:
    """Format all rows as JSON."""
    return (
        json.dumps(
            {"title": title, "results": [convert_site_row_to_data(row) for row in rows]},
            indent=1,
            ensure_ascii=False,
            allow_nan=False,
        )
        + "\n"
    )


def convert_site_row_to_data(row: Row) -> dict[str, Any]:
    """Convert a row to plain data."""
    return {
        key: (
            encode_invisible_characters(value)
            if isinstance(value, str)
            else list(value)
            if isinstance(value, tuple)
            else value
        )
        for key, value in asdict(row).items()
    }


def format_site_csv(rows: Iterable[Row]) -> str:
    """Format all rows as CSV: runs are separated by spaces, a run that missed its target is a dash,
    an unknown value is empty.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, [each.name for each in fields(Row)], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        data = convert_site_row_to_data(row)
        runs = " ".join("-" if run is None else repr(run) for run in row.runs)
        writer.writerow(
            {key: "" if value is None else value for key, value in data.items()}
            | {"runs": runs, "noise": " ".join(row.noise)}
        )
    return text.getvalue()


def build_site_schema() -> dict[str, Any]:
    """Return the JSON Schema of the JSON form."""
    row = msgspec.json.schema(Row)
    known = {
        "title": {"type": "string"},
        "results": {"type": "array", "items": {"$ref": row["$ref"]}},
    }
    shape = {"type": "object", "required": list(known), "properties": known}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": row["$defs"],
        **shape,
    }
