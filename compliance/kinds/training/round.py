"""A published training round as data: the rules for judging its results."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from itertools import chain
from typing import Any, Final

from suite import registry
from suite.rounds import Constraint
from suite.rounds.load import build_typed_value

TRAINING_ROUND_TABLES: Final = frozenset({"round", "training", "events", "disclosure"})
BATCH_ROUNDING_ERROR: Final = 1e-9
"""Rounding error left after dividing into whole batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRules:
    """Rules of the round that are the same for all benchmarks."""

    published: date
    """The day the results were published; runs date from the months before it."""
    init_limit_min: float
    """Minutes of initialisation, from init_start to init_stop, that are not timed."""
    not_converged_allowed: int
    """Runs of a set that may miss the target; each counts as the slowest."""
    drop_each_end: int
    """Number of fastest runs, and of slowest runs, that the mean drops."""
    divisions: tuple[str, ...]
    statuses: tuple[str, ...]
    """Allowed values of submission_status."""
    run_statuses: tuple[str, ...]
    """Allowed values of run_stop's status; the first is success."""
    open_evaluations: int
    """Evaluations at the end of a run that may lack their stop or accuracy."""
    open_blocks: int
    """Blocks or epochs at the end of a run that may lack their stop."""
    runs_from: date | None = None
    """Earliest usual day for runs of the round; runs of an earlier round may be filed again."""
    init_limit_open_min: float | None = None
    """The same for the open division, if it differs."""
    seeds_required: bool = False
    """Every run must log a seed, with the file and line that drew it."""
    placeholders: bool = False
    """Accepted logs lack the organisation, or whose code they ran: only a warning."""
    any_status: bool = False
    """The round's checkers ignore submission_status."""
    deviation_without_ends: bool = False
    """The standard deviation of a reference convergence point drops the same runs as its mean."""
    system_fields: tuple[str, ...] = ()
    """Fields that a system description must have beside its names; empty: the few that each round
    asks for.
    """
    system_statuses: tuple[str, ...] = ()
    """The only texts that a description's status may be; empty: any that has one of the usual words
    in it.
    """
    system_checked: bool = False
    """A description without these fields and texts was refused; before, few descriptions are at
    hand that could tell.
    """
    initialization_logged: bool = False
    """The round's ruleset asks closed logs for the names of the tensors that were initialised;
    accepted logs lack them.
    """
    loose: bool = False
    """Logs may begin blocks ahead and count them from 0, mark only the begin of epochs, and give
    two results for the first epoch.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredEvents:
    """Events that a log must contain."""

    identity: tuple[str, ...]
    """Exactly one each: submitter, system and benchmark."""
    once: tuple[str, ...]
    """Exactly one record each; a second one, whatever its value, would mean two clocks."""
    some: tuple[str, ...]
    """At least one record each."""
    samples: tuple[str, ...] = ()
    """At least one record each, if the benchmark has a data set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityTarget:
    """Quality to reach in the last evaluation (>=, or <= for a lower-is-better metric)."""

    metrics: Mapping[str, float]
    above: Mapping[str, float] = field(default_factory=dict)
    """Metric -> a value that no evaluation counts at or below: of a loss a bound that is not
    believed, of others a target that must be passed.
    """
    batch_from: int = 0
    """Applies from this global batch size up; the last match counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstEvaluation:
    """Time of the first evaluation: a number of samples, in whole batches or whole intervals."""

    samples: float
    per_batch: float
    """Samples per unit of batch size."""
    up: bool
    """Rounded up; else down."""
    intervals: bool = False
    """Round to whole intervals between evaluations; else to whole batches."""

    def compute_samples_before(self, batch: int, interval: int) -> int:
        """Return the number of samples before it."""
        unit = interval if self.intervals else batch
        exact = (self.samples + self.per_batch * batch) / unit
        if self.up:
            return unit * math.ceil(exact - BATCH_ROUNDING_ERROR)
        return unit * math.floor(exact + BATCH_ROUNDING_ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualInterval:
    """Distance between two evaluations, in the unit of the benchmark's progress, of benchmarks
    whose rules make it a share of the whole.
    """

    epochs: float = 0.0
    """This many epochs, or if 0 ..."""
    samples: float = 0.0
    """... this many samples, plus ..."""
    per_batch: float = 0.0
    """... this many per unit of batch size, rounded down to a multiple of ..."""
    whole: float = 1.0
    """... this many."""

    def compute_interval(self, batch: float) -> float:
        """Return the distance at a batch size."""
        return self.epochs or self.whole * math.floor(
            (self.samples + self.per_batch * batch) / self.whole
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedEvaluations:
    """Number of evaluations that may be left out before the first."""

    evaluations: float
    per_batch: float = 0.0
    """Plus this many per unit of batch size, rounded down."""

    def compute_allowed(self, batch: float) -> int:
        """Return the number at a batch size."""
        return math.floor(self.evaluations + self.per_batch * batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBenchmark:
    """One benchmark's row."""

    title: str
    names: tuple[str, ...]
    """Names in folders and submission_benchmark; the first is used for results."""
    metrics: Mapping[str, str]
    """Metric -> its key in a structured eval_accuracy; empty text: eval_accuracy is a plain number.
    """
    targets: tuple[QualityTarget, ...]
    lower_is_better: tuple[str, ...] = ()
    """Metrics that are errors or losses, from 0 on."""
    joined: bool = False
    """Each metric of an evaluation has its own record, with its name in the metadata as `metric`.
    """
    evaluated_later: bool = False
    """Checkpoints are evaluated after the run; the first that reaches the target counts."""
    progress: tuple[str, ...] = ()
    """Metadata field with a run's progress; empty: epochs, counted as in v0.6 and v0.7."""
    samples_event: str | None = None
    """Event with the samples that a run trained on, where evaluations do not number its progress.
    """
    evaluate_every_samples: int | None = None
    """Samples between two evaluations, rounded up to whole batches."""
    first_evaluation: FirstEvaluation | None = None
    usual_interval: UsualInterval | None = None
    """Distance between two evaluations that the rules give as a share or formula, and accepted logs
    exceed a little.
    """
    skipped: SkippedEvaluations | None = None
    """Evaluations that the rules let pass before the first."""
    loose_clock: bool = False
    """Accepted logs mix events of several processes, so that times may go backwards."""
    drop_each_end: int | None = None
    """If it differs from the round's."""
    not_converged_allowed: int | None = None
    """If it differs from the round's."""
    init_limit_min: float | None = None
    """If it differs from the round's."""
    percent: bool = False
    """Logs may give the metric as 0-100."""
    reused_name: bool = False
    """The name was another network's in earlier rounds, which podium's workload of that name is."""
    runs: int
    """Runs per set."""
    evaluate_every_epochs: int | None = None
    """Epochs between two evaluations, at most; None if the rules name epochs, or use another unit.
    """
    evaluation_epochs: tuple[float, ...] = ()
    """Epochs of the evaluations, if the rules name them."""
    evaluation_slack_epochs: float = 0.0
    """Accepted logs give numbers that are higher by up to this."""
    strict: bool = True
    """Blocks, epochs and evaluations are numbered in epochs, and paired."""
    data_set: bool = True
    """False if the run generates its own data."""
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Event of a data set's size -> allowed numbers of samples; empty if the rules do not fix the
    number.
    """
    result_event: str | None = None
    """Event whose metadata holds the result as a timestamp in seconds after run_start, if the
    result is not run_stop's.
    """
    required: tuple[str, ...] = ()
    """Hyper-parameters that a closed log must contain."""
    required_with: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Optimizer -> additional required hyper-parameters."""
    method_keys: tuple[str, ...] = ()
    """Hyper-parameters whose metadata names the method that enforces them: truncate or discard."""
    constraints: tuple[Constraint, ...] = ()
    """Constraints of the closed division."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disclosure:
    """Settings that logs of either division must disclose."""

    required: bool
    constraints: tuple[Constraint, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the names of the settings."""
        return tuple(dict.fromkeys(constraint.key for constraint in self.constraints))


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTraining:
    """A complete published training round."""

    name: str
    title: str
    dialect: str
    """Prefix of this round's records."""
    rules: PublishedRules
    events: RequiredEvents
    benchmarks: Mapping[str, PublishedBenchmark]
    disclosure: Disclosure | None
    hyperparameters: frozenset[str]
    """Hyper-parameters named in any benchmark's rules."""
    sources: Mapping[str, str]
    """Dotted path of a value in the TOML -> its source."""

    def find_benchmark_name(self, name: str | None) -> str | None:
        """Return the canonical name of a benchmark, ignoring case and punctuation; None if the
        round does not have it.
        """
        if name in self.benchmarks:
            return name
        folded = "".join(letter for letter in (name or "").casefold() if letter.isalnum())
        return next((key for key, row in self.benchmarks.items() if folded in row.names), None)

    def find_closed_constraints(self, workload: str) -> tuple[Constraint, ...] | None:
        """Return the closed division's constraints on a benchmark's hyper-parameters; None if the
        round does not have it.
        """
        known = self.find_benchmark_name(workload)
        if known:
            return self.benchmarks[known].constraints
        return None

    def list_closed_required(self, workload: str, optimizer: object = None) -> tuple[str, ...]:
        """Return the hyper-parameters that a closed log of a benchmark must contain, including
        those of its optimizer.
        """
        known = self.find_benchmark_name(workload)
        if known is None:
            return ()
        row = self.benchmarks[known]
        return (*row.required, *row.required_with.get(str(optimizer).casefold(), ()))

    def find_source(self, path: str) -> str:
        """Return the source of the value at a dotted path, or of the nearest enclosing table."""
        while path not in self.sources and "." in path:
            path = path.rpartition(".")[0]
        return self.sources.get(path, f"round {self.name}")


