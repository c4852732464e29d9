"""A training log that can be changed record by record, in either dialect; what is not touched keeps
its bytes.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Self

OLD: Final = re.compile(
    r"^(?P<lead>.*?):::MLL (?P<time>\S+) (?P<key>[\w.]+): (?P<body>\{.*\})\s*$", re.DOTALL
)
NEW: Final = re.compile(r"^(?P<lead>.*?):::MLLOG (?P<body>\{.*\})\s*$", re.DOTALL)
SAME: Final = {"mask": "maskrcnn", "resnet50": "resnet"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record; `time` in the log's own unit."""

    lead: str
    key: str
    time: Any
    value: Any
    metadata: dict[str, Any]
    rest: dict[str, Any] | None
    """Further fields of the newer dialect; None in the older."""
    drop: frozenset[str] = frozenset()
    """Fields that are left out when it is written."""

    @property
    def scale(self) -> float:
        """How many of the log's time units a second has."""
        return 1 if self.rest is None else 1000

    @property
    def seconds(self) -> float:
        """Its time in seconds."""
        return float(self.time) / self.scale

    def at(self, seconds: float) -> Self:
        """Give it another time."""
        return replace(self, time=round(seconds, 3) if self.rest is None else round(seconds * 1000))

    def later(self, seconds: float) -> Self:
        """Shift its time."""
        return self.at(self.seconds + seconds)

    def where(self, **metadata: Any) -> Self:
        """Change metadata; None takes a field out."""
        return replace(
            self,
            metadata={
                name: value
                for name, value in (self.metadata | metadata).items()
                if value is not None
            },
        )

    def where_null(self, name: str) -> Self:
        """Give a field of the metadata no value."""
        return replace(self, metadata={**self.metadata, name: None})

    def in_other_dialect(self) -> Self:
        """Write it as the other of the two rounds does."""
        if self.rest is None:
            return replace(self, time=round(self.seconds * 1000), rest={})
        return replace(self, time=self.seconds, rest=None)

    @property
    def number(self) -> Any:
        """The epoch that it is about."""
        return self.metadata.get("epoch_num", self.metadata.get("first_epoch_num"))

    def body(self) -> dict[str, Any]:
        """Its JSON object."""
        time = {} if self.rest is None else {**self.rest, "time_ms": self.time, "key": self.key}
        whole = {**time, "value": self.value, "metadata": self.metadata}
        return {name: value for name, value in whole.items() if name not in self.drop}

    def __str__(self) -> str:
        """Write it as a line."""
        body = json.dumps(self.body())
        if self.rest is not None:
            return f"{self.lead}:::MLLOG {body}\n"
        return f"{self.lead}:::MLL {self.time}{' ' if self.time != '' else ''}{self.key}: {body}\n"


def read(line: str) -> Record | None:
    """Read a line; None where it is no record."""
    if match := OLD.match(line):
        body = json.loads(match["body"])
        return Record(
            lead=match["lead"],
            key=match["key"],
            time=match["time"],
            value=body.get("value"),
            metadata=body.get("metadata") or {},
            rest=None,
        )
    if not (match := NEW.match(line)):
        return None
    body = json.loads(match["body"])
    rest = {
        name: value
        for name, value in body.items()
        if name not in ("time_ms", "key", "value", "metadata")
    }
    return Record(
        lead=match["lead"],
        key=body["key"],
        time=body["time_ms"],
        value=body["value"],
        metadata=body["metadata"] or {},
        rest=rest,
    )


Edit = Callable[[Record], Record]


@dataclass(slots=True)
class Log:
    """A log: its lines, changed in place."""

    lines: list[str]
    records: dict[int, Record] = field(default_factory=dict)
    """Line -> its record, as it was read."""
    place: ClassVar[float] = 0.5
    """Which record is taken where one of several is broken: 0 is the first that may be, 1 the
    last.
    """
    encoded: bytes | None = None
    """What is written instead of the lines, where those do not say it."""

    @classmethod
    def of(cls, content: bytes) -> Self:
        """Read a log."""
        log = cls(re.findall(r"[^\n]*\n|[^\n]+", content.decode("latin-1")))
        log.read()
        return log

    def read(self) -> None:
        """Read the records again, after lines were put in or taken out."""
        self.records = {
            index: record
            for index, line in enumerate(self.lines)
            if ":::MLL" in line and (record := read(line))
        }

    def content(self) -> bytes:
        """Give the bytes to write."""
        return self.encoded if self.encoded is not None else "".join(self.lines).encode("latin-1")

    def of_key(self, *keys: str) -> list[int]:
        """Find the lines of a kind of record, in the order of the file."""
        return [index for index, record in self.records.items() if record.key in keys]

    def one(self, key: str) -> Record | None:
        """Find the first record of a kind."""
        return next((self.records[index] for index in self.of_key(key)), None)

    def value(self, key: str) -> Any:
        """Find the value of the first record of a kind."""
        return record.value if (record := self.one(key)) else None

    @property
    def benchmark(self) -> str:
        """The benchmark, by the name that most logs have."""
        name = str(self.value("submission_benchmark"))
        return SAME.get(name, name)

    @property
    def closed(self) -> bool:
        """Whether it is filed in the closed division."""
        return bool(self.value("submission_division") == "closed")

    @property
    def old(self) -> bool:
        """Whether it is of v0.6."""
        return self.records[next(iter(self.records))].rest is None

    def edit(self, change: Edit, *indices: int) -> bool:
        """Change records; False where there are none."""
        for index in indices:
            self.records[index] = change(self.records[index])
            self.lines[index] = str(self.records[index])
        return bool(indices)

    def delete(self, *indices: int) -> bool:
        """Take lines out; False where there are none."""
        self.lines = [line for index, line in enumerate(self.lines) if index not in set(indices)]
        self.read()
        return bool(indices)

    def insert(self, index: int, *records: Record) -> bool:
        """Put records in before a line."""
        self.lines[index:index] = [str(record) for record in records]
        self.read()
        return True

    def move(self, indices: list[int], before: int, change: Edit = lambda record: record) -> bool:
        """Take records from their place to another; False where there are none."""
        moved = [change(self.records[index]) for index in indices]
        anchor = self.lines[before] if before < len(self.lines) else None
        kept = [(index, line) for index, line in enumerate(self.lines) if index not in set(indices)]
        place = (
            next((at for at, (index, _) in enumerate(kept) if index >= before), len(kept))
            if anchor is not None
            else len(kept)
        )
        self.lines = [line for _, line in kept]
        if self.lines and not self.lines[-1].endswith("\n"):
            self.lines[-1] += "\n"
        return self.insert(place, *moved) and bool(indices)

    def middle(self, *keys: str) -> int | None:
        """Find a record that no tolerance for the end of a log reaches: the last epoch or block,
        three evaluations; None where there is none.
        """
        found, spared = self.of_key(*keys), 3 if keys[0].startswith("eval") else 1
        return (
            found[round((len(found) - spared - 1) * self.place)]
            if len(found) > max(spared, 2)
            else None
        )

    def centre(self, key: str) -> int | None:
        """Find the record in the middle of five or more; None where there are fewer."""
        found = self.of_key(key)
        return found[len(found) // 2] if len(found) >= 5 else None

    def evaluations(self) -> Iterator[list[int]]:
        """Yield the lines of each evaluation, grouped by accuracy records in the order of the
        file.
        """
        accuracies = self.of_key("eval_accuracy")
        for accuracy in accuracies:
            number = self.records[accuracy].number
            yield [
                index
                for index in self.of_key("eval_start", "eval_accuracy", "eval_stop")
                if self.records[index].number == number
            ]
