"""The one record of a result: what was measured, where, with what, how good it is and what the
judge says of it.

The reader of each kind of round fills in what its logs state; scores, comparisons, reports, sites,
costs and `podium.load` read it. What can be computed is a property.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from suite.loadgen.token_figures import TokenFigures
from suite.measurement.intervals import Interval, estimate_value_interval
from suite.rounds.compatibility import INFERENCE_HALF, TRAINING_HALF
from suite.served_identity import ServedIdentity

if TYPE_CHECKING:
    from suite.records import EnergyRecord  # late: a list of published rows needs no records

PUBLISHED_PROFILE: Final = "published"
CURVE_HALF: Final = "curve"
"""Half of a point of a curve, which is of no training and of no scenario."""
OFFLINE_REGION: Final = "offline"
"""Stands for a region at an Offline run of its own, which has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPlace:
    """Whose result it is, by which rules, and of what; empty if no file states it."""

    round: str = ""
    profile: str = ""
    """Profile of the run; `published` for results of a published round."""
    division: str = ""
    org: str = ""
    system: str = ""
    workload: str = ""
    scenario: str | None = None
    """LoadGen's name; None for a run set and for a point of a curve."""
    half: str = ""
    """Set where neither the scenario nor the point tells it, as of figures from documents."""
    benchmark: str = ""
    """Name of the benchmark's folder."""
    location: str = ""
    """The result's folder below the root of its tree; its name outside a tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOrigin:
    """Where a result was found."""

    source: str = ""
    """The path that it was read from, as it was given."""
    folder: str = ""
    """Its folder, or a point's file, below that path; "." for the path itself."""
    id: str = ""
    """SHA-256 in its bundle's seal; the id of a published row."""
    kind: str = ""
    """`bundle`, `recomputed` (from published logs), or `reported` (by a document)."""
    document: str = ""
    """Source of a published row."""
    note: str = ""
    """What tells a published row from others of its system, such as batch size and precision."""
    signed_by: str = ""
    date: str = ""
    """Day of its last run, UTC, as in 2026-01-31; empty if no log states it."""
    study: str = ""
    """Name of the study that it is a row of. Such a row is no result and has no verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WithinRun:
    """One figure of one run, computed over time slices."""

    run: int
    """Number of the run, from 1."""
    metric: str
    unit: str
    value: float
    """Value over the whole run, from its query record."""
    slices: tuple[float, ...]
    low: float | None
    """Lower end of the 95 % interval; None if the run's queries do not support one."""
    high: float | None
    problem: str
    """Why there is no interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What was measured."""

    metric: str = ""
    unit: str = ""
    """minutes, ns, samples/s, queries/s, tokens/s or samples/query; published rows have others."""
    value: float | None = None
    """In `unit`; None if too many runs failed for a mean."""
    runs: tuple[float | None, ...] = ()
    """Each run in the order of its number; None for one that did not reach its target."""
    stated_interval: Interval | None = None
    """95 % interval of a study's row, which has one run; else it follows from the runs."""
    factor: float | None = None
    """The convergence factor that value and runs were multiplied by; None without one."""
    basis: str = ""
    """Of a result of the Endpoints client: the time that its rate is divided by, `legacy_window` or
    `whole_run`.
    """
    whole_run: float | None = None
    """The same rate over the run's whole duration."""
    whole_answers_per_s: float | None = None
    """Answers per second that did not fail, beside a rate of tokens."""
    late_tokens: float | None = None
    """Share of the rate that was produced after the window; None below a hundredth."""
    tokens: TokenFigures | None = None
    """Of the run that gives the value; None where LoadGen does not measure tokens."""
    run_tokens: tuple[TokenFigures | None, ...] = ()
    """Of each run, in the order of `runs`; empty for training."""
    within_run: tuple[WithinRun, ...] = ()
    """Statistics over time slices of each performance run; empty for training, and for runs without
    a query record.
    """
    inferred: bool = False
    """Whether it was computed from a run of another scenario, as edge systems may file it."""

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the value; None with fewer than three runs, or where one failed."""
        return self.stated_interval or estimate_value_interval(self.value, self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine of a result. A field is None if the description does not state it."""

    accelerator: str | None = None
    accelerators: int | None = None
    """Total over all nodes; 0 if it ran on CPUs only."""
    nodes: int | None = None

    def __str__(self) -> str:
        if self.accelerators is None:
            return self.accelerator or "accelerators unknown"
        name = f"{self.accelerators} accelerators"
        if self.accelerator and self.accelerators:
            name = f"{self.accelerators} x {self.accelerator}"
        if self.nodes is None:
            return f"{name}, nodes unknown"
        return f"{name}, {self.nodes} node{'s' * (self.nodes != 1)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeWith:
    """What was trained or served with what: it decides whether another result is comparable."""

    engine: str | None = None
    """Engine of inference; framework of training."""
    precision: str | None = None
    """Numbers with which it was trained or served; None if no file states it."""
    served: ServedIdentity | None = None
    """What servers behind a network run, and who said it; None of all others."""
    counted: tuple[tuple[str, str, str], ...] = ()
    """What these servers counted themselves in the run that gives the value: a name, their count or
    share, and podium's count, "" where podium has none.
    """
    batch: int | None = None
    """Samples per query of a study's row."""
    task: Mapping[str, Any] = field(default_factory=dict)
    """Target and data settings, which must be equal. Empty for published results, where the round
    fixes them.
    """
    checkpoint_quality: Mapping[str, float] = field(default_factory=dict)
    """fp32 quality of the served checkpoint; empty for training."""
    campaign: str = ""
    """Its nonce; empty if the results have none."""
    said: Mapping[str, Any] = field(default_factory=dict)
    """Other properties that may differ; differences are reported. None is unknown."""
    samples_per_second: float | None = None
    """Training throughput, evaluations included: the mean over its runs; None if its logs lack the
    necessary values.
    """
    asked: str = ""
    """The requested rate, if the rate was not searched for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """How good the answers, or the trained weights, are; empty if the logs do not state it."""

    accuracy: Mapping[str, float] = field(default_factory=dict)
    """Metric -> score of the last evaluation, or of the accuracy run; the worst of several
    training runs.
    """
    target: Mapping[str, float] = field(default_factory=dict)
    """Metric -> required score: the training target, or the share of the reference accuracy that a
    served result must reach.
    """
    lower_is_better: tuple[str, ...] = ()
    """Metrics whose target is reached at most, not at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the judge says of a result."""

    verdict: str = ""
    """valid, not-converged, unknown or broken; empty of what nobody judges, such as a published
    row.
    """
    compliant: bool = False
    """Whether it counts."""
    unjudged: str = ""
    """Why it cannot be judged on this machine; empty if it was."""
    errors: tuple[str, ...] = ()
    """What the judge objects to, a sentence each, or why it cannot be read; empty if valid."""
    warnings: int = 0
    accepted: int = 0
    """Findings that waivers accept."""
    problem: str = ""
    """Why it has no value; empty if it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """A run set beside its reference convergence point, as rounds compare them since v1.0."""

    factor: float
    """What its minutes are multiplied by in MLCommons' tables."""
    outcome: str = ""
    batch: float | None = None
    point: str | None = None
    """Name of the point; None without one for its batch."""
    reference_mean: float | None = None
    least_mean: float | None = None
    mean: float | None = None
    spare_runs: int | None = None
    missing_runs: int = 0
    others_need: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredPoint:
    """The figures of one point of a curve."""

    path: str
    """Its folder; as the user would write it, once all are read."""
    concurrency: int | None
    region: str | None
    """By its concurrency; `offline` for an Offline run of its own, None out of range."""
    offline: str | None
    """`dedicated`, `elected`, or None if it is not the Offline result."""
    system_tps: float | None
    tps_per_user: float | None
    ttft_p90_ms: float | None
    tps_per_kw: float | None
    basis: str
    """What the figures are of: always the whole run, whose summary is submitted."""
    declared_basis: str
    """What the point's official figures are of: `steady_state` if it claims a steady window that
    supplies them.
    """
    compliant: bool
    failed_rules: tuple[str, ...] = ()
    """The rules with an error about the point."""
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """Figure, such as `system_tps` -> its 95 % interval; empty of one run."""

    def get_ends(self, figure: str) -> Interval | None:
        """Return the interval of a figure; both ends are the figure itself if it has none, and None
        if the figure is unknown.
        """
        value: float | None = getattr(self, figure)
        known = self.intervals.get(figure)
        return known if known or value is None else Interval(low=value, high=value)

    @property
    def is_fixed(self) -> bool:
        """Whether it holds a number of requests in flight: all but an Offline run of its own."""
        return self.region != OFFLINE_REGION


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """An amount of money, with its range over the ranges of the prices."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a result costs at a user's prices; money is in `currency`."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A run set, the runs of one scenario, one point of a curve, or a published row.

    Its parts say more than the properties, which are the names in docs/reference/python.md. What no
    file states is None, or empty.
    """

    place: ResultPlace = ResultPlace()
    figure: Figure = Figure()
    origin: ResultOrigin = ResultOrigin()
    machine: Machine = Machine()
    described: Mapping[str, Any] = field(default_factory=dict)
    """Fields of its system's description, as it was filed."""
    made_with: MadeWith = MadeWith()
    quality: Quality = Quality()
    judgement: Judgement = Judgement()
    noise: tuple[str, ...] = ()
    """The judge's rules that found a disturbance in a run."""
    energy: "tuple[EnergyRecord, ...]" = ()
    """One record per power channel: of the run that gives the value, or the mean over a set's runs.
    Empty if no power was read.
    """
    run_energy: "tuple[tuple[EnergyRecord, ...], ...]" = ()
    """Those of each run, in the order of `runs`."""
    attempts: int | None = None
    """Attempts in the ledger: run sets, or performance runs of the scenario; None if there is
    no ledger.
    """
    convergence: Convergence | None = None
    """Of a closed run set since v1.0."""
    point: ScoredPoint | None = None
    """Of a point of a curve."""
    cost: Cost | None = None
    """At a user's prices, where they were asked for."""

    @property
    def source(self) -> str:
        """The path that was loaded, as it was given."""
        return self.origin.source

    @property
    def folder(self) -> str:
        """The result's folder, or the point's file, below that path; "." for the path itself."""
        return self.origin.folder

    @property
    def verdict(self) -> str:
        """The judge's: valid, not-converged, unknown, or broken: it violates a rule, or cannot be
        read.
        """
        return self.judgement.verdict

    @property
    def errors(self) -> tuple[str, ...]:
        """What the judge objects to, a sentence each, or why it cannot be read; empty if valid.
        Files are named as `folder` is.
        """
        return self.judgement.errors

    @property
    def round(self) -> str:
        """The round that it is judged by."""
        return self.place.round

    @property
    def profile(self) -> str:
        """Profile of the run; `published` for results of a published round."""
        return self.place.profile

    @property
    def division(self) -> str:
        """The division."""
        return self.place.division

    @property
    def org(self) -> str:
        """The organisation."""
        return self.place.org

    @property
    def system(self) -> str:
        """The system's name."""
        return self.place.system

    @property
    def accelerator(self) -> str | None:
        """Model of its accelerators."""
        return self.machine.accelerator

    @property
    def accelerators(self) -> int | None:
        """Of all nodes together; 0 if it ran on CPUs only."""
        return self.machine.accelerators

    @property
    def nodes(self) -> int | None:
        """Number of nodes."""
        return self.machine.nodes

    @property
    def engine(self) -> str | None:
        """The engine that served, or the framework that trained."""
        return self.made_with.engine

    @property
    def precision(self) -> str | None:
        """Numbers with which it was trained or served."""
        return self.made_with.precision

    @property
    def engine_words(self) -> str:
        """The engine for a reader: of servers with their version and who stated it."""
        served = self.made_with.served
        return served.named_engine.describe_statement() if served else self.engine or ""

    @property
    def precision_words(self) -> str:
        """The precision for a reader: of servers with who stated it."""
        served = self.made_with.served
        return served.precision.describe_statement() if served else self.precision or ""

    @property
    def served_words(self) -> str:
        """What servers behind a network run, in a line; empty of all others."""
        return self.made_with.served.describe_engine() if self.made_with.served else ""

    @property
    def workload(self) -> str:
        """The workload."""
        return self.place.workload

    @property
    def half(self) -> str:
        """training, inference or curve."""
        if self.place.half:
            return self.place.half
        if self.point:
            return CURVE_HALF
        return INFERENCE_HALF if self.place.scenario else TRAINING_HALF

    @property
    def scenario(self) -> str | None:
        """LoadGen's name; None for a run set and for a point of a curve."""
        return self.place.scenario

    @property
    def metric(self) -> str:
        """What the value measures."""
        return self.figure.metric

    @property
    def value(self) -> float | None:
        """In `unit`; None if too many runs failed for a mean, or if it cannot be read."""
        return self.figure.value

    @property
    def unit(self) -> str:
        """minutes, ns, samples/s, queries/s, tokens/s or samples/query."""
        return self.figure.unit

    @property
    def low(self) -> float | None:
        """Lower end of the 95 % interval of the value; None with fewer than three runs."""
        interval = self.figure.interval
        return interval.low if interval else None

    @property
    def high(self) -> float | None:
        """Upper end of that interval."""
        interval = self.figure.interval
        return interval.high if interval else None

    @property
    def runs(self) -> tuple[float | None, ...]:
        """Each run in `unit`; None for one that missed its target."""
        return self.figure.runs

    @property
    def accuracy(self) -> Mapping[str, float]:
        """Metric -> score."""
        return self.quality.accuracy

    @property
    def target(self) -> Mapping[str, float]:
        """Metric -> required score."""
        return self.quality.target

    @property
    def concurrency(self) -> int | None:
        """Of a point of a curve: requests in flight."""
        return self.point.concurrency if self.point else None

    @property
    def tps_per_user(self) -> float | None:
        """Of a point of a curve: tokens/s that a user sees."""
        return self.point.tps_per_user if self.point else None

    @property
    def ttft_p90_ms(self) -> float | None:
        """Of a point of a curve: p90 of the time to the first token."""
        return self.point.ttft_p90_ms if self.point else None

    @property
    def is_broken(self) -> bool:
        """Whether the judge rejects it, or it cannot be read: no figure of it counts."""
        return self.verdict == "broken"

    @property
    def compliant(self) -> bool:
        """Whether it counts by the judge's verdict."""
        return self.judgement.compliant

    @property
    def is_published(self) -> bool:
        """Whether it is of a published round."""
        return self.profile == PUBLISHED_PROFILE

    @property
    def headline(self) -> float | None:
        """The value as MLCommons' tables have it: a run set's minutes times its factor."""
        if self.value is None or self.convergence is None:
            return self.value
        return self.value * self.convergence.factor


def scale_to_headline(result: Result) -> Result:
    """Multiply the minutes of a set that converged too fast by its factor, as MLCommons' tables do;
    sets without a factor stay as they are.
    """
    factor = result.convergence.factor if result.convergence else 1.0
    if factor <= 1:
        return result
    figure = replace(
        result.figure,
        value=result.headline,
        runs=tuple(None if run is None else run * factor for run in result.runs),
        factor=factor,
    )
    return replace(result, figure=figure, convergence=None)
