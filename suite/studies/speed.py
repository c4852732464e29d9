"""The kind of study that measures speed alone: a LoadGen run of each scenario, of weights that no
training here made or of an ONNX file, without accuracy.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

from suite.columns import UNKNOWN_CELL, Column, Table
from suite.loadgen.advice import EXPECTED_LATENCY_SHARE
from suite.loadgen.headline import (
    LATENCY_METRIC,
    REQUESTED_TOKENS_KEY,
    VALID_RUN,
    get_rate_unit,
    select_headline_metric,
)
from suite.loadgen.scenario import Scenario
from suite.loadgen.token_figures import read_token_figures
from suite.rounds import HyperValue, ScenarioRow
from suite.rounds.settings import PERFORMANCE_PREFIXES
from suite.studies.kind import (
    JudgedConditions,
    PlannedRun,
    ServedSpeed,
    StudiedRow,
    StudiedSystem,
    StudyKind,
)
from suite.studies.own_prompts import is_prompted
from suite.studies.points import StudiedPoint, compute_known_mean
from suite.studies.run_facts import RunFacts
from suite.units import NS_PER_MS, NS_PER_S, NS_PER_US

SPEED_KIND: Final = "speed"
NOT_SUBMITTABLE: Final = "speed alone: no accuracy was asked for, and it is no result"
UNMET_VERDICT: Final = "INVALID"
SHARE_KEY: Final = "effective_target_latency_percentile"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedPoint:
    """One scenario with its conditions."""

    scenario: str
    """LoadGen's name of it."""
    samples_per_query: int
    equal_issue: bool
    """As in the row (suite.rounds.ScenarioRow)."""
    bound_ns: int | None = None
    """Server's latency bound of an ONNX file; None: the round's, or none."""
    first_token_ns: int | None = None
    """Server's bound of the first token, of the user's own prompts; None: as above."""
    per_token_ns: int | None = None
    """... and of each further one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedRequest:
    """What a command asked for."""

    points: tuple[SpeedPoint, ...]
    settings: dict[str, HyperValue]
    """LoadGen's settings that the user chose."""
    own_prompts: bool = False
    """Servers answer the user's own prompts: the judge's rules for runs hold, and the round has no
    row of them.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedFigures:
    """What the log of a run says."""

    verdict: str
    metric: str
    value: float
    percentile: float
    """0-100, of a latency."""
    ttft_ns: float | None
    """Time to the first token at the percentile; None where LoadGen measures no tokens, or does not
    log it.
    """
    tpot_ns: float | None
    """Time of each further token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedAnswer:
    """What all runs together say."""

    invalid: tuple[str, ...]
    """Runs that are INVALID, each in one line."""


Timed = StudiedPoint[SpeedPoint, SpeedFigures]


def list_asked_rows(
    asked: Sequence[Scenario], system: StudiedSystem
) -> list[tuple[Scenario, ScenarioRow]]:
    """Return the scenarios that were asked for with their rows; all of LoadGen's mean all that the
    round has. RequestError for one without.
    """
    known = system.scenarios
    every = set(asked) == set(Scenario)
    return [
        (each, system.require_scenario_rules(each)) for each in asked if each in known or not every
    ]


def find_labelled_scenario(label: str) -> Scenario:
    """Return the scenario with LoadGen's name; LookupError if there is none."""
    return {each.label: each for each in Scenario}[label]


def tell_speed(row: StudiedRow) -> str:
    """Format the metric with its unit, and half of its interval where there are several runs."""
    figures, ends = row.figures, row.studied.find_interval("value")
    scale, digits, unit = 1, 1, get_rate_unit(figures.metric)
    if figures.metric == LATENCY_METRIC:
        scale, digits, unit = NS_PER_MS, 2, "ms"
    half = "" if ends is None else f" \u00b1{(ends[1] - ends[0]) / 2 / scale:,.{digits}f}"
    return f"{figures.value / scale:,.{digits}f}{half} {unit}"


