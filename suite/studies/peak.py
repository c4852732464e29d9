"""The kind of study that searches for the highest Server rate, or the most samples per MultiStream
query, within a latency bound: probes and full runs, each the next step after those before it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from suite.columns import Column, Table
from suite.errors import JudgedError, RequestError
from suite.human_numbers import format_plain_number
from suite.loadgen.advice import EXPECTED_LATENCY_SHARE
from suite.loadgen.early_stopping import compute_queries_needed
from suite.loadgen.headline import VALID_RUN, VERDICT_KEY
from suite.loadgen.scenario import Scenario
from suite.measurement.shares import format_share_interval
from suite.rounds import HyperValue, ScenarioRow
from suite.studies.answer_figures import build_answer_times
from suite.studies.kind import (
    JudgedConditions,
    PlannedRun,
    ServedSpeed,
    StudiedRow,
    StudiedSystem,
    StudyKind,
)
from suite.studies.multi_stream_search import choose_multi_stream_step
from suite.studies.own_prompts import is_prompted
from suite.studies.peak_search import NextRun
from suite.studies.points import StudiedPoint, describe_figures
from suite.studies.rates import (
    PEAK_KIND,
    PROBE_PURPOSE,
    RUN_PURPOSE,
    PeakAnswer,
    PeakRequest,
    RateAttempt,
    build_peak_aim,
    build_run_observation,
    compute_peak_answer,
    compute_token_latencies,
    count_attempt_queries,
    describe_pass_chance,
    format_peak_bound,
    format_peak_rate,
    replay_peak_search,
    select_latency_keys,
)
from suite.studies.run_facts import RunFacts
from suite.units import NS_PER_MS, NS_PER_S, NS_PER_US

DEFAULT_BUDGET_S: Final = 600.0
DEFAULT_PEAK_TOLERANCE: Final = 0.02
MIN_BUDGET_RUNS: Final = 12
"""Full runs that a search within `podium infer` may take at least, in time: the second phase has
nine at most.
"""
LOGGED_RATE_DIGITS: Final = 6
"""LoadGen logs numbers with so many significant digits: C++'s default."""
LOGGED_RATE_SHARE: Final = 1e-5
"""By which two rates may differ that LoadGen logs alike."""
RESERVED_FULL_RUNS: Final = 2.5
"""Full runs that have to fit into what is left of the budget for another probe; else a full run is
next.
"""
UNPROVABLE_PERCENTILE: Final = 100.0
"""The percentile that no number of queries can prove."""
INVALID_ATTEMPT: Final = "INVALID"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakStep:
    """One probe or full run."""

    number: int
    """In the search, from 1."""
    rate: float
    """Queries/s asked for; MultiStream: samples per query."""
    queries: int
    """Counted ones of a probe; at least so many of a full run."""
    full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakFigures:
    """What a probe or a full run showed; the fields are RateAttempt's."""

    queries: int
    over: int
    dispersion: float
    latency_ns: float | None
    per_token_ns: float | None
    verdict: str


Searched = StudiedPoint[PeakStep, PeakFigures]

PEAK_TABLE: Final[Table[StudiedRow]] = Table(
    columns=(
        Column("purpose", lambda row: build_attempt(row.studied).purpose, title="kind"),
        Column("rate", lambda row: row.point.rate, numeric=True),
        Column("over", lambda row: row.figures.over, numeric=True),
        Column("queries", lambda row: row.figures.queries, title="of queries", numeric=True),
        Column("dispersion", lambda row: row.figures.dispersion, digits=1),
        Column("verdict", lambda row: row.figures.verdict),
    )
)


