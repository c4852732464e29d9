"""Derived figures: rates per accelerator or per unit of money, and training in accelerator-minutes
or money. They are never official, and latencies have none.

Source: mlcommons/policies, MLPerf_Results_Messaging_Guidelines.adoc, section 9: a derived metric
must be reported with its inputs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from submissions.compare.watts import EnergyKind, group_widest_energies
from suite import registry
from suite.errors import RequestError
from suite.files.untrusted_files import replace_unprintable
from suite.measurement.metrics import (
    MINUTES_UNIT,
    DerivedFigure,
    compute_accelerator_figure,
    is_derivable_figure,
)
from suite.prices import PriceList
from suite.records import EnergyRecord
from suite.result import Result
from suite.units import J_PER_KJ, MINUTES_PER_HOUR, S_PER_HOUR


class FigureBasis(StrEnum):
    """Unit that a figure is normalised by."""

    ACCELERATOR = "accelerator"
    DOLLAR = "dollar"
    WATT = "watt"


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRequest:
    """The figures to derive, and their inputs."""

    basis: FigureBasis
    prices: PriceList | None = None
    """Prices, for figures per unit of money."""

    def compute_figure(
        self, side: Result, shared: EnergyKind | None = None
    ) -> DerivedFigure | None:
        """Return the derived figure of a result; None if there is none. Power is of the energy kind
        that the compared results share.
        """
        score = side
        if self.basis is FigureBasis.WATT:
            return compute_watt_figure(score.energy, shared)
        if score.value is None or not is_derivable_figure(score.metric, score.unit):
            return None
        if self.prices:
            hourly = self.prices.find_hourly_price(score.system, side.machine.accelerator or "")
            return compute_money_figure(score.value, score.unit, hourly, self.prices.currency)
        return compute_accelerator_figure(score.value, score.unit, side.machine.accelerators)

    @property
    def inputs_note(self) -> str:
        """Describe the source of derived figures."""
        if self.basis is FigureBasis.WATT:
            return (
                "watts of the same grade and the same parts, the widest scope that was measured; "
                "other kinds are not compared"
            )
        if self.prices:
            return f"prices in {self.prices.currency} of {self.prices.date}"
        return "number of accelerators according to the system descriptions"


def parse_figure_request(per: str | None, prices: Path | None) -> FigureRequest | None:
    """Parse which figures to derive; RequestError if `--per` and `--prices` do not fit."""
    if prices and per != FigureBasis.DOLLAR:
        raise RequestError("--prices requires --per dollar")
    if per == FigureBasis.DOLLAR and not prices:
        raise RequestError("--per dollar needs --prices FILE")
    if per is None:
        return None
    if prices:
        read_prices = registry.load_price_reader()
        return FigureRequest(basis=FigureBasis(per), prices=read_prices(prices))
    return FigureRequest(basis=FigureBasis(per))


def compute_watt_figure(
    energy: Sequence[EnergyRecord], shared: EnergyKind | None
) -> DerivedFigure | None:
    """Return the efficiency from the energy of one kind; None if there is no such energy."""
    found = group_widest_energies(energy).get(shared) if shared else None
    if found is None:
        return None
    of = f"({found.grade}, {replace_unprintable(' + '.join(found.scope))})"
    if found.mj_per_query is not None:
        return DerivedFigure(value=found.mj_per_query, unit=f"mJ/query {of}")
    if found.per_token_j:
        return DerivedFigure(value=1 / found.per_token_j, unit=f"tokens/s/W {of}")
    if found.samples_per_s_per_w is not None:
        return DerivedFigure(value=found.samples_per_s_per_w, unit=f"samples/s/W {of}")
    return DerivedFigure(value=found.joules / J_PER_KJ, unit=f"kJ per training {of}")


def compute_money_figure(
    value: float, unit: str, hourly: float | None, currency: str
) -> DerivedFigure | None:
    """Return the price of a training run, or a rate per unit of money."""
    if hourly is None:
        return None
    if unit == MINUTES_UNIT:
        return DerivedFigure(
            value=value / MINUTES_PER_HOUR * hourly, unit=f"{currency} per training"
        )
    return DerivedFigure(
        value=value * S_PER_HOUR / hourly, unit=f"{unit.partition('/')[0]} per {currency}"
    )