def tell_metric(row: StudiedRow) -> str:
    """Name the metric for people."""
    if row.figures.metric == LATENCY_METRIC:
        return "latency"
    return str(row.figures.metric).replace("_", " ")


def tell_milliseconds(value_ns: float | None) -> str:
    """Format a time in ms; an unknown one is a dash."""
    return UNKNOWN_CELL if value_ns is None else f"{value_ns / NS_PER_MS:,.2f}"


def build_token_column(name: str, title: str) -> Column[StudiedRow]:
    """Build the column of a latency of tokens; it stands where LoadGen measured one."""
    return Column(
        name,
        lambda row: getattr(row.figures, name),
        title=title,
        tell=lambda row: tell_milliseconds(getattr(row.figures, name)),
        numeric=True,
        when=lambda rows: any(getattr(row.figures, name) is not None for row in rows),
    )


SPEED_TABLE: Final[Table[StudiedRow]] = Table(
    columns=(
        Column("scenario", lambda row: row.point.scenario),
        Column("verdict", lambda row: row.figures.verdict),
        Column("metric", lambda row: row.figures.metric, tell=tell_metric),
        Column("value", lambda row: row.figures.value, tell=tell_speed, numeric=True),
        build_token_column("ttft_ns", "TTFT ms"),
        build_token_column("tpot_ns", "TPOT ms"),
    )
)


