"""The report as data: everything that the page shows, without its appearance. The JSON form is this
data; the page is rendered from it.
"""

import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

from compliance.results.curves import ScoredCurve
from submissions.report.headline_columns import HEADLINE_DATA
from submissions.tradeoff.figures import Tradeoff
from suite.examples import DEFAULT_TEXT_NAMES, Example

DOCUMENT_FORMAT_VERSION: Final = 1
"""Version of the JSON form; another number means another schema."""
INVISIBLE_CATEGORIES: Final = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Unicode general categories of invisible or reordering characters: control, format (including
bidirectional), surrogates, line ends.
"""


class Tone(StrEnum):
    """The importance of a sentence or a tile, shown by its colour."""

    GOOD = "good"
    BAD = "bad"
    CAUTION = "caution"
    PLAIN = "plain"


class Shape(StrEnum):
    """The shape of a point that stands apart from a line."""

    DOT = "dot"
    RING = "ring"
    CROSS = "cross"
    DIAMOND = "diamond"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis of a chart."""

    name: str
    unit: str = ""
    log: bool = False
    low: float | None = None
    """Lower end; None for the smallest value."""
    high: float | None = None
    whole: bool = False
    """Show integers only (epochs); on a logarithmic axis, only the values that occur (batch
    sizes).
    """


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
    """Mark each point, because each was measured separately."""
    loose: bool = False
    """Draw the points only, without a line between them."""
    steps: bool = False
    """Draw a step after each point, without interpolation, and from the left edge to the first."""
    holds: bool = False
    """Draw a step from each point to the next, and from the last to the right edge: what a point
    reaches holds from there on.
    """
    shape: Shape = Shape.DOT
    """How points without a line between them look."""
    x_intervals: tuple[tuple[float, float] | None, ...] = ()
    """Ends of each point's interval on the x axis, None for a point without; empty if no point has
    one.
    """
    y_intervals: tuple[tuple[float, float] | None, ...] = ()
    """The same on the y axis."""
    names: tuple[str, ...] = ()
    """Name of each point, drawn beside it where there is room; empty if the line's is enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A reference value in a chart: a target, a bound, a percentile."""

    name: str
    value: float
    upright: bool
    """Whether it marks a value on the x axis; otherwise on the y axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A range of the x axis that is shaded, with its name."""

    name: str
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A figure with its numbers."""

    id: str
    title: str
    description: str
    """The content in words, with the main numbers."""
    x: Axis
    y: Axis
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...] = ()
    bands: tuple[Band, ...] = ()
    """Neighbouring ranges, from left to right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One value of a chart of bars."""

    name: str
    value: float | None
    """In the unit of the axis; None where nothing may be drawn."""
    low: float | None = None
    high: float | None = None
    """Upper end of the value's interval; None if there is none."""
    told: str = ""
    """The value in words, with its interval."""
    verdict: str = ""
    """What is known of its difference from the baseline, or why it is not drawn."""
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class BarChart:
    """Values beside one another."""

    id: str
    title: str
    description: str
    axis: Axis
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows and columns of text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()
    """Indices of numeric columns."""
    folded: bool = False
    """Whether it is collapsed until the reader opens it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A highlighted sentence: information that is missing, or that the reader must know."""

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
    names: tuple[str, str] = DEFAULT_TEXT_NAMES
    """Of texts: what the model reads, and what it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with its content."""

    id: str
    title: str
    intro: str = ""
    charts: tuple[Chart, ...] = ()
    bar_charts: tuple[BarChart, ...] = ()
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
    origin: str = ""
    """Its system, if the report has several; of a published result with organisation and machine.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The part of the report about one PATH."""

    name: str
    """The path's last part."""
    title: str
    verdict: str
    tone: Tone
    summary: str
    """What the verdict covers, in one or two sentences."""
    facts: tuple[tuple[str, str], ...] = ()
    tiles: tuple[Tile, ...] = ()
    headlines: tuple[dict[str, Any], ...] = ()
    """Its results, in the columns of HEADLINE_DATA."""
    sections: tuple[Section, ...] = ()
    seal: str = ""
    """SHA-256 in the bundle's seal; empty for a folder."""
    nonces: tuple[str, ...] = ()
    """Nonces of its campaigns."""
    curves: tuple[ScoredCurve, ...] = ()
    """Its curves of MLPerf Endpoints, with the figures of each point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A whole report."""

    title: str
    parts: tuple[Part, ...]
    sections: tuple[Section, ...]
    """Sections about all parts together: comparisons, published results."""
    legend: tuple[str, ...]
    version: str
    """Version of podium."""
    tradeoffs: tuple[Tradeoff, ...] = ()
    """Figures of throughput against latency, with all points."""
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
    """Escape such characters in every text of a document, trusted or not."""
    if isinstance(value, str):
        return encode_invisible_characters(value)
    if isinstance(value, dict):
        return {
            encode_invisible_characters(key): encode_document_texts(each)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [encode_document_texts(each) for each in value]
    return value


def convert_document_to_data(document: Document) -> dict[str, Any]:
    """Convert the document to plain JSON types."""
    data: dict[str, Any] = encode_document_texts(msgspec.to_builtins(document))
    return data


def parse_document_data(data: dict[str, Any]) -> Document:
    """Read the JSON form."""
    return msgspec.convert(data, Document)


def build_document_schema() -> dict[str, Any]:
    """Return the JSON Schema of the JSON form."""
    schema = msgspec.json.schema(Document)
    row = HEADLINE_DATA.build_row_schema()
    schema["$defs"]["Part"]["properties"]["headlines"]["items"] = {"$ref": row["$ref"]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | {
        **schema,
        "$defs": schema["$defs"] | row["$defs"],
    }
