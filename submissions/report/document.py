"""The report as data: everything that the page shows, without its appearance. The JSON form is this
data, and the page is rendered from it.
"""

import unicodedata
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import msgspec

from suite.examples import Example

DOCUMENT_FORMAT_VERSION: Final = 1
"""Version of the JSON form; another number means another schema."""
INVISIBLE_CATEGORIES: Final = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Unicode general categories of invisible or reordering characters: control, format (bidirectional
too), surrogates, line ends.
"""


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
    """Lower end; None: at the smallest value."""
    high: float | None = None
    whole: bool = False
    """Only integers: epochs; on a logarithmic axis, the values that occur: batch sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One series of a chart."""

    name: str
    points: tuple[tuple[float, float], ...]
    """x and y in the units of the axes."""
    filled: bool = False
    """Fill the area below it, as in a histogram."""
    bars: bool = False
    """Draw each point as a bar, without interpolation."""
    dots: bool = False
    """Mark each point, since each was measured separately."""
    loose: bool = False
    """Draw the points only, without a line between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A value that the chart is read against: a target, a bound, a percentile."""

    name: str
    value: float
    upright: bool
    """It marks a value on the x axis; else on the y axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A figure with its numbers."""

    id: str
    title: str
    description: str
    """The content in words, with the numbers that matter."""
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
    """Indices of numeric columns."""
    folded: bool = False
    """Shown on request."""


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
    """The interval, or a note that nothing was tested."""
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
    """Upper end of the value's 95 % interval; None with fewer than three runs."""
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
    described: dict[str, str] = field(default_factory=dict)
    """Fields of the system's description."""
    checkpoint: str | None = None
    attempts: int | None = None
    """How often the ledger says that it was begun; None without a ledger."""
    noise: tuple[str, ...] = ()
    """Rules that found a disturbed host."""


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
    """SHA-256 in the bundle's seal; empty for a folder."""
    nonces: tuple[str, ...] = ()
    """Nonces of its campaigns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """All of a report."""

    title: str
    parts: tuple[Part, ...]
    sections: tuple[Section, ...]
    """Sections about all parts together: comparisons, published results."""
    legend: tuple[str, ...]
    version: str
    """Version of podium."""
    format: int = DOCUMENT_FORMAT_VERSION


def encode_invisible_characters(text: str) -> str:
    """Escape invisible and reordering characters, as `\\u202e`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"\\u{ord(each):04x}" if unicodedata.category(each) in INVISIBLE_CATEGORIES else each
        for each in text
    )


def encode_document_texts(value: Any) -> Any:
    """Escape such characters in every text of a document, whoever wrote it."""
    if isinstance(value, str):
        return encode_invisible_characters(value)
    if isinstance(value, dict):
        return {
            encode_invisible_characters(key): encode_document_texts(each)
            for key, each in value.items()
        }
    return (
        [encode_document_texts(each) for each in value]
        if isinstance(value, list | tuple)
        else value
    )


def convert_document_to_data(document: Document) -> dict[str, Any]:
    """Convert the document to plain JSON types."""
    data: dict[str, Any] = encode_document_texts(msgspec.to_builtins(document))
    return data


def parse_document_data(data: dict[str, Any]) -> Document:
    """Read the JSON form."""
    return msgspec.convert(data, Document)


def build_document_schema() -> dict[str, Any]:
    """Return the JSON Schema of the JSON form."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | msgspec.json.schema(
        Document
    )
