"""The report as data: everything that the page shows, and nothing about how it looks. The JSON form is this, and the page is made from it."""

import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

from suite.examples import Example

FORMAT: Final = 1
"""Of the JSON form; another number is another schema."""
UNSEEN: Final = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Unicode's general categories of characters that are not seen or that move others: control, format (bidirectional too), surrogates, line ends."""


class Tone(StrEnum):
    """What a sentence or a tile wants the reader to know at once."""

    GOOD = "good"
    BAD = "bad"
    CAUTION = "caution"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis of a chart."""

    name: str
    unit: str = ""
    log: bool = False
    low: float | None = None
    """Where it begins; None: at the least value."""
    high: float | None = None
    whole: bool = False
    """Nothing lies between whole numbers: epochs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One series of a chart."""

    name: str
    points: tuple[tuple[float, float], ...]
    """x and y in the units of the axes."""
    filled: bool = False
    """The area below it is part of what is shown, as in a histogram."""
    bars: bool = False
    """Each point is a bar: nothing lies between them."""
    dots: bool = False
    """Each point was measured by itself and is marked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A value that the chart is read against: a target, a bound, a percentile."""

    name: str
    value: float
    upright: bool
    """It stands on the x axis; else it lies on the y axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A figure with its numbers."""

    id: str
    title: str
    description: str
    """What is to be seen, in words, with the numbers that matter."""
    x: Axis
    y: Axis
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows and columns of text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()
    """Columns of numbers."""
    folded: bool = False
    """Shown when somebody asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A sentence that stands out: what is not known, or must be known."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Gallery:
    """Examples of one result."""

    title: str
    description: str
    kind: str
    """labels, boxes, text."""
    shown: tuple[Example, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading and what stands below it."""

    id: str
    title: str
    intro: str = ""
    charts: tuple[Chart, ...] = ()
    notes: tuple[Note, ...] = ()
    galleries: tuple[Gallery, ...] = ()
    tables: tuple[Table, ...] = ()
    parts: tuple["Section", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One headline."""

    name: str
    value: str
    unit: str
    note: str
    """The interval, or that nothing was tested."""
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """One result, as `podium score` has it."""

    workload: str
    scenario: str | None
    metric: str
    value: float | None
    unit: str
    runs: tuple[float | None, ...]
    low: float | None
    high: float | None
    """Of the value's interval at 95 %; None with fewer than three runs."""
    compliant: bool
    system: str
    org: str
    division: str
    profile: str
    round: str
    accuracy: dict[str, float]
    target: dict[str, float]
    precision: str | None
    engine: str | None
    accelerator: str | None
    accelerators: int | None
    nodes: int | None
    checkpoint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One PATH."""

    name: str
    """The path's last part."""
    title: str
    verdict: str
    tone: Tone
    summary: str
    """What the verdict covers, in one or two sentences."""
    facts: tuple[tuple[str, str], ...] = ()
    tiles: tuple[Tile, ...] = ()
    headlines: tuple[Headline, ...] = ()
    sections: tuple[Section, ...] = ()
    seal: str = ""
    """SHA-256 that the bundle is sealed with; empty for a folder."""
    nonces: tuple[str, ...] = ()
    """Of its campaigns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """All of a report."""

    title: str
    parts: tuple[Part, ...]
    sections: tuple[Section, ...]
    """About all parts together: comparisons, published results."""
    legend: tuple[str, ...]
    version: str
    """Of podium."""
    format: int = FORMAT


def visible(text: str) -> str:
    """Write characters that nobody sees, or that turn others around, as `\\u202e`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"\\u{ord(each):04x}" if unicodedata.category(each) in UNSEEN else each for each in text)


def cleaned(value: Any) -> Any:
    """Make every text of a document visible, whoever wrote it."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(key): cleaned(each) for key, each in value.items()}
    return [cleaned(each) for each in value] if isinstance(value, list | tuple) else value


def plain(document: Document) -> dict[str, Any]:
    """Return the JSON form as it is written."""
    found: dict[str, Any] = cleaned(msgspec.to_builtins(document))
    return found


def read(plain: dict[str, Any]) -> Document:
    """Read the JSON form."""
    return msgspec.convert(plain, Document)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the JSON form."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | msgspec.json.schema(Document)
