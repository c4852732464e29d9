"""The cost of a useful hour, of a million samples and of a training run; nothing is estimated.

H = hourly, or price / (lifetime x 8,766 h) + hosting; e(W) = W x PUE x price of a kWh / 1000; u =
utilisation, the share of hours with this work: K = H / u + e(P + rest) + e(idle) x (1 - u) / u,
where idle are the watts of the whole system at the plug. A million samples cost K x 10^6 / (3600 x
samples/s), a million tokens likewise, a training run K x hours.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from extras.cost.prices import Amount, EnergyPrice, SystemPrice
from suite.human_numbers import format_whole_digits
from suite.result import Money
from suite.units import MINUTES_PER_HOUR, S_PER_HOUR, W_PER_KW

MILLION: Final = 1_000_000


class RangeEnd(Enum):
    """Which end of every amount's range to use."""

    VALUE = "value"
    LOW = "low"
    HIGH = "high"

    def select_value(self, amount: Amount | None) -> float:
        """Return this end of an amount's range; 0 if there is no amount."""
        if amount:
            return float(getattr(amount, self.value))
        return 0.0

    @property
    def opposite(self) -> "RangeEnd":
        """The opposite end, for amounts that lower the cost."""
        return {
            RangeEnd.VALUE: RangeEnd.VALUE,
            RangeEnd.LOW: RangeEnd.HIGH,
            RangeEnd.HIGH: RangeEnd.LOW,
        }[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class HourlyCost:
    """Hourly cost of one system."""

    price: SystemPrice
    energy: EnergyPrice | None = None
    watts: float | None = None
    """Mean power during the measurement; None if energy is not included."""

    def compute_energy_price(self, watts: float, end: RangeEnd) -> float:
        """Return the price of an hour at this many watts: e(W)."""
        if not self.energy:
            return 0.0
        return (
            watts
            * end.select_value(self.energy.pue)
            * end.select_value(self.energy.per_kwh)
            / W_PER_KW
        )

    def compute_useful_hour_price(self, end: RangeEnd = RangeEnd.VALUE) -> float:
        """Return K, the price of an hour of useful work."""
        u = end.opposite.select_value(self.price.utilisation)
        cost = end.select_value(self.price.per_hour) / u
        if self.watts is None or self.price.is_rented:
            return cost
        idle = self.compute_energy_price(end.select_value(self.price.idle_w), end)
        return (
            cost
            + self.compute_energy_price(self.watts + end.select_value(self.price.rest_w), end)
            + idle * (1 - u) / u
        )

    def compute_samples_price(
        self, count: int, per_second: float, interval: tuple[float, float] | None = None
    ) -> Money:
        """Return the price of `count` samples or tokens at `per_second`; an interval widens the
        range, since the cost of one falls as the rate rises.
        """
        low, high = interval or (per_second, per_second)
        rates = {RangeEnd.VALUE: per_second, RangeEnd.LOW: high, RangeEnd.HIGH: low}
        return compute_money_range(
            lambda end: self.compute_useful_hour_price(end) * count / (S_PER_HOUR * rates[end])
        )

    def compute_training_price(self, minutes: float) -> Money:
        """Return the price of a training run; rented time is billed in whole units."""
        return compute_money_range(
            lambda end: (
                self.compute_useful_hour_price(end) * self.compute_billed_hours(minutes, end)
            )
        )

    def compute_billed_hours(self, minutes: float, end: RangeEnd) -> float:
        """Return the billed hours."""
        unit_s = end.select_value(self.price.billing_s)
        if unit_s:
            return math.ceil(minutes * MINUTES_PER_HOUR / unit_s) * unit_s / S_PER_HOUR
        return minutes / MINUTES_PER_HOUR

    def format_billed_hours(self, minutes: float) -> str:
        """Format the billed hours."""
        unit = ""
        if self.price.billing_s:
            unit = f", billed by {format_term(self.price.billing_s.value)} s"
        return (
            f"{format_whole_digits(self.compute_billed_hours(minutes, RangeEnd.VALUE), 6)} h{unit}"
        )

    @property
    def formula(self) -> str:
        """Format K, written out with its numbers."""
        price, u = self.price, self.price.utilisation.value
        if price.hourly:
            capital_terms = format_term(price.hourly.value)
        else:
            bought = ""
            if price.price and price.lifetime_years:
                years = format_term(price.lifetime_years.value)
                bought = f"{format_term(price.price.value)} / ({years} y x 8,766 h)"
            yearly = format_term((price.yearly or Amount.build_exact(0)).value)
            terms = [bought or f"{yearly} / 8,766 h", format_amount(price.hosting_per_hour)]
            capital_terms = " + ".join(filter(None, terms))
        if u != 1:
            if " + " in capital_terms:
                capital_terms = f"({capital_terms})"
            capital_terms = f"{capital_terms} / {format_term(u)}"
        computed = " + ".join([capital_terms, *self.format_energy_terms(u)])
        total = format_whole_digits(self.compute_useful_hour_price(), 6)
        if computed == total:
            equation = total
        else:
            equation = f"{computed} = {total}"
        return f"K = {equation} per useful hour"

    def format_energy_terms(self, u: float) -> list[str]:
        """Format the energy terms of K."""
        if self.watts is None or self.price.is_rented or not self.energy:
            return []
        per_kwh = format_term(self.energy.per_kwh.value)
        tariff = f"{format_term(self.energy.pue.value)} x {per_kwh} / 1000"
        rest = format_amount(self.price.rest_w)
        terms = [f"({' + '.join(filter(None, [format_term(self.watts), rest]))}) W x {tariff}"]
        if self.price.idle_w and u != 1:
            share = format_term(u)
            idle = format_amount(self.price.idle_w)
            terms.append(f"{idle} W x {tariff} x (1 - {share}) / {share}")
        return terms


def format_term(value: float) -> str:
    """Format a number of a formula with its first six digits."""
    return format_whole_digits(value, 6)


def format_amount(amount: Amount | None) -> str:
    """Format an amount that is not None."""
    if amount and amount.value:
        return format_term(amount.value)
    return ""


def compute_money_range(compute_cost: Callable[[RangeEnd], float]) -> Money:
    """Evaluate a cost at both ends of all prices."""
    return Money(
        value=compute_cost(RangeEnd.VALUE),
        low=compute_cost(RangeEnd.LOW),
        high=compute_cost(RangeEnd.HIGH),
    )
