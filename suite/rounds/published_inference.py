"""A published inference round as data: what its results are judged by."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

from suite.loadgen.scenario import Scenario
from suite.rounds.load import build

PUBLISHED_TABLES: Final = frozenset({"round", "loadgen", "minimums", "scenarios", "filing", "audit", "mapping"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRules:
    """What LoadGen is asked for in every run of the round."""

    inferred: tuple[Scenario, ...] = ()
    """Scenarios whose results on edge systems may be inferred from SingleStream's logs, which are filed in their place."""

    qsl_rng_seed: int
    sample_index_rng_seed: int
    schedule_rng_seed: int
    accepted_errors: tuple[str, ...]
    """Names in suite/loadgen/loadgen_errors.py of errors that are accepted, beside the harmless ones."""
    versions: tuple[str, ...]
    """LoadGen's version numbers; empty: any."""
    revisions: Mapping[str, tuple[str, ...]]
    """SHA-1 of loadgen.cc -> the git revisions that have it; empty: any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedMinimums:
    """What every performance run lasts at least."""

    min_duration_ms: int
    offline_samples: int
    """Samples of Offline's one query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedScenario:
    """A scenario of a benchmark, or of all: what a benchmark does not say of its own is that of all."""

    percentile: float
    """0-100: share of the latencies that hold the bound, or the latency that is the result."""
    min_queries: int
    bound_ns: int | None = None
    """Server: of a query's latency. MultiStream: time between two queries."""
    runs: int = 1
    fewest_runs: int | None = None
    """Where the round's text asks for fewer runs than its checker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedBenchmark:
    """One benchmark's row."""

    title: str
    names: tuple[str, ...]
    """Other names that its folders, and LoadGen's configuration files, have for it."""
    metric: str
    """accuracy, mAP, BLEU, F1, AUC, WER or DICE, as the reference's accuracy script calls it."""
    reference: float
    """Quality of the reference model in fp32, in the unit of accuracy.txt (percent, BLEU, or a mean)."""
    share: float
    """0-1: share of the reference that a closed result reaches."""
    accuracy_samples: tuple[int, ...]
    """Sizes that the accuracy set may have; empty: not fixed."""
    performance_samples: int
    """Samples that LoadGen has loaded at least."""
    scenarios: Mapping[Scenario, ServedScenario]
    required: Mapping[str, tuple[Scenario, ...]] = field(default_factory=dict)
    """System type (datacenter, edge) -> scenarios that a closed system files."""

    @property
    def threshold(self) -> float:
        """Quality that a closed result reaches at least."""
        return self.reference * self.share


@dataclass(frozen=True, slots=True, kw_only=True)
class Filing:
    """Which files and fields are filed."""

    published: date
    """The day of the results' publication; runs are from the months before it."""
    performance_files: tuple[str, ...]
    optional_performance_files: tuple[str, ...]
    accuracy_files: tuple[str, ...]
    measurement_files: tuple[str, ...]
    measurement_fields: tuple[str, ...]
    system_fields: tuple[str, ...]
    optional_system_fields: tuple[str, ...]
    other_system_fields: Mapping[str, str]
    """System field -> the one that may stand in its place."""
    statuses: tuple[str, ...]
    system_types: tuple[str, ...]
    """Values of `system_type`; empty if the round has no such field."""
    tests_folder: str
    """Where compliance tests are filed."""
    code_optional: bool = False
    """A benchmark without code is told, and counts."""
    truncated_accuracy_bytes: int | None = None
    """Size to which accuracy logs are cut before they are filed, their hash being told in accuracy.txt; None: filed whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTest:
    """One compliance test of the round."""

    settings: Mapping[str, bool | int | float]
    """What its audit.config makes LoadGen do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMapping:
    """Which benchmark a model's folder stands for in either division, where it has another name."""

    names: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    """Part of a name -> benchmark; the first that fits counts."""

    def benchmark(self, name: str) -> str | None:
        """Name the benchmark of a model; None if nothing fits."""
        return self.names.get(name) or next((benchmark for part, benchmark in self.parts.items() if part in name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedInference:
    """A published inference round, whole."""

    name: str
    title: str
    loadgen: ServedRules
    minimums: ServedMinimums
    scenarios: Mapping[Scenario, ServedScenario]
    """What holds where the benchmark is not known."""
    filing: Filing
    audit: Mapping[str, AuditTest]
    mapping: ModelMapping
    benchmarks: Mapping[str, ServedBenchmark]
    sources: Mapping[str, str]
    """Dotted path of a value in the TOML -> where it comes from."""

    def benchmark_of(self, folder: str, division: str | None) -> str | None:
        """Name the benchmark that a model's folder is filed under; the open division has models of any name. None: no such."""
        name = folder.casefold()
        known = name if name in self.benchmarks else self.mapping.benchmark(name)
        if known or division == "closed":
            return known
        exact = next((key for key, row in self.benchmarks.items() if name in row.names), None)
        return exact or next((key for key, row in self.benchmarks.items() if any(name.startswith(other) for other in (key, *row.names))), None)

    def rule(self, benchmark: str | None, scenario: Scenario) -> ServedScenario | None:
        """Return what holds for a scenario; None if the benchmark has no such scenario."""
        row = self.benchmarks.get(benchmark) if benchmark else None
        return row.scenarios.get(scenario) if row else self.scenarios.get(scenario)

    def source(self, path: str) -> str:
        """Say where the value at a dotted path comes from, or the nearest table around it."""
        while path not in self.sources and "." in path:
            path = path.rpartition(".")[0]
        return self.sources.get(path, f"round {self.name}")


def from_tables(name: str, tables: Mapping[str, Any], sources: Mapping[str, str]) -> PublishedInference:
    """Check a round's tables, sources taken out; RequestError names the path of what does not fit."""
    return PublishedInference(
        name=name,
        title=tables["round"]["title"],
        loadgen=build(ServedRules, tables["loadgen"], "loadgen"),
        minimums=build(ServedMinimums, tables["minimums"], "minimums"),
        scenarios=build(Mapping[Scenario, ServedScenario], tables["scenarios"], "scenarios"),
        filing=build(Filing, tables["filing"], "filing"),
        audit=build(Mapping[str, AuditTest], tables["audit"], "audit"),
        mapping=build(ModelMapping, tables.get("mapping", {}), "mapping"),
        benchmarks={key: build(ServedBenchmark, table, key) for key, table in tables.items() if key not in PUBLISHED_TABLES},
        sources=sources,
    )
