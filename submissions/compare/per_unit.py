"""Derived figures: rates per accelerator or per unit of money, training in accelerator-minutes or money. Never official, never for latencies.

Source: mlcommons/policies, MLPerf_Results_Messaging_Guidelines.adoc, section 9: what a derived metric is made of is said beside it.
"""

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from submissions.compare.compared_results import Side
from submissions.metrics import MINUTES, TIME_TO_TRAIN
from suite.errors import RequestError
from suite.files import untrusted_files
from suite.files.untrusted_files import UnreadableError, printable

RATES: Final = ("samples/s", "queries/s")
MINUTES_PER_HOUR: Final = 60
SECONDS_PER_HOUR: Final = 3600
HOURS_PER_YEAR: Final = 8766
"""365.25 days."""
HOURLY: Final = "hourly"
YEARLY: Final = "yearly"
LARGEST: Final = 1e15
"""Of a price; TOML has nan and inf."""


class Basis(StrEnum):
    """What a figure is taken per."""

    ACCELERATOR = "accelerator"
    DOLLAR = "dollar"


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """A figure that is no result's own metric."""

    value: float
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What an hour of some systems costs."""

    match: str
    """System or accelerator, with `*` for anything."""
    hourly: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """A user's file of prices."""

    currency: str
    date: str
    systems: tuple[Price, ...]

    def of(self, side: Side) -> float | None:
        """Give the hourly price of what a result ran on; None where the file has none. The first that fits counts."""
        names = [side.score.system.casefold(), (side.machine.accelerator or "").casefold()]
        return next((each.hourly for each in self.systems if any(fnmatchcase(name, each.match.casefold()) for name in names)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Per:
    """What figures are derived, and from what."""

    basis: Basis
    prices: Prices | None = None
    """For money."""

    def derive(self, side: Side) -> Derived | None:
        """Give the derived figure of a result; None where there is none."""
        score = side.score
        if score.value is None or not (score.unit in RATES or score.metric == TIME_TO_TRAIN):
            return None
        if self.prices:
            return per_money(score.value, score.unit, self.prices.of(side), self.prices.currency)
        return per_accelerator(score.value, score.unit, side.machine.accelerators)

    @property
    def about(self) -> str:
        """Say where derived figures come from."""
        return f"prices in {self.prices.currency} of {self.prices.date}" if self.prices else "accelerators as the system descriptions count them"


def per_accelerator(value: float, unit: str, accelerators: int | None) -> Derived | None:
    """Divide a rate by the accelerators, or multiply minutes by them; None where there are none, or nobody tells how many."""
    if not accelerators:
        return None
    if unit == MINUTES:
        return Derived(value=value * accelerators, unit="accelerator-minutes")
    return Derived(value=value / accelerators, unit=f"{unit} per accelerator")


def per_money(value: float, unit: str, hourly: float | None, currency: str) -> Derived | None:
    """Give what a training costs, or what a rate gives for the money."""
    if hourly is None:
        return None
    if unit == MINUTES:
        return Derived(value=value / MINUTES_PER_HOUR * hourly, unit=f"{currency} per training")
    return Derived(value=value * SECONDS_PER_HOUR / hourly, unit=f"{unit.partition('/')[0]} per {currency}")


def read_prices(path: Path) -> Prices:
    """Read a user's prices; RequestError where they cannot be, or one is not above 0."""
    try:
        table = untrusted_files.read_toml(path)
        currency, date = (printable(str(table[name])) for name in ("currency", "date"))
        rows = table["system"]
        if not isinstance(rows, list) or not rows:
            raise ValueError("[[system]] has no entries")
        return Prices(currency=currency, date=date, systems=tuple(price_of(row) for row in rows))
    except UnreadableError as error:
        raise RequestError(str(error)) from error
    except KeyError as error:
        raise RequestError(f"{path}: no {error.args[0]} in it; prices have currency, date and [[system]] with match and hourly or yearly") from error
    except ValueError as error:
        raise RequestError(printable(f"{path}: {error}")) from error


def price_of(row: Any) -> Price:
    """Read one price: `hourly` or `yearly`, each with its value and source."""
    match = row.get("match") if isinstance(row, dict) else None
    if not isinstance(match, str):
        raise ValueError('[[system]] without match = "..."')
    if (HOURLY in row) == (YEARLY in row):
        raise ValueError(f"[[system]] {match}: give either hourly or yearly")
    return Price(match=match, hourly=amount(row[HOURLY], match) if HOURLY in row else amount(row[YEARLY], match) / HOURS_PER_YEAR)


def amount(told: Any, match: str) -> float:
    """Read `{ value = 35.0, source = "..." }`."""
    if not isinstance(told, dict) or not told.get("source"):
        raise ValueError(f'[[system]] {match}: a price is {{ value = ..., source = "..." }}')
    value: Any = told.get("value")
    if type(value) not in (int, float) or not 0 < value < LARGEST:
        raise ValueError(f"[[system]] {match}: price {value}; required: a number above 0")
    return float(value)