class PeakSearchStudy(StudyKind[PeakRequest, PeakStep, PeakFigures]):
    """The search for the peak."""

    name = PEAK_KIND
    note = "the highest rate within a latency bound"
    request = PeakRequest
    point = PeakStep
    table = PEAK_TABLE
    reads_power = True
    is_ordered = True

    def check_request(self, values: Mapping[str, Any], system: StudiedSystem) -> None:
        """RequestError for a search without a bound, and for one bound where the round has two, of
        first and of further tokens.
        """
        scenario, within_ms = values["scenario"], values["within_ms"]
        row = system.require_scenario_rules(scenario)
        if row.per_token_ns is not None and within_ms is not None:
            raise RequestError(
                f"--within-ms {within_ms:g}: {scenario.label} of {system.workload} is bounded by"
                " its tokens, the first and each further one; --set tokens.bounds=... chooses the"
                " bounds"
            )
        bounds = (within_ms, system.latency_budget_ms, row.bound_ns, row.per_token_ns)
        if all(each is None for each in bounds):
            raise RequestError(
                f"{scenario.label} of {system.workload} has no bound in the round: name one with"
                " --within-ms"
            )

    def name_study(self, values: Mapping[str, Any], system: StudiedSystem) -> str:
        """Return the name of the study's folder: one for each bound that is not the round's."""
        if is_prompted(system):
            first_ms, token_ms = values["first_token_ms"], values["per_token_ms"]
            return f"{system.workload}-{PEAK_KIND}-{first_ms:g}ms-{token_ms:g}ms-{system.name}"
        within_ms, percentile = values["within_ms"], values["percentile"]
        bound = f"-{within_ms:g}ms" if within_ms is not None else ""
        share = f"-p{percentile:g}" if percentile is not None else ""
        stream = "-multi-stream" if values["scenario"] is Scenario.MULTI_STREAM else ""
        served = f"{system.engine}-{system.precision}"
        return f"{system.workload}-{PEAK_KIND}{stream}{bound}{share}-{served}"

    def build_request(self, values: Mapping[str, Any], system: StudiedSystem) -> PeakRequest:
        """Resolve what is searched for: the round's bounds and percentile unless others are named;
        JudgedError for a bound below one sample's latency, RequestError for a budget below one full
        run.
        """
        request = resolve_peak_request(values, system)
        latency_ns = system.probe_speed().latency_ns
        if request.per_token_ns is None and latency_ns > request.bound_ns:
            raise JudgedError(
                f"{system.workload}: one sample alone takes {latency_ns / NS_PER_MS:.2f} ms; no"
                f" rate keeps {request.bound_ns / NS_PER_MS:g} ms"
            )
        if values["budget_s"] is None:
            rate = request.seen / 2
            whole = NextRun(
                rate=rate, queries=build_peak_aim(request).compute_full_queries(rate), full=True
            )
            budget_s = max(DEFAULT_BUDGET_S, MIN_BUDGET_RUNS * estimate_step_s(request, whole))
            return replace(request, budget_s=budget_s)
        check_first_budget(request)
        return request

    def adopt_request(self, earlier: PeakRequest, now: PeakRequest) -> PeakRequest | None:
        """Return the request with the first look at the system of the search that is there."""
        same = replace(earlier, budget_s=now.budget_s, seen=now.seen)
        return replace(now, seen=earlier.seen) if same == now else None

    def choose_next_point(self, request: PeakRequest, done: Sequence[Searched]) -> PeakStep | None:
        """Return the next run that fits into the budget, at a rate that LoadGen can log."""
        attempts = [build_attempt(each) for each in done]
        step = choose_affordable_step(request, attempts)
        if step is None:
            return None
        return PeakStep(
            number=len(done) + 1,
            rate=float(f"{step.rate:.{LOGGED_RATE_DIGITS}g}"),
            queries=step.queries,
            full=step.full,
        )

    def name_point(self, point: PeakStep) -> str:
        """Return the name of a run's folder."""
        return f"trial-{point.number:02}"

    def is_same_point(self, one: PeakStep, other: PeakStep) -> bool:
        """Return whether two steps are of one number, kind and rate, as far as LoadGen logs it."""
        return (one.number, one.full) == (other.number, other.full) and math.isclose(
            one.rate, other.rate, rel_tol=LOGGED_RATE_SHARE
        )

    def describe_run(self, request: PeakRequest, point: PeakStep) -> PlannedRun:
        """Describe a run: as the round asks, with the search's bound, rate and length."""
        settings: dict[str, HyperValue] = {
            "loadgen.min_queries": request.min_queries,
            "loadgen.min_duration_ms": request.min_duration_ms,
        }
        fields: dict[str, int | float | None] = {"percentile": request.percentile}
        if request.scenario == Scenario.MULTI_STREAM.label:
            fields |= {"samples_per_query": int(point.rate), "bound_ns": None}
            return PlannedRun(
                scenario=Scenario.MULTI_STREAM, settings=settings, fields=fields, keeps_round=False
            )
        settings["server.target_qps"] = point.rate
        if not point.full:
            skipped = build_peak_aim(request).compute_skipped_queries(point.rate)
            settings |= {
                "loadgen.min_queries": point.queries + skipped,
                "loadgen.min_duration_ms": 1,
            }
            fields["sampled_answers"] = 0
        if request.per_token_ns is None:
            fields["bound_ns"] = request.bound_ns
        else:
            fields |= {
                "bound_ns": None,
                "first_token_ns": request.bound_ns,
                "per_token_ns": request.per_token_ns,
            }
        return PlannedRun(
            scenario=Scenario.SERVER,
            settings=settings,
            fields=fields,
            has_starts=request.joint,
            keeps_round=request.joint and point.full,
        )

    def guess_settings(
        self, point: PeakStep, speed: ServedSpeed, last: RunFacts | None
    ) -> Mapping[str, HyperValue]:
        """Return the latency of MultiStream's query, by the probe."""
        latency_us = (
            EXPECTED_LATENCY_SHARE * point.rate / speed.samples_per_second * NS_PER_S / NS_PER_US
        )
        return {"multi_stream.expected_latency_us": latency_us}

    def is_complete(self, request: PeakRequest, point: PeakStep, run: RunFacts) -> bool:
        """Return whether LoadGen logged no error; an INVALID run tells as much as a VALID one."""
        return not run.errors

    def compute_figures(
        self, request: PeakRequest, point: PeakStep, run: RunFacts
    ) -> PeakFigures | None:
        """Count the late queries, and compare LoadGen's latency with the bound."""
        latencies = list_bounded_latencies(request, run)
        if latencies is None:
            return None
        server = request.scenario == Scenario.SERVER.label
        skipped = 0
        if not point.full:
            skipped = build_peak_aim(request).compute_skipped_queries(point.rate)
        queries, over, dispersion = count_attempt_queries(request, latencies, skipped)
        key, token_key = select_latency_keys(request)
        latency_ns = run.find_number(key)
        if point.full and server and request.per_token_ns is None:
            counted = run.find_number("result_query_count")
            late = run.find_number("result_overlatency_query_count")
            if counted is None or late is None:
                return None
            queries, over = int(counted), int(late)
        within = run.values.get(VERDICT_KEY) == VALID_RUN and (
            server or (latency_ns is not None and latency_ns <= request.bound_ns)
        )
        if request.joint:
            within = within and over <= (1 - request.percentile / 100) * queries
        return PeakFigures(
            queries=queries,
            over=over,
            dispersion=dispersion,
            latency_ns=latency_ns,
            per_token_ns=run.find_number(token_key) if token_key else None,
            verdict=VALID_RUN if within else INVALID_ATTEMPT,
        )

    def combine_figures(self, figures: Sequence[PeakFigures]) -> PeakFigures:
        """Add the queries of several runs; they are VALID if all are."""
        if len(figures) == 1:
            return figures[0]
        invalid = any(each.verdict != VALID_RUN for each in figures)
        latencies = [each.latency_ns for each in figures if each.latency_ns is not None]
        further = [each.per_token_ns for each in figures if each.per_token_ns is not None]
        return PeakFigures(
            queries=sum(each.queries for each in figures),
            over=sum(each.over for each in figures),
            dispersion=sum(each.dispersion for each in figures) / len(figures),
            latency_ns=max(latencies, default=None),
            per_token_ns=max(further, default=None),
            verdict=INVALID_ATTEMPT if invalid else VALID_RUN,
        )

    def compute_answer(
        self, requests: Sequence[PeakRequest], points: Sequence[Searched]
    ) -> PeakAnswer:
        """Return what the runs prove."""
        return compute_peak_answer(requests[-1], [build_attempt(each) for each in points])

    def describe_failure(self, answer: PeakAnswer) -> str:
        """Return why there is no peak."""
        if answer.valid is not None:
            return ""
        return "no full run was VALID" if answer.runs else "the budget ended before a full run"

    def describe_answer(
        self, request: PeakRequest, answer: PeakAnswer, points: Sequence[Searched]
    ) -> Sequence[str]:
        """Return what the runs prove, in one line."""
        attempts = [build_attempt(each) for each in points]
        return (
            format_peak_summary(request, answer, attempts),
            *describe_good_share(request, answer, attempts),
        )

    def describe_row(self, row: StudiedRow) -> Mapping[str, Any]:
        """Return a run with its purpose."""
        return {**describe_figures(row.studied), **asdict(build_attempt(row.studied))}

    def describe_point(self, row: StudiedRow) -> str:
        """Describe a run in one line."""
        attempt = build_attempt(row.studied)
        kind = attempt.verdict if attempt.purpose == RUN_PURPOSE else PROBE_PURPOSE
        return (
            f"{format_peak_rate(row.request, attempt.rate)}: {kind}, {attempt.over:,} of"
            f" {attempt.queries:,} over {format_peak_bound(row.request)}, dispersion"
            f" {attempt.dispersion:.1f}"
        )

    def find_request_faults(
        self, request: PeakRequest, conditions: JudgedConditions
    ) -> Iterator[tuple[str, str]]:
        """Yield a bound that is called the round's and is not, and a full run shorter than the
        round's.
        """
        rows = conditions.scenarios.items()
        row = next((row for each, row in rows if each.label == request.scenario), None)
        if row is None:
            if request.of_round:
                yield "the round's bound, for a workload or profile that the round lacks", "false"
            return
        server = request.scenario == Scenario.SERVER.label
        bounds = list_round_bounds(row)
        asked = (request.bound_ns, request.per_token_ns)
        own = server and asked in bounds and row.percentile == request.percentile
        if request.of_round != own:
            known = " or ".join(f"{first} ns" for first, _ in bounds)
            told = f"{own}: the row has {known} and p{row.percentile:g}"
            yield f"of_round {request.of_round} for {asdict(request)}", told
        fewest = row.min_queries
        if 0 < request.percentile < UNPROVABLE_PERCENTILE:
            needed = compute_queries_needed(0 if server else 1, request.percentile)
            fewest = max(fewest, needed)
        for name, stated, found in (
            ("min_queries", request.min_queries, fewest),
            ("min_duration_ms", request.min_duration_ms, row.min_duration_ms),
        ):
            if stated != found:
                told = f"{found}, as the round's row and the percentile require"
                yield f"{name} {stated} in a full run", told


