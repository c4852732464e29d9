"""A published training round as data: what its results are judged by."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

from suite.rounds import Constraint
from suite.rounds.load import build

PUBLISHED_TABLES: Final = frozenset({"round", "training", "events", "disclosure"})
ROUNDING: Final = 1e-9
"""What division leaves of a whole number of batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRules:
    """Rules of the round that are the same for all benchmarks."""

    published: date
    """The day of the results' publication; runs are from the months before it."""
    init_limit_min: float
    """Minutes of initialisation, from init_start to init_stop, that the clock leaves out."""
    not_converged_allowed: int
    """Runs of a set that may miss the target; each counts as the slowest."""
    drop_each_end: int
    """Fastest and as many slowest runs that the mean leaves out."""
    divisions: tuple[str, ...]
    statuses: tuple[str, ...]
    """What submission_status may be."""
    run_statuses: tuple[str, ...]
    """What run_stop's status may be; the first is success."""
    open_evaluations: int
    """Evaluations at the end of a run that may be without their stop or accuracy."""
    open_blocks: int
    """Blocks or epochs at the end of a run that may be without their stop."""
    runs_from: date | None = None
    """The day from which on runs of the round are usual; those of a round before it may be filed again."""
    init_limit_open_min: float | None = None
    """The same of the open division, where it differs."""
    seeds_required: bool = False
    """Every run logs a seed, with the file and line that drew it."""
    placeholders: bool = False
    """Accepted logs name no organisation, or whose code they ran: only a warning."""
    any_status: bool = False
    """Checkers of the round do not look at submission_status."""
    deviation_without_ends: bool = False
    """The deviation of a reference convergence point leaves out the runs that its mean leaves out."""
    loose: bool = False
    """Logs may begin blocks ahead and count them from 0, mark only where epochs begin, and give two results for the first epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Which events a log has."""

    identity: tuple[str, ...]
    """Exactly one each: who ran what."""
    once: tuple[str, ...]
    """Exactly one record each; a second one, whatever it says, makes two clocks of one."""
    some: tuple[str, ...]
    """At least one record each."""
    samples: tuple[str, ...] = ()
    """At least one record each, where the benchmark has a data set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Quality to reach in the last evaluation (>=, or <= of a metric that is lower the better)."""

    metrics: Mapping[str, float]
    above: Mapping[str, float] = field(default_factory=dict)
    """Metric that is lower the better -> a value that no evaluation has yet been at or below."""
    batch_from: int = 0
    """Holds for a global batch of this size or more; the last that fits counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstEvaluation:
    """When the first evaluation comes: so many samples, in whole batches or whole intervals."""

    samples: float
    per_batch: float
    """Samples for each of a batch."""
    up: bool
    """Rounded up; else down."""
    intervals: bool = False
    """To whole intervals between evaluations; else to whole batches."""

    def at(self, batch: int, interval: int) -> int:
        """Return the samples after which it comes."""
        unit = interval if self.intervals else batch
        exact = (self.samples + self.per_batch * batch) / unit
        return unit * (math.ceil(exact - ROUNDING) if self.up else math.floor(exact + ROUNDING))


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBenchmark:
    """One benchmark's row."""

    title: str
    names: tuple[str, ...]
    """Of folders and in submission_benchmark; the first is the one that results are shown under."""
    metrics: Mapping[str, str]
    """Metric -> its key in a structured eval_accuracy; empty text: the value is the number itself."""
    targets: tuple[Target, ...]
    lower_is_better: tuple[str, ...] = ()
    """Metrics that are errors or losses, from 0 on."""
    joined: bool = False
    """Each metric of an evaluation stands in a record of its own, named in its metadata as `metric`."""
    evaluated_later: bool = False
    """Checkpoints are evaluated after the run; the first that reaches the target counts."""
    progress: tuple[str, ...] = ()
    """Field of the metadata that tells how far a run is; empty: epochs, counted as in v0.6 and v0.7."""
    evaluate_every_samples: int | None = None
    """Samples between two evaluations, rounded up to whole batches."""
    first_evaluation: FirstEvaluation | None = None
    loose_clock: bool = False
    """Events of several processes stand in accepted logs, so that times may go backwards."""
    drop_each_end: int | None = None
    """Where it differs from the round's."""
    not_converged_allowed: int | None = None
    """Where it differs from the round's."""
    init_limit_min: float | None = None
    """Where it differs from the round's."""
    percent: bool = False
    """Logs may give the metric as 0-100."""
    runs: int
    """Runs of a set."""
    evaluate_every_epochs: int | None = None
    """Epochs between two evaluations, at most; None if the rules name epochs, or count something else."""
    evaluation_epochs: tuple[float, ...] = ()
    """The epochs of the evaluations, where the rules name them."""
    evaluation_slack_epochs: float = 0.0
    """Accepted logs give numbers that are higher by as much."""
    strict: bool = True
    """Blocks, epochs and evaluations are numbered in epochs, and paired."""
    data_set: bool = True
    """False where the run makes its own data."""
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Event of a data set's size -> the numbers of samples that it may tell; none if the rules do not fix the number."""
    result_event: str | None = None
    """The event whose metadata's timestamp, in seconds after run_start, is the result, where it is not run_stop."""
    required: tuple[str, ...] = ()
    """Hyper-parameters that a closed log has."""
    required_with: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Optimizer -> hyper-parameters that it adds."""
    method_keys: tuple[str, ...] = ()
    """Hyper-parameters whose metadata says by which method they are kept: truncate or discard."""
    constraints: tuple[Constraint, ...] = ()
    """What the closed division allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disclosure:
    """Settings that logs of either division tell."""

    required: bool
    constraints: tuple[Constraint, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """Name the settings."""
        return tuple(dict.fromkeys(constraint.key for constraint in self.constraints))


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTraining:
    """A published training round, whole."""

    name: str
    title: str
    dialect: str
    """What this round's records begin with."""
    rules: PublishedRules
    events: Presence
    benchmarks: Mapping[str, PublishedBenchmark]
    disclosure: Disclosure | None
    hyperparameters: frozenset[str]
    """Names that any benchmark's rules know."""
    sources: Mapping[str, str]
    """Dotted path of a value in the TOML -> where it comes from."""

    def benchmark(self, name: str | None) -> str | None:
        """Return the canonical name of a benchmark, whatever its case and punctuation; None if the round has none such."""
        if name in self.benchmarks:
            return name
        folded = "".join(letter for letter in (name or "").casefold() if letter.isalnum())
        return next((key for key, row in self.benchmarks.items() if folded in row.names), None)

    def closed_constraints(self, workload: str) -> tuple[Constraint, ...] | None:
        """Return what the closed division allows for a benchmark's hyper-parameters; None if the round has no such benchmark."""
        known = self.benchmark(workload)
        return self.benchmarks[known].constraints if known else None

    def closed_required(self, workload: str, optimizer: object = None) -> tuple[str, ...]:
        """Name the hyper-parameters that a closed log of a benchmark has, with those of its optimizer."""
        known = self.benchmark(workload)
        if known is None:
            return ()
        row = self.benchmarks[known]
        return (*row.required, *row.required_with.get(str(optimizer).casefold(), ()))

    def source(self, path: str) -> str:
        """Say where the value at a dotted path comes from, or the nearest table around it."""
        while path not in self.sources and "." in path:
            path = path.rpartition(".")[0]
        return self.sources.get(path, f"round {self.name}")


def from_tables(name: str, tables: Mapping[str, Any], sources: Mapping[str, str]) -> PublishedTraining:
    """Check a round's tables, sources taken out; RequestError names the path of what does not fit."""
    benchmarks = {key: build(PublishedBenchmark, table, key) for key, table in tables.items() if key not in PUBLISHED_TABLES}
    return PublishedTraining(
        name=name,
        title=tables["round"]["title"],
        dialect=tables["round"]["dialect"],
        rules=build(PublishedRules, tables["training"], "training"),
        events=build(Presence, tables["events"], "events"),
        benchmarks=benchmarks,
        disclosure=build(Disclosure, tables["disclosure"], "disclosure") if "disclosure" in tables else None,
        hyperparameters=frozenset(name for row in benchmarks.values() for name in names_in(row)),
        sources=sources,
    )


def names_in(row: PublishedBenchmark) -> Iterator[str]:
    """Name the hyper-parameters that a benchmark's rules know."""
    yield from row.required
    for names in row.required_with.values():
        yield from names
    yield from (constraint.key for constraint in row.constraints)
