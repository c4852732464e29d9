"""A good run's records with one row, line or field touched: each change is told, and none voids the
run.

What is let through is named here with the reason; anything else that passes is a hole in the rules.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from kinds.records import recorded
from rewriting import rewrite

from compliance.judge import Judge
from compliance.verdict import Verdict
from suite.files.layout import QUERY_RECORD_FILE, TELEMETRY_FILE

Rows = Callable[[Any], Any]


@pytest.fixture
def good(tmp_path: Path) -> Path:
    recorded(gpu=lambda second: {}, governor="performance")(tmp_path)
    (run,) = tmp_path.glob("*/performance/run_1")
    assert not told(run)
    return run


def told(run: Path) -> set[str]:
    """Name the rules that say something; the run counts all the same."""
    result = Judge().judge_path(str(run))
    assert result.verdict is Verdict.VALID
    return {finding.rule for finding in result.findings}


def edited(rows: Any, place: int, field: str, by: int) -> Any:
    rows[field][place] += by
    return rows


@pytest.mark.parametrize("place", [0, 7, 458])
@pytest.mark.parametrize(
    "change",
    [
        lambda rows, place: numpy.delete(rows, place),
        lambda rows, place: numpy.insert(rows, place, rows[place]),
        lambda rows, place: edited(rows, place, "samples", 1),
        lambda rows, place: edited(rows, place, "batch", 1000),
        lambda rows, place: edited(rows, place, "done_ns", -20_000_000),
        lambda rows, place: edited(rows, place, "issued_ns", 20_000_000_000),
        lambda rows, place: (
            numpy.concatenate([rows[: place + 1], rows[place + 1 :][::-1]])
            if place < 457
            else rows[::-1]
        ),
        lambda rows, place: rows.astype(rows.dtype.newbyteorder(">")),
        lambda rows, place: rows["done_ns"].copy(),
        lambda rows, place: rows.reshape(-1, 1),
    ],
    ids=[
        "deleted",
        "doubled",
        "samples",
        "batch",
        "early",
        "late",
        "turned",
        "big-endian",
        "one-field",
        "two-dimensions",
    ],
)
def test_a_touched_row_is_told(good: Path, change: Callable[[Any, int], Any], place: int):
    """A completion that is a little later or earlier than it was is let through: LoadGen's
    percentiles do not hang on one query.
    """
    numpy.save(good / QUERY_RECORD_FILE, change(numpy.load(good / QUERY_RECORD_FILE), place))
    assert told(good)


@pytest.mark.slow
def test_each_bit_of_the_header_counts(good: Path):
    """Another header is another table; its length alone is padding."""
    whole = (good / QUERY_RECORD_FILE).read_bytes()
    end = whole.index(b"}")
    for at in [*range(8), *range(10, end + 1)]:
        rewrite(good / QUERY_RECORD_FILE, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert told(good), at


def documents(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    yield from enumerate(map(json.loads, text.splitlines()))


def with_line(text: str, place: int, *lines: str) -> str:
    kept = text.splitlines(keepends=True)
    return "".join([*kept[:place], *lines, *kept[place + 1 :]])


@pytest.mark.slow
def test_no_line_of_telemetry_can_be_taken_out_doubled_or_exchanged(good: Path):
    """Readings that disturbed would be the ones to go."""
    text = (good / TELEMETRY_FILE).read_text()
    lines = text.splitlines(keepends=True)
    for place in range(len(lines)):
        for changed in ((), (lines[place], lines[place]), ("\n",), (lines[place][:-2] + "\n",)):
            rewrite(good / TELEMETRY_FILE, with_line(text, place, *changed))
            assert told(good), (place, changed)
    for place in range(1, len(lines) - 3):  # two lines on: the same channel's next reading
        rewrite(
            good / TELEMETRY_FILE,
            with_line(with_line(text, place, lines[place + 2]), place + 2, lines[place]),
        )
        assert told(good), place


FREE = {
    "governor": "null: a machine may not tell",
    "cores": "a fact for those who read it",
    "model": "likewise",
    "uuid": "likewise",
}


@pytest.mark.slow
def test_no_field_of_telemetry_can_be_emptied_or_renamed(good: Path):
    """A field of another name or type would switch off every rule about it; null is what a machine
    does not tell.
    """
    text = (good / TELEMETRY_FILE).read_text()
    for place, document in documents(text):
        tables = [
            document,
            *(value for value in document.values() if isinstance(value, dict)),
            *document.get("channels", []),
        ]
        for table in tables:
            for field in [field for field in table if field not in FREE]:
                for value in (..., "text", [[]]):
                    before = dict(table)
                    table.pop(field)
                    table |= {} if value is ... else {field: value}
                    rewrite(
                        good / TELEMETRY_FILE, with_line(text, place, json.dumps(document) + "\n")
                    )
                    assert told(good), (place, field, value)
                    table.clear()
                    table |= before
