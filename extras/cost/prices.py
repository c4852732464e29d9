"""Reads a user's price file: TOML in which every number has its source."""

import re
from dataclasses import dataclass
from datetime import date as Date  # noqa: N812
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Self

from suite.errors import RequestError
from suite.files import untrusted_files
from suite.files.untrusted_files import UnreadableError, replace_unprintable
from suite.human_numbers import format_plain_number, format_whole_digits

HOURS_PER_YEAR: Final = 8766
"""365.25 days."""
MAX_AMOUNT: Final = 1e15
"""Largest allowed amount; TOML permits nan and inf."""
CURRENCY_CODE: Final = re.compile(r"[A-Z]{3}")
"""Alphabetic currency code. Source: ISO 4217."""
PAYMENT_KEYS: Final = ("hourly", "yearly", "price")
"""How a system is paid for: rented by the hour, at a yearly price, or bought and depreciated over
`lifetime_years`.
"""
SYSTEM_KEYS: Final = (
    "match",
    "hourly",
    "yearly",
    "price",
    "lifetime_years",
    "hosting_per_hour",
    "utilisation",
    "idle_w",
    "rest_w",
    "billing_s",
)
ANY_SYSTEM: Final = "*"
EXAMPLE_PRICES: Final = """\
# Prices for podium cost --prices FILE; every amount has its source, and may have low and high.
currency = "USD"
date = "2026-11-01"

[[system]]
# match = "2c-*"  # a system or accelerator; needed if there are several [[system]]
hourly = { value = 3.50, low = 3.00, high = 4.00, source = "list price of the provider" }

# A machine of your own has price and lifetime_years instead of hourly, and energy beside it:
# [[system]]
# match = "*"
# price = { value = 21000, source = "offer" }
# lifetime_years = { value = 4, source = "policy" }
#
# [energy]
# per_kwh = { value = 0.25, source = "contract" }
"""
"""A price file to begin with."""
ENERGY_KEYS: Final = ("per_kwh", "pue")
PRICE_FILE_KEYS: Final = ("currency", "date", "energy", "system")


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A number in a price file, with the range given by its source."""

    value: float
    low: float
    high: float
    source: str

    @classmethod
    def build_exact(cls, value: float) -> Self:
        """Return an amount without a range."""
        return cls(value=value, low=value, high=value, source="")


AMOUNT_ONE: Final = Amount.build_exact(1.0)
AMOUNT_ZERO: Final = Amount.build_exact(0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyPrice:
    """Price of electricity."""

    per_kwh: Amount
    pue: Amount = AMOUNT_ONE
    """Power usage effectiveness: energy of the whole building over that of its computers, at least
    1. Source: ISO/IEC 30134-2.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPrice:
    """Price of some systems. All amounts are for the whole system with all its nodes."""

    match: str
    """Name of a system or accelerator; `*` matches anything, as does the only price of a file."""
    hourly: Amount | None = None
    """Rent, energy included."""
    yearly: Amount | None = None
    price: Amount | None = None
    """Purchase price."""
    lifetime_years: Amount | None = None
    hosting_per_hour: Amount = AMOUNT_ZERO
    utilisation: Amount = AMOUNT_ONE
    """Share of the hours in which the system does useful work."""
    idle_w: Amount | None = None
    """Watts of the whole system at the plug in the remaining hours, `rest_w` included."""
    rest_w: Amount | None = None
    """Watts at the plug that the result's power channel does not measure."""
    billing_s: Amount | None = None
    """Rented time is billed in units of this many seconds."""

    @property
    def is_rented(self) -> bool:
        """Whether the system is rented, energy included."""
        return self.hourly is not None

    @property
    def per_hour(self) -> Amount:
        """Return the hourly price without energy, whether the system is busy or idle."""
        if self.hourly:
            return self.hourly
        capital = self.yearly or self.price or AMOUNT_ZERO
        years = self.lifetime_years or AMOUNT_ONE
        return Amount(
            value=capital.value / (years.value * HOURS_PER_YEAR) + self.hosting_per_hour.value,
            low=capital.low / (years.high * HOURS_PER_YEAR) + self.hosting_per_hour.low,
            high=capital.high / (years.low * HOURS_PER_YEAR) + self.hosting_per_hour.high,
            source=capital.source,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """A user's price file."""

    currency: str
    date: str
    sha256: str
    """SHA-256 of the file, so that a figure identifies its prices."""
    systems: tuple[SystemPrice, ...]
    energy: EnergyPrice | None = None

    def find_price(self, *names: str) -> SystemPrice | None:
        """Return the price of a system by its name or its accelerator's, the first match; None if
        the file has none.
        """
        folded = [name.casefold() for name in names]
        return next(
            (
                each
                for each in self.systems
                if any(fnmatchcase(name, each.match.casefold()) for name in folded)
            ),
            None,
        )

    def find_hourly_price(self, *names: str) -> float | None:
        """Return the hourly price of a system without energy; None if the file has none."""
        price = self.find_price(*names)
        if price is None:
            return None
        return price.per_hour.value


def read_prices(path: Path) -> Prices:
    """Read a user's prices; RequestError if they cannot be read, lack a source, or are not
    amounts.
    """
    try:
        text, digest = untrusted_files.read_untrusted_file(
            path,
            lambda content: (
                untrusted_files.decode_user_text(content),
                sha256(content).hexdigest(),
            ),
        )
        return parse_price_table(untrusted_files.parse_toml(text), digest)
    except UnreadableError as error:
        raise RequestError(str(error)) from error
    except KeyError as error:
        raise RequestError(
            f"{path}: {error.args[0]} is missing; a price file needs currency, date and "
            "[[system]] with hourly, yearly or price; podium cost --example prints one"
        ) from error
    except ValueError as error:
        raise RequestError(replace_unprintable(f"{path}: {error}")) from error


def parse_price_table(table: dict[str, Any], digest: str) -> Prices:
    """Parse a table of prices; KeyError if a key is missing, ValueError if a value is invalid."""
    check_price_keys(table, PRICE_FILE_KEYS, "the file")
    currency, date = (replace_unprintable(str(table[name])) for name in ("currency", "date"))
    rows = table["system"]
    if not isinstance(rows, list) or not rows:
        raise ValueError("[[system]] is missing or empty")
    if not CURRENCY_CODE.fullmatch(currency):
        raise ValueError(f'currency "{currency}"; required: three capital letters, as in USD')
    if not is_iso_date(date):
        raise ValueError(f'date "{date}"; required: a date, as in 2026-11-01')
    energy = None
    if "energy" in table:
        energy = parse_energy_price(table["energy"])
    return Prices(
        currency=currency,
        date=date,
        sha256=digest,
        systems=tuple(parse_system_price(row, alone=len(rows) == 1) for row in rows),
        energy=energy,
    )


def is_iso_date(text: str) -> bool:
    """Return whether a text is an ISO 8601 date with hyphens."""
    try:
        return Date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def check_price_keys(table: dict[str, Any], names: tuple[str, ...], where: str) -> None:
    """Reject unknown keys: a misspelt `lifetime_year` would silently change the cost."""
    if strange := sorted(set(table) - set(names)):
        raise ValueError(f"{where}: unknown {', '.join(strange)}; known: {', '.join(names)}")


def parse_energy_price(table: Any) -> EnergyPrice:
    """Parse `[energy]`."""
    if not isinstance(table, dict) or "per_kwh" not in table:
        raise ValueError("[energy] without per_kwh")
    check_price_keys(table, ENERGY_KEYS, "[energy]")
    if "pue" in table:
        pue = parse_amount(table["pue"], "[energy] pue")
    else:
        pue = AMOUNT_ONE
    if pue.low < 1:
        raise ValueError(f"[energy] pue {format_plain_number(pue.low, 6)}; required: at least 1")
    return EnergyPrice(per_kwh=parse_amount(table["per_kwh"], "[energy] per_kwh"), pue=pue)


def parse_system_price(row: Any, *, alone: bool) -> SystemPrice:
    """Parse one `[[system]]`; the only one of a file fits every system without a `match`."""
    match = None
    if isinstance(row, dict):
        match = row.get("match", ANY_SYSTEM if alone else None)
    if not isinstance(match, str):
        raise ValueError('[[system]] without match = "...", which several prices need')
    where = f"[[system]] {match}"
    check_price_keys(row, SYSTEM_KEYS, where)
    if sum(kind in row for kind in PAYMENT_KEYS) != 1:
        raise ValueError(f"{where}: give either hourly, yearly or price")
    if ("price" in row) != ("lifetime_years" in row):
        raise ValueError(f"{where}: price and lifetime_years belong together")
    return require_consistent_price(
        SystemPrice(
            match=match,
            **{
                name: parse_amount(stated, f"{where}: {name}")
                for name, stated in row.items()
                if name != "match"
            },
        ),
        where,
    )


def require_consistent_price(price: SystemPrice, where: str) -> SystemPrice:
    """Reject contradictory amounts."""
    if price.utilisation.high > 1:
        most = format_plain_number(price.utilisation.high, 6)
        raise ValueError(f"{where}: utilisation {most}; required: above 0, at most 1")
    if price.billing_s and not price.is_rented:
        raise ValueError(f"{where}: billing_s applies only to rented systems, which have hourly")
    return price


def parse_amount(stated: Any, where: str) -> Amount:
    """Parse `{ value = 35.0, low = 30.0, high = 40.0, source = "..." }`; a range is optional."""
    if (
        not isinstance(stated, dict)
        or not isinstance(stated.get("source"), str)
        or not stated["source"].strip()
    ):
        raise ValueError(f'{where}: an amount is {{ value = ..., source = "..." }}')
    check_price_keys(stated, ("value", "low", "high", "source"), where)
    value: Any = stated.get("value")
    low, high = stated.get("low", value), stated.get("high", value)
    for each in (value, low, high):
        if type(each) not in (int, float) or not 0 < each < MAX_AMOUNT:
            raise ValueError(f"{where} {each}; required: a number above 0")
    if not low <= value <= high:
        low, high, value = (format_whole_digits(each, 6) for each in (low, high, value))
        raise ValueError(f"{where}: {low} to {high} does not contain {value}")
    return Amount(
        value=float(value),
        low=float(low),
        high=float(high),
        source=replace_unprintable(stated["source"]),
    )
