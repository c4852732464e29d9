"""The figures of a point that servers answered, beside those of every curve: the steady window, the
latencies of answers, and how many requests were within their bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from suite.loadgen.arrival_record import AnswerArrivals
from suite.loadgen.percentiles import compute_percentile_index
from suite.loadgen.token_record import TokenTimes
from suite.loadgen.usage_record import NOT_STATED
from suite.units import NS_PER_MS, NS_PER_S

MIDDLE: Final = 50.0
USUAL: Final = 90.0
WORST: Final = 99.0
LEAST_WINDOW_SHARE: Final = 0.1
"""House rule: of a point's time; a shorter window has too few answers to say anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyWindow:
    """The part of a point in which as many requests were in flight as asked for: from the end of
    the last of the answers that began together to the start of the last prompt.
    """

    begin_ns: int
    end_ns: int

    @property
    def lasts_ns(self) -> int:
        """Return how long it is."""
        return self.end_ns - self.begin_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTimes:
    """The times of all answers of a point: arrays (answers,)."""

    starts_ns: Any
    """When the prompts began."""
    first_ns: Any
    last_ns: Any
    tokens: Any
    first_tokens: Any
    """Tokens that came at `first_ns`: one where that is not known."""

    @property
    def ttft_ns(self) -> Any:
        """Return the time from each prompt to its first token."""
        return self.first_ns - self.starts_ns

    @property
    def lasts_ns(self) -> Any:
        """Return the time from each prompt to the end of its answer."""
        return self.last_ns - self.starts_ns

    @property
    def further(self) -> Any:
        """Return the tokens of each answer behind those that came first."""
        return self.tokens - self.first_tokens

    def compute_tpot_ns(self) -> Any:
        """Return the time per further token of the answers that have some: an array (some,)."""
        several = self.further > 0
        return (self.last_ns - self.first_ns)[several] / self.further[several]

    def compute_each_tpot_ns(self) -> Any:
        """Return the time per further token of each answer, 0 of one without such tokens: an array
        (answers,).
        """
        return (self.last_ns - self.first_ns) * (self.further > 0) // self.further.clip(min=1)

    def count_within(self, first_token_ns: int | None, per_token_ns: int | None) -> int:
        """Count the requests within both bounds; one without further tokens has no time per
        token.
        """
        within = self.tokens > 0
        if first_token_ns is not None:
            within &= self.ttft_ns <= first_token_ns
        if per_token_ns is not None:
            within &= self.compute_each_tpot_ns() <= per_token_ns
        return int(within.sum())


def build_answer_times(
    starts_ns: Any, tokens: TokenTimes, arrivals: AnswerArrivals | None
) -> AnswerTimes:
    """Build the times of a point from its records; without `arrivals` one token came first."""
    first_tokens: Any = tokens.tokens.clip(max=1)
    if arrivals is not None and len(arrivals) == len(tokens):
        first_tokens = arrivals.first_tokens.clip(min=1).clip(max=tokens.tokens)
    return AnswerTimes(
        starts_ns=starts_ns,
        first_ns=tokens.first_ns,
        last_ns=tokens.last_ns,
        tokens=tokens.tokens,
        first_tokens=first_tokens,
    )


def find_steady_window(times: AnswerTimes, concurrency: int) -> SteadyWindow | None:
    """Return the steady window of a point; None if it has none, or a too short one."""
    if len(times.starts_ns) <= concurrency:
        return None
    order = times.starts_ns.argsort(kind="stable")
    begin_ns = int(times.last_ns[order[:concurrency]].max())
    end_ns = int(times.starts_ns[order[-1]])
    whole_ns = int(times.last_ns.max() - times.starts_ns.min())
    if end_ns - begin_ns < max(1.0, LEAST_WINDOW_SHARE * whole_ns):
        return None
    return SteadyWindow(begin_ns=begin_ns, end_ns=end_ns)


def count_window_tokens(times: AnswerTimes, window: SteadyWindow) -> float:
    """Count the tokens of a window: the first ones of an answer at their time, and the others
    evenly between the first and the last.
    """
    at_first = (times.first_ns >= window.begin_ns) & (times.first_ns < window.end_ns)
    lasts_ns = (times.last_ns - times.first_ns).clip(min=1)
    overlap_ns = measure_overlap_ns(times.first_ns, times.last_ns, window)
    return float((times.first_tokens * at_first + times.further * (overlap_ns / lasts_ns)).sum())


def measure_overlap_ns(begins_ns: Any, ends_ns: Any, window: SteadyWindow) -> Any:
    """Return how much of each span lies in a window: an array (answers,) of ns."""
    return (ends_ns.clip(max=window.end_ns) - begins_ns.clip(min=window.begin_ns)).clip(min=0)


def compute_window_in_flight(times: AnswerTimes, window: SteadyWindow) -> float:
    """Return the mean number of requests in flight in a window."""
    overlap_ns = measure_overlap_ns(times.starts_ns, times.last_ns, window)
    return int(overlap_ns.sum()) / window.lasts_ns


def select_percentiles_ms(
    values_ns: Any, percentiles: Sequence[float] = (MIDDLE, USUAL, WORST)
) -> tuple[float | None, ...]:
    """Return percentiles of an array of times, in ms, by LoadGen's definition; None for each if it
    is empty.
    """
    if not len(values_ns):
        return (None,) * len(percentiles)
    ordered = values_ns.copy()
    ordered.sort()
    return tuple(
        float(ordered[compute_percentile_index(len(ordered), each)]) / NS_PER_MS
        for each in percentiles
    )


def compute_input_tps(prompt_tokens: Any, span_ns: int) -> float | None:
    """Return the tokens of prompts per second, by the servers' counts, an array (answers,); None if
    one of them is not stated.
    """
    if prompt_tokens is None or not len(prompt_tokens) or (prompt_tokens == NOT_STATED).any():
        return None
    return int(prompt_tokens.sum()) * NS_PER_S / span_ns
