"""The cost of one result: its value, its measured energy and the prices of its system."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from submissions.compare.compared_results import Side
from submissions.cost.formula import MILLION, Money, Rate
from submissions.cost.prices import Price, Prices
from submissions.metrics import MINUTES
from suite.files.untrusted_files import printable
from suite.measurement.widest import widest
from suite.power import SYSTEM
from suite.records import EnergyRecord

RATES: Final = ("samples/s", "queries/s")
"""Units that a cost can be computed from; a query of LoadGen's Server is one sample."""
DAWNBENCH: Final = 10_000
"""Number of samples. Source: DAWNBench, inference cost: "cost on public cloud instances to classify
10,000 validation images".
"""
UNMEASURED: Final = "without energy: the result has no measured power"
RENTED: Final = "energy is in the rent"
PART_ALONE: Final = (
    "without energy: the measured power is of parts of the system, and the prices have no rest_w"
)
UNPRICED: Final = "without energy: [energy] is not in the prices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One result, or one row of a study, with its cost; money in `currency`."""

    path: str
    org: str
    system: str
    round: str
    """Empty for a study, which no round judges."""
    profile: str
    workload: str
    scenario: str | None
    engine: str | None
    """Engine of inference; framework of training."""
    precision: str | None
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
    study: str = ""
    """Name of the study of which this is a row: no result, and without the verdict of a round."""
    batch: int | None = None
    """Samples per query of a study's row."""
    value_low: float | None = None
    value_high: float | None = None
    """95 % interval of a study's rate, which widens the range of its cost; None if the run was too
    short for one.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a cost is computed from."""

    value: float
    unit: str
    energy: Sequence[EnergyRecord]
    interval: tuple[float, float] | None = None
    """95 % interval of a rate."""


def cost(side: Side, prices: Prices, problems: list[str]) -> Cost | None:
    """Return a result's cost; None for a latency, which is not a rate, and for a system without a
    price, which is reported in `problems`.
    """
    row = side.score
    if row.value is None or row.unit not in (*RATES, MINUTES):
        return None
    price = prices.of(row.system, side.machine.accelerator or "")
    if price is None:
        problems.append(
            f"{printable(side.path)}: no [[system]] of the prices fits {printable(row.system)},"
            f" {side.machine.accelerator or 'no accelerator'}"
        )
        return None
    return Cost(
        path=side.path,
        **{
            name: getattr(row, name)
            for name in (
                "org",
                "system",
                "round",
                "profile",
                "workload",
                "scenario",
                "unit",
                "compliant",
            )
        },
        engine=side.engine,
        precision=side.precision,
        value=row.value,
        **amounts(Measured(value=row.value, unit=row.unit, energy=row.energy), price, prices),
    )


def amounts(found: Measured, price: Price, prices: Prices) -> dict[str, Any]:
    """Return the fields of a cost that come from the prices."""
    draw = whole_system(found.energy, price) if prices.energy and not price.rented else None
    if draw and SYSTEM in draw.scope:
        price = replace(price, rest_w=None)  # a meter sees the rest too
    rate = Rate(price=price, energy=prices.energy, watts=draw.average_w if draw else None)
    serving = found.unit in RATES and found.value > 0
    return {
        "currency": prices.currency,
        "match": price.match,
        "per_useful_hour": rate.useful_hour(),
        "per_million_samples": (
            rate.samples(MILLION, found.value, found.interval) if serving else None
        ),
        "per_10000_samples": (
            rate.samples(DAWNBENCH, found.value, found.interval) if serving else None
        ),
        "per_training_run": rate.training(found.value) if found.unit == MINUTES else None,
        "watts": rate.watts,
        "energy": energy_told(found.energy, draw, price, prices),
        "formula": formula(rate, found.value, found.unit),
    }


def whole_system(energy: Sequence[EnergyRecord], price: Price) -> EnergyRecord | None:
    """Choose the most direct measurement that yields the whole system's power: the system's, or
    that of all parts with the rest's watts in the price file.
    """
    return next((each for each in widest(energy) if SYSTEM in each.scope or price.rest_w), None)


def energy_told(
    energy: Sequence[EnergyRecord], draw: EnergyRecord | None, price: Price, prices: Prices
) -> str:
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
    per = (
        f"K x {rate.billed_hours_told(value)}"
        if unit == MINUTES
        else f"K x 10^6 / (3600 x {value:.6g})"
    )
    return f"{rate.formula}; {per}"
