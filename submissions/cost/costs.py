"""The cost of one result: its value, its measured energy and the prices of its system."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from submissions.compare.compared_results import ComparisonSide
from submissions.cost.formula import MILLION, HourlyCost, Money
from submissions.cost.prices import Prices, SystemPrice
from submissions.metrics import LATENCY_PREFIX, MINUTES_UNIT
from suite.files.untrusted_files import replace_unprintable
from suite.loadgen.headline import SAMPLE_RATE_UNIT, TOKEN_RATE_UNIT
from suite.measurement.widest import select_widest_energies
from suite.power import SYSTEM
from suite.records import EnergyRecord

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one result, or of one row of a study; money is in `currency`."""

    path: str
    org: str
    system: str
    round: str
    """Empty for a study, since no round applies to it."""
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
    """The entry of the price file that was applied."""
    per_useful_hour: float
    per_million_tokens: Money | None
    """Of a rate in tokens/s."""
    per_million_samples: Money | None
    per_10000_samples: Money | None
    per_training_run: Money | None
    watts: float | None
    energy: str
    """How energy enters the cost."""
    formula: str
    study: str = ""
    """Name of the study that contains this row. Such a row is not a result and has no verdict."""
    batch: int | None = None
    """Samples per query of a study's row."""
    value_low: float | None = None
    value_high: float | None = None
    """95 % interval of a study's rate, which widens the cost range; None if the run was too
    short.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CostBasis:
    """Inputs of a cost."""

    value: float
    unit: str
    energy: Sequence[EnergyRecord]
    interval: tuple[float, float] | None = None
    """95 % interval of a rate."""
    answers_per_s: float | None = None
    """Beside a rate of tokens."""
    tokens_per_s: float | None = None
    """Beside a rate of samples."""


def compute_result_cost(side: ComparisonSide, prices: Prices, problems: list[str]) -> Cost | None:
    """Return a result's cost; None for one that can have none (explain_missing_cost), and for a
    system without a price, which is added to `problems`.
    """
    row = side.score
    if row.value is None or explain_missing_cost(side):
        return None
    price = prices.find_price(row.system, side.machine.accelerator or "")
    if price is None:
        problems.append(
            f"{replace_unprintable(side.path)}: no [[system]] of the prices matches "
            f"{replace_unprintable(row.system)}, {side.machine.accelerator or 'no accelerator'}"
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
        **compute_cost_fields(
            CostBasis(
                value=row.value,
                unit=row.unit,
                energy=row.energy,
                answers_per_s=row.whole_answers_per_s,
            ),
            price,
            prices,
        ),
    )


def explain_missing_cost(side: ComparisonSide) -> str:
    """Explain why a result can have no cost at any price; empty if it can."""
    row = side.score
    if row.value is None:
        return "too many of its runs missed the target"
    if row.unit in (*RATE_UNITS, TOKEN_RATE_UNIT, MINUTES_UNIT):
        return ""
    if row.metric.startswith(LATENCY_PREFIX):
        return "its value is a latency, which says nothing of how many samples an hour takes"
    return f"its value is in {row.unit}, and costs are per sample, per token or per training"


def compute_cost_fields(basis: CostBasis, price: SystemPrice, prices: Prices) -> dict[str, Any]:
    """Return the fields of a cost that come from the prices."""
    draw = (
        choose_system_power(basis.energy, price) if prices.energy and not price.is_rented else None
    )
    if draw and SYSTEM in draw.scope:
        price = replace(price, rest_w=None)  # a meter measures the rest too
    rate = HourlyCost(price=price, energy=prices.energy, watts=draw.average_w if draw else None)
    samples = (basis.value, basis.interval) if basis.unit in RATE_UNITS else None
    tokens = (basis.value, basis.interval) if basis.unit == TOKEN_RATE_UNIT else None
    if tokens and basis.answers_per_s:
        samples = basis.answers_per_s, None
    if samples and basis.tokens_per_s:
        tokens = basis.tokens_per_s, None
    return {
        "currency": prices.currency,
        "match": price.match,
        "per_useful_hour": rate.compute_useful_hour_price(),
        "per_million_tokens": compute_rate_price(rate, MILLION, tokens),
        "per_million_samples": compute_rate_price(rate, MILLION, samples),
        "per_10000_samples": compute_rate_price(rate, DAWNBENCH_SAMPLES, samples),
        "per_training_run": (
            rate.compute_training_price(basis.value) if basis.unit == MINUTES_UNIT else None
        ),
        "watts": rate.watts,
        "energy": describe_energy_cost(basis.energy, draw, price, prices),
        "formula": format_cost_formula(rate, basis.value, basis.unit),
    }


def compute_rate_price(
    hourly: HourlyCost, count: int, rate: tuple[float, tuple[float, float] | None] | None
) -> Money | None:
    """Return the price of `count` samples or tokens at a rate and its interval; None if there is
    no rate.
    """
    return hourly.compute_samples_price(count, *rate) if rate and rate[0] > 0 else None


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
        return PARTIAL_POWER_NOTE if energy else UNMEASURED_ENERGY_NOTE
    rest = f" + {price.rest_w.value:g} W" if price.rest_w else ""
    return f"with energy: {draw.average_w:,.1f} W ({draw.grade}, {' + '.join(draw.scope)}){rest}"


def format_cost_formula(rate: HourlyCost, value: float, unit: str) -> str:
    """Format the computation of a cost with its numbers."""
    per = (
        f"K x {rate.format_billed_hours(value)}"
        if unit == MINUTES_UNIT
        else f"K x 10^6 / (3600 x {value:.6g})"
    )
    return f"{rate.formula}; {per}"
