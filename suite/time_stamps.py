"""The contract of time stamps: an authority states that a bundle's seal existed at a time (RFC
3161). What verifies them is an entry point of `podium.time_stamps`.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeStamp:
    """Content of a time stamp."""

    utc: datetime
    authority: str


class TimeStampVerifier(Protocol):
    """Verifies time stamps; constructed without arguments."""

    def describe_obstacle(self) -> str:
        """Say why this machine cannot verify time stamps; empty if it can."""
        ...

    def verify_time_stamp(
        self, content: bytes, digest: bytes, authorities: Path | None
    ) -> TimeStamp:
        """Parse a time stamp of the bundle with this seal; JudgedError if it is invalid, or not
        from one of these authorities (certificates in PEM). None: any authority.
        """
        ...
