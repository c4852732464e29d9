"""What a clause of a contract can bound: the result of a scenario or of a training, latencies of
tokens, scores, energies, and costs at the contract's price.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from submissions.cells import UNITLESS
from suite import registry
from suite.errors import RequestError, build_unknown_name_error
from suite.loadgen.headline import (
    LATENCY_METRIC,
    SAMPLE_RATE_UNIT,
    TOKEN_RATE_UNIT,
    get_rate_unit,
    select_headline_metric,
)
from suite.loadgen.scenario import Scenario, parse_scenarios
from suite.loadgen.token_figures import TOKEN_LATENCIES
from suite.measurement.metrics import (
    LATENCY_PREFIX,
    MINUTES_UNIT,
    TIME_TO_TRAIN,
    is_higher_better,
)
from suite.rounds import Benchmark, ScenarioRow
from suite.rounds.compatibility import TRAINING_HALF
from suite.terms import Profile
from suite.units import (
    J_PER_KJ,
    MINUTES_PER_HOUR,
    NS_PER_MS,
    NS_PER_S,
    NS_PER_US,
    S_PER_HOUR,
    S_PER_MINUTE,
    W_PER_KW,
)

COST_UNIT: Final = "currency"
"""Stands for the contract's currency as the unit of a cost."""
MILLION: Final = 1_000_000
COSTED_RATES: Final[Mapping[str, str]] = {
    SAMPLE_RATE_UNIT: "cost_per_million_samples",
    TOKEN_RATE_UNIT: "cost_per_million_tokens",
}
"""Unit of a rate -> its cost."""
TRAINING_COST: Final = "cost_per_training"
LATENCY_UNITS: Final[Mapping[str, float]] = {
    "ms": NS_PER_MS,
    "us": NS_PER_US,
    "s": NS_PER_S,
}
TIME_UNITS: Final[Mapping[str, float]] = {
    MINUTES_UNIT: 1.0,
    "s": 1.0 / S_PER_MINUTE,
    "h": MINUTES_PER_HOUR,
}
ENERGY_UNITS: Final[Mapping[str, float]] = {
    "J": 1.0,
    "kJ": J_PER_KJ,
    "Wh": S_PER_HOUR,
    "kWh": W_PER_KW * S_PER_HOUR,
}
TRAINING_ENERGIES: Final[Mapping[str, str]] = {"energy_per_training": "joules"}
"""Name of an energy -> its field of an EnergyRecord."""
SAMPLE_ENERGIES: Final[Mapping[str, str]] = {"energy_per_sample": "per_sample_j"}
TOKEN_ENERGIES: Final[Mapping[str, str]] = {"energy_per_token": "per_token_j"}
GPU_PREFIX: Final = "gpu_"
"""Begin of the name of an energy of all GPUs; the others are of the whole machine."""


class FigureKind(StrEnum):
    """Where the figure of a clause comes from."""

    HEADLINE = "headline"
    """The result of the scenario, or of the run set, over all its runs."""
    TOKEN_LATENCY = "token latency"
    """A percentile of the time to the first token, or per further token, of each run."""
    ENERGY = "energy"
    """The energy of each run, of the whole machine or of its GPUs."""
    SCORE = "score"
    """A score over the round's whole accuracy set, or of the last evaluation."""
    COST = "cost"
    """An hour's price, and the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedMetric:
    """Something that a clause can bound."""

    name: str
    kind: FigureKind
    units: Mapping[str, float]
    """Unit of a bound -> how many of the result's own units it is."""
    more_is_better: bool
    energy_field: str = ""
    """Of an energy: its field of an EnergyRecord."""

    @property
    def is_of_gpus(self) -> bool:
        """Whether it is an energy of GPUs alone."""
        return self.kind is FigureKind.ENERGY and self.name.startswith(GPU_PREFIX)

    @property
    def direction(self) -> str:
        """The only direction of a bound that a buyer can want."""
        return "at least" if self.more_is_better else "at most"


def parse_contracted_scenario(text: str) -> Scenario | None:
    """Parse the scenario of a contract; None for training, RequestError with the nearest name."""
    if text == TRAINING_HALF:
        return None
    try:
        (found,) = parse_scenarios(text)
    except (RequestError, ValueError) as error:
        raise build_unknown_name_error("scenario", text, [*Scenario, TRAINING_HALF]) from error
    return found


