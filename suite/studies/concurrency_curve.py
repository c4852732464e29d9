"""The document of a curve: throughput against latency over the number of requests in flight.

Each point is a LoadGen Offline run in which a fixed number of requests is in flight: when an answer
ends, the next prompt begins. The harness writes the table and the judge recomputes it, both with
the formulas in this module. Terms of MLPerf Endpoints (rules of 2026-09-24, 4.1 and 5.5); a curve
of podium's is not a result of that benchmark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, Final

from suite import registry
from suite.columns import UNKNOWN_CELL, Column, Table
from suite.errors import RequestError
from suite.loadgen.percentiles import compute_percentile_index
from suite.loadgen.scenario import Scenario
from suite.loadgen.token_record import is_time_per_token_known
from suite.measurement.shares import format_share_interval
from suite.rounds import HyperValue
from suite.rounds.endpoints_curve import EndpointsRound, Regions
from suite.studies.answer_figures import (
    MIDDLE,
    USUAL,
    WORST,
    AnswerTimes,
    build_answer_times,
    compute_input_tps,
    compute_window_in_flight,
    count_window_tokens,
    find_steady_window,
    select_percentiles_ms,
)
from suite.studies.kind import (
    EXPECTED_RATE_SETTING,
    RATE_MARGIN,
    PlannedRun,
    ServedSpeed,
    StudiedRow,
    StudiedSystem,
    StudyKind,
    build_figure_column,
)
from suite.studies.points import StudiedPoint, describe_figures, is_separable
from suite.studies.run_facts import RunFacts
from suite.units import MS_PER_S, NS_PER_MS, NS_PER_S

CURVE_KIND: Final = "curve"
CURVE_NOTE: Final = "a podium curve, not an MLPerf Endpoints result"
CURVE_ROUND: Final = "endpoints-v1.0"
"""Whose regions are used."""
PERCENTILES: Final = (MIDDLE, USUAL, WORST)
DEFAULT_SHARE: Final = 0.99
"""House rule: of the requests that are to be within both bounds."""
CURVE_PERCENTILE: Final = 90.0
"""Of the time to the first token and of the time per token. Source: Endpoints rules, 4.1."""
DURATION_SETTING: Final = "loadgen.min_duration_ms"
"""Of a point's run: how long it lasts at least."""
LOCAL_CONCURRENCY_SETTING: Final = "batching.max_batch"
"""Setting that fixes how many answers are generated at once in this process ..."""
REMOTE_CONCURRENCY_SETTING: Final = "endpoint.in_flight"
"""... and how many requests are in flight towards servers."""
LOADGEN_TOKEN_RATE_KEY: Final = "result_tokens_per_second"
MAX_TOKEN_RATE_GAP: Final = 0.01
"""House rule: share by which LoadGen's tokens/s may differ from those of the record, whose clock
begins with the first prompt.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveFigures:
    """What the records of a point's tokens say."""

    answers: int
    tokens: int
    duration_s: float
    """From the start of the first prompt to the last token."""
    system_tps: float
    """Tokens per second of all users."""
    ttft_p90_ms: float
    """From the start of a prompt to its first token."""
    tpot_p90_ms: float | None
    """Per token behind the first, of answers with more than one."""
    tps_per_user: float | None
    in_flight_mean: float
    """Weighted by time."""
    passes: float
    """Answers per sample of the data set."""
    loadgen_tps: float
    """LoadGen's own tokens/s, as a cross-check."""
    window_s: float | None = None
    """Of the steady window, without the first answers, which begin together, and without the
    drain (suite/studies/answer_figures.py); None without one.
    """
    window_tps: float | None = None
    """Tokens per second of all users in the window."""
    window_in_flight: float | None = None
    ttft_p50_ms: float | None = None
    ttft_p99_ms: float | None = None
    tpot_p50_ms: float | None = None
    tpot_p99_ms: float | None = None
    itl_p50_ms: float | None = None
    """Between two arrivals of one answer, of all answers; None where they were not recorded."""
    itl_p90_ms: float | None = None
    itl_p99_ms: float | None = None
    e2e_p50_ms: float | None = None
    """From the start of a prompt to the end of its answer."""
    e2e_p90_ms: float | None = None
    e2e_p99_ms: float | None = None
    input_tps: float | None = None
    """Tokens of prompts per second, by the servers' `usage`; None if they state none."""
    input_tps_per_user: float | None = None
    within: int | None = None
    """Requests within both bounds; None without bounds."""
    within_share: float | None = None
    """0-1, of all requests."""
    goodput: float | None = None
    """Requests within both bounds per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One point of a curve."""

    concurrency: int
    """Requests in flight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveRequest:
    """What a command asked for."""

    concurrencies: tuple[int, ...]
    """Rising."""
    seconds: float
    """Least duration of a point."""
    is_remote: bool
    """Whether servers answer."""
    first_token_ns: int | None = None
    """Bound of the time to the first token; None: requests have none."""
    per_token_ns: int | None = None
    """Bound of the time per further token; None as above."""
    share: float | None = None
    """Of the requests that are to be within both bounds, 0-1; None without bounds."""

    @property
    def has_bounds(self) -> bool:
        """Return whether requests have a bound."""
        return self.first_token_ns is not None or self.per_token_ns is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveAnswer:
    """What the points were asked to cover."""

    asked: tuple[int, ...]
    """Concurrencies that were asked for, by all commands."""
    c_min: int
    c_max: int
    regions: Regions | None
    """None for a curve that ends within the lowest one."""


def build_optional_column(name: str, title: str, digits: int) -> Column[StudiedRow]:
    """Build the column of a figure that some curves do not have."""
    return replace(build_figure_column(name, title, digits), optional=True)


def build_answer_column(name: str, title: str, digits: int) -> Column[StudiedRow]:
    """Build the column of a figure that is shown where servers answer."""
    column = build_figure_column(name, title, digits)
    return replace(column, when=lambda rows: any(row.request.is_remote for row in rows))


def tell_share_within(row: StudiedRow) -> str:
    """Format the share of requests within both bounds, of all runs of a point, with its
    interval.
    """
    runs = [each.figures for each in row.studied.runs if each.figures.within is not None]
    if not runs:
        return UNKNOWN_CELL
    good, of = sum(each.within for each in runs), sum(each.answers for each in runs)
    return format_share_interval(good, of)


CURVE_TABLE: Final[Table[StudiedRow]] = Table(
    columns=(
        Column("concurrency", lambda row: row.point.concurrency, title="in flight", numeric=True),
        Column(
            "region",
            lambda row: find_row_region(row),
            tell=lambda row: (find_row_region(row) or UNKNOWN_CELL).replace("_", " "),
            numeric=True,
            optional=True,
        ),
        build_figure_column("system_tps", "tokens/s", 1),
        build_optional_column("window_tps", "steady", 1),
        build_optional_column("input_tps", "tokens/s in", 1),
        build_figure_column("tps_per_user", "per user", 1),
        build_figure_column("ttft_p90_ms", "TTFT p90 ms", 2),
        build_figure_column("tpot_p90_ms", "TPOT p90 ms", 3),
        build_optional_column("itl_p99_ms", "ITL p99 ms", 2),
        build_answer_column("e2e_p90_ms", "E2E p90 ms", 1),
        Column(
            "within_share",
            lambda row: row.find_figure("within_share"),
            title="within bounds",
            tell=lambda row: tell_share_within(row),
            numeric=True,
            optional=True,
        ),
        build_optional_column("goodput", "good/s", 2),
        build_figure_column("in_flight_mean", "mean in flight", 2),
        build_optional_column("window_in_flight", "steady in flight", 2),
        build_figure_column("duration_s", "s", 1),
    )
)


class ConcurrencyCurve(StudyKind[CurveRequest, CurvePoint, CurveFigures]):
    """Throughput against latency over the number of requests in flight."""

    name = CURVE_KIND
    note = CURVE_NOTE
    request = CurveRequest
    point = CurvePoint
    table = CURVE_TABLE
    is_single_process = True
    is_interleaved = True

    def name_study(self, values: Mapping[str, Any], system: StudiedSystem) -> str:
        """Return the name of the study's folder: one for each pair of bounds."""
        bounds = (values.get("first_token_ms"), values.get("per_token_ms"))
        told = "".join(f"-{each:g}ms" for each in bounds if each is not None)
        return f"{system.workload}-{CURVE_KIND}{told}-{system.name}"

    def list_own_settings(self, values: Mapping[str, Any], is_remote: bool) -> Mapping[str, str]:
        """Return the setting of the requests in flight."""
        return {select_concurrency_setting(is_remote): "--points"}

    def check_request(self, values: Mapping[str, Any], system: StudiedSystem) -> None:
        """RequestError for a workload whose answers are not generated token by token, and for
        points shorter than Offline's runs, by whose rules they are judged.
        """
        rules = system.require_scenario_rules(Scenario.OFFLINE)
        if not rules.token_latencies:
            raise RequestError(
                f"{system.workload}: its answers are not generated token by token; see podium sweep"
            )
        least_s, asked = rules.min_duration_ms / MS_PER_S, values["seconds"]
        if asked is not None and asked < least_s and not system.is_bare:
            raise RequestError(
                f"--seconds {asked:g}: Offline of profile {system.profile} lasts at least"
                f" {least_s:g} s"
            )

    def build_request(self, values: Mapping[str, Any], system: StudiedSystem) -> CurveRequest:
        """Resolve the points and their length."""
        rules = system.require_scenario_rules(Scenario.OFFLINE)
        return CurveRequest(
            concurrencies=tuple(values["concurrencies"]),
            seconds=values["seconds"] or rules.min_duration_ms / MS_PER_S,
            is_remote=system.is_remote,
            **select_bounds(values),
        )

    def adopt_request(self, earlier: CurveRequest, now: CurveRequest) -> CurveRequest | None:
        """Return the request if its points are as long, and have the same bounds."""
        same = replace(earlier, concurrencies=now.concurrencies)
        return now if same == now else None

    def list_known_points(self, request: CurveRequest) -> Sequence[CurvePoint]:
        """Return all points."""
        return tuple(CurvePoint(concurrency=each) for each in request.concurrencies)

    def choose_next_point(
        self, request: CurveRequest, done: Sequence[StudiedPoint[CurvePoint, CurveFigures]]
    ) -> CurvePoint | None:
        """Return the points by rising concurrency."""
        left = self.list_known_points(request)[len(done) :]
        return left[0] if left else None

    def name_point(self, point: CurvePoint) -> str:
        """Return the name of a point's folder."""
        return f"in-flight-{point.concurrency}"

    def describe_run(self, request: CurveRequest, point: CurvePoint) -> PlannedRun:
        """Describe Offline's run with so many requests in flight."""
        return PlannedRun(
            scenario=Scenario.OFFLINE,
            settings={
                select_concurrency_setting(request.is_remote): point.concurrency,
                DURATION_SETTING: int(request.seconds * MS_PER_S),
            },
            has_starts=True,
        )

    def guess_settings(
        self, point: CurvePoint, speed: ServedSpeed, last: RunFacts | None
    ) -> Mapping[str, HyperValue]:
        """Return the rate that sizes Offline's query, by the probe of one request alone."""
        if last is not None:
            return super().guess_settings(point, speed, last)
        of_one = point.concurrency * NS_PER_S / speed.latency_ns
        return {EXPECTED_RATE_SETTING: RATE_MARGIN * min(speed.samples_per_second, of_one)}

    def compute_figures(
        self, request: CurveRequest, point: CurvePoint, run: RunFacts
    ) -> CurveFigures | None:
        """Compute the figures from the records of tokens and of prompts."""
        tokens, starts, samples = run.tokens, run.starts_ns, run.record.system.sample_count
        logged = run.find_number(LOADGEN_TOKEN_RATE_KEY)
        if tokens is None or starts is None or logged is None or samples < 1:
            return None
        if len(starts) != len(tokens):
            return None
        times = build_answer_times(starts, tokens, run.arrivals)
        figures = compute_curve_figures(times, samples, logged)
        if figures is None:
            return None
        figures = add_answer_figures(figures, request, point, times, run)
        network = run.record.network
        if network and not is_time_per_token_known(network.answers_in_one_read, len(tokens)):
            return drop_times_per_token(figures)
        return figures

    def arrange_rows(
        self,
        requests: Sequence[CurveRequest],
        points: Sequence[StudiedPoint[CurvePoint, CurveFigures]],
    ) -> Sequence[StudiedPoint[CurvePoint, CurveFigures]]:
        """Sort by rising concurrency."""
        return sorted(points, key=lambda each: each.point.concurrency)

    def compute_answer(
        self,
        requests: Sequence[CurveRequest],
        points: Sequence[StudiedPoint[CurvePoint, CurveFigures]],
    ) -> CurveAnswer:
        """Return what was asked for, and its regions."""
        asked = tuple(sorted({number for each in requests for number in each.concurrencies}))
        round = registry.load_endpoints_round(CURVE_ROUND)
        return CurveAnswer(
            asked=asked,
            c_min=min(asked, default=0),
            c_max=max(asked, default=0),
            regions=divide_into_regions(round, asked) if asked else None,
        )

    def describe_answer(
        self,
        request: CurveRequest,
        answer: CurveAnswer,
        points: Sequence[StudiedPoint[CurvePoint, CurveFigures]],
    ) -> Sequence[str]:
        """Return which neighbours no test separates, what the bounds are, and how many requests are
        in flight at the last point that keeps them.
        """
        close = [
            f"{one.point.concurrency} and {other.point.concurrency} in flight: tokens/s not"
            " separable (95 %, Welch)"
            for one, other in pairwise(points)
            if is_separable(one, other, "system_tps") is False
        ]
        return (*close, *describe_kept_bounds(request, points))

    def describe_row(self, row: StudiedRow) -> Mapping[str, Any]:
        """Return a point with its region."""
        return {**describe_figures(row.studied), "region": find_row_region(row)}

    def describe_point(self, row: StudiedRow) -> str:
        """Describe a point in one line."""
        found = row.figures
        per_user = "speed per user not known"
        if found.tps_per_user is not None:
            per_user = f"{found.tps_per_user:,.1f} per user"
        return (
            f"{row.point.concurrency} in flight: {found.system_tps:,.1f} tokens/s, {per_user},"
            f" TTFT p90 {found.ttft_p90_ms:.2f} ms"
        )


