"""A published inference round since v1.0 as data: seeds, durations, and each benchmark's quality, samples and latency bound."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

from suite.rounds.load import build

SERVED_TABLES: Final = frozenset({"round", "served", "mapping"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRoundRules:
    """Rules for all benchmarks."""

    published: date
    min_duration_ms: int
    """Minimum duration of every performance run."""
    server_result: str
    """The Server rate that counts: of scheduled samples, or of completed ones."""
    qsl_rng_seed: int
    sample_index_rng_seed: int
    schedule_rng_seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """One benchmark's row."""

    accuracy: Mapping[str, float] = field(default_factory=dict)
    """Metric, as named by the round's checker -> minimum of a closed result."""
    accuracy_most: Mapping[str, float] = field(default_factory=dict)
    """Metric -> maximum of a closed result."""
    performance_samples: int | None = None
    """Minimum number of samples that LoadGen has loaded."""
    server_bound_ns: int | None = None
    """Bound of the 99th percentile in Server, if LoadGen has no token bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedNames:
    """Other names of benchmarks."""

    names: Mapping[str, str] = field(default_factory=dict)
    """Model's folder -> benchmark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRound:
    """A complete published inference round since v1.0."""

    name: str
    title: str
    rules: ServedRoundRules
    mapping: ServedNames
    models: Mapping[str, ServedModel]
    sources: Mapping[str, str]
    """Dotted path of a value in the TOML -> its source."""

    def benchmark_of(self, folder: str) -> str | None:
        """Return the benchmark of a model's folder; None if the round does not have it."""
        return folder if folder in self.models else self.mapping.names.get(folder)


def from_tables(name: str, tables: Mapping[str, Any], sources: Mapping[str, str]) -> ServedRound:
    """Validate a round's tables, sources removed; RequestError names the path of an invalid value."""
    return ServedRound(
        name=name,
        title=tables["round"]["title"],
        rules=build(ServedRoundRules, tables["served"], "served"),
        mapping=build(ServedNames, tables["mapping"], "mapping"),
        models={key: build(ServedModel, table, key) for key, table in tables.items() if key not in SERVED_TABLES},
        sources=sources,
    )
