"""The headline value of a performance run: its name, and its key in LoadGen's detail log.

The harness records it, the judge compares it, scores and comparisons print it: all of them by this table.
"""

from collections.abc import Mapping
from typing import Final

from suite.loadgen.scenario import Scenario

LATENCY: Final = "latency_ns"
"""The only metric of which less is better; the others are rates, in samples/s."""
METRICS: Final[Mapping[Scenario, tuple[str, str]]] = {
    Scenario.SINGLE_STREAM: (LATENCY, "early_stopping_latency_ss"),
    Scenario.MULTI_STREAM: (LATENCY, "early_stopping_latency_ms"),
    Scenario.SERVER: ("completed_samples_per_second", "result_completed_samples_per_sec"),
    Scenario.OFFLINE: ("samples_per_second", "result_samples_per_second"),
}
"""Metric and the detail log's key for it; what MLCommons' submission checker takes since LoadGen 2.0 (RESULT_FIELD_NEW)."""