def describe_kept_bounds(
    request: CurveRequest, points: Sequence[StudiedPoint[CurvePoint, CurveFigures]]
) -> Sequence[str]:
    """Return the line about the points that keep the bounds; none without bounds."""
    if not request.has_bounds or request.share is None:
        return ()
    named = (("first token", request.first_token_ns), ("further token", request.per_token_ns))
    told = " and ".join(f"{name} {ns / NS_PER_MS:g} ms" for name, ns in named if ns is not None)
    kept = [
        each for each in points if each.runs and (each.figures.within_share or 0) >= request.share
    ]
    asked = f"bounds: {told} in {request.share:.2%} of the requests"
    if not kept:
        return (f"{asked}: no point keeps them",)
    best = max(kept, key=lambda each: each.figures.goodput or 0.0)
    return (
        f"{asked}: {best.figures.goodput:,.2f} requests/s within them at"
        f" {best.point.concurrency} in flight",
    )


CURVE: Final = ConcurrencyCurve()


def select_concurrency_setting(is_remote: bool) -> str:
    """Return the setting that fixes the number of requests in flight."""
    return REMOTE_CONCURRENCY_SETTING if is_remote else LOCAL_CONCURRENCY_SETTING


def find_row_region(row: StudiedRow) -> str | None:
    """Return the region of a row; None if the curve has none."""
    return find_curve_region(row.answer.regions, row.point.concurrency)