PEAK: Final = PeakSearchStudy()


def build_attempt(studied: Searched) -> RateAttempt:
    """Return a point as the search takes it."""
    return RateAttempt(
        folder=studied.folder,
        purpose=RUN_PURPOSE if studied.point.full else PROBE_PURPOSE,
        rate=studied.point.rate,
        seconds=studied.seconds,
        **asdict(studied.figures),
    )


def resolve_peak_request(values: Mapping[str, Any], system: StudiedSystem) -> PeakRequest:
    """Resolve what is searched for."""
    scenario: Scenario = values["scenario"]
    row, within_ms = system.require_scenario_rules(scenario), values["within_ms"]
    server = scenario is Scenario.SERVER
    round_bound_ns = row.first_token_ns if row.per_token_ns is not None else row.bound_ns
    if within_ms is None and round_bound_ns is None:
        within_ms = system.latency_budget_ms
    bound_ns = round((within_ms or 0) * NS_PER_MS) or round_bound_ns or 0
    percentile = row.percentile if values["percentile"] is None else values["percentile"]
    rate = system.probe_speed().samples_per_second
    return PeakRequest(
        scenario=scenario.label,
        percentile=percentile,
        bound_ns=bound_ns,
        of_round=server
        and not system.is_bare
        and (bound_ns, percentile) == (round_bound_ns, row.percentile),
        min_queries=max(row.min_queries, compute_queries_needed(0 if server else 1, percentile)),
        min_duration_ms=row.min_duration_ms,
        tolerance=values["tolerance"],
        seen=rate if server else max(1.0, rate * bound_ns / NS_PER_S),
        per_token_ns=row.per_token_ns,
        budget_s=values["budget_s"] or DEFAULT_BUDGET_S,
        joint=is_prompted(system),
    )


