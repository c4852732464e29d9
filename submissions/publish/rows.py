"""The rows of a site: one per result of each bundle, the same in JSON and CSV."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from compliance.verdict import Verdict
from submissions.machines import describe_published_system
from submissions.report.document import encode_invisible_characters
from submissions.report.sections.findings import VERDICT_LABELS
from submissions.report.sections.names import PROCESSOR_FIELD
from submissions.result_columns import rename_column, select_columns, select_text_columns
from suite.columns import Column, Table
from suite.result import Result

SEAL_PREFIX_DIGITS: Final = 12
"""Number of digits of a seal in a page's name."""
SHOWN_SEAL_DIGITS: Final = 8
"""Number of digits of a seal that tell two bundles of one system apart."""
SIGNED_BY_NOBODY: Final = "not signed"
NOT_JUDGED: Final = "not judged here"
BUNDLE_KIND: Final = "bundle"
REPORTED_KIND: Final = "reported"
"""Kind of figures from documents, which have neither runs nor logs."""


def mark_bundle_rows(results: Iterable[Result], seal: str, signed_by: str) -> list[Result]:
    """Return the results of a bundle as rows of a site."""
    return [
        replace(
            each,
            origin=replace(each.origin, id=seal, kind=BUNDLE_KIND, signed_by=signed_by),
        )
        for each in results
    ]


def get_row_bundle(row: Result) -> str:
    """Return the first digits of its bundle's seal, and the day; empty for published rows."""
    if row.origin.kind != BUNDLE_KIND:
        return ""
    return " ".join(filter(None, (row.origin.id[:SHOWN_SEAL_DIGITS], row.origin.date)))


def locate_row_page(row: Result) -> str:
    """Return the path of the report, relative to the site; empty for published rows."""
    if row.origin.document:
        return ""
    return f"r/{row.origin.id[:SEAL_PREFIX_DIGITS]}/index.html"


def get_row_processor(row: Result) -> str:
    """Return the model of the host's processors; empty if the description does not state it."""
    return describe_published_system(row).get(PROCESSOR_FIELD, "")


def format_row_verdict(row: Result) -> str:
    """Format the judge's verdict; published rows were not judged here."""
    if row.origin.kind != BUNDLE_KIND:
        return NOT_JUDGED
    return VERDICT_LABELS[Verdict.VALID if row.compliant else Verdict.BROKEN]


SITE_TABLE: Final[Table[Result]] = Table(
    columns=(
        *select_columns("id", "round", "profile", "division", "org", "system"),
        *select_text_columns("accelerator"),
        *select_columns("accelerators", "nodes"),
        Column("processor", get_row_processor),
        *select_text_columns("engine", "precision"),
        *select_columns("workload", "half"),
        *select_text_columns("scenario"),
        *select_columns("metric", "unit", "value", "low", "high"),
        rename_column("n", "run_count"),
        *select_columns("runs", "attempts"),
        Column("verdict", format_row_verdict),
        *select_columns("noise", "signed_by", "kind"),
        rename_column("source", "document"),
        *select_columns("note", "asked", "date"),
    )
)
"""One result, the same in JSON, CSV and Parquet."""


def format_site_json(rows: Sequence[Result], title: str) -> str:
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


def convert_site_row_to_data(row: Result) -> dict[str, Any]:
    """Convert a row to plain data."""
    (found,) = SITE_TABLE.list_plain_rows([row])
    return {
        key: encode_invisible_characters(value) if isinstance(value, str) else value
        for key, value in found.items()
    }


def format_site_csv(rows: Sequence[Result]) -> str:
    """Format all rows as CSV: runs are separated by spaces, a run that missed its target is a dash,
    an unknown value is empty.
    """
    return SITE_TABLE.format_csv_text(rows, encode_invisible_characters)


def build_site_schema() -> dict[str, Any]:
    """Return the JSON Schema of the JSON form."""
    row = SITE_TABLE.build_row_schema()
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