def select_bounds(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bounds of requests that a command's options name."""
    bounds = {
        "first_token_ns": values.get("first_token_ms"),
        "per_token_ns": values.get("per_token_ms"),
    }
    named = {name: round(each * NS_PER_MS) for name, each in bounds.items() if each is not None}
    if not named:
        return {}
    return {**named, "share": values.get("share") or DEFAULT_SHARE}


def add_answer_figures(
    figures: CurveFigures,
    request: CurveRequest,
    point: CurvePoint,
    times: AnswerTimes,
    run: RunFacts,
) -> CurveFigures:
    """Add what the records say beyond the figures of every curve."""
    found: dict[str, Any] = {}
    window = find_steady_window(times, point.concurrency)
    if window is not None:
        found |= {
            "window_s": window.lasts_ns / NS_PER_S,
            "window_tps": count_window_tokens(times, window) * NS_PER_S / window.lasts_ns,
            "window_in_flight": compute_window_in_flight(times, window),
        }
    latencies = {"ttft": times.ttft_ns, "tpot": times.compute_tpot_ns(), "e2e": times.lasts_ns}
    if run.arrivals is not None:
        latencies["itl"] = run.arrivals.gaps_ns
    for name, values in latencies.items():
        for percentile, value in zip(PERCENTILES, select_percentiles_ms(values), strict=True):
            found[f"{name}_p{percentile:g}_ms"] = value
    span_ns = int(times.last_ns.max() - times.starts_ns.min())
    prompt_tokens = None if run.usage is None else run.usage.prompt_tokens
    input_tps = compute_input_tps(prompt_tokens, span_ns)
    if input_tps is not None:
        found |= {
            "input_tps": input_tps,
            "input_tps_per_user": input_tps / figures.in_flight_mean,
        }
    if request.has_bounds:
        within = times.count_within(request.first_token_ns, request.per_token_ns)
        found |= {
            "within": within,
            "within_share": within / figures.answers,
            "goodput": within * NS_PER_S / span_ns,
        }
    return replace(figures, **found)


def drop_times_per_token(figures: CurveFigures) -> CurveFigures:
    """Return figures without those that need times between the tokens of an answer."""
    names = (each.name for each in fields(figures) if each.name.startswith(("tpot_", "itl_")))
    unknown: dict[str, Any] = dict.fromkeys(names)
    return replace(figures, tps_per_user=None, **unknown)


def compute_curve_figures(
    times: AnswerTimes, samples: int, logged_tps: float
) -> CurveFigures | None:
    """Compute the figures of every curve; None if the records are empty, or no answer has tokens
    behind the first ones.

    Args:
        times: of all answers.
        samples: size of the data set.
        logged_tps: LoadGen's own tokens/s.
    """
    starts_ns, last_ns, tokens = times.starts_ns, times.last_ns, times.tokens
    per_token_ns = times.compute_tpot_ns()
    if not len(tokens) or not len(per_token_ns):
        return None
    span_ns = int(last_ns.max() - starts_ns.min())
    ttft_ns, tpot_ns = map(select_upper_value, (times.ttft_ns, per_token_ns))
    if span_ns <= 0 or tpot_ns <= 0:
        return None
    count = int(tokens.sum())
    return CurveFigures(
        answers=len(tokens),
        tokens=count,
        duration_s=span_ns / NS_PER_S,
        system_tps=count * NS_PER_S / span_ns,
        ttft_p90_ms=ttft_ns / NS_PER_MS,
        tpot_p90_ms=tpot_ns / NS_PER_MS,
        tps_per_user=NS_PER_S / tpot_ns,
        in_flight_mean=int((last_ns - starts_ns).sum()) / span_ns,
        passes=len(tokens) / samples,
        loadgen_tps=logged_tps,
    )


def select_upper_value(values: Any) -> float:
    """Return the percentile of an array by LoadGen's definition."""
    ordered = values.copy()
    ordered.sort()
    return float(ordered[compute_percentile_index(len(ordered), CURVE_PERCENTILE)])


def count_most_in_flight(starts_ns: Any, last_ns: Any) -> int:
    """Count how many answers are in progress at once, at most; one that ends as another begins is
    not in progress beside it.
    """
    moments = sorted(
        [(int(moment), 1) for moment in starts_ns] + [(int(moment), -1) for moment in last_ns]
    )
    live = most = 0
    for _, change in moments:
        live += change
        most = max(most, live)
    return most


def divide_into_regions(round: EndpointsRound, asked: Sequence[int]) -> Regions | None:
    """Return the regions of a curve over these concurrencies; None if it has none."""
    return round.compute_regions(min(asked), max(asked))


def find_curve_region(regions: Regions | None, concurrency: int) -> str | None:
    """Return the region of a concurrency; None if the curve has none."""
    return regions.find_region(concurrency) if regions else None
