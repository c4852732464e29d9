"""One line of a ledger: its format, its link to the previous line, and a parser that skips invalid
lines.

A ledger has one JSON object per line. Each contains the SHA-256 of the previous line, so that no
line can be removed, repeated, moved or edited without changing all that follow. A line without its
newline was being written when the process was killed: it never counted, and the next writer removes
it.
Source: house rule; the form of a hash chain is that of S. Haber and W. S. Stornetta, How to
time-stamp a digital document, 1991, section 5.1.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

from suite.files.untrusted_files import is_nested_too_deep

MAX_LEDGER_FILE_BYTES: Final = 64 << 20
"""Size limit in bytes of a ledger; an attempt takes about a thousand."""
CHALLENGE_BYTES_RANGE: Final = (8, 64)
"""Fewest and most bytes of a challenge. Source: house rule; 8 bytes cannot be guessed, and 64 hold
any usual digest.
"""
NONCE_RANDOM_BYTES: Final = 32
"""Random bytes that a campaign adds to a challenge: the length of a SHA-256."""


class StepKind(StrEnum):
    """Kind of a ledger line."""

    BEGIN = "begin"
    """A run set or a LoadGen run began."""
    TRAINED = "trained"
    """A training run reached its target."""
    MISSED = "missed"
    """A training run ended without reaching its target."""
    ABORTED = "aborted"
    """A training run failed, or an attempt ended without a result."""
    EXPORTED = "exported"
    """Weights were stored, with their record."""
    SERVED = "served"
    """A LoadGen run ended."""
    SUPERSEDED = "superseded"
    """Files were replaced, or never got their final names."""
    RESTORED = "restored"
    """Superseded files are in place again."""
    CHECKED = "checked"
    """The judge accepted the results in place at that time."""
    PACKED = "packed"
    """A bundle was sealed."""


RESULT_STEPS: Final = frozenset(
    {
        StepKind.BEGIN,
        StepKind.TRAINED,
        StepKind.MISSED,
        StepKind.ABORTED,
        StepKind.EXPORTED,
        StepKind.SERVED,
    }
)
"""Steps whose files are results from then on; files of a `begin` predate the ledger."""


class AttemptKind(StrEnum):
    """What a `begin` starts."""

    TRAINING = "training"
    ACCURACY = "accuracy"
    PERFORMANCE = "performance"
    AUDIT = "audit"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerStep:
    """One line of a ledger (schema ledger.json)."""

    n: int
    """Its number, from 0."""
    step: StepKind
    utc: str
    """Time by this machine's clock: `2026-11-22T06:09:41Z`."""
    files: Mapping[str, str]
    """Path in the results folder -> SHA-256, for files that the step made, moved aside or sealed.
    """
    previous: str
    """SHA-256 of the previous line, without its newline; empty in the first."""
    nonce: str = ""
    """Nonce of the campaign."""
    what: str = ""
    """`training`, `accuracy`, `performance` or `audit`."""
    of: str = ""
    """Folder of the result, relative to the results folder: a run set's or a LoadGen run's."""
    verdict: str = ""
    """LoadGen's verdict on a run that was served, or how a training run ended."""
    made: int | None = None
    """Number of the step that made the superseded or restored files."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Requested options; only of a `begin`."""
    system: str = ""
    """SHA-256 of the system description; only of a `begin`."""
    challenge: str = ""
    """Hexadecimal digits chosen by someone else; only of a `begin` whose nonce was derived from
    them.
    """
    random: str = ""
    """Hexadecimal random digits that were added to the challenge."""


STEP_FIELDS: Final = frozenset(each.name for each in fields(LedgerStep))
UNSET_VALUES: Final[tuple[object, ...]] = ("", None, {})
"""Values of unset fields."""
REQUIRED_STEP_FIELDS: Final = ("n", "step", "utc", "files", "previous")
TEXT_STEP_FIELDS: Final = (
    "utc",
    "previous",
    "nonce",
    "what",
    "of",
    "verdict",
    "system",
    "challenge",
    "random",
)


def encode_ledger_step(step: LedgerStep) -> bytes:
    """Return the only valid text of a line, with its newline; unset fields are left out."""
    set_fields = {
        name: value
        for name, value in asdict(step).items()
        if name in REQUIRED_STEP_FIELDS or value not in UNSET_VALUES
    }
    return (
        json.dumps(set_fields, sort_keys=True, allow_nan=False, separators=(", ", ": ")) + "\n"
    ).encode()


def compute_line_sha256(line: bytes) -> str:
    """Hash a line, without its newline."""
    return hashlib.sha256(line).hexdigest()


def split_ledger_lines(text: bytes) -> list[bytes]:
    """Split a ledger into its lines, without their newlines; an incomplete last line is left
    out.
    """
    return text.split(b"\n")[:-1]


def parse_ledger_line(line: bytes) -> LedgerStep | None:
    """Parse a line; None if it is invalid."""
    if is_nested_too_deep(line):
        return None
    try:
        document = json.loads(line)
        if (
            not isinstance(document, dict)
            or not isinstance(document.get("files"), dict)
            or not isinstance(document.get("n"), int)
        ):
            return None
        if not isinstance(document.get("made"), int | None):
            return None
        if not all(isinstance(document.get(name, ""), str) for name in TEXT_STEP_FIELDS) or not all(
            isinstance(value, str) for value in document["files"].values()
        ):
            return None
        known = {name: value for name, value in document.items() if name in STEP_FIELDS}
        return LedgerStep(
            **{
                **known,
                "step": StepKind(document["step"]),
                "options": dict(document.get("options", {})),
            }
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def parse_ledger(text: bytes) -> Iterator[LedgerStep]:
    """Yield the steps of a ledger; invalid lines are skipped here and reported by the judge."""
    yield from (step for line in split_ledger_lines(text) if (step := parse_ledger_line(line)))


def compute_ledger_head(text: bytes) -> str:
    """Return the SHA-256 of a ledger's last line; empty for an empty ledger."""
    lines = split_ledger_lines(text)
    return compute_line_sha256(lines[-1]) if lines else ""


def strip_packed_lines(text: bytes) -> bytes:
    """Return the part that goes into a bundle: all but the trailing `packed` lines, so that packing
    the same results twice gives the same bytes.
    """
    lines = split_ledger_lines(text)
    while lines and (last := parse_ledger_line(lines[-1])) and last.step is StepKind.PACKED:
        lines.pop()
    return b"".join(line + b"\n" for line in lines)


def compute_campaign_nonce(challenge: str, random: str) -> str:
    """Derive a campaign's nonce: SHA-256 of challenge and random bytes, concatenated, all in
    hexadecimal digits; ValueError for other input.
    """
    return hashlib.sha256(bytes.fromhex(challenge) + bytes.fromhex(random)).hexdigest()


def find_challenge_fault(text: str) -> str | None:
    """Explain why a text is not a valid challenge; None if it is."""
    least, most = CHALLENGE_BYTES_RANGE
    if len(text) % 2 or not text or set(text) - set("0123456789abcdef"):
        return "not an even number of the hexadecimal digits 0-9 and a-f"
    if least <= len(text) // 2 <= most:
        return None
    return f"{len(text) // 2} bytes, and a challenge has {least} to {most}"
