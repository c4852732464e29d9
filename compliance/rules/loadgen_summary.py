"""LoadGen's summary against its detail log: one run writes both, from the same values."""

import math
import re
from collections.abc import Iterator
from typing import Any, Final

from compliance.documents.serving import LoadGenRun
from compliance.logs.summary import Value
from compliance.rules import rule
from compliance.verdict import Fault
from suite.layout import SUMMARY
from suite.scenario import Scenario

WORDS: Final = {
    "Scenario": "effective_scenario",
    "Mode": "effective_test_mode",
    "SUT name": "sut_name",
    "Result is": "result_validity",
    "Performance constraints satisfied": "result_perf_constraints_met",
    "Min duration satisfied": "result_min_duration_met",
    "Min queries satisfied": "result_min_queries_met",
    "Early stopping satisfied": "early_stopping_met",
}
FIGURES: Final = {
    "Completed samples per second": "result_completed_samples_per_sec",
    "Scheduled samples per second": "result_scheduled_samples_per_sec",
    "Samples per second": "result_samples_per_second",
    "QPS w/ loadgen overhead": "result_qps_with_loadgen_overhead",
    "QPS w/o loadgen overhead": "result_qps_without_loadgen_overhead",
}
"""Name in the summary -> key of the detail log."""
LATENCIES: Final = {"Min latency": "min", "Max latency": "max", "Mean latency": "mean"}
ESTIMATES: Final = {Scenario.SINGLE_STREAM: "early_stopping_latency_ss", Scenario.MULTI_STREAM: "early_stopping_latency_ms"}
ESTIMATE: Final = re.compile(r"Early stopping (\d+(?:\.\d+)?)th percentile estimate: (\d+)")
"""loadgen/results.cc, PerformanceSummary::EarlyStopping."""
PERCENTILES: Final = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
HEADLINES: Final = {
    Scenario.SINGLE_STREAM: "{:.1f}th percentile latency",
    Scenario.MULTI_STREAM: "{:.1f}th percentile latency",
    Scenario.SERVER: "Completed samples per second",
    Scenario.OFFLINE: "Samples per second",
}
PARAMETERS: Final = {
    "samples_per_query": "effective_samples_per_query",
    "target_qps": "effective_target_qps",
    "target_latency": "effective_target_latency_ns",
    "max_async_queries": "effective_max_async_queries",
    "min_duration": "effective_min_duration_ms",
    "max_duration": "effective_max_duration_ms",
    "min_query_count": "effective_min_query_count",
    "max_query_count": "effective_max_query_count",
    "qsl_rng_seed": "effective_qsl_rng_seed",
    "sample_index_rng_seed": "effective_sample_index_rng_seed",
    "schedule_rng_seed": "effective_schedule_rng_seed",
    "accuracy_log_rng_seed": "effective_accuracy_log_rng_seed",
    "accuracy_log_probability": "effective_accuracy_log_probability",
    "accuracy_log_sampling_target": "effective_accuracy_log_sampling_target",
    "print_timestamps": "effective_print_timestamps",
    "performance_issue_unique": "effective_performance_issue_unique",
    "performance_issue_same": "effective_performance_issue_same",
    "performance_issue_same_index": "effective_performance_issue_same_index",
    "performance_sample_count": "effective_performance_sample_count",
    "accuracy_sample_count": "effective_accuracy_sample_count",
}
SIX_DIGITS: Final = 1e-5
"""Relative: the detail log prints floats with six significant digits."""
TWO_DECIMALS: Final = 0.0051
"""Absolute: the summary prints rates with two decimals."""

@rule("loadgen.valid", LoadGenRun)
def valid(run: LoadGenRun) -> Iterator[Fault]:
    """LoadGen calls a performance run VALID.

    Source: mlcommons/inference, loadgen/results.cc: PerfConstraintsMet, MinDurationMet, MinQueriesMet, early stopping.
    Advice: follow the recommendation of the summary: lower the target rate, or raise the expected one, and repeat the run.
    """
    if not run.performance:
        return
    if run.summary.text("Result is") != "VALID":
        yield run.summary_fault("Result is", f"Result is {run.summary.text('Result is')}", "VALID")
    if run.value("result_validity") not in (None, "VALID"):
        yield run.detail_fault("result_validity", f"{run.value('result_validity')}", "VALID")
    for key in ("result_perf_constraints_met", "result_min_duration_met", "result_min_queries_met", "early_stopping_met"):
        if run.value(key) not in (None, True):
            yield run.detail_fault(key, f"{key} {run.value(key)}", "true")


@rule("loadgen.summary", LoadGenRun)
def summary(run: LoadGenRun) -> Iterator[Fault]:
    """Every result and statistic of the summary is that of the detail log.

    Source: mlcommons/inference, loadgen/results.cc: both are written from the same values.
    Advice: hand in both of LoadGen's files of the same run, untouched.
    """
    if not run.performance:
        return
    for name, key in WORDS.items():
        told, value = run.summary.values.get(name), run.value(key)
        if value is not None and (told is None or told.text != word(value)):
            yield run.summary_fault(name, f"{name}: {told.text if told else 'missing'}", f"{word(value)}, as in the detail log")
    for name, key in figures(run):
        yield from figure(run, name, key)
    yield from estimate(run)


