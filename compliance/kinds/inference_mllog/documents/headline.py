"""Read the result of a performance run since v1.0: its value in LoadGen's detail log, and its unit;
for scores, comparisons and reports alike.
"""

from typing import Final

from compliance.kinds.inference_mllog.documents.run import MllogRun
from suite.loadgen.headline import LATENCY_METRIC, TOKEN_HEADLINE_METRICS, TOKEN_RATE_UNIT
from suite.loadgen.scenario import Scenario

MULTISTREAM_SAMPLES_PER_QUERY: Final = 8
"""Samples per query of MultiStream since v2.0. Source: inference_rules.adoc, Scenarios."""
TOKEN_RESULT_NAMES: Final = {LATENCY_METRIC: ("latency_p90", "ns")}
"""Metric of podium's run record -> the name and unit of the result, where they differ."""
TOKEN_RESULTS: Final = tuple(
    (scenario.label, *TOKEN_RESULT_NAMES.get(metric, (metric, TOKEN_RATE_UNIT)), key)
    for scenario, (metric, key) in TOKEN_HEADLINE_METRICS.items()
)
"""Scenario, metric, unit and key of results where LoadGen counts tokens."""
MLLOG_HEADLINE_RESULTS: Final = (
    ("SingleStream", "latency_p90", "ns", "early_stopping_latency_ss"),
    ("SingleStream", "latency_p90", "ns", "result_90.00_percentile_latency_ns"),
    ("MultiStream", "latency_p99", "ns", "early_stopping_latency_ms"),
    ("MultiStream", "latency_p99", "ns", "result_99.00_percentile_per_query_latency_ns"),
    ("Offline", "samples_per_second", "samples/s", "result_samples_per_second"),
    ("Server", "samples_per_second", "queries/s", ""),
)


def find_mllog_headline(
    run: MllogRun, scenario: Scenario | None = None
) -> tuple[str, str, float] | None:
    """Return metric, unit and result of a run; None if its log has none. Inferred results are
    computed from latencies of other scenarios.
    """
    if run.logged_scenario == "SingleStream" and scenario in (
        Scenario.OFFLINE,
        Scenario.MULTI_STREAM,
    ):
        return compute_inferred_run_result(run, scenario)
    if run.logged_scenario == "MultiStream" and scenario is Scenario.OFFLINE:
        mean, each = (
            run.find_number("result_mean_query_latency_ns"),
            run.find_number("effective_samples_per_query"),
        )
        if mean and each:
            return ("samples_per_second", "samples/s", 1e9 * each / mean)
        return None
    results: tuple[tuple[str, str, str, str], ...] = MLLOG_HEADLINE_RESULTS
    if run.find_value("requested_use_token_latencies") is True:
        results = (*TOKEN_RESULTS, *results)
    for logged, metric, unit, key in results:
        other = f"result_{run.round.rules.server_result}_samples_per_sec"
        if (
            run.logged_scenario == logged
            and (
                value := run.find_number(
                    other if logged == "Server" and unit != TOKEN_RATE_UNIT else key
                )
            )
            is not None
        ):
            return metric, unit, value
    return None


def compute_inferred_run_result(run: MllogRun, scenario: Scenario) -> tuple[str, str, float] | None:
    """Infer an edge system's Offline result from SingleStream's mean latency, and its MultiStream
    result for 8 samples from the 99th percentile.

    Source: mlcommons/inference, submission-checker.py, get_inferred_result.
    """
    if scenario is Scenario.OFFLINE:
        mean = run.find_number("result_mean_latency_ns")
        if mean:
            return ("samples_per_second", "samples/s", 1e9 / mean)
        return None
    latency_ns = run.find_number("early_stopping_latency_ms") or run.find_number(
        "result_99.00_percentile_latency_ns"
    )
    if not latency_ns:
        return None
    return ("latency_p99", "ns", MULTISTREAM_SAMPLES_PER_QUERY * latency_ns)
