"""A published inference round as data: the rules for judging its results."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from typing import Any, Final

from suite import registry
from suite.loadgen.scenario import Scenario
from suite.rounds.load import build_typed_value

INFERENCE_ROUND_TABLES: Final = frozenset(
    {"round", "loadgen", "minimums", "scenarios", "filing", "audit", "mapping"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceTextLoadGenRules:
    """LoadGen settings required of every run in the round."""

    inferred: tuple[Scenario, ...] = ()
    """Scenarios whose edge results may be inferred from SingleStream's logs, which are filed in
    their place.
    """

    qsl_rng_seed: int
    sample_index_rng_seed: int
    schedule_rng_seed: int
    accepted_errors: tuple[str, ...]
    """Names in suite/loadgen/loadgen_errors.py of errors that are accepted in addition to the
    harmless ones.
    """
    versions: tuple[str, ...]
    """LoadGen's version numbers; empty: any."""
    revisions: Mapping[str, tuple[str, ...]]
    """SHA-1 of loadgen.cc -> the git revisions that contain it; empty: any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceTextMinimums:
    """Minimum duration and counts of every performance run."""

    min_duration_ms: int
    offline_samples: int
    """Samples of Offline's one query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceTextScenario:
    """Rules of a scenario, for one benchmark or for all; a benchmark inherits what it does not
    set.
    """

    percentile: float
    """0-100: share of the latencies that must meet the bound, or percentile of the latency that is
    the result.
    """
    min_queries: int
    bound_ns: int | None = None
    """Server: bound of a query's latency. MultiStream: time between two queries."""
    runs: int = 1
    fewest_runs: int | None = None
    """Set if the round's text requires fewer runs than its checker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceTextBenchmark:
    """One benchmark's row."""

    title: str
    names: tuple[str, ...]
    """Other names of the benchmark in folders and LoadGen's configuration files."""
    metric: str
    """accuracy, mAP, BLEU, F1, AUC, WER or DICE, as in the reference's accuracy script."""
    reference: float
    """Quality of the reference model in fp32, in the unit of accuracy.txt (percent, BLEU, or a
    mean).
    """
    share: float
    """0-1: share of the reference that a closed result must reach."""
    accuracy_samples: tuple[int, ...]
    """Allowed sizes of the accuracy set; empty: any."""
    performance_samples: int
    """Minimum number of samples that LoadGen has loaded."""
    scenarios: Mapping[Scenario, InferenceTextScenario]
    required: Mapping[str, tuple[Scenario, ...]] = field(default_factory=dict)
    """System type (datacenter, edge) -> scenarios that a closed system must file."""

    @property
    def threshold(self) -> float:
        """Minimum quality of a closed result."""
        return self.reference * self.share


@dataclass(frozen=True, slots=True, kw_only=True)
class FilingRules:
    """Files and fields that must be filed."""

    published: date
    """The day the results were published; runs date from the months before it."""
    performance_files: tuple[str, ...]
    optional_performance_files: tuple[str, ...]
    accuracy_files: tuple[str, ...]
    measurement_files: tuple[str, ...]
    measurement_fields: tuple[str, ...]
    system_fields: tuple[str, ...]
    optional_system_fields: tuple[str, ...]
    other_system_fields: Mapping[str, str]
    """System field -> the field that may replace it."""
    statuses: tuple[str, ...]
    system_types: tuple[str, ...]
    """Values of `system_type`; empty if the round has no such field."""
    tests_folder: str
    """Folder of the compliance tests."""
    code_optional: bool = False
    """A benchmark without code gets a note but counts."""
    audits_checked: bool = False
    """The round's own checker reads the outcome of compliance tests."""
    truncated_accuracy_bytes: int | None = None
    """Size to which accuracy logs are truncated before filing, with the full log's hash in
    accuracy.txt; None: filed whole.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedAuditTest:
    """One compliance test of the round."""

    settings: Mapping[str, bool | int | float]
    """LoadGen settings in its audit.config."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMapping:
    """Maps a model's folder to a benchmark, in either division, if it has another name."""

    names: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    """Part of a name -> benchmark; the first match counts."""

    def find_benchmark(self, name: str) -> str | None:
        """Return the benchmark of a model; None if nothing matches."""
        return self.names.get(name) or next(
            (benchmark for part, benchmark in self.parts.items() if part in name), None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceTextRound:
    """A complete published inference round."""

    name: str
    title: str
    loadgen: InferenceTextLoadGenRules
    minimums: InferenceTextMinimums
    scenarios: Mapping[Scenario, InferenceTextScenario]
    """Rules for a benchmark that is not known."""
    filing: FilingRules
    audit: Mapping[str, PublishedAuditTest]
    mapping: ModelMapping
    benchmarks: Mapping[str, InferenceTextBenchmark]
    sources: Mapping[str, str]
    """Dotted path of a value in the TOML -> its source."""

    def find_benchmark(self, folder: str, division: str | None) -> str | None:
        """Return the benchmark of a model's folder; models of the open division may have any name.
        None if there is none.
        """
        name = folder.casefold()
        known = name if name in self.benchmarks else self.mapping.find_benchmark(name)
        if known or division == "closed":
            return known
        exact = next((key for key, row in self.benchmarks.items() if name in row.names), None)
        return exact or next(
            (
                key
                for key, row in self.benchmarks.items()
                if any(name.startswith(other) for other in (key, *row.names))
            ),
            None,
        )

    def find_scenario_rules(
        self, benchmark: str | None, scenario: Scenario
    ) -> InferenceTextScenario | None:
        """Return the rules of a scenario; None if the benchmark does not have it."""
        row = None
        if benchmark:
            row = self.benchmarks.get(benchmark)
        if row:
            return row.scenarios.get(scenario)
        return self.scenarios.get(scenario)

    def find_source(self, path: str) -> str:
        """Return the source of the value at a dotted path, or of the nearest enclosing table."""
        while path not in self.sources and "." in path:
            path = path.rpartition(".")[0]
        return self.sources.get(path, f"round {self.name}")


def build_inference_text_round(
    name: str, tables: Mapping[str, Any], sources: Mapping[str, str]
) -> InferenceTextRound:
    """Validate a round's tables, sources removed; RequestError names the path of an invalid
    value.
    """
    return InferenceTextRound(
        name=name,
        title=tables["round"]["title"],
        loadgen=build_typed_value(InferenceTextLoadGenRules, tables["loadgen"], "loadgen"),
        minimums=build_typed_value(InferenceTextMinimums, tables["minimums"], "minimums"),
        scenarios=build_typed_value(
            Mapping[Scenario, InferenceTextScenario], tables["scenarios"], "scenarios"
        ),
        filing=build_typed_value(FilingRules, tables["filing"], "filing"),
        audit=build_typed_value(Mapping[str, PublishedAuditTest], tables["audit"], "audit"),
        mapping=build_typed_value(ModelMapping, tables.get("mapping", {}), "mapping"),
        benchmarks={
            key: build_typed_value(InferenceTextBenchmark, table, key)
            for key, table in tables.items()
            if key not in INFERENCE_ROUND_TABLES
        },
        sources=sources,
    )


@cache
def load_inference_text_round(name: str) -> InferenceTextRound:
    """Load a round of this kind."""
    tables = registry.collect_round_tables(name, "compliance.kinds.inference_text.rounds")
    return build_inference_text_round(name, *tables)