def list_bounded_latencies(request: PeakRequest, run: RunFacts) -> Sequence[Any] | None:
    """Return the latencies that a search bounds, of queries, or of first and of further tokens;
    None without their records.
    """
    queries, tokens = run.queries, run.tokens
    if queries is None or not len(queries):
        return None
    if request.per_token_ns is None:
        return (queries.done_ns - queries.issued_ns,)
    if tokens is None or len(tokens) != len(queries):
        return None
    if request.joint:
        times = build_answer_times(queries.issued_ns, tokens, run.arrivals)
        return times.ttft_ns, times.compute_each_tpot_ns()
    return compute_token_latencies(
        queries.issued_ns, tokens.first_ns, tokens.last_ns, tokens.tokens
    )


def choose_affordable_step(request: PeakRequest, attempts: Sequence[RateAttempt]) -> NextRun | None:
    """Return the next run that fits into the budget."""
    step = choose_unbudgeted_step(request, attempts)
    if step is None:
        return None
    left_s = request.budget_s - sum(each.seconds for each in attempts)
    whole_s = estimate_step_s(request, build_whole_step(request, step))
    if not step.full and estimate_step_s(request, step) + RESERVED_FULL_RUNS * whole_s > left_s:
        aim = build_peak_aim(request)
        state = replay_peak_search(aim, list(map(build_run_observation, attempts)))
        rate = state.compute_promising_rate()
        step = NextRun(rate=rate, queries=aim.compute_full_queries(rate), full=True)
    return step if estimate_step_s(request, step) <= left_s else None


