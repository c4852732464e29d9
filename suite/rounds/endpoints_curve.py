"""A round of MLPerf Endpoints as data: regions, durations, seed sets, power, and each benchmark's
data sets and quality.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from suite.rounds.load import build_typed_value

ENDPOINTS_TABLES: Final = frozenset({"round", "rules", "regions", "power", "seeds", "open"})
LOG_PARTS: Final = 3
"""The regions above C_min are thirds of a logarithmic scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointsRules:
    """Rules for all curves."""

    divisions: tuple[str, ...]
    regions: tuple[str, ...]
    """Values of a point's `region`."""
    offline_values: tuple[str, ...]
    """Values of a point's `offline`."""
    min_duration_ms: int
    """Minimum duration up to `ultra_low_concurrency` requests in flight ..."""
    min_duration_above_ms: int
    """... and of more."""
    min_agentic_duration_ms: int
    """... and of more in an agentic benchmark."""
    max_warm_up_s: int
    min_points: int
    """Minimum number of points of a curve with an Offline run of its own ..."""
    min_points_without_offline_run: int
    """... and of one without."""
    max_points: int
    accuracy_regions: tuple[str, ...]
    """Regions of which each has exactly one point with an accuracy run."""
    min_passes: int
    """Minimum number of passes over the data set in a steady window."""
    offline_share: float
    """Minimum rate of the Offline run, as a share of that of the point at C_max."""
    cohorts_per_set: int
    """Cohorts in which a set of seeds may be adopted, beginning with its own."""
    foreign_data_sets: tuple[str, ...]
    """Data sets that are known, and of no benchmark of the round."""
    disclosed_fields: tuple[str, ...]
    """Fields that each point.yaml has."""
    system_fields: tuple[str, ...]
    """Fields that each system's description has ..."""
    node_fields: tuple[str, ...]
    """... and each type of node in it."""
    max_short_name: int
    """Maximum number of characters in the short name of a system."""
    drafter_lead_cohorts: int
    """Minimum number of cohorts between the approval of a drafter and its use."""
    system_fields_of_points: tuple[str, ...]
    """Fields of a system's description that may differ between the points of a curve."""
    relative_tolerance: float
    """Of a stated rate against the recomputed one."""
    utilization_tolerance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionRules:
    """How concurrencies are divided into regions."""

    ultra_low_concurrency: int
    """Highest concurrency of the lowest region, and the limit of C_min."""
    margin: float
    """Factor on C_max up to which points are allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerRules:
    """How the provisioned power of a system is computed."""

    overhead: Mapping[str, float]
    """Kind of cooling -> share that is added to the power of the major components."""
    optional_divisions: tuple[str, ...]
    cpu_watts: Mapping[str, tuple[float, ...]]
    """Architecture -> MLCommons' estimate of a processor's power, up to `cpu_cores` and, if there
    is a second one, above.
    """
    cpu_cores: Mapping[str, int]
    accelerator_watts: Mapping[str, float]
    """Part of a name, the most specific first -> MLCommons' estimate."""
    switch_watts: Mapping[str, Mapping[str, float]]
    """Part of a name -> cabling -> MLCommons' estimate."""
    nic_watts: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedSet:
    """Published seeds; a submission uses exactly one set."""

    cohort: str
    scheduler_rng_seed: int
    sample_index_rng_seed: int
    model_seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuestion:
    """A point on which the rules' text, the client and the official checker disagree."""

    rules: str
    client: str
    checker: str
    judged: str
    """What podium does."""
    rule: str
    """podium's rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointsModel:
    """One benchmark's row."""

    accuracy: Mapping[str, float] = field(default_factory=dict)
    """Metric -> minimum."""
    accuracy_most: Mapping[str, float] = field(default_factory=dict)
    """Metric -> maximum."""
    accuracy_scale: float = 1.0
    """Factor from the client's score to the row's unit."""
    accuracy_samples: int | None = None
    drafters: Mapping[str, str] = field(default_factory=dict)
    """Checksum of the weights of an approved drafter -> cohort of its approval."""
    most_tokens: int | None = None
    """Tokens that the reference lets an answer have."""
    data_sets: Mapping[str, int] = field(default_factory=dict)
    """Performance data set -> samples; the first one is the benchmark's own."""
    accuracy_data_sets: tuple[str, ...] = ()
    """Other data sets of its accuracy run, and the parts of those."""
    agentic: bool = False
    inline_accuracy: float | None = None
    """Minimum of each point's own score, of an agentic benchmark."""
    mean_accuracy: Mapping[str, float] = field(default_factory=dict)
    """Data set -> minimum of the mean over the accuracy points."""
    turn_tokens: tuple[float, ...] = ()
    """Least and most mean tokens per turn."""

    @property
    def samples(self) -> int | None:
        """Return the size of the benchmark's own data set; None if no text says it."""
        return next(iter(self.data_sets.values()), None)

    @property
    def data_set(self) -> str | None:
        """Return the name of the benchmark's own data set; None if no text says it."""
        return next(iter(self.data_sets), None)

    def names_own_data_set(self, text: str) -> bool:
        """Return whether a text names a data set of the benchmark."""
        folded = fold_data_set_name(text)
        return any(fold_data_set_name(each) in folded for each in self.data_sets)

    def names_own_accuracy_set(self, text: str) -> bool:
        """Return whether a text names a data set of the benchmark's accuracy run."""
        folded = fold_data_set_name(text)
        own = (fold_data_set_name(each) for each in self.accuracy_data_sets)
        return self.names_own_data_set(text) or any(each in folded for each in own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Regions:
    """The regions of one curve: the highest concurrency of each."""

    c_min: int
    low_end: int
    medium_end: int
    c_max: int
    margin_end: int

    def find_region(self, concurrency: int) -> str | None:
        """Return the region of a concurrency; None above the margin."""
        ends = {
            "low_latency": self.c_min,
            "low_concurrency": self.low_end,
            "med_concurrency": self.medium_end,
            "high_concurrency": self.c_max,
            "margin": self.margin_end,
        }
        return next((name for name, end in ends.items() if 1 <= concurrency <= end), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointsRound:
    """A complete round of MLPerf Endpoints."""

    name: str
    title: str
    rules: EndpointsRules
    regions: RegionRules
    power: PowerRules
    seeds: Mapping[str, SeedSet]
    open: Mapping[str, OpenQuestion]
    models: Mapping[str, EndpointsModel]
    """Name in `model_name` and in the tree -> row."""
    sources: Mapping[str, str]
    """Dotted path of a value in the TOML -> its source."""

    def find_model(self, name: str | None) -> EndpointsModel | None:
        """Return the row of a benchmark by the name of its folder, or by a spelling of it: dots for
        underscores, capitals, or the publisher before it.
        """
        if not name:
            return None
        wanted = fold_model_name(name)
        return next(
            (row for known, row in self.models.items() if fold_model_name(known) == wanted), None
        )

    def find_model_name(self, name: str) -> str | None:
        """Return the name that a submission gives a benchmark, with underscores for dots, by any
        spelling of it; None if it is no benchmark of the round.

        Source: Endpoints rules, 8.1.
        """
        wanted = fold_model_name(name)
        return next(
            (known.replace(".", "_") for known in self.models if fold_model_name(known) == wanted),
            None,
        )

    def find_other_data_set(self, model: EndpointsModel, text: str) -> str | None:
        """Return the data set that a text names, if it is not the benchmark's own: another
        benchmark's anywhere in the text, or one of no benchmark as the whole of it, but for a
        variant behind colons. None for words that name no known one.
        """
        if model.names_own_data_set(text):
            return None
        folded, whole = fold_data_set_name(text), fold_data_set_name(text.partition("::")[0])
        others = (name for row in self.models.values() for name in row.data_sets)
        found = next((name for name in others if fold_data_set_name(name) in folded), None)
        foreign = self.rules.foreign_data_sets
        return found or next((each for each in foreign if fold_data_set_name(each) == whole), None)

    def find_other_accuracy_set(self, model: EndpointsModel, text: str) -> str | None:
        """Return the data set that a text names, if it is another benchmark's, or known and of
        none; None for the benchmark's own, and for words that name no known one.
        """
        if model.names_own_accuracy_set(text):
            return None
        folded = fold_data_set_name(text)
        others = (name for row in self.models.values() for name in row.accuracy_data_sets)
        found = next((name for name in others if fold_data_set_name(name) in folded), None)
        return found or self.find_other_data_set(model, text)

    def find_min_duration_ms(self, concurrency: int, agentic: bool) -> int:
        """Return the minimum duration of a point."""
        if concurrency <= self.regions.ultra_low_concurrency:
            return self.rules.min_duration_ms
        if agentic:
            return self.rules.min_agentic_duration_ms
        return self.rules.min_duration_above_ms

    def compute_regions(self, c_min: int, c_max: int) -> Regions | None:
        """Divide the concurrencies of a curve; None if C_min or C_max is out of range.

        Source: Endpoints rules, 5.5: I = log2(C_max - C_min) / 3; ends at round(C_min + 2^I) and
        round(C_min + 2^(2 I)), half to even; the margin ends at ceil(1.10 * C_max) in floating
        point, which may be 1 above that of exact numbers.
        """
        limit = self.regions.ultra_low_concurrency
        if not 1 <= c_min <= limit < c_max:
            return None
        interval = math.log2(c_max - c_min) / LOG_PARTS
        return Regions(
            c_min=c_min,
            low_end=round(c_min + 2**interval),
            medium_end=round(c_min + 2 ** (2 * interval)),
            c_max=c_max,
            margin_end=math.ceil(self.regions.margin * c_max),
        )


def fold_model_name(name: str) -> str:
    """Return a benchmark's name without its publisher, punctuation and case."""
    return "".join(each for each in name.rsplit("/", 1)[-1].casefold() if each.isalnum())


def fold_data_set_name(name: str) -> str:
    """Return a data set's name without punctuation and case."""
    return "".join(each for each in name.casefold() if each.isalnum())


def build_endpoints_round(
    name: str, tables: Mapping[str, Any], sources: Mapping[str, str]
) -> EndpointsRound:
    """Validate a round's tables, sources removed; RequestError names the path of an invalid
    value.
    """
    return EndpointsRound(
        name=name,
        title=tables["round"]["title"],
        rules=build_typed_value(EndpointsRules, tables["rules"], "rules"),
        regions=build_typed_value(RegionRules, tables["regions"], "regions"),
        power=build_typed_value(PowerRules, tables["power"], "power"),
        seeds=build_typed_value(Mapping[str, SeedSet], tables["seeds"], "seeds"),
        open=build_typed_value(Mapping[str, OpenQuestion], tables["open"], "open"),
        models={
            key: build_typed_value(EndpointsModel, table, key)
            for key, table in tables.items()
            if key not in ENDPOINTS_TABLES
        },
        sources=sources,
    )
