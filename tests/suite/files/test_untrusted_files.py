"""Whatever a file holds, reading it gives a value or one sentence with the file's name."""

import json
import os
import tracemalloc
from pathlib import Path

import pytest

from suite.files.untrusted_files import (
    MAX_DOCUMENT_BYTES,
    MAX_NESTING_DEPTH,
    MAX_SETTINGS_BYTES,
    UnreadableError,
    is_nested_too_deep,
    parse_digits,
    parse_document_count,
    read_untrusted_file,
    read_untrusted_text,
    read_untrusted_toml,
)

DEEP = 100_000


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff\xfe", "not UTF-8 text: byte 0xff at offset 0"),
        (b"[" * DEEP, "nested too deep"),
        (b"[" + b"1" * 5000 + b"]", "too many digits"),
        (b"{", "Expecting property name"),
        (b"x" * (MAX_DOCUMENT_BYTES + 1), f"larger than {MAX_DOCUMENT_BYTES} bytes"),
    ],
)
def test_a_document_that_is_none_is_one_error(tmp_path: Path, content: bytes, reason: str):
    """Each of these was an exception of another kind, and a traceback where one was forgotten."""
    path = tmp_path / "state.json"
    path.write_bytes(content)
    with pytest.raises(UnreadableError, match=reason) as caught:
        read_untrusted_file(path, lambda text: json.loads(text.decode()))
    assert (
        str(caught.value).startswith(f"{path}: ")
        and "\n" not in str(caught.value)
        and not caught.value.missing
    )


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        (b"[" * MAX_NESTING_DEPTH + b"]" * MAX_NESTING_DEPTH, False),
        (b'{"a": [' * MAX_NESTING_DEPTH + b"]}" * MAX_NESTING_DEPTH, True),
        (b'{"a": ["]]]]"' * MAX_NESTING_DEPTH + b"]}" * MAX_NESTING_DEPTH, True),
        (b"[" + b"[1], " * DEEP + b"2]", False),
        (b'["' + b"[" * DEEP + b'"]', False),
        (b'["\\"' + b"[" * DEEP + b'"]', False),
        (b'["\\\\"' + b", [" * DEEP, True),
        (b'["' + b"\\[" * DEEP, False),
    ],
)
def test_depth_is_that_of_brackets_outside_of_strings(text: bytes, deep: bool):
    """Python 3.11 takes a thousand levels, 3.13 ten thousand: a verdict must not hang on that."""
    assert is_nested_too_deep(text) is deep


def test_a_long_string_takes_no_memory():
    """Whoever writes a ledger's line chooses its length: a state for each letter of it would be
    gigabytes.
    """
    text = (
        b"[" * (MAX_NESTING_DEPTH + 1)
        + b'"'
        + b"x" * (1 << 20)
        + b"\\n" * (1 << 18)
        + b'"'
        + b"]" * (MAX_NESTING_DEPTH + 1)
    )
    tracemalloc.start()
    assert is_nested_too_deep(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * len(text)


def test_a_missing_file_is_told_from_a_damaged_one(tmp_path: Path):
    """A state that is not there yet is none of the user's faults."""
    for path in (tmp_path / "nothing.json", tmp_path / "nothing" / "at.json"):
        with pytest.raises(UnreadableError) as caught:
            read_untrusted_text(path)
        assert caught.value.missing


def test_a_pipe_in_place_of_a_file_does_not_block(tmp_path: Path):
    """Opening a pipe that nobody writes to would wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableError, match="not a plain file"):
        read_untrusted_text(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = " + "[" * 5000, "nested too deep"),
        ("x = " + "{a = " * 2000, "nested too deep"),
        ("x = " + "9" * 5000, "too many digits"),
        ("x = 0x" + "f" * 5000, "more than 64 bits"),
        (".".join("a" * 10_000) + " = 1", "dots in one line"),
        ("x = 1\n" * 2, "overwrite"),
        ("#" * (MAX_SETTINGS_BYTES + 1), "larger than"),
    ],
)
def test_toml_that_breaks_its_parser_is_one_error(tmp_path: Path, text: str, reason: str):
    """tomllib recurses, lets Python's limit on digits through, takes any number in base 16, and is
    quadratic in a key's parts.
    """
    path = tmp_path / "settings.toml"
    path.write_text(text)
    with pytest.raises(UnreadableError, match=reason):
        read_untrusted_toml(path)


def test_toml_may_begin_with_a_byte_order_mark(tmp_path: Path):
    """Notepad and PowerShell write one, and tomllib takes it for a key."""
    path = tmp_path / "settings.toml"
    path.write_text("x = 'ü'\n", "utf-8-sig")
    assert read_untrusted_toml(path) == {"x": "ü"}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_toml_in_utf_16_is_told(tmp_path: Path, encoding: str):
    """What Notepad calls Unicode; tomllib would name a byte."""
    path = tmp_path / "settings.toml"
    path.write_bytes("\ufeff".encode(encoding) + "x = 1\n".encode(encoding))
    with pytest.raises(UnreadableError, match=r"settings.toml: is UTF-16; save it as UTF-8$"):
        read_untrusted_toml(path)


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("007", 7), ("²", None), ("٣", None), ("", None), ("-1", None), ("1" * 19, None)],
)
def test_only_plain_digits_are_a_number(text: str, number: int | None):
    """str.isdigit takes a superscript two, and int does not."""
    assert parse_digits(text) == number


@pytest.mark.parametrize(
    ("stated", "count"),
    [
        (1, 1),
        (1.0, 1),
        ("1", 1),
        ("1.0", 1),
        (" 8 ", 8),
        (0, 0),
        (1.5, None),
        ("1.5", None),
        (-1.0, None),
        (1e300, None),
        (float("nan"), None),
        (True, None),
        (None, None),
        ("two", None),
    ],
)
def test_a_count_may_be_written_as_a_whole_decimal(stated: object, count: int | None):
    """Spreadsheets and pandas write one node as 1.0, which was no count."""
    assert parse_document_count(stated) == count


def test_a_small_file_needs_no_more_memory_than_it_has_bytes(tmp_path: Path) -> None:
    """Whatever the limit is: a process with little memory left reads 2 kB."""
    path = tmp_path / "record.json"
    path.write_bytes(b"x" * 2000)
    tracemalloc.start()
    try:
        assert read_untrusted_file(path, len, 64 << 20) == 2000
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_memory_that_runs_out_is_no_fault_of_a_small_file(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(b"x" * 2000)

    def exhausted(content: bytes) -> None:
        raise MemoryError

    with pytest.raises(UnreadableError, match="no memory left for reading a file of 2,000 bytes"):
        read_untrusted_file(path, exhausted)
