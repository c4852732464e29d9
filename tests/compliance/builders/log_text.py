"""A published log as text whose records can be taken out, repeated, moved and edited, each in its
own dialect.
"""

import json
import marshal
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

OLD: Final = re.compile(r":::MLL (\S+) (\w+): (.*)", re.DOTALL)
EVALUATION: Final = ("eval_start", "eval_stop", "eval_accuracy")


@lru_cache(maxsize=1 << 16)
def told(packed: bytes) -> str:
    """Write a packed table as JSON: most records of a mutant are the published log's, to the last
    type.
    """
    return json.dumps(marshal.loads(packed))  # noqa: S302 - packed by pack


def pack(table: Mapping[str, Any]) -> bytes:
    """Pack a table; 1, 1.0 and true stay apart, and what is equal is packed alike, wherever its
    parts come from.
    """
    return marshal.dumps(table, 2)


@dataclass(slots=True)
class Row:
    """One line; `key` is empty where it holds no record."""

    front: str
    key: str = ""
    seconds: float = 0.0
    table: dict[str, Any] = field(default_factory=dict)
    """What the JSON holds: with the key and the time in v0.7."""
    new: bool = False
    raw: str | None = None
    """Text that stands in place of the record."""

    def text(self) -> str:
        """Write the line again."""
        if not self.key:
            return self.front
        if self.raw is not None:
            return self.front + self.raw
        if self.new:
            return f"{self.front}:::MLLOG {told(pack(self.table))}"
        return f"{self.front}:::MLL {self.seconds:.6f} {self.key}: {told(pack(self.table))}"

    def later(self, seconds: float) -> None:
        """Move the record in time."""
        self.at(self.seconds + seconds)

    def at(self, seconds: float) -> None:
        """Give the record a time."""
        self.seconds = seconds
        if self.new:
            self.table["time_ms"] = round(seconds * 1000)

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata."""
        return self.table["metadata"]  # type: ignore[no-any-return]

    def copy(self) -> "Row":
        """Give a record of its own."""
        return Row(self.front, self.key, self.seconds, marshal.loads(pack(self.table)), self.new)


def parse(text: str) -> list[Row]:
    """Split a log into rows."""
    return [row_of(line) for line in text.split("\n")]


def fresh(rows: Sequence[Row]) -> list[Row]:
    """Give the rows with records of their own, to be changed; lines without a record stay as they
    are.
    """
    return [row.copy() if row.key else row for row in rows]


def row_of(line: str) -> Row:
    """Read one line."""
    front, mark, rest = line.partition(":::MLL")
    if not mark:
        return Row(line)
    if rest.startswith("OG "):
        table = json.loads(rest[3:])
        return Row(front, table["key"], table["time_ms"] / 1000, table, True)
    match = OLD.match(mark + rest)
    assert match, line
    return Row(front, match[2], float(match[1]), json.loads(match[3]))


def written(rows: Sequence[Row]) -> str:
    """Write rows as a log."""
    return "\n".join(row.text() for row in rows)


def of(rows: Sequence[Row], key: str) -> list[Row]:
    """Give the records of an event."""
    return [row for row in rows if row.key == key]


class Unfit(Exception):
    """This log has nothing that the mutation could change."""


def pick(rows: Sequence[Row], key: str, which: int | str = 0) -> Row:
    """Give one record of an event: by index, or the one in the middle of five or more."""
    found = of(rows, key)
    if which == "middle":
        if len(found) < 5:
            raise Unfit
        return found[len(found) // 2]
    if not found or isinstance(which, str) or which >= len(found):
        raise Unfit
    return found[which]


Mutation = Callable[[list[Row]], list[Row] | str]


def delete(key: str, which: int | str | None = None) -> Mutation:
    """Take out all records of an event, or one."""

    def mutate(rows: list[Row]) -> list[Row]:
        gone = of(rows, key) if which is None else [pick(rows, key, which)]
        if not gone:
            raise Unfit
        return [row for row in rows if all(row is not each for each in gone)]

    return mutate


def delete_together(keys: Sequence[str], which: int | str, mark: str) -> Mutation:
    """Take out records of several events that bear the number of one of them."""

    def mutate(rows: list[Row]) -> list[Row]:
        number = number_of(pick(rows, mark, which))
        return [row for row in rows if row.key not in keys or number_of(row) != number]

    return mutate


def number_of(row: Row) -> object:
    """The epoch that a record bears."""
    return row.metadata.get("epoch_num", row.metadata.get("first_epoch_num"))


def double(key: str, which: int | str = 0, later: float = 0.0, **edits: Any) -> Mutation:
    """Repeat a record right behind itself, later and with other fields."""

    def mutate(rows: list[Row]) -> list[Row]:
        row = pick(rows, key, which)
        again = row.copy()
        again.later(later)
        again.table.update(edits)
        index = next(index for index, each in enumerate(rows) if each is row)
        return [*rows[: index + 1], again, *rows[index + 1 :]]

    return mutate


def edit(key: str, change: Callable[[Row], object], which: int | str | None = 0) -> Mutation:
    """Change one record of an event, or all."""

    def mutate(rows: list[Row]) -> list[Row]:
        chosen = of(rows, key) if which is None else [pick(rows, key, which)]
        if not chosen:
            raise Unfit
        for row in chosen:
            change(row)
        return rows

    return mutate


def value(told: Any) -> Callable[[Row], object]:
    """Give a record this value."""
    return lambda row: row.table.update(value=told)


def number(name: str, told: Any) -> Callable[[Row], object]:
    """Give a field of the metadata this value."""
    return lambda row: row.metadata.update({name: told})


def without(name: str) -> Callable[[Row], object]:
    """Take a field out of the metadata."""
    return lambda row: row.metadata.pop(name, None)


def cut(name: str) -> Callable[[Row], object]:
    """Take a field out of the record."""
    return lambda row: row.table.pop(name, None)


def raw(change: Callable[[str], str]) -> Callable[[Row], object]:
    """Change a record's text."""

    def apply(row: Row) -> None:
        row.raw = change(row.text().removeprefix(row.front))

    return apply


def move(
    key: str,
    beside: str,
    *,
    behind: bool = True,
    which: int | str = 0,
    beside_which: int | str = 0,
    keep_time: bool = False,
) -> Mutation:
    """Move a record beside another one, in the file and, unless told otherwise, in time."""

    def mutate(rows: list[Row]) -> list[Row]:
        row, other = pick(rows, key, which), pick(rows, beside, beside_which)
        rest = [each for each in rows if each is not row]
        index = next(index for index, each in enumerate(rest) if each is other)
        if not keep_time:
            row.at(other.seconds + (0.001 if behind else -0.001))
        return [*rest[: index + behind], row, *rest[index + behind :]]

    return mutate


def retime(key: str, when: Callable[[list[Row]], float], which: int | str = 0) -> Mutation:
    """Give a record another time, where it stands."""

    def mutate(rows: list[Row]) -> list[Row]:
        pick(rows, key, which).at(when(rows))
        return rows

    return mutate


def stretch(key: str, seconds: float) -> Mutation:
    """Move all records from the first of an event on to a later time."""

    def mutate(rows: list[Row]) -> list[Row]:
        start = pick(rows, key)
        index = next(index for index, each in enumerate(rows) if each is start)
        for row in rows[index:]:
            if row.key and row.seconds > 0:
                row.later(seconds)
        return rows

    return mutate


def settings_of(rows: Sequence[Row]) -> Mapping[str, Any]:
    """First values of all events."""
    found: dict[str, Any] = {}
    for row in rows:
        if row.key:
            found.setdefault(row.key, row.table.get("value"))
    return found
