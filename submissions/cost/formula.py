"""The cost of a useful hour, of a million samples and of a training run; nothing is estimated.

H = hourly, or price / (lifetime x 8,766 h) + hosting; e(W) = W x PUE x price of a kWh / 1000; u =
utilisation, the share of hours with this work:
K = H / u + e(P + rest) + e(idle) x (1 - u) / u, where idle are the watts of the whole system at the
plug. A million samples cost
K x 10^6 / (3600 x samples/s), a training run K x hours.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from submissions.cost.prices import Amount, Energy, Price

MILLION: Final = 1_000_000
SECONDS_PER_HOUR: Final = 3600
MINUTES_PER_HOUR: Final = 60
W_PER_KW: Final = 1000


class End(Enum):
    """Which end of every amount's range to use."""

    VALUE = "value"
    LOW = "low"
    HIGH = "high"

    def of(self, amount: Amount | None) -> float:
        """Return this end of an amount; 0 if there is none."""
        return float(getattr(amount, self.value)) if amount else 0.0

    @property
    def against(self) -> "End":
        """Return the opposite end, for amounts that lower the cost."""
        return {End.VALUE: End.VALUE, End.LOW: End.HIGH, End.HIGH: End.LOW}[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """An amount of money, with its range over the ranges of the prices."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Hourly cost of one system."""

    price: Price
    energy: Energy | None = None
    watts: float | None = None
    """Mean power during the measurement; None: energy is not included."""

    def watt_hour(self, watts: float, end: End) -> float:
        """Return the price of an hour at this many watts: e(W)."""
        return (
            watts * end.of(self.energy.pue) * end.of(self.energy.per_kwh) / W_PER_KW
            if self.energy
            else 0.0
        )

    def useful_hour(self, end: End = End.VALUE) -> float:
        """Return K, the price of an hour of useful work."""
        u = end.against.of(self.price.utilisation)
        cost = end.of(self.price.per_hour) / u
        if self.watts is None or self.price.rented:
            return cost
        idle = self.watt_hour(end.of(self.price.idle_w), end)
        return (
            cost + self.watt_hour(self.watts + end.of(self.price.rest_w), end) + idle * (1 - u) / u
        )

    def samples(
        self, count: int, per_second: float, interval: tuple[float, float] | None = None
    ) -> Money:
        """Return the price of `count` samples at `per_second`; an interval of the rate widens the
        range, as more samples in an hour cost less each.
        """
        low, high = interval or (per_second, per_second)
        rates = {End.VALUE: per_second, End.LOW: high, End.HIGH: low}
        return money(lambda end: self.useful_hour(end) * count / (SECONDS_PER_HOUR * rates[end]))

    def training(self, minutes: float) -> Money:
        """Return the price of a training run; rented time is billed in whole units."""
        return money(lambda end: self.useful_hour(end) * self.billed_hours(minutes, end))

    def billed_hours(self, minutes: float, end: End) -> float:
        """Return the billed hours."""
        unit_s = end.of(self.price.billing_s)
        return (
            math.ceil(minutes * MINUTES_PER_HOUR / unit_s) * unit_s / SECONDS_PER_HOUR
            if unit_s
            else minutes / MINUTES_PER_HOUR
        )

    def billed_hours_told(self, minutes: float) -> str:
        """Format the billed hours."""
        unit = f", billed by {self.price.billing_s.value:g} s" if self.price.billing_s else ""
        return f"{self.billed_hours(minutes, End.VALUE):.6g} h{unit}"

    @property
    def formula(self) -> str:
        """Format K with its numbers."""
        price, u = self.price, self.price.utilisation.value
        if price.hourly:
            own = f"{price.hourly.value:g}"
        else:
            bought = (
                f"{price.price.value:g} / ({price.lifetime_years.value:g} y x 8,766 h)"
                if price.price and price.lifetime_years
                else ""
            )
            own = " + ".join(
                filter(
                    None,
                    [
                        bought or f"{(price.yearly or Amount.exactly(0)).value:g} / 8,766 h",
                        told(price.hosting_per_hour),
                    ],
                )
            )
        terms = [
            f"({own}) / {u:g}" if " + " in own and u != 1 else f"{own} / {u:g}" if u != 1 else own,
            *self.energy_terms(u),
        ]
        return f"K = {' + '.join(terms)} = {self.useful_hour():.6g} per useful hour"

    def energy_terms(self, u: float) -> list[str]:
        """Format the energy terms of K."""
        if self.watts is None or self.price.rented or not self.energy:
            return []
        tariff = f"{self.energy.pue.value:g} x {self.energy.per_kwh.value:g} / 1000"
        rest = told(self.price.rest_w)
        terms = [f"({' + '.join(filter(None, [f'{self.watts:g}', rest]))}) W x {tariff}"]
        if self.price.idle_w and u != 1:
            terms.append(f"{told(self.price.idle_w)} W x {tariff} x (1 - {u:g}) / {u:g}")
        return terms


def told(amount: Amount | None) -> str:
    """Format an amount that is set."""
    return f"{amount.value:g}" if amount and amount.value else ""


def money(at: Callable[[End], float]) -> Money:
    """Evaluate a cost at both ends of all prices."""
    return Money(value=at(End.VALUE), low=at(End.LOW), high=at(End.HIGH))
