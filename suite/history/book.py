"""Reads a history, and adds lines to it: whole lines or none."""

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from suite.errors import JudgedError
from suite.files.layout import build_write_error, replace_atomically
from suite.files.untrusted_files import (
    UnreadableError,
    describe_parse_failure,
    read_untrusted_file,
    replace_unprintable,
)
from suite.history.records import (
    MAX_HISTORY_BYTES,
    HistoryLine,
    HistoryMachine,
    decode_history_line,
    encode_history_line,
    has_own_digest,
    is_conflict_marker,
)

UNION_MERGE: Final = "merge=union"
CONFLICT_ADVICE: Final = (
    "a conflict of a merge; keep the lines of both sides, remove the markers, and write"
    f" `history.jsonl {UNION_MERGE}` into .gitattributes"
)
EDITED_ADVICE: Final = "was edited since podium wrote it; restore it from git"
CUT_ADVICE: Final = "the line is incomplete; restore it from git, or delete it and add again"


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedLine:
    """A line of a history with its number."""

    number: int
    """Counted from 1."""
    line: HistoryLine


class HistoryError(JudgedError):
    """A history that cannot be used as it is."""


def read_history(path: Path) -> list[NumberedLine]:
    """Read all lines of a history, in the order of the file; nothing of a file that does not exist.
    HistoryError, which names the line, for one that is not as it was written.
    """
    found = []
    for number, text in enumerate(split_history_lines(read_history_bytes(path)), 1):
        if text.strip():
            found.append(NumberedLine(number=number, line=read_history_line(path, number, text)))
    check_machines(path, found)
    return found


def read_history_bytes(path: Path) -> bytes:
    """Read a history; empty if there is none."""
    try:
        return read_untrusted_file(path, bytes, MAX_HISTORY_BYTES)
    except UnreadableError as error:
        if error.missing:
            return b""
        raise


def split_history_lines(text: bytes) -> list[bytes]:
    """Split a history into its lines, without their newlines; an editor may have dropped the last
    one.
    """
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [each.removesuffix(b"\r") for each in lines]


def read_history_line(path: Path, number: int, text: bytes) -> HistoryLine:
    """Read one line; HistoryError if it is not as it was written."""
    place = f"{path}:{number}"
    if is_conflict_marker(text):
        raise HistoryError(f"{place}: {CONFLICT_ADVICE}")
    if has_own_digest(text):
        try:
            return decode_history_line(text)
        except ValueError as error:
            raise HistoryError(f"{place}: {describe_parse_failure(error)}") from error
    if not text.rstrip().endswith(b"}"):
        raise HistoryError(f"{place}: {CUT_ADVICE}")
    raise HistoryError(f"{place}: {EDITED_ADVICE}")


def check_machines(path: Path, lines: Sequence[NumberedLine]) -> None:
    """HistoryError if two machines have one name."""
    for each, first, difference in iterate_machine_differences(lines):
        raise HistoryError(
            f"{path}:{each.number}: another machine than that of line {first.number} under one"
            f" name, {difference}"
        )


def iterate_machine_differences(
    lines: Iterable[NumberedLine],
) -> Iterator[tuple[NumberedLine, NumberedLine, str]]:
    """Yield each line with other hardware than an earlier one of its machine's name, that line, and
    in which hardware they differ; what a line does not state differs from nothing.
    """
    known: dict[tuple[str, str], NumberedLine] = {}
    for each in lines:
        machine = each.line.machine
        for name in HistoryMachine.__slots__:
            mine = getattr(machine, name)
            if mine is None:
                continue
            first = known.setdefault((machine.name, name), each)
            stated = getattr(first.line.machine, name)
            if stated != mine:
                told = f"{machine.name}: {name} {stated} and {mine}"
                yield each, first, replace_unprintable(told)
                break


@contextmanager
def lock_history(path: Path) -> Iterator[None]:
    """Lock a history while it is read and added to: two commands at once would lose the lines of
    one. The lock is of its folder, and where a file system has none there is none.
    """
    descriptor = os.open(path.absolute().parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def append_history_lines(path: Path, lines: Sequence[HistoryLine]) -> None:
    """Add lines at the end of a history, all or none, and sync them; what is in it stays byte by
    byte. RequestError or MissingError if it cannot be written.
    """
    text = read_history_bytes(path)
    if text and not text.endswith(b"\n"):
        text += b"\n"
    added = b"".join(map(encode_history_line, lines))
    try:
        with replace_atomically(path.resolve()) as partial:
            partial.write_bytes(text + added)
    except OSError as error:
        raise build_write_error(path, error) from error
