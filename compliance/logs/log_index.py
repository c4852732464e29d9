"""The records of a log by key: one index for each log, whichever era wrote it."""

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from compliance.logs.finite_numbers import is_finite_number


class LoggedRecord(Protocol):
    """A record of a log."""

    @property
    def key(self) -> str:
        """Return what it is about."""
        ...

    @property
    def value(self) -> Any:
        """Return its value."""
        ...

    @property
    def line(self) -> int:
        """Return its line, counted from 1."""
        ...


R = TypeVar("R", bound=LoggedRecord)


class LogIndex(dict[str, list[R]]):
    """Key -> its records, in the file's order. Of a repeated key the first record counts, or the
    last if `last` is true; either way the judge reports the repetition.
    """

    def __init__(self, records: Iterable[R] = (), *, last: bool = False) -> None:
        super().__init__()
        self.counted = -1 if last else 0
        for record in records:
            self.setdefault(record.key, []).append(record)

    def find_record(self, key: str) -> R | None:
        """Return the record that counts; None if the log has none with this key."""
        found = self.get(key)
        if found:
            return found[self.counted]
        return None

    def find_value(self, key: str) -> Any:
        """Return the value of a key; None if the log has none."""
        found = self.get(key)
        if found:
            return found[self.counted].value
        return None

    def find_number(self, key: str) -> float | None:
        """Return the value of a key as a number; None if it is not finite, or none at all."""
        value = self.find_value(key)
        if is_finite_number(value):
            return float(value)
        return None

    def find_line(self, key: str) -> int | None:
        """Return the line of the record that counts."""
        found = self.find_record(key)
        if found:
            return found.line
        return None
