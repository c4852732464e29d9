"""What LoadGen, or another client, measured in a performance run: percentiles of latency, also of
tokens, and its verdict.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from suite.loadgen.headline import (
    FIRST_TOKEN_KEY,
    OUTPUT_TOKEN_KEY,
    build_percentile_keys,
)
from suite.units import NS_PER_MS

LOADGEN_PERCENTILES: Final = (50.0, 90.0, 95.0, 97.0, 99.0, 99.9)
"""Percentiles in LoadGen's summary. Source: mlcommons/inference, loadgen/results.cc."""
PERCENTILE_LOG_KEYS: Final = {
    percent: build_percentile_keys(percent) for percent in LOADGEN_PERCENTILES
}
FIRST_TOKEN_NAME: Final = "time to first token (TTFT)"
OUTPUT_TOKEN_NAME: Final = "time per output token (TPOT)"
TOKEN_LATENCY_KEYS: Final = {
    FIRST_TOKEN_NAME: FIRST_TOKEN_KEY,
    OUTPUT_TOKEN_NAME: OUTPUT_TOKEN_KEY,
}
"""Name of a token's latency -> its key in the detail log, by percentile."""
NO_VERDICT: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGenFigures:
    """One performance run as measured by LoadGen; latencies in ms."""

    folder: Path
    measured_by: str = "LoadGen"
    """The program that issued the queries."""
    verdict: str = NO_VERDICT
    """VALID or INVALID, as LoadGen printed it."""
    percentiles: Mapping[float, float] = field(default_factory=dict)
    """Percentile -> latency of queries, or of samples if the log has no others."""
    token_latencies: Mapping[str, Mapping[float, float]] = field(default_factory=dict)
    """Name -> percentile -> latency; empty if LoadGen did not count tokens."""


def select_token_latencies(
    find_number: Callable[[str], float | None],
) -> dict[str, Mapping[float, float]]:
    """Return name -> percentile -> latency in ms of tokens; empty if LoadGen did not count them."""
    return {
        name: found
        for name, key in TOKEN_LATENCY_KEYS.items()
        if (
            found := select_latencies(
                find_number,
                {percent: (key.format(percent),) for percent in LOADGEN_PERCENTILES},
            )
        )
    }


def select_latencies(
    find_number: Callable[[str], float | None], names: Mapping[float, Sequence[str]]
) -> dict[float, float]:
    """Return percentile -> latency in ms: of several names of a percentile, the first that is
    logged counts; those that are not above 0 are left out.
    """
    found = (
        (percent, next(filter(None, map(find_number, keys)), 0.0))
        for percent, keys in names.items()
    )
    return {percent: value / NS_PER_MS for percent, value in found if value > 0}