def estimate(run: LoadGenRun) -> Iterator[Fault]:
    """Compare early stopping's estimate, which is a stream's result: its line in the summary is what scores are read from."""
    key = ESTIMATES.get(run.scenario) if run.scenario else None
    wanted = run.value(key) if key else None
    if key is None or run.rule is None or wanted is None:
        return
    told = {float(match[1]): match[2] for match in map(ESTIMATE.search, run.summary.steps) if match}.get(run.rule.percentile)
    if told != str(wanted):
        yield run.fault(SUMMARY, f"early stopping estimate {told}", f"{wanted}, as {key} in the detail log")


def word(value: Any) -> str:
    """Spell a value as the summary does."""
    return {True: "Yes", False: "NO"}[value] if isinstance(value, bool) else str(value)


def figures(run: LoadGenRun) -> Iterator[tuple[str, str]]:
    """Yield the names of the summary's figures, and their keys in the detail log."""
    yield from FIGURES.items()
    of_query, per_query = ("query_", "per_query_") if run.scenario is Scenario.MULTI_STREAM else ("", "")  # where a query outlasts its samples
    yield from ((name, f"result_{statistic}_{of_query}latency_ns") for name, statistic in LATENCIES.items())
    yield from ((f"{percentile} percentile latency", f"result_{percentile}_percentile_{per_query}latency_ns") for percentile in PERCENTILES)
    headline = headline_name(run)
    if headline and headline not in FIGURES and run.rule:
        yield headline, f"result_{run.rule.percentile:.2f}_percentile_{per_query}latency_ns"


def headline_name(run: LoadGenRun) -> str | None:
    """Name the figure that is the scenario's result."""
    return HEADLINES[run.scenario].format(run.rule.percentile) if run.scenario and run.rule else None


def figure(run: LoadGenRun, name: str, key: str) -> Iterator[Fault]:
    """Compare one figure; what stands in one file must stand in the other."""
    told, value = run.summary.values.get(name), run.number(key)
    if value is not None and told is None:
        yield run.fault(SUMMARY, f"no '{name}'", f"{value:g}, as in the detail log")
    elif told is not None and value is None:
        yield run.summary_fault(name, f"{name}: {told.text}", f"the same as {key} in the detail log, which has none")
    elif told is not None and value is not None and not (told.text == str(run.value(key)) if key.endswith("_ns") else close(told.text, value)):
        yield run.summary_fault(name, f"{name}: {told.text}", f"{value:g}, as {key} in the detail log")


def close(text: str, value: float) -> bool:
    """Compare a printed number with another, as far as both print digits."""
    try:
        return math.isclose(float(text), value, rel_tol=SIX_DIGITS, abs_tol=TWO_DECIMALS)
    except ValueError:
        return False


@rule("loadgen.parameters", LoadGenRun)
def parameters(run: LoadGenRun) -> Iterator[Fault]:
    """The test parameters of the summary are the effective settings of the detail log, all of them.

    Source: mlcommons/inference, loadgen/test_settings_internal.cc: LogSummary and LogEffectiveSettings; no accepted entry differs.
    Advice: hand in both of LoadGen's files of the same run, untouched.
    """
    for name, key in PARAMETERS.items() if run.performance and run.detail else ():
        told, value = run.summary.parameters.get(name), run.value(key)
        if told is None:
            yield run.fault(SUMMARY, f"no parameter '{name}'", f"{value}, as in the detail log")
        elif value is not None and not agrees(told, value):
            yield run.summary_fault(name, f"{name} {told.text}", f"{value}, as {key} in the detail log")


def agrees(told: Value, value: Any) -> bool:
    """Compare a parameter: whole numbers exactly, so that no digit of a seed is lost."""
    if isinstance(value, bool):
        return told.text == str(int(value))
    if isinstance(value, int):
        return told.text == str(value) or close(told.text, value) and not told.text.isdigit()
    return close(told.text, value) if isinstance(value, float) else told.text == str(value)


@rule("loadgen.headline", LoadGenRun)
def headline(run: LoadGenRun) -> Iterator[Fault]:
    """The summary has the scenario's one result, and no other scenario's.

    Source: mlcommons/inference, loadgen/results.cc, PerformanceSummary::LogSummary.
    Advice: hand in LoadGen's file untouched.
    """
    if not run.performance or run.rule is None:
        return
    wanted = headline_name(run)
    others = {"Completed samples per second", "Samples per second"} - {wanted}
    if wanted not in run.summary.values:
        yield run.fault(SUMMARY, f"no '{wanted}'", "the scenario's result")
    for name in sorted(others & run.summary.values.keys()):
        yield run.summary_fault(name, f"'{name}'", f"only '{wanted}'")