def build_published_training(
    name: str, tables: Mapping[str, Any], sources: Mapping[str, str]
) -> PublishedTraining:
    """Validate a round's tables, sources removed; RequestError names the path of an invalid
    value.
    """
    benchmarks = {
        key: build_typed_value(PublishedBenchmark, table, key)
        for key, table in tables.items()
        if key not in TRAINING_ROUND_TABLES
    }
    disclosure = None
    if "disclosure" in tables:
        disclosure = build_typed_value(Disclosure, tables["disclosure"], "disclosure")
    return PublishedTraining(
        name=name,
        title=tables["round"]["title"],
        dialect=tables["round"]["dialect"],
        rules=build_typed_value(PublishedRules, tables["training"], "training"),
        events=build_typed_value(RequiredEvents, tables["events"], "events"),
        benchmarks=benchmarks,
        disclosure=disclosure,
        hyperparameters=frozenset(
            name for row in benchmarks.values() for name in iterate_named_hyperparameters(row)
        ),
        sources=sources,
    )


def iterate_named_hyperparameters(row: PublishedBenchmark) -> Iterator[str]:
    """Yield the hyper-parameters named in a benchmark's rules."""
    yield from row.required
    for names in row.required_with.values():
        yield from names
    yield from (constraint.key for constraint in row.constraints)


@cache
def load_training_round(name: str) -> PublishedTraining:
    """Load a round of this kind."""
    tables = registry.collect_round_tables(name, "compliance.kinds.training.rounds")
    return build_published_training(name, *tables)


def list_training_rounds() -> tuple[str, ...]:
    """List the names of the rounds of this kind."""
    return tuple(
        name
        for name in registry.list_round_names()
        if registry.load_round_kind(name).name == "training"
    )


def collect_rule_keys(round: PublishedTraining) -> set[str]:
    """Return the keys of the records that a rule of the round reads."""
    presence = (round.events.identity, round.events.once, round.events.some, round.events.samples)
    disclosed = (each.key for each in round.disclosure.constraints) if round.disclosure else ()
    keys = {*chain(*presence, disclosed), *round.hyperparameters}
    for row in round.benchmarks.values():
        keys |= {*row.progress, *row.method_keys, *filter(None, [row.result_event])}
    return keys