def list_bounded_metrics(
    workload: str, profile: Profile, scenario: Scenario | None
) -> Mapping[str, BoundedMetric]:
    """List what a contract about this scenario (None: training) can bound, by name; RequestError if
    the round has no such workload, profile or scenario.
    """
    row = registry.load_round().benchmark(workload)
    metrics = list(list_training_metrics(workload, row, profile))
    if scenario is not None:
        metrics = list(list_served_metrics(workload, row, profile, scenario))
    return {each.name: each for each in metrics}


def list_training_metrics(workload: str, row: Benchmark, profile: Profile) -> list[BoundedMetric]:
    """List what a contract about training can bound; the minutes first."""
    if profile not in row.training:
        raise RequestError(f"{workload} has no training in profile {profile}")
    time = BoundedMetric(
        name=TIME_TO_TRAIN, kind=FigureKind.HEADLINE, units=TIME_UNITS, more_is_better=False
    )
    cost = BoundedMetric(
        name=TRAINING_COST, kind=FigureKind.COST, units={COST_UNIT: 1.0}, more_is_better=False
    )
    scores = [
        build_score_metric(name, name not in row.lower_is_better)
        for name in row.training[profile].target
    ]
    return [time, *scores, *build_energy_metrics(TRAINING_ENERGIES), cost]


def list_served_metrics(
    workload: str, row: Benchmark, profile: Profile, scenario: Scenario
) -> list[BoundedMetric]:
    """List what a contract about a scenario can bound; its result first."""
    half = row.inference.get(profile)
    if half is None or scenario not in half.scenarios:
        offered = ", ".join(half.scenarios) if half else ""
        raise RequestError(
            f"{workload} has no scenario {scenario} in profile {profile}; it has:"
            f" {offered or 'none'}"
        )
    rule = half.scenarios[scenario]
    headline = build_headline_metric(scenario, rule)
    costs = [
        BoundedMetric(name=name, kind=FigureKind.COST, units={COST_UNIT: 1.0}, more_is_better=False)
        for unit, name in COSTED_RATES.items()
        if unit in headline.units
    ]
    scores = [build_score_metric(name, more_is_better=True) for name in row.scored_metrics]
    latencies: list[BoundedMetric] = []
    energies = dict(SAMPLE_ENERGIES)
    if rule.token_latencies:
        energies |= TOKEN_ENERGIES
        if scenario is not Scenario.OFFLINE:  # there all queries are issued at once
            latencies = [build_token_metric(name) for name in TOKEN_LATENCIES]
    return [headline, *latencies, *scores, *build_energy_metrics(energies), *costs]


def build_headline_metric(scenario: Scenario, rule: ScenarioRow) -> BoundedMetric:
    """Return the result of a scenario as LoadGen reports it."""
    metric, _ = select_headline_metric(scenario, rule.token_latencies)
    units = {get_rate_unit(metric): 1.0}
    if metric == LATENCY_METRIC:
        metric, units = f"{LATENCY_PREFIX}p{rule.percentile:g}", dict(LATENCY_UNITS)
    return BoundedMetric(
        name=metric,
        kind=FigureKind.HEADLINE,
        units=units,
        more_is_better=is_higher_better(metric),
    )


def build_token_metric(name: str) -> BoundedMetric:
    """Return a latency of tokens, of every answer of a run."""
    return BoundedMetric(
        name=name, kind=FigureKind.TOKEN_LATENCY, units=LATENCY_UNITS, more_is_better=False
    )


def build_energy_metrics(fields: Mapping[str, str]) -> list[BoundedMetric]:
    """Return energies of the whole machine, then those of its GPUs."""
    return [
        BoundedMetric(
            name=f"{prefix}{name}",
            kind=FigureKind.ENERGY,
            units=ENERGY_UNITS,
            more_is_better=False,
            energy_field=field,
        )
        for prefix in ("", GPU_PREFIX)
        for name, field in fields.items()
    ]


def build_score_metric(name: str, more_is_better: bool) -> BoundedMetric:
    """Return a score, which has no unit."""
    return BoundedMetric(
        name=name, kind=FigureKind.SCORE, units={UNITLESS: 1.0}, more_is_better=more_is_better
    )


def compute_cost(amount: float, value: float, metric: str) -> float:
    """Compute what a training, or a million samples or tokens, cost at an hour's price, from
    minutes or from a rate per second.
    """
    if metric == TRAINING_COST:
        return amount * value / MINUTES_PER_HOUR
    return amount * MILLION / (value * S_PER_HOUR)
