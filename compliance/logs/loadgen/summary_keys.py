"""The keys in LoadGen's detail log of what its summary prints.

Source: mlcommons/inference, loadgen/results.cc, LogSummary; test_settings_internal.cc, LogSummary.
"""

from typing import Final

from compliance.logs.loadgen.setting_names import EQUAL_SAMPLE_SETTINGS, LOADGEN_SEEDS
from suite.loadgen.headline import FIRST_TOKEN_KEY, OUTPUT_TOKEN_KEY

LOGGED_PERCENTILES: Final = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
"""Percentiles of each latency, in LoadGen's files of all rounds."""
LATENCY_EXTREMES: Final = ("Min", "Max", "Mean")
SUMMARY_TEXT_KEYS: Final = {
    "Scenario": "effective_scenario",
    "Mode": "effective_test_mode",
    "SUT name": "sut_name",
    "Result is": "result_validity",
}
SUMMARY_CONSTRAINT_KEYS: Final = {
    "Performance constraints satisfied": "result_perf_constraints_met",
    "Min duration satisfied": "result_min_duration_met",
    "Min queries satisfied": "result_min_queries_met",
    "Early stopping satisfied": "early_stopping_met",
}
SUMMARY_RATE_KEYS: Final = {
    "Completed samples per second": "result_completed_samples_per_sec",
    "Scheduled samples per second": "result_scheduled_samples_per_sec",
    "Samples per second": "result_samples_per_second",
}
SUMMARY_OVERHEAD_KEYS: Final = {
    "QPS w/ loadgen overhead": "result_qps_with_loadgen_overhead",
    "QPS w/o loadgen overhead": "result_qps_without_loadgen_overhead",
}
SUMMARY_LATENCY_KEYS: Final = {
    **{f"{name} latency": f"result_{name.lower()}_latency_ns" for name in LATENCY_EXTREMES},
    **{
        f"{share} percentile latency": f"result_{share}_percentile_latency_ns"
        for share in LOGGED_PERCENTILES
    },
}
"""Of samples; MultiStream's latencies are those of queries (`name_query_latency`)."""
SUMMARY_TOKEN_KEYS: Final = {
    **{
        f"{name} First Token latency": f"result_first_token_{name.lower()}_latency_ns"
        for name in LATENCY_EXTREMES
    },
    **{
        f"{share} percentile first token latency": FIRST_TOKEN_KEY.format(float(share))
        for share in LOGGED_PERCENTILES
    },
    **{
        f"{share} percentile time to output token": OUTPUT_TOKEN_KEY.format(float(share))
        for share in LOGGED_PERCENTILES
    },
}
TARGET_LATENCY_NAME: Final = "target_latency"
SUMMARY_PARAMETER_KEYS: Final = {
    TARGET_LATENCY_NAME: "effective_target_latency_ns",
    "min_duration": "effective_min_duration_ms",
    "max_duration": "effective_max_duration_ms",
    **{
        name: f"effective_{name}"
        for name in (
            "samples_per_query",
            "target_qps",
            "max_async_queries",
            "min_query_count",
            "max_query_count",
            *LOADGEN_SEEDS,
            "accuracy_log_rng_seed",
            "accuracy_log_probability",
            "accuracy_log_sampling_target",
            "print_timestamps",
            *EQUAL_SAMPLE_SETTINGS,
            "performance_sample_count",
            "accuracy_sample_count",
        )
    },
}
TOKEN_PARAMETER_KEYS: Final = {
    "ttft_latency": "requested_server_ttft_latency",
    "tpot_latency": "requested_server_tpot_latency",
}
"""Bounds of tokens, which take the place of the latency's."""


def name_query_latency(key: str) -> str:
    """Return the key of queries' latency for that of samples."""
    if "percentile" in key:
        return key.replace("_percentile_latency_", "_percentile_per_query_latency_")
    return key.replace("_latency_", "_query_latency_")
