"""The document of a curve: throughput against latency over the number of requests in flight.

Each point is a LoadGen Offline run in which a fixed number of requests is in flight: when an answer
ends, the next prompt begins. The harness writes the table and the judge recomputes it, both with
the formulas in this module. Terms of MLPerf Endpoints (rules of 2026-09-24, 4.1 and 5.5); a curve
of podium's is not a result of that benchmark.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from suite.loadgen.percentiles import compute_percentile_index
from suite.rounds.endpoints_curve import EndpointsRound, Regions
from suite.studies.documents import StudyMachine
from suite.studies.rates import StudyStamps
from suite.units import NS_PER_MS, NS_PER_S

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint(CurveFigures):
    """One point of the table."""

    concurrency: int
    region: str | None
    """None without regions, for a curve that ends within the lowest one."""
    folder: str
    """Folder of the LoadGen run, relative to the study's."""
    loadgen_tps: float
    """LoadGen's own figure, as a cross-check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrencyCurve:
    """`study.json` of `podium curve`."""

    kind: str
    note: str
    stamps: StudyStamps
    endpoints: tuple[str, ...]
    """The servers; empty for a system in LoadGen's process."""
    tokenizer_sha256: str
    """Hash of the tokenizer with which servers' answers are counted; empty in this process, where
    tokens are what the model generates.
    """
    seconds: float
    """Least duration of a point."""
    asked: tuple[int, ...]
    """Concurrencies that were asked for, by this command and by earlier ones."""
    c_min: int
    c_max: int
    regions: Regions | None
    points: tuple[CurvePoint, ...]
    """By rising concurrency."""
    finished: bool
    """False while points may be missing."""
    machine: StudyMachine | None = None


def compute_curve_figures(
    starts_ns: Any, first_ns: Any, last_ns: Any, tokens: Any, samples: int
) -> CurveFigures | None:
    """Compute a point's figures; None if its records are empty, or no answer has two tokens.

    Args:
        starts_ns: array (answers,): when each prompt began, by the clock of the others.
        first_ns: array (answers,): when its first token came.
        last_ns: array (answers,): when its last token came.
        tokens: array (answers,): how many there are.
        samples: size of the data set.
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
