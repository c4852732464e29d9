"""One line of a history: a result of one commit, with a digest of its own.

A history has one JSON object per line. No line depends on another one, so that git's union merge
keeps the lines of two branches; each contains the SHA-256 of its other fields, so that an edited
line is found. A line that was deleted is missed by nothing in the file: git has its history.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from suite.files.untrusted_files import is_nested_too_deep
from suite.served_identity import ServedIdentity

HISTORY_FILE: Final = "history.jsonl"
MAX_HISTORY_BYTES: Final = 64 << 20
"""Size limit in bytes of a history; a line takes about a thousand."""
MAX_LINE_BYTES: Final = 64 << 10
"""Size limit in bytes of one line."""
HISTORY_FORMAT: Final[Literal[1]] = 1
"""Version of the lines; another number means another schema."""
DIGEST_FIELD: Final = "digest"
CONFLICT_MARKERS: Final = ("<<<<<<<", "|||||||", "=======", ">>>>>>>")
"""How git marks both sides of a conflict. Source: gitattributes(5), conflict-marker-size."""
UNMEASURED_FIELDS: Final = ("date",)
"""Fields of a result that say nothing of what was measured."""
Moment: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
"""A time in UTC: `2026-11-22T06:09:41Z`."""
Positive: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]
StatedName: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\S")]
"""A name that is not blank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryMachine:
    """The machine that a result is filed under, and its hardware. None is not stated."""

    name: StatedName
    accelerator: str | None = None
    accelerators: int | None = None
    nodes: int | None = None
    processor: str | None = None
    """Model of the host's processors."""
    processors: str | None = None
    """Processors per node, as the system description has it."""
    cores: str | None = None
    """Cores of a processor."""


class SourceKind(StrEnum):
    """What results are read from."""

    BUNDLE = "bundle"
    RESULTS = "results"
    """A results folder, or a part of one."""
    STUDY = "study"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySource:
    """What a line was read from."""

    kind: SourceKind
    name: str
    """Name of its file or folder."""
    sha256: str = ""
    """Of a bundle's file; of a study's record and those of its points, which tell it from another
    one with the same figures.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryResult:
    """What of a result decides whether another one may be compared with it, and what was measured:
    the fields of suite.result.Result that comparisons read.
    """

    round: str
    workload: StatedName
    metric: str
    unit: str
    value: Positive
    runs: tuple[Positive | None, ...] = ()
    scenario: str | None = None
    """LoadGen's name, or a study's point; None for a run set."""
    study: str = ""
    """Kind of the study that it is a figure of; empty of a result."""
    profile: str = ""
    division: str = ""
    org: str = ""
    system: str = ""
    engine: str | None = None
    precision: str | None = None
    served: ServedIdentity | None = None
    batch: int | None = None
    task: Mapping[str, Any] = field(default_factory=dict)
    """What must be equal."""
    said: Mapping[str, Any] = field(default_factory=dict)
    """What may differ, and is told."""
    checkpoint_quality: Mapping[str, float] = field(default_factory=dict)
    accuracy: Mapping[str, float] = field(default_factory=dict)
    campaign: str = ""
    """Its nonce."""
    asked: str = ""
    """The requested rate, if the rate was not searched for."""
    factor: float | None = None
    noise: tuple[str, ...] = ()
    """The judge's rules that found a disturbance in a run."""
    date: str = ""
    """Day of its last run, UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """One line of a history (schema history.json)."""

    added: Moment
    """When it was added, by that machine's clock."""
    commit: StatedName
    """Commit of the project under test."""
    committed: Moment
    """Time of that commit; where git does not know it, when its first line was added."""
    machine: HistoryMachine
    source: HistorySource
    result: HistoryResult
    format: Literal[1]
    digest: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    """SHA-256 of the line without this field, in the only valid text of it; empty until the line is
    written.
    """


LINE_DECODER: Final = msgspec.json.Decoder(HistoryLine)


def collect_set_fields(record: Any) -> dict[str, Any]:
    """Return the fields of a record that differ from their defaults, as JSON types."""
    found: dict[str, Any] = {}
    for each in fields(record):
        value = getattr(record, each.name)
        default = each.default
        if each.default_factory is not MISSING:
            default = each.default_factory()
        if value != default:
            found[each.name] = convert_set_value(value)
    return found


def convert_set_value(value: Any) -> Any:
    """Return a value as JSON types; a record without its unset fields."""
    if is_dataclass(value):
        return collect_set_fields(value)
    return msgspec.to_builtins(value)


def encode_canonically(document: Mapping[str, Any]) -> bytes:
    """Return the only valid text of a JSON object."""
    return json.dumps(
        document, sort_keys=True, allow_nan=False, ensure_ascii=True, separators=(", ", ": ")
    ).encode()


def encode_history_line(line: HistoryLine) -> bytes:
    """Return the only valid text of a line with its digest and newline; ValueError for a number
    that JSON does not have.
    """
    document = collect_set_fields(line)
    return encode_canonically(document | {DIGEST_FIELD: compute_line_digest(document)}) + b"\n"


def compute_line_digest(document: Mapping[str, Any]) -> str:
    """Hash a line's fields without its digest."""
    rest = {name: value for name, value in document.items() if name != DIGEST_FIELD}
    return hashlib.sha256(encode_canonically(rest)).hexdigest()


def decode_history_line(text: bytes) -> HistoryLine:
    """Decode a line, whatever its digest; ValueError if it is no line of a history."""
    if len(text) > MAX_LINE_BYTES:
        raise ValueError(f"a line of more than {MAX_LINE_BYTES:,} bytes")
    if is_nested_too_deep(text):
        raise ValueError("nested too deep")
    found = json.loads(text).get("format")
    if found != HISTORY_FORMAT:
        raise ValueError(f"format {found}, and this podium reads {HISTORY_FORMAT}")
    return LINE_DECODER.decode(text)


def has_own_digest(text: bytes) -> bool:
    """Return whether a line is as it was written: in its only valid text, with its digest."""
    try:
        document = json.loads(text)
        if not isinstance(document, dict) or encode_canonically(document) != text:
            return False
        return document.get(DIGEST_FIELD) == compute_line_digest(document)
    except (ValueError, RecursionError):
        return False


def compute_measured_key(line: HistoryLine) -> str:
    """Hash what was measured on which machine, whatever the commit, the place of its files and the
    time of adding: the same measurement has the same key.
    """
    measured = collect_set_fields(line.result)
    for name in UNMEASURED_FIELDS:
        measured.pop(name, None)
    if line.source.kind is SourceKind.STUDY:
        measured["source"] = line.source.sha256
    return hashlib.sha256(encode_canonically(measured)).hexdigest()


def is_conflict_marker(text: bytes) -> bool:
    """Return whether a line marks a conflict of git's merge."""
    return text[:7].decode("ascii", "replace") in CONFLICT_MARKERS and not text[7:8].strip()
