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
