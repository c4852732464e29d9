"""Derived figures: rates per accelerator or per unit of money, training in accelerator-minutes or money. Never official, never for latencies.

Source: mlcommons/policies, MLPerf_Results_Messaging_Guidelines.adoc, section 9: what a derived metric is made of is said beside it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from submissions.compare.compared_results import Side
from submissions.cost.prices import Prices
from submissions.metrics import MINUTES, TIME_TO_TRAIN

RATES: Final = ("samples/s", "queries/s")
MINUTES_PER_HOUR: Final = 60
SECONDS_PER_HOUR: Final = 3600


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
            price = self.prices.of(score.system, side.machine.accelerator or "")
            return per_money(score.value, score.unit, price.per_hour.value if price else None, self.prices.currency)
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
