"""The figures that load generators state, and how each of them computes them of the same answers.

Checked on what the programs wrote of single requests (tests/submissions/beside): guidellm 0.8.1,
AIPerf 0.13.0.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from suite.loadgen.percentiles import compute_percentile_index
from suite.studies.answer_figures import AnswerTimes
from suite.units import NS_PER_MS, NS_PER_S

PERCENTILES: Final = (50, 90, 99)
MEAN: Final = "mean"
Weights: TypeAlias = Any
"""Array (answers,) of how much each value counts, or None."""


def select_nearest_rank(values: Any, _: Weights, percent: float) -> float:
    """Return LoadGen's percentile: the value at index `count * percent`."""
    import numpy

    return float(numpy.sort(values)[compute_percentile_index(len(values), percent)])


def interpolate_linearly(values: Any, _: Weights, percent: float) -> float:
    """Return NumPy's percentile, which lies between two values."""
    import numpy

    return float(numpy.percentile(values, percent))


def select_by_weight(values: Any, weights: Weights, percent: float) -> float:
    """Return the first value at which the values up to it have the percentile's share of weight."""
    import numpy

    order = numpy.argsort(values, kind="stable")
    shares = numpy.cumsum(numpy.ones(len(values)) if weights is None else weights[order])
    place = int(numpy.searchsorted(shares, percent / 100 * shares[-1]))
    return float(values[order][min(place, len(values) - 1)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """How a program computes what it reports of its answers."""

    find_percentile: Callable[[Any, Weights, float], float] = select_nearest_rank
    counts_first_alone: bool = True
    """One token came first, whatever the first event brought."""
    weighs_by_tokens: bool = False
    """Times per token count as often as an answer has such tokens."""
    notes: tuple[str, ...] = ()
    """Where it differs from podium's, in sentences."""


PODIUM: Final = Definition(counts_first_alone=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A row of the table."""

    key: str
    name: str
    unit: str
    decimals: int = 2


FIRST_TOKEN: Final = "ttft"
PER_TOKEN: Final = "tpot"
LATENCY: Final = "latency"
WHOLE_PER_TOKEN: Final = "tpot_with_first"
TIMES: Final[Mapping[str, str]] = {
    FIRST_TOKEN: "time to the first token",
    PER_TOKEN: "time per token behind the first",
    LATENCY: "request to the answer's end",
    WHOLE_PER_TOKEN: "request to the answer's end, per token",
}
ANSWERS: Final = "answers"
FAILED: Final = "failed"
TOKENS_PER_ANSWER: Final = "tokens_per_answer"
TOKENS_PER_S: Final = "tokens_per_s"
ANSWERS_PER_S: Final = "answers_per_s"
IN_FLIGHT_MEAN: Final = "in_flight_mean"
COUNTS: Final = frozenset({ANSWERS, FAILED})
"""Figures of which no quotient says anything: each program runs for as long as it likes."""


def iterate_figures() -> Iterator[Figure]:
    """Yield all rows."""
    yield Figure(key=ANSWERS, name="answers", unit="", decimals=0)
    yield Figure(key=FAILED, name="requests without an answer", unit="", decimals=0)
    yield Figure(key=TOKENS_PER_ANSWER, name="output tokens per answer, mean", unit="")
    yield Figure(key=TOKENS_PER_S, name="output tokens", unit="1/s", decimals=1)
    yield Figure(key=ANSWERS_PER_S, name="answers", unit="1/s")
    yield Figure(key=IN_FLIGHT_MEAN, name="requests in flight, mean", unit="")
    for key, name in TIMES.items():
        for statistic in (MEAN, *(f"p{percent}" for percent in PERCENTILES)):
            yield Figure(
                key=f"{key}.{statistic}", name=f"{name}, {statistic}", unit="ms", decimals=3
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedRun:
    """What a load generator says of one of its runs."""

    program: str
    version: str
    definition: Definition
    in_flight: int | None
    """Requests that it kept in flight; None if it issued them otherwise."""
    load: str
    """How it issued requests, in words."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Key of a figure -> value."""
    notes: tuple[str, ...] = ()
    """What only this run shows of the program's definitions."""


def compute_answer_figures(answers: AnswerTimes, definition: Definition) -> dict[str, float]:
    """Compute the figures of some answers as a program defines them."""
    count, span_ns = len(answers.tokens), int(answers.last_ns.max() - answers.starts_ns.min())
    tokens = int(answers.tokens.sum())
    latency_ns = answers.last_ns - answers.starts_ns
    found = {ANSWERS: float(count), FAILED: 0.0, TOKENS_PER_ANSWER: tokens / count}
    if span_ns > 0:
        found[TOKENS_PER_S] = tokens * NS_PER_S / span_ns
        found[ANSWERS_PER_S] = count * NS_PER_S / span_ns
        found[IN_FLIGHT_MEAN] = int(latency_ns.sum()) / span_ns
    behind = answers.tokens - 1 if definition.counts_first_alone else answers.further
    longer = behind > 0
    per_token_ns = (answers.last_ns - answers.first_ns)[longer] / behind[longer]
    for key, values, weights in (
        (FIRST_TOKEN, answers.first_ns - answers.starts_ns, None),
        (PER_TOKEN, per_token_ns, behind[longer]),
        (LATENCY, latency_ns, None),
        (WHOLE_PER_TOKEN, latency_ns / answers.tokens, answers.tokens),
    ):
        if len(values):
            used = weights if definition.weighs_by_tokens else None
            found |= summarise_times(key, values / NS_PER_MS, used, definition)
    return found


def summarise_times(
    key: str, times_ms: Any, weights: Weights, definition: Definition
) -> Iterator[tuple[str, float]]:
    """Yield mean and percentiles of an array of times."""
    import numpy

    yield f"{key}.{MEAN}", float(numpy.average(times_ms, weights=weights))
    for percent in PERCENTILES:
        yield f"{key}.p{percent}", definition.find_percentile(times_ms, weights, percent)