def choose_unbudgeted_step(request: PeakRequest, attempts: Sequence[RateAttempt]) -> NextRun | None:
    """Return the next run, however long it takes."""
    if request.scenario == Scenario.MULTI_STREAM.label:
        return choose_multi_stream_step(request, attempts)
    observations = list(map(build_run_observation, attempts))
    return replay_peak_search(build_peak_aim(request), observations).choose_next_run()


def build_whole_step(request: PeakRequest, step: NextRun) -> NextRun:
    """Return the full run at the rate of a step."""
    queries = request.min_queries
    if request.scenario == Scenario.SERVER.label:
        queries = build_peak_aim(request).compute_full_queries(step.rate)
    return replace(step, queries=queries, full=True)


def check_first_budget(request: PeakRequest) -> None:
    """RequestError for a budget below one full run, with the seconds that it needs."""
    step = choose_unbudgeted_step(request, ())
    if step is None:
        return
    whole_s = estimate_step_s(request, build_whole_step(request, step))
    if whole_s > request.budget_s:
        raise RequestError(f"--budget-s {request.budget_s:g}: one full run takes {whole_s:.0f} s")


def estimate_step_s(request: PeakRequest, step: NextRun) -> float:
    """Estimate the seconds of a run."""
    if request.scenario == Scenario.MULTI_STREAM.label:
        samples_per_second = request.seen * NS_PER_S / request.bound_ns
        query_s = step.rate / samples_per_second
        return max(request.min_duration_ms / 1000, step.queries * query_s)
    skipped = 0 if step.full else build_peak_aim(request).compute_skipped_queries(step.rate)
    return (step.queries + skipped) / step.rate


def list_round_bounds(row: ScenarioRow) -> Sequence[tuple[int | None, int | None]]:
    """Return the bounds that a search may take from a row: of a query, or of first and of further
    tokens.
    """
    if row.per_token_ns is None:
        return ((row.bound_ns, None),)
    both = (row, row.interactive) if row.interactive else (row,)
    return tuple((each.first_token_ns, each.per_token_ns) for each in both)


def describe_good_share(
    request: PeakRequest, answer: PeakAnswer, attempts: Sequence[RateAttempt]
) -> Sequence[str]:
    """Return the line about the share of requests within both bounds at the peak, where that is
    what was searched by.
    """
    best = next((each for each in attempts if each.folder == answer.folder), None)
    if not request.joint or best is None:
        return ()
    good = best.queries - best.over
    return (
        f"goodput: {good / best.queries * best.rate:,.1f} requests/s within both bounds,"
        f" {format_share_interval(good, best.queries)} of {best.queries:,}; asked for"
        f" {request.percentile:g} %",
    )


def explain_open_end(request: PeakRequest, attempts: Sequence[RateAttempt]) -> str:
    """Return why a search ends that has found no INVALID rate; empty if it goes on."""
    if choose_affordable_step(request, attempts) is not None:
        return ""
    if choose_unbudgeted_step(request, attempts) is None:
        return " in as many runs as a search makes"
    return f" within --budget-s {request.budget_s:g}"


def format_peak_summary(
    request: PeakRequest, answer: PeakAnswer, attempts: Sequence[RateAttempt]
) -> str:
    """Format what the runs prove, in one line."""
    unit = "samples per query (house rule: no MLPerf metric)"
    if request.scenario == Scenario.SERVER.label:
        unit = "queries/s"
    best = f"{format_plain_number(answer.valid)} {unit} VALID" if answer.valid else "no rate VALID"
    worst = f", no rate above it INVALID{explain_open_end(request, attempts)}"
    if answer.invalid:
        worst = f", {format_plain_number(answer.invalid)} INVALID"
    trial = next((each for each in attempts if each.folder == answer.folder), None)
    reached = (trial.latency_ns, trial.per_token_ns) if trial else (None, None)
    word = "within " if reached[0] is None else ""
    latency = f"p{request.percentile:g} {word}{format_peak_bound(request, *reached)}"
    told = describe_pass_chance(answer, attempts)
    chance = f"; {told}" if told else ""
    own = "" if request.of_round or request.joint else "; not the round's bound: no result"
    return (
        f"peak: {best}{worst} ({latency}{chance}), {answer.runs} runs, {answer.probes} probes,"
        f" {sum(each.seconds for each in attempts):.0f} s{own}"
    )
