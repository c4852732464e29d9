"""The headline metric of a performance run: its name, and its key in LoadGen's detail log.

The harness records it, the judge checks it, scores and comparisons print it, all from this table.
"""

from collections.abc import Mapping
from typing import Final

from suite.loadgen.scenario import Scenario

LATENCY_METRIC: Final = "latency_ns"
"""The only lower-is-better metric; the others are rates, in samples/s."""
HEADLINE_METRICS: Final[Mapping[Scenario, tuple[str, str]]] = {
    Scenario.SINGLE_STREAM: (LATENCY_METRIC, "early_stopping_latency_ss"),
    Scenario.MULTI_STREAM: (LATENCY_METRIC, "early_stopping_latency_ms"),
    Scenario.SERVER: ("completed_samples_per_second", "result_completed_samples_per_sec"),
    Scenario.OFFLINE: ("samples_per_second", "result_samples_per_second"),
}
"""Metric and its key in the detail log, as used by MLCommons' submission checker since LoadGen 2.0
(RESULT_FIELD_NEW).
"""
SUMMARY_VERDICT_NAME: Final = "Result is"
"""LoadGen's verdict in its summary ..."""
VERDICT_KEY: Final = "result_validity"
"""... and in its detail log."""
FIRST_TOKEN_KEY: Final = "result_first_token_{:.2f}_percentile_latency_ns"
OUTPUT_TOKEN_KEY: Final = "result_time_per_output_token_{:.2f}_percentile_ns"
"""Keys of tokens' latencies in the detail log, by percentile. Source: mlcommons/inference,
loadgen/results.cc.
"""


def build_percentile_keys(percent: float) -> tuple[str, ...]:
    """Return the keys of a latency's percentile in the detail log: MultiStream has one for queries,
    which gives its result, and one for samples.
    """
    return tuple(f"result_{percent:.2f}_percentile_{of}latency_ns" for of in ("per_query_", ""))


def build_percentile_summary_names(percent: float) -> tuple[str, ...]:
    """Return the same in the summaries before v1.0, whose detail logs have no numbers."""
    return tuple(f"{of}{percent:.2f} percentile latency" for of in ("query ", ""))