class SpeedAlone(StudyKind[SpeedRequest, SpeedPoint, SpeedFigures]):
    """The study of speed alone."""

    name = SPEED_KIND
    note = NOT_SUBMITTABLE
    request = SpeedRequest
    point = SpeedPoint
    table = SPEED_TABLE
    reads_power = True
    follows_advice = True

    def check_request(self, values: Mapping[str, Any], system: StudiedSystem) -> None:
        """RequestError for a scenario without rules."""
        list_asked_rows(values["scenarios"], system)

    def name_study(self, values: Mapping[str, Any], system: StudiedSystem) -> str:
        """Return the name of the study's folder."""
        name = f"{system.workload}-{SPEED_KIND}"
        return f"{name}-{system.name}" if is_prompted(system) else name

    def build_request(self, values: Mapping[str, Any], system: StudiedSystem) -> SpeedRequest:
        """Resolve the scenarios, with the conditions of each."""
        points = tuple(
            SpeedPoint(
                scenario=scenario.label,
                samples_per_query=row.samples_per_query,
                equal_issue=row.equal_issue,
                bound_ns=values["bound_ns"] if scenario is Scenario.SERVER else None,
                first_token_ns=row.first_token_ns if system.is_bare else None,
                per_token_ns=row.per_token_ns if system.is_bare else None,
            )
            for scenario, row in list_asked_rows(values["scenarios"], system)
        )
        chosen = {
            name: value
            for name, value in system.settings.items()
            if name.startswith(PERFORMANCE_PREFIXES)
        }
        return SpeedRequest(points=points, settings=chosen, own_prompts=is_prompted(system))

    def adopt_request(self, earlier: SpeedRequest, now: SpeedRequest) -> SpeedRequest | None:
        """Return the request if LoadGen's settings are those of what is there."""
        return now if earlier.settings == now.settings else None

    def choose_next_point(self, request: SpeedRequest, done: Sequence[Timed]) -> SpeedPoint | None:
        """Return the first scenario that is not measured."""
        measured = [each.point for each in done]
        return next((each for each in request.points if each not in measured), None)

    def name_point(self, point: SpeedPoint) -> str:
        """Return the name of a point's folder: its scenario, and a bound of its own."""
        bounds = (point.bound_ns, point.first_token_ns, point.per_token_ns)
        told = "".join(f"-{each / NS_PER_MS:g}ms" for each in bounds if each is not None)
        return find_labelled_scenario(point.scenario).value + told

    def describe_run(self, request: SpeedRequest, point: SpeedPoint) -> PlannedRun:
        """Describe a run: as the round asks of the scenario."""
        scenario = find_labelled_scenario(point.scenario)
        fields: dict[str, int | float | None] = {"equal_issue": point.equal_issue}
        if scenario is Scenario.MULTI_STREAM:
            fields["samples_per_query"] = point.samples_per_query
        for name in ("bound_ns", "first_token_ns", "per_token_ns"):
            if getattr(point, name) is not None:
                fields[name] = getattr(point, name)
        return PlannedRun(scenario=scenario, fields=fields, keeps_round=request.own_prompts)

    def guess_settings(
        self, point: SpeedPoint, speed: ServedSpeed, last: RunFacts | None
    ) -> Mapping[str, HyperValue]:
        """Return the latency of MultiStream's query, by the probe."""
        query_s = point.samples_per_query / speed.samples_per_second
        latency_us = EXPECTED_LATENCY_SHARE * query_s * NS_PER_S / NS_PER_US
        return {"multi_stream.expected_latency_us": latency_us}

    def compute_figures(
        self, request: SpeedRequest, point: SpeedPoint, run: RunFacts
    ) -> SpeedFigures | None:
        """Read LoadGen's verdict and metric; None for a log without them."""
        scenario = find_labelled_scenario(point.scenario)
        metric, key = select_headline_metric(scenario, bool(run.values.get(REQUESTED_TOKENS_KEY)))
        value, share = run.find_number(key), run.find_number(SHARE_KEY)
        if value is None or share is None:
            return None
        tokens = read_token_figures(run.find_number)
        percentile = f"p{100 * share:g}"
        return SpeedFigures(
            verdict=VALID_RUN if run.is_valid else UNMET_VERDICT,
            metric=metric,
            value=value,
            percentile=100 * share,
            ttft_ns=tokens.ttft_ns.get(percentile),
            tpot_ns=tokens.tpot_ns.get(percentile),
        )

    def combine_figures(self, figures: Sequence[SpeedFigures]) -> SpeedFigures:
        """Return the means of several runs, which are VALID if all are."""
        first = figures[0]
        valid = all(each.verdict == VALID_RUN for each in figures)
        return SpeedFigures(
            verdict=VALID_RUN if valid else UNMET_VERDICT,
            metric=first.metric,
            value=fmean(each.value for each in figures),
            percentile=first.percentile,
            ttft_ns=compute_known_mean([each.ttft_ns for each in figures]),
            tpot_ns=compute_known_mean([each.tpot_ns for each in figures]),
        )

    def compute_answer(
        self, requests: Sequence[SpeedRequest], points: Sequence[Timed]
    ) -> SpeedAnswer:
        """Return the runs that are INVALID."""
        return SpeedAnswer(
            invalid=tuple(
                f"{each.point.scenario} performance run {run.repeat} is {UNMET_VERDICT}"
                for each in points
                for run in each.runs
                if run.figures.verdict != VALID_RUN
            )
        )

    def describe_failure(self, answer: SpeedAnswer) -> str:
        """Return what is wrong with the runs."""
        return "; ".join(answer.invalid)

    def find_request_faults(
        self, request: SpeedRequest, conditions: JudgedConditions
    ) -> Iterator[tuple[str, str]]:
        """Yield conditions other than the round's, where the round has the workload."""
        for point in request.points:
            row = conditions.scenarios.get(find_labelled_scenario(point.scenario))
            if row is None:
                continue
            found = (point.samples_per_query, point.equal_issue, point.bound_ns)
            if found != (row.samples_per_query, row.equal_issue, None):
                yield f"other conditions of {point.scenario}", "those of the round"

    def describe_point(self, row: StudiedRow) -> str:
        """Describe a run in one line."""
        figures: SpeedFigures = row.figures
        told = tell_speed(row)
        if figures.metric == LATENCY_METRIC:
            told = f"p{figures.percentile:g} latency {told}"
        latencies = [
            f", {name} p{figures.percentile:g} {value / NS_PER_MS:.2f} ms"
            for name, value in (("TTFT", figures.ttft_ns), ("TPOT", figures.tpot_ns))
            if value is not None
        ]
        return f"{row.point.scenario} performance: {figures.verdict}, {told}{''.join(latencies)}"


SPEED: Final = SpeedAlone()
