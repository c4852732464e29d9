"""A table of records as one of the report."""

from collections.abc import Sequence
from typing import TypeVar

from submissions.report.document import Table
from suite import columns

Row = TypeVar("Row")


def build_shown_table(
    title: str, table: columns.Table[Row], rows: Sequence[Row], *, folded: bool = False
) -> Table:
    """Build the table of some rows, with the columns that they show."""
    shown = table.select_shown_columns(rows)
    heads, *cells = table.list_told_rows(rows)
    return Table(
        title=title,
        columns=heads,
        rows=tuple(cells),
        numeric=tuple(place for place, each in enumerate(shown) if each.is_number),
        folded=folded,
    )
