"""What the challenge of a contract's campaign says: which contract it is for, and which attempt or
rehearsal it is.

The challenge is the SHA-256 of the contract's file, a byte for the kind, and the number. The nonce
is derived from it, and with it LoadGen's seeds of every run; a rehearsal can therefore not be
sold as an attempt, nor the second attempt as the first.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

DIGEST_DIGITS: Final = 64
"""Hexadecimal digits of a contract's digest in a challenge ..."""
KIND_DIGITS: Final = 2
"""... of the kind ..."""
NUMBER_DIGITS: Final = 6
"""... and of the number."""
SHOWN_DIGITS: Final = 12
"""Digits of a digest that a reader sees."""


class TryKind(StrEnum):
    """What a campaign of a contract is; the value stands in the challenge."""

    REHEARSAL = "00"
    ATTEMPT = "01"

    @property
    def words(self) -> str:
        """The kind for a reader."""
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class TryChallenge:
    """A challenge of a contract."""

    digest: str
    """SHA-256 of the contract's file."""
    kind: TryKind
    number: int

    @property
    def words(self) -> str:
        """What it says, for a reader."""
        return f"{self.kind.words} {self.number} of the contract {self.digest[:SHOWN_DIGITS]}"


def format_try_challenge(found: TryChallenge) -> str:
    """Return the hexadecimal digits of a challenge."""
    return f"{found.digest}{found.kind}{found.number:0{NUMBER_DIGITS}x}"


def parse_try_challenge(text: str) -> TryChallenge | None:
    """Parse a challenge; None for one that nobody made for a contract."""
    digest, rest = text[:DIGEST_DIGITS], text[DIGEST_DIGITS:]
    if len(rest) != KIND_DIGITS + NUMBER_DIGITS:
        return None
    try:
        kind, number = TryKind(rest[:KIND_DIGITS]), int(rest[KIND_DIGITS:], 16)
    except ValueError:
        return None
    return TryChallenge(digest=digest, kind=kind, number=number)
