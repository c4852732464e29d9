"""`podium cost`: what a million samples and a training run cost at a user's prices. Never part of a score, a bundle or a comparison.

Source of the rule: mlcommons/policies, MLPerf_Results_Messaging_Guidelines.adoc, section 9: a derived metric is reported with its inputs.
"""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Final

import click

from submissions.compare.command import named
from submissions.compare.compared_results import Side, read
from submissions.cost.formula import MILLION, Money, Rate
from submissions.cost.prices import Price, Prices, read_prices
from submissions.metrics import MINUTES
from suite.errors import JudgedError
from suite.files.untrusted_files import printable
from suite.measurement.widest import widest
from suite.power import SYSTEM
from suite.records import EnergyRecord

RATES: Final = ("samples/s", "queries/s")
"""Units that a cost can be computed from; a query of LoadGen's Server is one sample."""
DAWNBENCH: Final = 10_000
"""Number of samples. Source: DAWNBench, inference cost: "cost on public cloud instances to classify 10,000 validation images"."""
UNMEASURED: Final = "without energy: the result has no measured power"
RENTED: Final = "energy is in the rent"
PART_ALONE: Final = "without energy: the measured power is of parts of the system, and the prices have no rest_w"
UNPRICED: Final = "without energy: [energy] is not in the prices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One result with its cost; money in `currency`."""

    path: str
    org: str
    system: str
    round: str
    profile: str
    workload: str
    scenario: str | None
    value: float
    """Value of the result, in `unit`."""
    unit: str
    compliant: bool
    currency: str
    match: str
    """Which of the prices were applied."""
    per_useful_hour: float
    per_million_samples: Money | None
    per_10000_samples: Money | None
    per_training_run: Money | None
    watts: float | None
    energy: str
    """How energy enters the cost."""
    formula: str


def report(paths: Sequence[Path], prices_file: Path, form: str) -> None:
    """Print what the results cost; JudgedError at the end if one could not be read, does not count, or has no price."""
    prices = read_prices(prices_file)  # reports invalid prices before anything is read
    problems: list[str] = []
    sides = read(paths, problems)
    rows = [row for side in sides if (row := cost(side, prices, problems))]
    show(rows, prices, form)
    problems += [f"{named(side)} is not compliant" for side in sides if not side.score.compliant]
    if not rows and not problems:
        problems.append("no training set and no rate in it; latencies have no cost")
    if problems:
        raise JudgedError("\n  ".join(["not everything has a cost that counts:", *dict.fromkeys(problems)]))


def cost(side: Side, prices: Prices, problems: list[str]) -> Cost | None:
    """Return a result's cost; None for a latency, which is not a rate, and for a system without a price, which is reported in `problems`."""
    row = side.score
    if row.value is None or row.unit not in (*RATES, MINUTES):
        return None
    price = prices.of(row.system, side.machine.accelerator or "")
    if price is None:
        problems.append(f"{printable(side.path)}: no [[system]] of the prices fits {printable(row.system)}, {side.machine.accelerator or 'no accelerator'}")
        return None
    draw = whole_system(row.energy, price) if prices.energy and not price.rented else None
    if draw and SYSTEM in draw.scope:
        price = replace(price, rest_w=None)  # a meter sees the rest too
    rate = Rate(price=price, energy=prices.energy, watts=draw.average_w if draw else None)
    serving = row.unit in RATES and row.value > 0
    return Cost(
        path=side.path,
        **{name: getattr(row, name) for name in ("org", "system", "round", "profile", "workload", "scenario", "unit", "compliant")},
        value=row.value,
        currency=prices.currency,
        match=price.match,
        per_useful_hour=rate.useful_hour(),
        per_million_samples=rate.samples(MILLION, row.value) if serving else None,
        per_10000_samples=rate.samples(DAWNBENCH, row.value) if serving else None,
        per_training_run=rate.training(row.value) if row.unit == MINUTES else None,
        watts=rate.watts,
        energy=energy_told(row.energy, draw, price, prices),
        formula=formula(rate, row.value, row.unit),
    )


def whole_system(energy: Sequence[EnergyRecord], price: Price) -> EnergyRecord | None:
    """Choose the most direct measurement that yields the whole system's power: the system's, or that of all parts with the rest's watts in the price file."""
    return next((each for each in widest(energy) if SYSTEM in each.scope or price.rest_w), None)


def energy_told(energy: Sequence[EnergyRecord], draw: EnergyRecord | None, price: Price, prices: Prices) -> str:
    """Describe how energy enters the cost."""
    if price.rented:
        return RENTED
    if prices.energy is None:
        return UNPRICED
    if draw is None:
        return PART_ALONE if energy else UNMEASURED
    rest = f" + {price.rest_w.value:g} W" if price.rest_w else ""
    return f"with energy: {draw.average_w:,.1f} W ({draw.grade}, {' + '.join(draw.scope)}){rest}"


def formula(rate: Rate, value: float, unit: str) -> str:
    """Format the computation of a cost with its numbers."""
    per = f"K x {rate.billed_hours_told(value)}" if unit == MINUTES else f"K x 10^6 / (3600 x {value:.6g})"
    return f"{rate.formula}; {per}"


def show(rows: Sequence[Cost], prices: Prices, form: str) -> None:
    """Print in the requested form."""
    source = {"currency": prices.currency, "date": prices.date, "sha256": prices.sha256}
    if form == "json":
        click.echo(json.dumps({"costs": [asdict(row) for row in rows], "prices": source, "legend": legend(prices)}, indent=2))
    elif form == "csv":
        click.echo(table_csv(rows), nl=False)
        click.echo(legend(prices), err=True)
    elif rows:
        click.echo("\n".join([*(line for row in rows for line in lines(row)), "", legend(prices)]))


def legend(prices: Prices) -> str:
    """Return the notes needed to read the figures."""
    return f"derived figures, no official metric: prices in {prices.currency} of {prices.date}, file {prices.sha256[:12]}"


def lines(row: Cost) -> list[str]:
    """Format one result for people."""
    told = row.per_million_samples or row.per_training_run
    what = "per million samples" if row.per_million_samples else "per training run"
    name = f"{row.workload} {row.scenario or 'training'}, {row.system}"
    return [printable(f"{name}: {worded(told)} {row.currency} {what}; {row.energy}"), printable(f"  {row.formula}")]


def worded(told: Money | None) -> str:
    """Format money with its range."""
    if told is None:
        return "-"
    return f"{told.value:.4g}" if told.low == told.high else f"{told.value:.4g} ({told.low:.4g}-{told.high:.4g})"


def table_csv(rows: Iterable[Cost]) -> str:
    """Format the rows as CSV; money takes three columns: value, low, high."""
    text = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for flat in map(flattened, rows):
        if writer is None:
            writer = csv.DictWriter(text, list(flat), lineterminator="\n")
            writer.writeheader()
        writer.writerow(flat)
    return text.getvalue()


def flattened(row: Cost) -> dict[str, object]:
    """Spread money over three columns."""
    cells: dict[str, object] = {}
    for each in fields(row):
        value = getattr(row, each.name)
        if each.name in ("per_million_samples", "per_10000_samples", "per_training_run"):
            cells |= {each.name: value.value if value else "", f"{each.name}_low": value.low if value else "", f"{each.name}_high": value.high if value else ""}
        else:
            cells[each.name] = value
    return cells
