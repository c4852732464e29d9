"""The result of a performance run since v1.0: which value of LoadGen's detail log it is, and in
which unit; for scores, comparisons and reports alike.
"""

from typing import Final

from compliance.documents.inference.served import LaterRun
from suite.loadgen.scenario import Scenario

TOKENS: Final = "tokens/s"
SAMPLES_OF_A_QUERY: Final = 8
"""Samples per query of MultiStream since v2.0. Source: inference_rules.adoc, Scenarios."""
TOKEN_RESULTS: Final = (
    ("Offline", "tokens_per_second", TOKENS, "result_tokens_per_second"),
    ("Server", "completed_tokens_per_second", TOKENS, "result_completed_tokens_per_second"),
    ("SingleStream", "latency_p90", "ns", "result_90.00_percentile_latency_ns"),
)
"""If LoadGen counts tokens, its early-stopping estimate is that of the first token. Source:
submission-checker.py, RESULT_FIELD_BENCHMARK_OVERWRITE.
"""
SERVED_RESULTS: Final = (
    ("SingleStream", "latency_p90", "ns", "early_stopping_latency_ss"),
    ("SingleStream", "latency_p90", "ns", "result_90.00_percentile_latency_ns"),
    ("MultiStream", "latency_p99", "ns", "early_stopping_latency_ms"),
    ("MultiStream", "latency_p99", "ns", "result_99.00_percentile_per_query_latency_ns"),
    ("Offline", "samples_per_second", "samples/s", "result_samples_per_second"),
    ("Server", "samples_per_second", "queries/s", ""),
)


def served_value(run: LaterRun, scenario: Scenario | None = None) -> tuple[str, str, float] | None:
    """Return metric, unit and result of a run; None if its log has none. Inferred results are
    computed from latencies of other scenarios.
    """
    if run.logged == "SingleStream" and scenario in (Scenario.OFFLINE, Scenario.MULTI_STREAM):
        return inferred(run, scenario)
    if run.logged == "MultiStream" and scenario is Scenario.OFFLINE:
        mean, each = (
            run.number("result_mean_query_latency_ns"),
            run.number("effective_samples_per_query"),
        )
        return ("samples_per_second", "samples/s", 1e9 * each / mean) if mean and each else None
    tokens = run.value("requested_use_token_latencies") is True
    for logged, metric, unit, key in (*(TOKEN_RESULTS if tokens else ()), *SERVED_RESULTS):
        other = f"result_{run.round.rules.server_result}_samples_per_sec"
        if (
            run.logged == logged
            and (value := run.number(other if logged == "Server" and unit != TOKENS else key))
            is not None
        ):
            return metric, unit, value
    return None


def inferred(run: LaterRun, scenario: Scenario) -> tuple[str, str, float] | None:
    """Infer an edge system's Offline result from SingleStream's mean latency, and its MultiStream
    result for 8 samples from the 99th percentile.

    Source: mlcommons/inference, submission-checker.py, get_inferred_result.
    """
    if scenario is Scenario.OFFLINE:
        mean = run.number("result_mean_latency_ns")
        return ("samples_per_second", "samples/s", 1e9 / mean) if mean else None
    place = run.number("early_stopping_latency_ms") or run.number(
        "result_99.00_percentile_latency_ns"
    )
    return ("latency_p99", "ns", SAMPLES_OF_A_QUERY * place) if place else None
