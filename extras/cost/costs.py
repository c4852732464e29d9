"""The cost of one result: its value, its measured energy and the prices of its system."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from extras.cost.formula import MILLION, HourlyCost
from extras.cost.prices import Prices, SystemPrice
from suite.files.untrusted_files import replace_unprintable
from suite.human_numbers import format_whole_digits
from suite.loadgen.headline import SAMPLE_RATE_UNIT, TOKEN_RATE_UNIT
from suite.measurement.metrics import LATENCY_PREFIX, MINUTES_UNIT
from suite.measurement.widest import select_widest_energies
from suite.power import SYSTEM
from suite.records import EnergyRecord
from suite.result import Cost, Money, Result

RATE_UNITS: Final = (SAMPLE_RATE_UNIT, "queries/s")
"""Units that a cost of samples is computed from; a query of LoadGen's Server scenario is one
sample.
"""
DAWNBENCH_SAMPLES: Final = 10_000
"""Number of samples that a cost is stated for. Source: DAWNBench, inference cost: "cost on public
cloud instances to classify 10,000 validation images".
"""
UNMEASURED_ENERGY_NOTE: Final = "without energy: the result has no measured power"
RENTED_ENERGY_NOTE: Final = "energy is included in the rent"
PARTIAL_POWER_NOTE: Final = (
    "without energy: only parts of the system were measured, and the prices have no rest_w"
)
UNPRICED_ENERGY_NOTE: Final = "without energy: the prices have no [energy]"


def price_result(result: Result, prices: Prices, problems: list[str]) -> Result | None:
    """Return a result with its cost; None for one that can have none (explain_missing_cost), and
    for a system without a price, which is added to `problems`.
    """
    if explain_missing_cost(result):
        return None
    price = prices.find_price(result.system, result.accelerator or "")
    if price is None:
        problems.append(
            f"{replace_unprintable(result.source)}: no [[system]] of the prices matches "
            f"{replace_unprintable(result.system)}, {result.accelerator or 'no accelerator'}"
        )
        return None
    return replace(result, cost=compute_cost(result, price, prices))


def explain_missing_cost(row: Result) -> str:
    """Explain why a result can have no cost at any price; empty if it can."""
    if row.value is None:
        return "too many of its runs missed the target"
    if row.unit in (*RATE_UNITS, TOKEN_RATE_UNIT, MINUTES_UNIT):
        return ""
    if row.metric.startswith(LATENCY_PREFIX):
        return "its value is a latency, which says nothing of how many samples an hour takes"
    return f"its value is in {row.unit}, and costs are per sample, per token or per training"


def compute_cost(result: Result, price: SystemPrice, prices: Prices) -> Cost:
    """Compute the cost of a result that has a value, at the prices of its system."""
    value, figure = result.value or 0.0, result.figure
    draw = None
    if prices.energy and not price.is_rented:
        draw = choose_system_power(result.energy, price)
    if draw and SYSTEM in draw.scope:
        price = replace(price, rest_w=None)  # a meter measures the rest too
    rate = HourlyCost(price=price, energy=prices.energy, watts=draw.average_w if draw else None)
    interval = figure.stated_interval
    measured = value, (interval.low, interval.high) if interval else None
    samples = None
    if result.unit in RATE_UNITS:
        samples = measured
    tokens = None
    if result.unit == TOKEN_RATE_UNIT:
        tokens = measured
    if tokens and figure.whole_answers_per_s:
        samples = figure.whole_answers_per_s, None
    if samples and is_study_row(result) and figure.tokens and figure.tokens.tokens_per_s:
        tokens = figure.tokens.tokens_per_s, None
    return Cost(
        currency=prices.currency,
        match=price.match,
        per_useful_hour=rate.compute_useful_hour_price(),
        per_million_tokens=compute_rate_price(rate, MILLION, tokens),
        per_million_samples=compute_rate_price(rate, MILLION, samples),
        per_10000_samples=compute_rate_price(rate, DAWNBENCH_SAMPLES, samples),
        per_training_run=(
            rate.compute_training_price(value) if result.unit == MINUTES_UNIT else None
        ),
        watts=rate.watts,
        energy=describe_energy_cost(result.energy, draw, price, prices),
        formula=format_cost_formula(rate, value, result.unit),
    )


def is_study_row(result: Result) -> bool:
    """Return whether it is a row of a study, which is no result and has no verdict."""
    return bool(result.origin.study)


def compute_rate_price(
    hourly: HourlyCost, count: int, rate: tuple[float, tuple[float, float] | None] | None
) -> Money | None:
    """Return the price of `count` samples or tokens at a rate and its interval; None if there is
    no rate.
    """
    if rate and rate[0] > 0:
        return hourly.compute_samples_price(count, *rate)
    return None


def choose_system_power(energy: Sequence[EnergyRecord], price: SystemPrice) -> EnergyRecord | None:
    """Choose the most direct measurement that yields the whole system's power: that of the system,
    or that of its parts plus `rest_w` of the price file.
    """
    return next(
        (each for each in select_widest_energies(energy) if SYSTEM in each.scope or price.rest_w),
        None,
    )


def describe_energy_cost(
    energy: Sequence[EnergyRecord], draw: EnergyRecord | None, price: SystemPrice, prices: Prices
) -> str:
    """Describe how energy enters the cost."""
    if price.is_rented:
        return RENTED_ENERGY_NOTE
    if prices.energy is None:
        return UNPRICED_ENERGY_NOTE
    if draw is None:
        if energy:
            return PARTIAL_POWER_NOTE
        return UNMEASURED_ENERGY_NOTE
    rest = ""
    if price.rest_w:
        rest = f" + {format_whole_digits(price.rest_w.value, 6)} W"
    return f"with energy: {draw.average_w:,.1f} W ({draw.grade}, {' + '.join(draw.scope)}){rest}"


def format_cost_formula(rate: HourlyCost, value: float, unit: str) -> str:
    """Format the computation of a cost with its numbers."""
    if unit == MINUTES_UNIT:
        per = f"K x {rate.format_billed_hours(value)}"
    else:
        per = f"K x 10^6 / (3600 x {format_whole_digits(value, 6)})"
    return f"{rate.formula}; {per}"
