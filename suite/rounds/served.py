"""A published inference round since v1.0 as data: seeds, durations, and each benchmark's quality, samples and latency bound."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

from suite.rounds.load import build

SERVED_TABLES: Final = frozenset({"round", "served", "mapping"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRoundRules:
    """What holds for all benchmarks."""

    published: date
    min_duration_ms: int
    """Of every performance run."""
    server_result: str
    """Which rate of Server counts: that of scheduled samples, or of completed ones."""
    qsl_rng_seed: int
    sample_index_rng_seed: int
    schedule_rng_seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """One benchmark's row."""

    accuracy: Mapping[str, float] = field(default_factory=dict)
    """Metric, as the round's checker calls it -> what a closed result reaches at least."""
    accuracy_most: Mapping[str, float] = field(default_factory=dict)
    """Metric -> what it is at most."""
    performance_samples: int | None = None
    """Samples that LoadGen has loaded at least."""
    server_bound_ns: int | None = None
    """Of the 99th percentile in Server, where LoadGen has no bounds of tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedNames:
    """What else benchmarks are called."""

    names: Mapping[str, str] = field(default_factory=dict)
    """Model's folder -> benchmark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRound:
    """A published inference round since v1.0, whole."""

    name: str
    title: str
    rules: ServedRoundRules
    mapping: ServedNames
    models: Mapping[str, ServedModel]
    sources: Mapping[str, str]
    """Dotted path of a value in the TOML -> where it comes from."""

    def benchmark_of(self, folder: str) -> str | None:
        """Name the benchmark of a model's folder; None if the round has none such."""
        return folder if folder in self.models else self.mapping.names.get(folder)


def from_tables(name: str, tables: Mapping[str, Any], sources: Mapping[str, str]) -> ServedRound:
    """Check a round's tables, sources taken out; RequestError names the path of what does not fit."""
    return ServedRound(
        name=name,
        title=tables["round"]["title"],
        rules=build(ServedRoundRules, tables["served"], "served"),
        mapping=build(ServedNames, tables["mapping"], "mapping"),
        models={key: build(ServedModel, table, key) for key, table in tables.items() if key not in SERVED_TABLES},
        sources=sources,
    )
