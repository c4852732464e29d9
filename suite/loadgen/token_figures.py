"""What LoadGen says of the tokens of a performance run, from its detail log: the harness prints it,
scores and reports show it, all from this table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from suite.loadgen.headline import FIRST_TOKEN_KEY, OUTPUT_TOKEN_KEY

TOKEN_PERCENTILES: Final = (50.0, 90.0, 99.0)
"""Percentiles of tokens' latencies that scores state."""
TOKEN_LATENCIES: Final[Mapping[str, tuple[str, str]]] = {
    f"{name}_p{percent:g}": (f"{name}_ns", f"p{percent:g}")
    for name in ("ttft", "tpot")
    for percent in TOKEN_PERCENTILES
}
"""Name of a latency, as in ttft_p99 -> its field of TokenFigures, and its percentile."""
TOKEN_RATE_KEYS: Final = ("result_completed_tokens_per_second", "result_tokens_per_second")
ANSWER_RATE_KEYS: Final = ("result_completed_samples_per_sec", "result_samples_per_second")
"""Of Server and SingleStream, then of Offline. Source: mlcommons/inference, loadgen/results.cc."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFigures:
    """Figures of a run whose answers are generated token by token."""

    tokens_per_s: float | None = None
    answers_per_s: float | None = None
    ttft_ns: Mapping[str, float] = field(default_factory=dict)
    """Percentile, as in p90 -> time to the first token; empty in Offline, where all queries are
    issued at once.
    """
    tpot_ns: Mapping[str, float] = field(default_factory=dict)
    """The same of the time per output token."""

    def find_latency_ns(self, name: str) -> float | None:
        """Return a latency by its name in TOKEN_LATENCIES; None if it was not logged."""
        latency, percentile = TOKEN_LATENCIES[name]
        found: Mapping[str, float] = getattr(self, latency)
        return found.get(percentile)


def read_token_figures(find_number: Callable[[str], float | None]) -> TokenFigures:
    """Return the figures of a detail log, whose numbers `find_number` looks up by key."""
    return TokenFigures(
        tokens_per_s=find_first_rate(find_number, TOKEN_RATE_KEYS),
        answers_per_s=find_first_rate(find_number, ANSWER_RATE_KEYS),
        ttft_ns=find_token_percentiles(find_number, FIRST_TOKEN_KEY),
        tpot_ns=find_token_percentiles(find_number, OUTPUT_TOKEN_KEY),
    )


def find_first_rate(
    find_number: Callable[[str], float | None], keys: tuple[str, ...]
) -> float | None:
    """Return the number of the first key that is logged; None if none is."""
    return next((value for key in keys if (value := find_number(key)) is not None), None)


def find_token_percentiles(
    find_number: Callable[[str], float | None], form: str
) -> dict[str, float]:
    """Return the logged percentiles of a token's latency."""
    return {
        f"p{percent:g}": value
        for percent in TOKEN_PERCENTILES
        if (value := find_number(form.format(percent))) is not None
    }
