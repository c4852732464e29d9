"""A published inference round since v1.0 as data: seeds, durations, and each benchmark's quality,
samples and latency bound.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from typing import Any, Final

from suite import registry
from suite.rounds.load import build_typed_value

INFERENCE_MLLOG_TABLES: Final = frozenset({"round", "rules", "mapping"})


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceMllogRules:
    """Rules for all benchmarks."""

    published: date
    min_duration_ms: int
    """Minimum duration of every performance run."""
    server_result: str
    """The Server rate that counts: of scheduled samples, or of completed ones."""
    qsl_rng_seed: int
    sample_index_rng_seed: int
    schedule_rng_seed: int
    draws_known: bool = False
    """Every published accuracy log of the round has the order that its seeds draw."""
    offline_span_known: bool = False
    """Every published Offline run of the round lasts as long as its highest latency."""
    test05_seeds: Mapping[str, int] = field(default_factory=dict)
    """Seeds of TEST05, by LoadGen's names; empty if the round does not have the test."""
    test_runs_logged: bool = False
    """The round's checker only logged what was wrong in the run of a compliance test, and looked
    for its outcome and its files.
    """
    early_stopping: bool = False
    """LoadGen's early stopping decides whether enough queries were processed; it estimates the
    latencies that count.
    """
    offline_samples: int | None = None
    """Minimum number of samples of Offline's query; a benchmark may have its own."""
    together: bool = False
    """Measurements and compliance tests are in the folder of the results, and not in trees of their
    own.
    """
    measurement_files: tuple[str, ...] = ()
    measurement_fields: tuple[str, ...] = ()
    system_fields: tuple[str, ...] = ()
    meaningful: bool = False
    """Fields of measurements and of descriptions must not be empty."""
    statuses: tuple[str, ...] = ()
    """Values of a system's `status`."""
    accuracy_log_bytes: int | None = None
    """Size to which accuracy logs are cut before they are filed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceMllogModel:
    """One benchmark's row. Scenarios are named as their folders are: Server, Offline, SingleStream,
    MultiStream, Interactive.
    """

    accuracy: Mapping[str, float] = field(default_factory=dict)
    """Metric, as named by the round's checker -> minimum of a closed result."""
    accuracy_in: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Scenario -> other minimums."""
    endpoints_scale: float = 1.0
    """Factor from the Endpoints client's score to the row's unit: 100 where the client writes a
    fraction and the row per cent.
    """
    endpoints_data_sets: tuple[str, ...] = ()
    """The Endpoints client's names of the benchmark's data sets, and of their parts."""
    accuracy_most: Mapping[str, float] = field(default_factory=dict)
    """Metric -> maximum of a closed result."""
    accuracy_samples: int | None = None
    """Size of the accuracy set; None: the round does not check it."""
    accuracy_samples_in: Mapping[str, int] = field(default_factory=dict)
    """Scenario -> another size."""
    performance_samples: int | None = None
    """Minimum number of samples that LoadGen has loaded."""
    offline_samples: int | None = None
    """Minimum number of samples of Offline's query; None: the round's."""
    bounds_ns: Mapping[str, int] = field(default_factory=dict)
    """Scenario -> bound of the 99th percentile of latencies, if LoadGen has no token bounds."""
    token_latencies: bool = False
    """LoadGen measures latencies of tokens."""
    first_token_ns: Mapping[str, int] = field(default_factory=dict)
    """Scenario -> bound of the 99th percentile of the time to the first token (TTFT)."""
    per_token_ns: Mapping[str, int] = field(default_factory=dict)
    """Scenario -> bound of the 99th percentile of the time per output token (TPOT)."""
    most_tokens: int | None = None
    """The longest answer, in tokens, that the reference asks of the model; None: not known here."""
    equal_issue: bool = False
    """Each sample is issued equally often."""
    equal_issue_except: tuple[str, ...] = ()
    """Scenarios of which that is not asked."""
    required: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Category of a system (datacenter, edge, both) -> scenarios that a closed system must file."""
    optional: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Category -> scenarios that it may file; of Server and Interactive, where both are here, it
    must file one.
    """
    tests: tuple[str, ...] = ()
    """Compliance tests of a closed result."""

    def find_minimums(self, scenario: str | None) -> Mapping[str, float]:
        """Return the minimum of each metric in a scenario."""
        return self.accuracy_in.get(scenario or "", self.accuracy)

    def find_accuracy_samples(self, scenario: str | None) -> int | None:
        """Return the size of the accuracy set in a scenario; None: the round does not check it."""
        return self.accuracy_samples_in.get(scenario or "", self.accuracy_samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceMllogNames:
    """Other names of benchmarks."""

    names: Mapping[str, str] = field(default_factory=dict)
    """Model's folder -> benchmark."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Part of a folder's name -> benchmark; the first match counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceMllogRound:
    """A complete published inference round since v1.0."""

    name: str
    title: str
    rules: InferenceMllogRules
    mapping: InferenceMllogNames
    models: Mapping[str, InferenceMllogModel]
    sources: Mapping[str, str]
    """Dotted path of a value in the TOML -> its source."""

    def find_benchmark(self, folder: str) -> str | None:
        """Return the benchmark of a model's folder; None if the round does not have it."""
        named = folder if folder in self.models else self.mapping.names.get(folder)
        return named or next(
            (benchmark for part, benchmark in self.mapping.parts.items() if part in folder), None
        )

    def find_offline_samples(self, model: InferenceMllogModel | None) -> int | None:
        """Return the minimum number of samples of Offline's query; None if there is none."""
        own = None
        if model:
            own = model.offline_samples
        if own is None:
            return self.rules.offline_samples
        return own


def build_inference_mllog_round(
    name: str, tables: Mapping[str, Any], sources: Mapping[str, str]
) -> InferenceMllogRound:
    """Validate a round's tables, sources removed; RequestError names the path of an invalid
    value.
    """
    return InferenceMllogRound(
        name=name,
        title=tables["round"]["title"],
        rules=build_typed_value(InferenceMllogRules, tables["rules"], "rules"),
        mapping=build_typed_value(InferenceMllogNames, tables["mapping"], "mapping"),
        models={
            key: build_typed_value(InferenceMllogModel, table, key)
            for key, table in tables.items()
            if key not in INFERENCE_MLLOG_TABLES
        },
        sources=sources,
    )


@cache
def load_inference_mllog_round(name: str) -> InferenceMllogRound:
    """Load a round of this kind."""
    tables = registry.collect_round_tables(name, "compliance.kinds.inference_mllog.rounds")
    return build_inference_mllog_round(name, *tables)
