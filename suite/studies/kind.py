"""The contract of a study: which point comes next, the LoadGen run of a point, its figures, and the
columns of its table.

An entry point of the group `podium.studies` names an instance. It imports no framework: the harness
measures by it, the judge walks over its plan again, and reports draw it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

import click

from suite.columns import Column, Table, format_plain_value
from suite.errors import PodiumError
from suite.files.layout import convert_to_slug
from suite.loadgen.headline import HEADLINE_METRICS, SCENARIO_KEY, TOKEN_BOUND_KEYS
from suite.loadgen.scenario import Scenario
from suite.measurement.score_limits import ScoreLimits
from suite.rounds import HyperValue, ScenarioRow
from suite.rounds.settings import PERFORMANCE_PREFIXES
from suite.studies.points import (
    StudiedPoint,
    average_figures,
    describe_figures,
)
from suite.studies.run_facts import RunFacts
from suite.studies.subject import StudySubject
from suite.workload import Mode

R = TypeVar("R")
P = TypeVar("P")
F = TypeVar("F")

LoadGenField = int | float | None

EXPECTED_RATE_SETTING: Final = "offline.expected_qps"
RATE_MARGIN: Final = 1.2
"""As of any Offline run (harness/serving/loadgen/test_settings.py): its one query is sized from a
rate that was probed for a second.
"""
ADDRESS_MARK: Final = "://"
"""In the name of a server that runs already; the others are started."""
STUDY_REMARK: Final = "a study, not a result"
SIDE_SYSTEM_PREFIX: Final = "side-"
"""What the names of the systems of a study of two sides begin with."""


class ServedSpeed(Protocol):
    """What a probe of the system under test saw."""

    @property
    def samples_per_second(self) -> float:
        """Return the rate in full batches."""
        ...

    @property
    def latency_ns(self) -> float:
        """Return the latency of one sample."""
        ...


class StudiedSystem(Protocol):
    """The system under test, as a study sees it when it resolves a request."""

    @property
    def workload(self) -> str:
        """Return the workload's name."""
        ...

    @property
    def profile(self) -> str:
        """Return the profile."""
        ...

    @property
    def engine(self) -> str:
        """Return the engine's name."""
        ...

    @property
    def precision(self) -> str:
        """Return the number format."""
        ...

    @property
    def name(self) -> str:
        """Return the system's name."""
        ...

    @property
    def is_remote(self) -> bool:
        """Return whether servers behind a network answer."""
        ...

    @property
    def is_bare(self) -> bool:
        """Return whether it is a bare network, without training and data."""
        ...

    @property
    def can_be_scored(self) -> bool:
        """Return whether its answers can be scored."""
        ...

    @property
    def reference_accuracy(self) -> Mapping[str, float]:
        """Return the reference accuracy of its checkpoint; empty without one."""
        ...

    @property
    def latency_budget_ms(self) -> float | None:
        """Return the budget within which vendors state the workload's throughput; None without
        one.
        """
        ...

    @property
    def scenarios(self) -> Sequence[Scenario]:
        """Return the scenarios that the round has of the workload."""
        ...

    @property
    def settings(self) -> Mapping[str, HyperValue]:
        """Return the settings that `podium infer` would have."""
        ...

    @property
    def score_limits(self) -> ScoreLimits:
        """Return what scores must reach."""
        ...

    def require_scenario_rules(self, scenario: Scenario) -> ScenarioRow:
        """Return the round's row of a scenario; RequestError if there is none."""
        ...

    def probe_speed(self) -> ServedSpeed:
        """Return its speed, which is measured at the first call."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """The LoadGen run of a point, as request and point decide it; the judge compares the run with
    it.
    """

    scenario: Scenario
    settings: Mapping[str, HyperValue] = field(default_factory=dict)
    """Settings that the point changes, of the system under test and of LoadGen."""
    fields: Mapping[str, LoadGenField] = field(default_factory=dict)
    """What no setting changes, by its name in STUDY_FIELD_KEYS."""
    has_starts: bool = False
    """Whether the run records when each prompt began to be answered."""
    keeps_round: bool = True
    """Whether it keeps the round's rules for runs, so that the judge applies them."""
    mode: Mode = Mode.PERFORMANCE
    """An accuracy run is scored with the ground truth of the study (RunFacts.scores)."""
    engine: str = ""
    """Of a study of several systems; empty: the one that the command set up."""
    precision: str = ""
    """Beside `engine` or `server`; empty of servers that decide it."""
    server: str = ""
    """Of a study of several systems: the server, as the command names it, instead of an engine."""

    side: str = ""
    """Of a study of two sides, whose systems may differ in anything; empty of any other."""
    is_training: bool = False
    """Whether its queries are optimizer steps of a training."""

    @property
    def has_own_system(self) -> bool:
        """Return whether it is of one system of several, not of the one that the command set up."""
        return bool(self.engine or self.server or self.side)

    @property
    def is_address(self) -> bool:
        """Return whether it is of a server that podium did not start."""
        return ADDRESS_MARK in self.server

    @property
    def own_name(self) -> str:
        """Return what stands behind the machine's in the name of the system; empty of the system
        that the command set up.
        """
        if self.side:
            return f"{SIDE_SYSTEM_PREFIX}{self.side}"
        if not self.has_own_system:
            return ""
        return "-".join(filter(None, (self.server or self.engine, self.precision)))

    def name_system(self, machine: str) -> str:
        """Return the name of the system, given that of the study's system, or of its machine if
        the study has several.
        """
        if self.side:
            return self.own_name
        if not self.has_own_system:
            return machine
        return convert_to_slug(f"{machine}-{self.own_name}")

    @property
    def system_settings(self) -> Mapping[str, HyperValue]:
        """Return the settings of the system under test, without those of LoadGen."""
        return {
            name: value
            for name, value in self.settings.items()
            if not name.startswith(PERFORMANCE_PREFIXES)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedConditions:
    """What the judge knows of a study's workload and profile."""

    scenarios: Mapping[Scenario, ScenarioRow]
    """The round's rows."""
    score_limits: ScoreLimits | None
    """With the reference accuracy in the record of the study's checkpoint, which is empty if the
    record is not in the results folder; None if the round lacks the workload or its profile.
    """


STUDY_FIELD_KEYS: Final = {
    "percentile": "effective_target_latency_percentile",
    "bound_ns": "effective_target_latency_ns",
    "samples_per_query": "effective_samples_per_query",
    "sampled_answers": "effective_accuracy_log_sampling_target",
    "equal_issue": "effective_sample_concatenate_permutation",
    **TOKEN_BOUND_KEYS,
}
"""Field of a planned run -> LoadGen's key of it in the detail log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudiedRow:
    """One row of a study's table."""

    studied: StudiedPoint[Any, Any]
    request: Any
    """What the last command asked for."""
    answer: Any
    """Of the whole study."""
    subject: StudySubject

    @property
    def point(self) -> Any:
        """Return what was measured."""
        return self.studied.point

    @property
    def figures(self) -> Any:
        """Return the figures of all runs together; None if the point could not be measured."""
        return self.studied.figures

    def find_figure(self, name: str) -> Any:
        """Return one of the figures; None if there are none."""
        return None if self.figures is None else getattr(self.figures, name)


class StudyKind(ABC, Generic[R, P, F]):
    """A kind of study; requests, points and figures are dataclasses of JSON's types."""

    name: ClassVar[str]
    """In `study.json`, and in the names of folders."""
    note: ClassVar[str] = STUDY_REMARK
    """What the study is, and what not."""
    help: ClassVar[str] = ""
    """Of its command."""
    request: ClassVar[type[Any]]
    point: ClassVar[type[Any]]
    single_run_remark: ClassVar[str] = "one run per point: no intervals"
    """What is said of a table whose points have one run each."""
    table: ClassVar[Table[StudiedRow]]
    """The columns of its rows, for the terminal, CSV and the report."""
    chart: ClassVar[tuple[str, str] | None] = None
    """What its report draws: the columns of the abscissa and of the ordinate."""
    options: ClassVar[Sequence[click.Option]] = ()
    """Of its command, beside those of `podium infer`."""
    is_single_process: ClassVar[bool] = False
    """Whether it measures one process only, or servers."""
    reads_power: ClassVar[bool] = False
    """Whether power is read beside its runs."""
    reads_idle_power: ClassVar[bool] = False
    """Whether the power of the idle machine is read before the first run."""
    follows_advice: ClassVar[bool] = False
    """Whether runs are treated as those of a result: their energy is told, and one that does not
    count is made again with what LoadGen's rules advise. The last one stays if none counts;
    otherwise the study ends there.
    """
    is_interleaved: ClassVar[bool] = False
    """Whether several runs of its points are made in passes over all points."""
    is_ordered: ClassVar[bool] = False
    """Whether a point follows from the points before it."""
    is_exact: ClassVar[bool] = False
    """Whether such points must follow from those before: a point off the plan is an error, since
    the plan reads nothing but what the runs' own files say.
    """
    compares_sides: ClassVar[bool] = False
    """Whether it measures two sides, whose systems may differ in anything."""
    has_several_systems: ClassVar[bool] = False
    """Whether each run names the engine and the number format that it measures."""
    plan_unit: ClassVar[str] = "point"
    """What the parts of its plan are (`name_plan_part`), in the singular."""
    keeps_failures: ClassVar[bool] = False
    """Whether a point that cannot be measured becomes a row that says why. The next command tries
    it again.
    """
    takes_results: ClassVar[bool] = False
    """Whether runs of the results that are those of a point are copied, not made again."""

    def list_own_settings(self, values: Mapping[str, Any], is_remote: bool) -> Mapping[str, str]:
        """Return the settings that the study decides -> the option that does; `--set` of them is
        refused.
        """
        return {}

    def check_request(self, values: Mapping[str, Any], system: StudiedSystem) -> None:
        """RequestError for options that make no study of this system; before anything starts."""

    def name_study(self, values: Mapping[str, Any], system: StudiedSystem) -> str:
        """Return the name of the study's folder."""
        return f"{system.workload}-{self.name}-{system.name}"

    @abstractmethod
    def build_request(self, values: Mapping[str, Any], system: StudiedSystem) -> R:
        """Resolve the values of the options."""

    def adopt_request(self, earlier: R, now: R) -> R | None:
        """Return the request that continues an earlier one; None if it is another study, so that
        what is there is moved aside.
        """
        return now

    def list_known_points(self, request: R) -> Sequence[P]:
        """Return points that are known before the first run: their settings are checked then."""
        first = self.choose_next_point(request, ())
        return () if first is None else (first,)

    @abstractmethod
    def choose_next_point(self, request: R, done: Sequence[StudiedPoint[P, F]]) -> P | None:
        """Return the next point, given those that are measured; None: the study is finished. A pure
        function: the judge repeats it.
        """

    def explain_omission(self, request: R, point: P, done: Sequence[StudiedPoint[P, F]]) -> str:
        """Return why the next point is not even tried, given those before it; empty if it is. For
        kinds that keep failures.
        """
        return ""

    def explain_failure(
        self, point: P, error: PodiumError, done: Sequence[StudiedPoint[P, F]]
    ) -> str:
        """Return why a point is a row without figures; empty if the error ends the study. For kinds
        that keep failures.
        """
        return str(error)

    def list_all_points(self, request: R) -> Sequence[P]:
        """Return all points of the plan, so that the command says first how long they take; none if
        they are not known before the first run.
        """
        return ()

    def name_plan_part(self, point: P) -> str:
        """Name the part of the plan that a point belongs to: the point, or what several points are
        about.
        """
        return self.name_point(point)

    def estimate_least_s(self, point: P) -> float | None:
        """Return how long LoadGen is asked to run at least, s; None: as the settings ask."""
        return None

    def limit_repeats(self, point: P, repeats: int) -> int:
        """Return how often a point is measured, given how often points are to be."""
        return repeats

    @abstractmethod
    def name_point(self, point: P) -> str:
        """Return the name of a point's folder."""

    def is_same_point(self, one: P, other: P) -> bool:
        """Return whether two points are the same."""
        return one == other

    @abstractmethod
    def describe_run(self, request: R, point: P) -> PlannedRun:
        """Describe the LoadGen run of a point."""

    def guess_speed(self, point: P, done: Sequence[StudiedPoint[P, F]]) -> float | None:
        """Return roughly how many samples/s a point will have, by those before it; None: the system
        is probed.
        """
        return None

    def guess_settings(
        self, point: P, speed: ServedSpeed, last: RunFacts | None
    ) -> Mapping[str, HyperValue]:
        """Return settings of LoadGen that are guessed, from the probe or from the last run of the
        point: the rate that sizes Offline's query, after a run that was too short.
        """
        if last is None or last.values.get(SCENARIO_KEY) != Scenario.OFFLINE.label:
            return {}
        planned = last.record.settings[EXPECTED_RATE_SETTING]
        seen = last.find_number(HEADLINE_METRICS[Scenario.OFFLINE][1]) or 0.0
        return {EXPECTED_RATE_SETTING: RATE_MARGIN * max(float(str(planned)), seen)}

    def is_complete(self, request: R, point: P, run: RunFacts) -> bool:
        """Return whether a run counts; otherwise it is made again. LoadGen gives an accuracy run no
        verdict.
        """
        return run.is_valid or (run.has_answers and not run.errors)

    @abstractmethod
    def compute_figures(self, request: R, point: P, run: RunFacts) -> F | None:
        """Compute the figures of a run; None if its files do not give them. A pure function: the
        judge repeats it.
        """

    def combine_figures(self, figures: Sequence[F]) -> F:
        """Return the figures of several runs of a point together."""
        return average_figures(figures)

    def arrange_rows(
        self, requests: Sequence[R], points: Sequence[StudiedPoint[P, F]]
    ) -> Sequence[StudiedPoint[P, F]]:
        """Return the rows of the table: the points in their order there, or several points as
        one.
        """
        return points

    def compute_answer(self, requests: Sequence[R], points: Sequence[StudiedPoint[P, F]]) -> Any:
        """Compute what the points together say: a dataclass; None if it is nothing."""
        return None

    def describe_answer(
        self, request: R, answer: Any, points: Sequence[StudiedPoint[P, F]]
    ) -> Sequence[str]:
        """Return the lines below the table."""
        return ()

    def describe_failure(self, answer: Any) -> str:
        """Return why the study, though complete, is in vain; empty if it is not."""
        return ""

    def find_request_faults(
        self, request: R, conditions: "JudgedConditions"
    ) -> Iterator[tuple[str, str]]:
        """Yield what a request states against the round and the checkpoint, and what it has to
        be.
        """
        yield from ()

    def describe_row(self, row: StudiedRow) -> Mapping[str, Any]:
        """Return a row as JSON."""
        return describe_figures(row.studied)

    def describe_point(self, row: StudiedRow) -> str:
        """Describe a point in one line."""
        if row.studied.why:
            return f"{self.name_point(row.point)}: {row.studied.why}"
        columns = self.table.select_shown_columns((row,))
        cells = ", ".join(f"{each.heading} {each.format_cell(row)}" for each in columns)
        return f"{self.name_point(row.point)}: {cells}"


def build_figure_column(
    name: str, title: str, digits: int, *, scale: float = 1
) -> Column[StudiedRow]:
    """Build the column of a figure, with half of its 95 % interval where there are several runs.
    People read it divided by `scale`.
    """

    def tell_with_interval(row: StudiedRow) -> str:
        value, ends = row.find_figure(name), row.studied.find_interval(name)
        told = format_plain_value(None if value is None else value / scale, digits)
        if ends is None:
            return told
        return f"{told} \u00b1{(ends[1] - ends[0]) / 2 / scale:,.{digits}f}"

    return Column(
        name,
        lambda row: row.find_figure(name),
        title=title,
        digits=digits,
        tell=tell_with_interval,
    )
