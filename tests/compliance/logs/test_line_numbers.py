"""Line numbers that are counted late are the same as those counted at once, and nothing hides from
the decoding of whole blocks.
"""

import json
from pathlib import Path

import pytest

from compliance.kinds.training.logs import published
from compliance.logs import line_numbers
from compliance.logs.line_numbers import LineNumbers
from compliance.logs.mllog import mllog_lines
from compliance.logs.source_file import ParseErrorKind, SourceFile


def record(number: int, **more: object) -> str:
    return ":::MLLOG " + json.dumps(
        {
            "time_ms": 1_600_000_000_000 + number,
            "key": f"key_{number}",
            "value": number,
            "metadata": {"lineno": 1},
        }
        | more
    )


def read(path: Path, text: str | bytes) -> tuple[list[published.PublishedRecord], SourceFile]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    source = SourceFile(path)
    return list(published.read_published_records(source)), source


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "result_0.txt"


NOISE = "".join("x" * (number % 13) + "\n" for number in range(40))
TEXT = NOISE + "".join(f"{record(number)}\n{'noise' * (number % 3)}\n" for number in range(50))


@pytest.mark.parametrize("size", [1, 50, 1000, 1 << 17])
@pytest.mark.parametrize("spoilt", [False, True], ids=["usual", "one by one"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_late_number_is_the_line_that_the_record_stands_on(
    path: Path, monkeypatch: pytest.MonkeyPatch, size: int, spoilt: bool, end: str
) -> None:
    """Whatever the size of a block, and whether its records were decoded together or not."""
    monkeypatch.setattr(mllog_lines, "MLLOG_CHUNK_BYTES", size)
    monkeypatch.setattr(line_numbers, "MAX_COUNTED_STEP_BYTES", 37)
    text = (
        TEXT.replace('"key": "key_7"', '"key" : "key_7"').replace(":::MLLOG ", "[1,0]:::MLLOG ")
        if spoilt
        else TEXT
    ).replace("\n", end)
    found, _ = read(path, text)
    rows = path.read_bytes().split(b"\n")
    assert len(found) == 50
    assert all(f'"{entry.key}"'.encode() in rows[entry.line - 1] for entry in reversed(found))
    orders = [entry.order for entry in found]
    assert orders == sorted(set(orders))


def test_numbers_are_counted_from_the_nearest_place_that_is_known(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred findings in a gigabyte must not read it a hundred times."""
    path.write_bytes(b"line\n" * 1000)
    monkeypatch.setattr(line_numbers, "MAX_COUNTED_STEP_BYTES", 500)
    told = LineNumbers(path)
    assert told.find_line_at(4999) == 1000
    assert len(told.offsets) == len(told.numbers) == 11
    read_bytes = []
    opened = line_numbers.open_regular_file

    def counting(name: Path) -> object:
        stream = opened(name)
        read_bytes.append(0)
        return stream

    monkeypatch.setattr(line_numbers, "open_regular_file", counting)
    assert [told.find_line_at(offset) for offset in (0, 4, 5, 2500, 4999)] == [1, 1, 2, 501, 1000]
    assert len(told.offsets) == 11


def test_a_file_that_has_vanished_meanwhile_is_no_crash(path: Path) -> None:
    found, _ = read(path, TEXT)
    path.unlink()
    assert all(entry.line >= 1 for entry in found)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text.replace('"value": 3,', '"value": 99, "value": 3,'),
        lambda text: text.replace('"value": 3,', '"value" : 99, "value": 3,'),
        lambda text: text.replace('"value": 3,', '"value"\t: 99, "value" : 3,'),
        lambda text: text.replace('"value": 3,', '"value": 99, "value"  : 3,').replace(
            '"metadata": {"lineno": 1}', '"metadata" : {"lineno": 1}'
        ),
        lambda text: text.replace('{"lineno": 1}', '{"lineno": 1, "lineno": 2}', 1),
        lambda text: text.replace('"value": 3,', '"value": {"a": 1, "a": 2},'),
        lambda text: text.replace('"value": 3,', '"value": {"a": {"b": 1, "b": 2}},'),
    ],
    ids=["plain", "a blank", "a tab", "blanks made up for", "metadata", "value", "deep"],
)
def test_a_name_that_stands_twice_is_found_among_thousands_that_do_not(
    path: Path, spoil: object
) -> None:
    """Names are counted block by block: blanks before colons must not make up for a name too
    many.
    """
    found, source = read(path, spoil(TEXT))  # type: ignore[operator]
    assert len(found) == 50
    assert [
        (flaw.kind, flaw.line is not None)
        for flaw in source.parse_errors
        if flaw.kind is ParseErrorKind.DUPLICATE
    ] != []


@pytest.mark.parametrize(
    ("spoil", "kinds"),
    [
        (
            lambda text: text.replace(record(3), record(3) + " " + record(60)),
            {ParseErrorKind.GLUED},
        ),
        (
            lambda text: text.replace(
                record(3),
                record(3) + json.dumps({"time_ms": 1, "key": "hidden", "value": 1, "metadata": {}}),
            ),
            {ParseErrorKind.RECORD},
        ),
        (
            lambda text: text.replace(record(3), record(3, value=":::MLLOG {")),
            {ParseErrorKind.GLUED},
        ),
        (
            lambda text: text.replace(record(3), record(3)[:40] + "\n:::MLLOG " + record(3)[40:]),
            {ParseErrorKind.RECORD},
        ),
        (
            lambda text: text.replace(record(3), record(3)[:-1] + ', "metadata": [{}'),
            {ParseErrorKind.RECORD},
        ),
        (lambda text: text.replace(record(3), record(3)[:-1]), {ParseErrorKind.RECORD}),
        (lambda text: text.replace(record(3), record(3) + "]"), {ParseErrorKind.RECORD}),
        (lambda text: text.replace('"value": 3,', '"value": NaN,'), {ParseErrorKind.FOREIGN}),
        (
            lambda text: text.replace(":::MLLOG " + record(3)[9:], ":::MLLOG" + record(3)[9:]),
            {ParseErrorKind.RECORD},
        ),
        (lambda text: text.replace('"value": 3, ', ""), {ParseErrorKind.SHAPE}),
        (lambda text: text.replace('"key_3"', '""'), {ParseErrorKind.SHAPE}),
        (
            lambda text: text.replace('"time_ms": 1600000000003', '"time_ms": -3'),
            {ParseErrorKind.SHAPE},
        ),
    ],
    ids=[
        "glued",
        "behind",
        "mark in text",
        "split",
        "open",
        "cut",
        "bracket",
        "nan",
        "no blank",
        "no value",
        "no key",
        "time",
    ],
)
def test_a_record_that_is_none_is_found_among_those_that_are(
    path: Path, spoil: object, kinds: set[ParseErrorKind]
) -> None:
    """One odd line takes its block the slow way; the others are read all the same."""
    found, source = read(path, spoil(TEXT))  # type: ignore[operator]
    assert kinds <= {flaw.kind for flaw in source.parse_errors}
    assert {entry.key for entry in found} >= {
        f"key_{number}" for number in range(50) if number != 3
    }
