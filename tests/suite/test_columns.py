"""Tables of records: one set of columns gives the same figures to people and to programs."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

import jsonschema
import pytest

from suite.columns import Column, Table, build_part_column


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A row."""

    name: str
    rate: float | None
    runs: tuple[float | None, ...] = ()
    watts: float | None = None


def has_watts(rows: Sequence[Point]) -> bool:
    return any(each.watts is not None for each in rows)


TABLE: Table[Point] = Table(
    columns=(
        Column("name", lambda row: row.name, title="engine"),
        Column(
            "samples_per_second",
            lambda row: row.rate,
            title="rate",
            unit="samples/s",
            digits=1,
            kind=float | None,
        ),
        Column("runs", lambda row: row.runs, kind=tuple[float | None, ...]),
        Column("watts", lambda row: row.watts, unit="W", when=has_watts, kind=float | None),
    )
)
ROWS = (
    Point(name="torch", rate=1234.56, runs=(1.5, None)),
    Point(name="onnxruntime", rate=None),
)


def test_text_stands_below_its_heading_and_numbers_to_the_right() -> None:
    assert TABLE.format_aligned_text(ROWS) == (
        "engine       rate samples/s  runs\n"
        "torch               1,234.6  1.5, -\n"
        "onnxruntime               -"
    )


def test_a_column_is_shown_only_when_its_rows_have_it() -> None:
    drawn = (*ROWS, Point(name="null", rate=1.0, watts=12.5))
    assert TABLE.list_told_rows(ROWS)[0] == ("engine", "rate samples/s", "runs")
    assert TABLE.list_told_rows(drawn)[0][-1] == "watts W"
    assert TABLE.list_told_rows(drawn)[3][-1] == "12.5"


def test_programs_read_all_digits_and_empty_cells() -> None:
    cells = list(csv.reader(io.StringIO(TABLE.format_csv_text(ROWS))))
    assert cells == [
        ["name", "samples_per_second", "runs"],
        ["torch", "1234.56", "1.5 -"],
        ["onnxruntime", "", ""],
    ]


def test_json_has_every_column_and_fits_the_schema() -> None:
    found = TABLE.list_plain_rows(ROWS)
    assert list(found[0]) == ["name", "samples_per_second", "runs", "watts"]
    for each in json.loads(json.dumps(found)):
        jsonschema.Draft202012Validator(TABLE.build_row_schema()).validate(each)


def test_an_optional_column_is_left_out_for_people_only() -> None:
    """A program that reads a column by its name would find it in some files and not in others."""
    power: Column[Point] = Column("watts", lambda row: row.watts, optional=True)
    table = Table(columns=(TABLE.columns[0], power))
    assert table.list_told_rows(ROWS)[0] == ("engine",)
    assert table.format_csv_text(ROWS).splitlines()[0] == "name,watts"
    (told,) = table.list_told_rows([Point(name="null", rate=None, watts=0.0)])[1:]
    assert told == ("null", "0")


def test_a_column_of_a_part_is_read_and_told_as_in_the_part() -> None:
    pairs = [(1, each) for each in ROWS]
    lifted: Table[tuple[int, Point]] = Table(
        columns=tuple(build_part_column(each, itemgetter(1)) for each in TABLE.columns)
    )
    assert lifted.format_aligned_text(pairs) == TABLE.format_aligned_text(ROWS)
    assert lifted.format_csv_text(pairs) == TABLE.format_csv_text(ROWS)
    assert lifted.build_row_schema() == TABLE.build_row_schema()


def test_named_values_are_one_cell_with_all_digits() -> None:
    scores: Column[Point] = Column("scores", lambda row: {"top1": 0.76543, "loss": 3.0})
    assert Table(columns=(scores,)).format_csv_text(ROWS[:1]).splitlines() == [
        "scores",
        "top1=0.76543 loss=3",
    ]


@pytest.mark.parametrize("name", ["=1+1", "a\nb", "a\x1b[2J"])
def test_a_strangers_text_stays_one_cell(name: str) -> None:
    """A spreadsheet would compute a formula, and a terminal move its cursor."""
    row = Point(name=name, rate=1.0)
    (_, *lines) = TABLE.format_aligned_text([row]).splitlines()
    assert len(lines) == 1 and lines[0].isprintable()
    cell = TABLE.format_csv_text([row]).splitlines()[1].split(",")[0]
    assert cell.isprintable() and not cell.startswith("=")
