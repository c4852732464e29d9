"""Columns and tables of records: each column is named and read at one place, and from it come text,
CSV, JSON, the rows of a page and the schema.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Generic, TypeVar

from suite.files.csv_tables import format_csv_table
from suite.files.untrusted_files import replace_unprintable
from suite.human_numbers import format_exact_number, format_plain_number

Row = TypeVar("Row")
Part = TypeVar("Part")

UNKNOWN_CELL: Final = "-"
"""Stands for a value that nobody knows, for people and within a list."""
CELL_GAP: Final = "  "


def has_always_cells(rows: Sequence[Any]) -> bool:
    """Show a column whatever its rows are."""
    return True


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One thing that is known of a row."""

    name: str
    """Its name for programs: the column of CSV, the key of JSON."""
    read: Callable[[Row], Any]
    """Its value; None is unknown."""
    _: KW_ONLY
    title: str = ""
    """Its heading for people; empty: its name."""
    unit: str = ""
    """Stands behind the heading for people."""
    digits: int | None = None
    """Decimals for people; None: the first four digits."""
    tell: Callable[[Row], str] | None = None
    """Its words for people, where its value alone does not say all."""
    numeric: bool = False
    """Whether it stands to the right for people; a column with a unit or digits does."""
    when: Callable[[Sequence[Row]], bool] = has_always_cells
    """Whether these rows show it at all."""
    optional: bool = False
    """Whether it is left out for people where they would see nothing but unknown cells."""
    kind: Any = str
    """Type of its value in the schema."""

    @property
    def heading(self) -> str:
        """Its heading for people."""
        return " ".join(filter(None, (self.title or self.name, self.unit)))

    @property
    def is_number(self) -> bool:
        """Whether it stands to the right."""
        return self.numeric or self.digits is not None or bool(self.unit)

    def format_cell(self, row: Row) -> str:
        """Format its value for people."""
        if self.tell:
            return self.tell(row)
        return format_plain_value(self.read(row), self.digits)

    def has_told_cells(self, rows: Sequence[Row]) -> bool:
        """Return whether people see anything in it."""
        return any(self.format_cell(each) not in ("", UNKNOWN_CELL) for each in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Generic[Row]):
    """Columns in their order; one of points is declared as `TABLE: Table[Point] = Table(...)`."""

    columns: tuple[Column[Row], ...]
    name: str = "Row"
    """Name of a row in the schema."""

    def select_shown_columns(self, rows: Sequence[Row]) -> list[Column[Row]]:
        """Select the columns that these rows show to people."""
        known = [each for each in self.columns if each.when(rows)]
        return [each for each in known if not each.optional or each.has_told_cells(rows)]

    def list_told_rows(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        """Format the headings and the cells of all rows for people: for a page or Markdown."""
        shown = self.select_shown_columns(rows)
        heads = tuple(each.heading for each in shown)
        return [heads, *(tuple(each.format_cell(row) for each in shown) for row in rows)]

    def list_aligned_lines(
        self, rows: Sequence[Row], paint: Callable[[str], str] = str
    ) -> list[str]:
        """Format the headings and all rows as a line each, numbers to the right. `paint` colours
        cells.
        """
        right = [each.is_number for each in self.select_shown_columns(rows)]
        return list(align_told_lines(self.list_told_rows(rows), right, paint))

    def format_aligned_text(self, rows: Sequence[Row]) -> str:
        """Format all rows as lines under their headings, numbers to the right."""
        return "\n".join(self.list_aligned_lines(rows))

    def format_csv_text(self, rows: Sequence[Row], encode: Callable[[str], str] = str) -> str:
        """Format all rows as CSV: numbers with all their digits, the items of a list separated by
        spaces. `encode` is applied to texts.
        """
        shown = [each for each in self.columns if each.when(rows)]
        cells = (
            {each.name: convert_to_csv_cell(each.read(row), encode) for each in shown}
            for row in rows
        )
        return format_csv_table([each.name for each in shown], cells)

    def list_plain_rows(self, rows: Iterable[Row]) -> list[dict[str, Any]]:
        """Return all rows as JSON types; `when` is not asked, since programs read by key."""
        from msgspec import to_builtins  # late: a list of texts needs no msgspec

        return [{each.name: to_builtins(each.read(row)) for each in self.columns} for row in rows]

    def build_row_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of one row."""
        import msgspec

        fields = [(each.name, each.kind) for each in self.columns]
        return msgspec.json.schema(msgspec.defstruct(self.name, fields))


def build_part_column(column: Column[Part], get_part: Callable[[Row], Part]) -> Column[Row]:
    """Return a column of a part as one of rows that have such a part."""
    return Column(
        column.name,
        lambda row: column.read(get_part(row)),
        title=column.title,
        unit=column.unit,
        digits=column.digits,
        tell=lambda row: column.format_cell(get_part(row)),
        numeric=column.numeric,
        when=lambda rows: column.when(list(map(get_part, rows))),
        optional=column.optional,
        kind=column.kind,
    )


def format_plain_value(value: object, digits: int | None = None) -> str:
    """Format a value for people; an unknown one is a dash."""
    if value is None:
        return UNKNOWN_CELL
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and digits is not None:
        return f"{value:,.{digits}f}"
    if isinstance(value, float):
        return format_plain_number(value)
    if isinstance(value, tuple | list):
        return ", ".join(format_plain_value(each, digits) for each in value)
    return str(value)


def convert_to_csv_cell(value: object, encode: Callable[[str], str]) -> object:
    """Convert a value to a cell of CSV; an unknown item of a list is a dash, and one with a name
    stands behind it.
    """
    if isinstance(value, Mapping):
        return " ".join(
            f"{encode(name)}={format_exact_number(item)}" for name, item in value.items()
        )
    if isinstance(value, tuple | list):
        return " ".join(UNKNOWN_CELL if each is None else encode(str(each)) for each in value)
    return encode(value) if isinstance(value, str) else value


def align_told_lines(
    lines: Sequence[Sequence[str]], right: Sequence[bool], paint: Callable[[str], str] = str
) -> Iterator[str]:
    """Yield lines whose cells stand below each other; `right` says which stand to the right, and
    `paint` colours cells.
    """
    printable = [tuple(map(replace_unprintable, line)) for line in lines]
    widths = [max(map(len, cells)) for cells in zip(*printable, strict=True)]
    for line in printable:
        cells = zip(line, widths, right, strict=True)
        yield CELL_GAP.join(
            paint(cell.rjust(width) if is_right else cell.ljust(width))
            for cell, width, is_right in cells
        ).rstrip()
