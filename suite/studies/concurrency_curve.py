"""The document of a curve: throughput against latency over the number of requests in flight.

Each point is a LoadGen Offline run in which a fixed number of requests is in flight: when an answer
ends, the next prompt begins. The harness writes the table and the judge recomputes it, both with
the formulas in this module. Terms of MLPerf Endpoints (rules of 2026-09-24, 4.1 and 5.5); a curve
of podium's is not a result of that benchmark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from suite import registry
from suite.columns import UNKNOWN_CELL, Column, Table
from suite.errors import RequestError
from suite.loadgen.percentiles import compute_percentile_index
from suite.loadgen.scenario import Scenario
from suite.rounds import HyperValue
from suite.rounds.endpoints_curve import EndpointsRound, Regions
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
from suite.studies.points import StudiedPoint, describe_figures
from suite.studies.run_facts import RunFacts
from suite.units import MS_PER_S, NS_PER_MS, NS_PER_S

CURVE_KIND: Final = "curve"
CURVE_NOTE: Final = "a podium curve, not an MLPerf Endpoints result"
CURVE_ROUND: Final = "endpoints-v1.0"
"""Whose regions are used."""
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
    tpot_p90_ms: float
    """Per token behind the first, of answers with more than one."""
    tps_per_user: float
    in_flight_mean: float
    """Weighted by time."""
    passes: float
    """Answers per sample of the data set."""
    loadgen_tps: float
    """LoadGen's own tokens/s, as a cross-check."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveAnswer:
    """What the points were asked to cover."""

    asked: tuple[int, ...]
    """Concurrencies that were asked for, by all commands."""
    c_min: int
    c_max: int
    regions: Regions | None
    """None for a curve that ends within the lowest one."""


CURVE_TABLE: Final[Table[StudiedRow]] = Table(
    columns=(
        Column("concurrency", lambda row: row.point.concurrency, title="in flight", numeric=True),
        Column(
            "region",
            lambda row: find_row_region(row),
            tell=lambda row: (find_row_region(row) or UNKNOWN_CELL).replace("_", " "),
            numeric=True,
        ),
        build_figure_column("system_tps", "tokens/s", 1),
        build_figure_column("tps_per_user", "per user", 1),
        build_figure_column("ttft_p90_ms", "TTFT p90 ms", 2),
        build_figure_column("tpot_p90_ms", "TPOT p90 ms", 3),
        build_figure_column("in_flight_mean", "mean in flight", 2),
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
        )

    def adopt_request(self, earlier: CurveRequest, now: CurveRequest) -> CurveRequest | None:
        """Return the request if its points are as long."""
        return now if earlier.seconds == now.seconds else None

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
        return compute_curve_figures(
            starts, tokens.first_ns, tokens.last_ns, tokens.tokens, samples, logged
        )

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

    def describe_row(self, row: StudiedRow) -> Mapping[str, Any]:
        """Return a point with its region."""
        return {**describe_figures(row.studied), "region": find_row_region(row)}

    def describe_point(self, row: StudiedRow) -> str:
        """Describe a point in one line."""
        found = row.figures
        return (
            f"{row.point.concurrency} in flight: {found.system_tps:,.1f} tokens/s,"
            f" {found.tps_per_user:,.1f} per user, TTFT p90 {found.ttft_p90_ms:.2f} ms"
        )


CURVE: Final = ConcurrencyCurve()


def select_concurrency_setting(is_remote: bool) -> str:
    """Return the setting that fixes the number of requests in flight."""
    return REMOTE_CONCURRENCY_SETTING if is_remote else LOCAL_CONCURRENCY_SETTING


def find_row_region(row: StudiedRow) -> str | None:
    """Return the region of a row; None if the curve has none."""
    return find_curve_region(row.answer.regions, row.point.concurrency)


def compute_curve_figures(
    starts_ns: Any, first_ns: Any, last_ns: Any, tokens: Any, samples: int, logged_tps: float
) -> CurveFigures | None:
    """Compute a point's figures; None if its records are empty, or no answer has two tokens.

    Args:
        starts_ns: array (answers,): when each prompt began, by the clock of the others.
        first_ns: array (answers,): when its first token came.
        last_ns: array (answers,): when its last token came.
        tokens: array (answers,): how many there are.
        samples: size of the data set.
        logged_tps: LoadGen's own tokens/s.
    """
    several = tokens > 1
    if not len(tokens) or not several.any():
        return None
    span_ns = int(last_ns.max() - starts_ns.min())
    per_token_ns = (last_ns - first_ns)[several] / (tokens[several] - 1)
    ttft_ns, tpot_ns = (
        select_upper_value(values) for values in (first_ns - starts_ns, per_token_ns)
    )
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
