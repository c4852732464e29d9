"""The points of a comparison of engines and precisions, what their runs say, and how they become a
row for each system.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from suite.files.layout import SYSTEM_RECORD
from suite.loadgen.scenario import Scenario
from suite.measurement.logprob_causes import LogprobDifferences
from suite.measurement.score_limits import ScoreLimits
from suite.rounds import HyperValue, ScenarioRow
from suite.served_identity import ServedIdentity, Speaker, state_all
from suite.studies.answered_set import (
    AnswerComparison,
    AnsweredSet,
    compare_answered_sets,
)
from suite.studies.kind import ADDRESS_MARK
from suite.studies.likelihoods import (
    SaidClasses,
    build_said_classes,
    compare_run_with_reference,
    compare_said_classes,
)
from suite.studies.points import MeasuredRun, StudiedPoint, compute_known_mean, is_separable
from suite.studies.run_facts import RunFacts
from suite.terms import Precision
from suite.workload import Mode

ACCURACY_RUN: Final = "accuracy"
PRECISION_RUNS: Final[Mapping[str, tuple[Scenario, Mode]]] = {
    ACCURACY_RUN: (Scenario.OFFLINE, Mode.ACCURACY),
    "offline": (Scenario.OFFLINE, Mode.PERFORMANCE),
    "single-stream": (Scenario.SINGLE_STREAM, Mode.PERFORMANCE),
}
"""The runs of each system: the accuracy set is scored once, since both scenarios answer the same
samples.
"""
PRECISION_SCENARIOS: Final = (Scenario.OFFLINE, Scenario.SINGLE_STREAM)
LOGGED_LIMITS: Final = {
    "loadgen.min_duration_ms": "requested_min_duration_ms",
    "loadgen.min_queries": "requested_min_query_count",
}
"""Setting of the least length of a run -> LoadGen's key of it in the detail log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSystem:
    """One engine in one number format, in LoadGen's process, or one server."""

    engine: str
    """Empty of a server: what it runs is in the records of its runs."""
    precision: str
    """That was asked for; empty of servers that podium did not start."""
    server: str = ""
    """As the user names it: an address, or a program that podium starts; empty of an engine."""

    @property
    def is_address(self) -> bool:
        """Return whether it is a server that podium did not start."""
        return ADDRESS_MARK in self.server


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionPoint:
    """One run of an engine in a number format, or of a server."""

    engine: str
    precision: str
    run: str
    """A name in PRECISION_RUNS."""
    server: str = ""
    """As of ComparedSystem."""

    @property
    def system(self) -> ComparedSystem:
        """Return what the run is of."""
        return ComparedSystem(engine=self.engine, precision=self.precision, server=self.server)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConditions:
    """What the round asks of a performance run."""

    min_duration_ms: int
    min_queries: int
    equal_issue: bool
    """As in the row (suite.rounds.ScenarioRow)."""

    @property
    def limits(self) -> Mapping[str, int]:
        """Return its least length, by the settings for it."""
        return dict(zip(LOGGED_LIMITS, (self.min_duration_ms, self.min_queries), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionRequest:
    """What a command asked for."""

    systems: tuple[ComparedSystem, ...]
    """The framework's own engine and fp32 first."""
    score_limits: ScoreLimits
    conditions: dict[str, RunConditions]
    """Of each scenario, by LoadGen's name of it."""
    settings: dict[str, HyperValue]
    """LoadGen's settings that the user chose."""

    def list_limits(self, scenario: Scenario) -> Mapping[str, HyperValue]:
        """Return the least length of a run: the user's, else the round's."""
        limits = self.conditions[scenario.label].limits
        return {name: self.settings.get(name, least) for name, least in limits.items()}

    def is_shortened(self, scenario: Scenario) -> bool:
        """Return whether the user asks for shorter runs than the round."""
        least = self.conditions[scenario.label].limits
        return any(
            is_below(value, least[name]) for name, value in self.list_limits(scenario).items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionFigures:
    """What runs of a system say; what none of them says is None or empty."""

    scores: dict[str, float]
    samples_per_second: float | None
    """Offline."""
    tokens_per_second: float | None
    """Offline, of answers that are generated token by token."""
    p50_ns: float | None
    """Latency in SingleStream."""
    p90_ns: float | None
    p99_ns: float | None
    first_token_ns: float | None = None
    """90th percentile in SingleStream, of answers that are generated token by token."""
    per_token_ns: float | None = None
    """The same, of the time per further token."""
    served: ServedIdentity | None = None
    """What a server runs, and who says so; None in LoadGen's process."""
    faults: tuple[str, ...]
    """Why the runs would be no valid result."""
    answers: AnsweredSet | None = field(default=None, repr=False)
    """To the accuracy set."""
    likelihoods: LogprobDifferences | None = None
    """How its log-probabilities differ from PyTorch's, of answers that are tokens."""
    classes: SaidClasses | None = field(default=None, repr=False)
    """Its log-probabilities of the classes of pictures."""


NUMBER_FIELDS: Final = (
    "samples_per_second",
    "tokens_per_second",
    "p50_ns",
    "p90_ns",
    "p99_ns",
    "first_token_ns",
    "per_token_ns",
)
NO_FIGURES: Final = PrecisionFigures(
    scores={},
    samples_per_second=None,
    tokens_per_second=None,
    p50_ns=None,
    p90_ns=None,
    p99_ns=None,
    faults=(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionAnswer:
    """What the rows are compared with, and which are not compliant."""

    scores: dict[str, float]
    """The checkpoint's reference accuracy; of a metric without one, the score of the first fp32
    row.
    """
    samples_per_second: float | None
    """Of the reference."""
    reference: str = ""
    """Name of the system whose answers the others' are compared with: the first one in fp32, else
    the first server; empty without one.
    """
    compared: Mapping[str, AnswerComparison] = field(default_factory=dict)
    """Name of each other system that has answered the accuracy set -> how its answers differ."""
    likelihoods: Mapping[str, LogprobDifferences] = field(default_factory=dict)
    """Name of each system -> how its log-probabilities differ from PyTorch's in fp32, or, of the
    classes of pictures, from the reference's.
    """
    separable: Mapping[str, bool] = field(default_factory=dict)
    """Name of each other system -> whether a test tells its rate from the reference's; without
    those that were measured once.
    """
    refused: tuple[str, ...]
    """Systems that the last command asked for and that are not compliant, each in one line."""


Measured = StudiedPoint[PrecisionPoint, PrecisionFigures]


def is_below(value: HyperValue | None, least: HyperValue) -> bool:
    """Return whether a limit is no number, or lower than another one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    return value < float(str(least))


def merge_figures(figures: Sequence[PrecisionFigures]) -> PrecisionFigures:
    """Put the figures of several runs together: scores of the first that has some, means of each
    number, and all faults.
    """
    numbers = {
        name: compute_known_mean([getattr(each, name) for each in figures])
        for name in NUMBER_FIELDS
    }
    faults = dict.fromkeys(fault for each in figures for fault in each.faults)
    scores = next((each.scores for each in figures if each.scores), {})
    answers, likelihoods, classes = (
        next((getattr(each, name) for each in figures if getattr(each, name)), None)
        for name in ("answers", "likelihoods", "classes")
    )
    served = next((each.served for each in figures if each.served), None)
    return replace(
        NO_FIGURES,
        scores=scores,
        faults=tuple(faults),
        answers=answers,
        likelihoods=likelihoods,
        classes=classes,
        served=served,
        **numbers,
    )


def build_system_row(points: Sequence[Measured]) -> Measured | None:
    """Build the row of a system from the points of its runs; None as long as one is missing."""
    for each in points:
        if each.why:
            return each
    named = {each.point.run: each for each in points}
    if named.keys() != PRECISION_RUNS.keys():
        return None
    repeats = min(len(each.runs) for name, each in named.items() if name != ACCURACY_RUN)
    together = [
        [each.runs[min(number, len(each.runs) - 1)] for each in named.values()]
        for number in range(repeats)
    ]
    return StudiedPoint(
        point=points[0].point,
        runs=tuple(map(merge_system_runs, together)),
        figures=merge_figures([each.figures for each in points]),
    )


def merge_system_runs(
    runs: Sequence[MeasuredRun[PrecisionPoint, PrecisionFigures]],
) -> MeasuredRun[PrecisionPoint, PrecisionFigures]:
    """Put one run of each point of a system together; the folder is that of the accuracy run."""
    return replace(
        runs[0],
        seconds=sum(each.seconds for each in runs),
        figures=merge_figures([each.figures for each in runs]),
    )


def list_system_rows(
    requests: Sequence[PrecisionRequest], points: Sequence[Measured]
) -> list[Measured]:
    """Return a row for each system, in the order of the command that asked for most of them, of
    several the last, then the others: a narrower command moves no row.
    """
    latest = list(reversed(requests))
    latest.sort(key=lambda each: len(each.systems), reverse=True)
    systems = dict.fromkeys(each for request in latest for each in request.systems)
    rows = (
        build_system_row([each for each in points if each.point.system == system])
        for system in systems
    )
    return [each for each in rows if each is not None]


def explain_row(row: Measured) -> str:
    """Return why a row is not compliant; empty if it is."""
    return row.why or "; ".join(row.figures.faults)


def name_system(system: ComparedSystem) -> str:
    """Name a system for people: `torch fp32`, `vllm bf16`, `http://host:8000`."""
    return f"{system.server or system.engine} {system.precision}".strip()


def identify_row(row: Measured) -> ServedIdentity:
    """Return what a row is of: podium knows what ran in LoadGen's process, and of servers what the
    records of their runs state.
    """
    point = row.point
    if not point.server:
        return state_all(
            Speaker.PODIUM, SYSTEM_RECORD, engine=point.engine, precision=point.precision
        )
    return (row.figures and row.figures.served) or ServedIdentity()


def choose_reference(rows: Sequence[Measured]) -> Measured | None:
    """Return the row that the others are compared with: the first one in fp32, else the first
    server.
    """
    known = [row for row in rows if row.runs and row.figures.samples_per_second]
    in_fp32 = (row for row in known if identify_row(row).precision.value == Precision.FP32)
    servers = (row for row in known if row.point.server)
    return next(in_fp32, None) or next(servers, None)


def build_round_conditions(row: ScenarioRow) -> RunConditions:
    """Return what a round's row asks of a run."""
    return RunConditions(
        min_duration_ms=row.min_duration_ms,
        min_queries=row.min_queries,
        equal_issue=row.equal_issue,
    )


def is_run_short(run: RunFacts, limits: Mapping[str, HyperValue]) -> bool:
    """Return whether LoadGen was asked for a shorter run."""
    return any(
        is_below(run.values.get(LOGGED_LIMITS[name]), least) for name, least in limits.items()
    )


def compute_accuracy_figures(limits: ScoreLimits, run: RunFacts) -> PrecisionFigures | None:
    """Return the scores of an accuracy run, and what they miss; None if it cannot be scored."""
    if run.scores is None:
        return None
    shortfalls = (f"accuracy: {each}" for each in limits.list_shortfalls(run.scores))
    errors = (f"accuracy: void; LoadGen: {each}" for each in run.errors)
    likelihoods = compare_run_with_reference(run)
    shown = likelihoods.finding if likelihoods else ""
    return replace(
        NO_FIGURES,
        scores=dict(run.scores),
        faults=(*shortfalls, *errors, *([f"log-probabilities: {shown}"] if shown else [])),
        answers=run.answers,
        likelihoods=likelihoods,
        classes=build_said_classes(run),
    )


def compare_rows(rows: Sequence[Measured], reference: Measured) -> dict[str, AnswerComparison]:
    """Compare the answers of each other row with those of one."""
    base = reference.figures.answers
    if base is None:
        return {}
    return {
        name_system(row.point.system): compare_answered_sets(row.figures.answers, base)
        for row in rows
        if row.figures is not None
        and row.figures.answers is not None
        and row.point.system != reference.point.system
    }


def collect_likelihoods(
    rows: Sequence[Measured], reference: Measured
) -> dict[str, LogprobDifferences]:
    """Return how the log-probabilities of each row differ from PyTorch's; of classes, from those of
    one row.
    """
    found = dict[str, LogprobDifferences | None]()
    for row in rows:
        if not row.runs:
            continue
        figures, name = row.figures, name_system(row.point.system)
        found[name] = figures.likelihoods
        if figures.classes and reference.figures.classes and row is not reference:
            found[name] = compare_said_classes(figures.classes, reference.figures.classes)
    return {name: each for name, each in found.items() if each is not None}


def compare_rates(rows: Sequence[Measured], reference: Measured) -> dict[str, bool]:
    """Test whether the rate of each other row differs from that of one."""
    tested = {
        name_system(row.point.system): is_separable(row, reference, "samples_per_second")
        for row in rows
        if row.runs and row.point.system != reference.point.system
    }
    return {name: found for name, found in tested.items() if found is not None}


def iterate_run_faults(
    scenario: Scenario, run: RunFacts, limits: Mapping[str, int]
) -> Iterator[str]:
    """Yield why a performance run would be no valid result."""
    if not run.is_valid:
        yield f"{scenario.label} performance is INVALID"
    if is_run_short(run, limits):
        yield f"{scenario.label} performance is shorter than the round requires"
