"""CSV that a spreadsheet opens holds no formula of somebody else."""

import csv
import io
import re
from pathlib import Path

import pytest

from suite.files.csv_tables import format_csv_table


@pytest.mark.parametrize(
    "text",
    [
        "=cmd|calc!A1",
        '+HYPERLINK("x")',
        "@SUM(A1)",
        "-1+1",
        "-2e5+cmd|' /C calc'!A0",
        "- 1 -cmd",
        "-",
        "\t=1",
        "\r=1",
        "\uff1d1+1",
        "--1",
        "+\u0661",
        "-inf",
    ],
)
def test_a_text_never_begins_like_a_formula(text: str) -> None:
    (row,) = csv.DictReader(io.StringIO(format_csv_table(["a"], [{"a": text}])))
    if text == "-":
        assert row["a"] == "-", "a run that missed its target"
        return
    assert row["a"][0] == "'" and row["a"][2:] == text[1:].replace("\r", "")


@pytest.mark.parametrize(
    "value", [-1, -0.5, 1e-300, "-0.5", "-0.5 - 1e-05", "+3", "- 0.25", "a=1", "0.5", True, ""]
)
def test_a_number_and_a_list_of_numbers_stay_as_they_are(value: object) -> None:
    """Programs read them: one that begins with an apostrophe is no number."""
    (row,) = csv.DictReader(io.StringIO(format_csv_table(["a"], [{"a": value}])))
    assert row["a"] == str(value)


def test_letters_that_move_a_cursor_are_replaced() -> None:
    text = format_csv_table(["a", "b"], [{"a": "x\x1b[31m\x07\u202e\ny", "b": None}])
    assert text == "a,b\nx\ufffd[31m\ufffd\ufffd\ufffdy,\n"


def test_nothing_else_writes_csv() -> None:
    """A table with a writer of its own would lack all this."""
    root = Path(__file__).parents[3]
    packages = ("compliance", "extras", "harness", "submissions", "suite", "workloads")
    found = [
        path.name
        for package in packages
        for path in (root / package).rglob("*.py")
        if re.search(r"csv\.(DictW|w)riter", path.read_text())
    ]
    assert found == ["csv_tables.py"]
