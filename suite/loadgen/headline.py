"""The headline metric of a performance run: its name, and its key in LoadGen's detail log.

The harness, the judge, scores, comparisons and reports all read it from the log by this table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from suite.loadgen.scenario import Scenario
from suite.units import NS_PER_S

LATENCY_METRIC: Final = "latency_ns"
"""The only lower-is-better metric; the others are rates."""
HEADLINE_METRICS: Final[Mapping[Scenario, tuple[str, str]]] = {
    Scenario.SINGLE_STREAM: (LATENCY_METRIC, "early_stopping_latency_ss"),
    Scenario.MULTI_STREAM: (LATENCY_METRIC, "early_stopping_latency_ms"),
    Scenario.SERVER: ("completed_samples_per_second", "result_completed_samples_per_sec"),
    Scenario.OFFLINE: ("samples_per_second", "result_samples_per_second"),
}
"""Metric and its key in the detail log, as used by MLCommons' submission checker since LoadGen 2.0
(RESULT_FIELD_NEW).
"""
SAMPLE_RATE_UNIT: Final = "samples/s"
TOKEN_RATE_UNIT: Final = "tokens/s"
TOKEN_HEADLINE_METRICS: Final[Mapping[Scenario, tuple[str, str]]] = {
    Scenario.SINGLE_STREAM: (LATENCY_METRIC, "result_90.00_percentile_latency_ns"),
    Scenario.SERVER: ("completed_tokens_per_second", "result_completed_tokens_per_second"),
    Scenario.OFFLINE: ("tokens_per_second", "result_tokens_per_second"),
}
"""The same where LoadGen measures tokens: its early-stopping estimate is then that of the first
token. Source: submission-checker.py, RESULT_FIELD_BENCHMARK_OVERWRITE.
"""
TOKEN_RATE_METRICS: Final = ("completed_tokens_per_second", "tokens_per_second")
"""Metrics in tokens/s; other rates are in samples/s."""
TOKEN_BOUND_KEYS: Final[Mapping[str, str]] = {
    "first_token_ns": "requested_server_ttft_latency",
    "per_token_ns": "requested_server_tpot_latency",
}
"""Bound of tokens in a row -> its key in the detail log. Source: mlcommons/inference,
loadgen/test_settings.cc.
"""
REQUESTED_TOKENS_KEY: Final = "requested_use_token_latencies"
"""Whether LoadGen measures tokens, in its detail log."""
SUMMARY_VERDICT_NAME: Final = "Result is"
"""LoadGen's verdict in its summary ..."""
VERDICT_KEY: Final = "result_validity"
"""... and in its detail log."""
VALID_RUN: Final = "VALID"
"""LoadGen's verdict for a performance run that counts."""
SCENARIO_KEY: Final = "effective_scenario"
"""What LoadGen ran, in its detail log."""
FIRST_TOKEN_KEY: Final = "result_first_token_{:.2f}_percentile_latency_ns"
OUTPUT_TOKEN_KEY: Final = "result_time_per_output_token_{:.2f}_percentile_ns"
"""Keys of tokens' latencies in the detail log, by percentile. Source: mlcommons/inference,
loadgen/results.cc.
"""


def select_headline_metric(scenario: Scenario, measures_tokens: bool) -> tuple[str, str]:
    """Return the headline metric of a performance run, and its key in LoadGen's detail log."""
    token_metric = None
    if measures_tokens:
        token_metric = TOKEN_HEADLINE_METRICS.get(scenario)
    return token_metric or HEADLINE_METRICS[scenario]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedHeadline:
    """The result of a performance run."""

    metric: str
    value: float
    """In nanoseconds, samples/s or tokens/s."""


def find_logged_headline(
    scenario: Scenario | None, measures_tokens: bool, find_number: Callable[[str], float | None]
) -> LoggedHeadline | None:
    """Return a performance run's result from its detail log; None if the log has no such number."""
    if scenario:
        metric, key = select_headline_metric(scenario, measures_tokens)
    else:
        metric, key = "", ""
    value = find_number(key)
    if value is None:
        return None
    return LoggedHeadline(metric=metric, value=value)


def convert_to_ceiling_unit(headline: LoggedHeadline, samples_per_query: int) -> float:
    """Return a result in the unit of the harness ceiling, where latencies are samples/s."""
    if headline.metric != LATENCY_METRIC:
        return headline.value
    return samples_per_query * NS_PER_S / max(headline.value, 1.0)


def get_rate_unit(metric: str) -> str:
    """Return the unit of a headline metric that is a rate."""
    if metric in TOKEN_RATE_METRICS:
        return TOKEN_RATE_UNIT
    return SAMPLE_RATE_UNIT


def build_percentile_keys(percent: float) -> tuple[str, ...]:
    """Return the keys of a latency's percentile in the detail log: MultiStream has one for queries,
    which gives its result, and one for samples.
    """
    return tuple(f"result_{percent:.2f}_percentile_{of}latency_ns" for of in ("per_query_", ""))


def build_percentile_summary_names(percent: float) -> tuple[str, ...]:
    """Return the same in the summaries before v1.0, whose detail logs have no numbers."""
    return tuple(f"{of}{percent:.2f} percentile latency" for of in ("query ", ""))
