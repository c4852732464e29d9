"""One line of a ledger: its form, its link to the line before, and a reader that takes a line or leaves it.

A ledger has one JSON object a line. Each names the SHA-256 of the line before it, so that none can be removed, repeated, moved or edited
without all that follow. A line without its end is one whose writer was killed: it never counted, and the next writer drops it.
Source: house rule; the form of a hash chain is that of S. Haber and W. S. Stornetta, How to time-stamp a digital document, 1991, section 5.1.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

SIZE_LIMIT: Final = 64 << 20
"""Bytes of a ledger that is read; an attempt takes about a thousand."""
CHALLENGE_BYTES: Final = (8, 64)
"""Fewest and most bytes of a challenge. Source: house rule; 8 bytes are not guessed, and 64 hold any usual digest."""
RANDOM_BYTES: Final = 32
"""Of what a campaign adds to a challenge: as many as SHA-256 gives."""


class StepKind(StrEnum):
    """What a line tells."""

    BEGIN = "begin"
    """A training set or a LoadGen run was begun."""
    TRAINED = "trained"
    """A training run reached its target."""
    MISSED = "missed"
    """A training run came to its end without its target."""
    ABORTED = "aborted"
    """A training run broke, or an attempt ended without a result."""
    EXPORTED = "exported"
    """Weights were stored, with their record."""
    SERVED = "served"
    """A LoadGen run came to its end."""
    SUPERSEDED = "superseded"
    """Files gave way to others, or never came to their place."""
    CHECKED = "checked"
    """The judge accepted what stood then."""
    PACKED = "packed"
    """A bundle was sealed."""


MAKING: Final = frozenset({StepKind.BEGIN, StepKind.TRAINED, StepKind.MISSED, StepKind.ABORTED, StepKind.EXPORTED, StepKind.SERVED})
"""Steps whose files are results from then on; those of a `begin` were there before the ledger."""


class What(StrEnum):
    """What a `begin` is of."""

    TRAINING = "training"
    ACCURACY = "accuracy"
    PERFORMANCE = "performance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of a ledger (schema ledger.json)."""

    n: int
    """Its number, from 0."""
    step: StepKind
    utc: str
    """By this machine's clock: `2026-11-22T06:09:41Z`."""
    files: Mapping[str, str]
    """Path in the results folder -> SHA-256, of what the step made, moved aside or sealed."""
    previous: str
    """SHA-256 of the line before, without its end; empty in the first."""
    nonce: str = ""
    """Of the campaign."""
    what: str = ""
    """`training`, `accuracy` or `performance`."""
    of: str = ""
    """The folder that the result belongs into, relative to the results folder: a training set's, or a LoadGen run's."""
    verdict: str = ""
    """LoadGen's word on a run that was served; how a training run ended."""
    made: int | None = None
    """Number of the step that made what was superseded."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What was asked for; of a `begin`."""
    system: str = ""
    """SHA-256 of the system description; of a `begin`."""
    challenge: str = ""
    """Hexadecimal digits that somebody else chose; of a `begin` whose nonce was made from them."""
    random: str = ""
    """Hexadecimal digits that were added to the challenge."""


FIELDS: Final = frozenset(each.name for each in fields(Step))
EMPTY: Final[tuple[object, ...]] = ("", None, {})
"""Values that say nothing."""
ALWAYS: Final = ("n", "step", "utc", "files", "previous")
TEXTS: Final = ("utc", "previous", "nonce", "what", "of", "verdict", "system", "challenge", "random")


def encode(step: Step) -> bytes:
    """Return the one text that a line has, with its end; fields that say nothing are left out."""
    told = {name: value for name, value in asdict(step).items() if name in ALWAYS or value not in EMPTY}
    return (json.dumps(told, sort_keys=True, allow_nan=False, separators=(", ", ": ")) + "\n").encode()


def line_sha256(line: bytes) -> str:
    """Hash a line, without its end."""
    return hashlib.sha256(line).hexdigest()


def whole_lines(text: bytes) -> list[bytes]:
    """Split a ledger into its lines, without their ends; what follows the last end is left out."""
    return text.split(b"\n")[:-1]


def parse(line: bytes) -> Step | None:
    """Read a line; None if it is none."""
    try:
        told = json.loads(line)
        if not isinstance(told, dict) or not isinstance(told.get("files"), dict) or not isinstance(told.get("n"), int):
            return None
        if not isinstance(told.get("made"), int | None):
            return None
        if not all(isinstance(told.get(name, ""), str) for name in TEXTS) or not all(isinstance(value, str) for value in told["files"].values()):
            return None
        known = {name: value for name, value in told.items() if name in FIELDS}
        return Step(**{**known, "step": StepKind(told["step"]), "options": dict(told.get("options", {}))})
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def parse_all(text: bytes) -> Iterator[Step]:
    """Yield the steps of a ledger; a line that is none is passed over, which the judge tells."""
    yield from (step for line in whole_lines(text) if (step := parse(line)))


def head(text: bytes) -> str:
    """Return the SHA-256 of a ledger's last line; empty for an empty ledger."""
    lines = whole_lines(text)
    return line_sha256(lines[-1]) if lines else ""


def sealed_part(text: bytes) -> bytes:
    """Return what goes into a bundle: all but the `packed` lines at the end, so that the same results packed twice are the same bytes."""
    lines = whole_lines(text)
    while lines and (last := parse(lines[-1])) and last.step is StepKind.PACKED:
        lines.pop()
    return b"".join(line + b"\n" for line in lines)


def nonce_of(challenge: str, random: str) -> str:
    """Make a campaign's nonce of a challenge and random bytes, all in hexadecimal digits: SHA-256 of both, one behind the other; ValueError for others."""
    return hashlib.sha256(bytes.fromhex(challenge) + bytes.fromhex(random)).hexdigest()


def challenge_problem(text: str) -> str | None:
    """Explain why a text is no challenge; None if it is one."""
    least, most = CHALLENGE_BYTES
    if len(text) % 2 or not text or set(text) - set("0123456789abcdef"):
        return "not an even number of the hexadecimal digits 0-9 and a-f"
    return None if least <= len(text) // 2 <= most else f"{len(text) // 2} bytes, and a challenge has {least} to {most}"
