"""Published values that stand beside the scores of a tree: podium's own rows, MLCommons' table of a
round, or a file of rows.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec

from submissions.published_rows import (
    LARGEST_PUBLISHED_NUMBER,
    LEAST_PUBLISHED_NUMBER,
    list_published_files,
    read_published_file,
    read_published_rows,
)
from suite.errors import RequestError
from suite.files.layout import fold_name
from suite.files.untrusted_files import UnreadableError, read_untrusted_file, replace_unprintable
from suite.result import Result
from suite.units import NS_PER_MS

TABLE_SUFFIX: Final = ".json"
LATENCY_UNIT: Final = "Latency (ms)"
RESULTS_LEVEL: Final = "/results/"
"""Level of a tree that ids of published rows leave out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A published value of a result."""

    value: float
    """In the unit of the result's score."""
    source: str


class TableRow(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={
        "id": "ID",
        "location": "Location",
        "result": "Performance_Result",
        "unit": "Performance_Units",
    },
):
    """What is read of a row of MLCommons' table.

    Source of the names: summary_results.json of mlcommons/inference_results_v5.1.
    """

    id: str
    location: str
    result: Annotated[float, msgspec.Meta(ge=LEAST_PUBLISHED_NUMBER, le=LARGEST_PUBLISHED_NUMBER)]
    unit: str
    version: str


def build_reference_key(round_name: str, location: str) -> str:
    """Return what names a result, from its round and its folder below the root of its tree."""
    place = location.removeprefix("./").partition("/performance")[0]
    return fold_name(f"{round_name}/{place.replace(RESULTS_LEVEL, '/')}")


def read_published_references(
    rounds: Iterable[str], tables: Iterable[Path]
) -> Mapping[str, Reference]:
    """Read the published values of some rounds; those of a given table count before podium's rows.
    RequestError for a table that cannot be read.
    """
    found: dict[str, Reference] = {}
    for table in tables:
        found |= dict(iterate_table_references(table))
    for name in set(rounds) & set(list_published_files()):
        for row in read_published_rows(name):
            found.setdefault(fold_name(row.origin.id), convert_row_to_reference(row))
    return found


def convert_row_to_reference(row: Result) -> Reference:
    """Return the published value of a row, as MLCommons' tables have it."""
    source = f"podium's rows, {row.origin.kind}{f'; {row.origin.note}' if row.origin.note else ''}"
    return Reference(value=row.headline or 0.0, source=source)


def iterate_table_references(table: Path) -> Iterator[tuple[str, Reference]]:
    """Yield key and value of each row of MLCommons' table, or of a file of published rows."""
    if table.suffix != TABLE_SUFFIX:
        for row in read_published_file(table):
            yield fold_name(row.origin.id), Reference(value=row.headline or 0.0, source=table.name)
        return
    try:
        rows = read_untrusted_file(table, msgspec.json.Decoder(tuple[TableRow, ...]).decode)
    except UnreadableError as error:
        raise RequestError(
            replace_unprintable(f"{error}; required: MLCommons' summary_results.json")
        ) from error
    for each in rows:
        yield (
            build_reference_key(f"inference-{each.version}", each.location),
            Reference(
                value=each.result * (NS_PER_MS if each.unit == LATENCY_UNIT else 1),
                source=f"MLCommons' table, {each.id}",
            ),
        )
