"""The contract of prices: what a system costs, from a file of the user's. What reads such files is
an entry point of `podium.prices`.
"""

from pathlib import Path
from typing import Protocol


class PriceList(Protocol):
    """The prices of a file."""

    @property
    def currency(self) -> str:
        """Alphabetic code of the currency (ISO 4217)."""
        ...

    @property
    def date(self) -> str:
        """The day that the prices are of, as in 2026-11-01."""
        ...

    def find_hourly_price(self, *names: str) -> float | None:
        """Return what an hour of a system costs without energy, by its name or its accelerator's;
        None if the file has no price of it.
        """
        ...


class PriceReader(Protocol):
    """Reads files of prices."""

    def __call__(self, path: Path, /) -> PriceList:
        """Read a file; RequestError if it is none of prices."""
        ...
