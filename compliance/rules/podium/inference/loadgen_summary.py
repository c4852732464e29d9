"""LoadGen's summary against its detail log: a run writes both from the same values."""

import math
import re
from collections.abc import Iterator
from typing import Any, Final

from compliance.documents.podium.inference import LoadGenRun
from compliance.logs.loadgen.summary import Value, number
from compliance.rules import rule
from compliance.verdict import Fault
from suite.files.layout import DETAIL, SUMMARY
from suite.loadgen import early_stopping
from suite.loadgen.scenario import Scenario

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
MULTI_STREAM_PERCENTILE: Final = 99.0
"""loadgen/results.cc, PerformanceSummary::EarlyStopping: SingleStream estimates this percentile
too.
"""
WHOLE: Final = re.compile(r"(\d)\.0th\b")
"""How later LoadGens spell a whole percentile: `90.0th`, earlier ones `90th`."""
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
SHOWN: Final = 120
"""Characters of a strange line that a finding shows."""
QUERIES_LIMIT: Final = 1e12
"""More queries than that no run has had time for."""


@rule("loadgen.valid", LoadGenRun)
def valid(run: LoadGenRun) -> Iterator[Fault]:
    """LoadGen reports a performance run as VALID.

    Source: mlcommons/inference, loadgen/results.cc: PerfConstraintsMet, MinDurationMet,
    MinQueriesMet, early stopping.
    Advice: follow the summary's recommendation: lower the target rate, or raise the expected one,
    and repeat the run.
    """
    if not run.performance:
        return
    if run.summary.text("Result is") != "VALID":
        yield run.summary_fault("Result is", f"Result is {run.summary.text('Result is')}", "VALID")
    if run.value("result_validity") not in (None, "VALID"):
        yield run.detail_fault("result_validity", f"{run.value('result_validity')}", "VALID")
    for key in (
        "result_perf_constraints_met",
        "result_min_duration_met",
        "result_min_queries_met",
        "early_stopping_met",
    ):
        if run.value(key) not in (None, True):
            yield run.detail_fault(key, f"{key} {run.value(key)}", "true")


@rule("loadgen.summary", LoadGenRun)
def summary(run: LoadGenRun) -> Iterator[Fault]:
    """Every result and statistic in the summary is that of the detail log, and the summary has no
    lines that LoadGen does not write.

    Source: mlcommons/inference, loadgen/results.cc: both are written from the same values.
    Advice: submit both of LoadGen's files from the same run, unmodified.
    """
    yield from unknown(run)
    if not run.performance:
        return
    for name, key in WORDS.items():
        told, value = run.summary.values.get(name), run.value(key)
        if value is not None and (told is None or told.text != word(value)):
            yield run.summary_fault(
                name,
                f"{name}: {told.text if told else 'missing'}",
                f"{word(value)}, as in the detail log",
            )
    for name, key in figures(run):
        yield from figure(run, name, key)
    yield from stopping(run)


def unknown(run: LoadGenRun) -> Iterator[Fault]:
    """Yield what LoadGen does not write into the summary of such a run: a figure under a name of
    its own would be somebody's headline.
    """
    known = {*WORDS, *(name for name, _ in figures(run))} if run.performance else set()
    for name in (
        sorted(run.summary.values.keys() - known) if run.rule or not run.performance else ()
    ):
        yield run.summary_fault(
            name, f"'{name}'", "the names that LoadGen writes for this scenario"
        )
    for line, at in run.summary.strange.items():
        yield run.fault(SUMMARY, f"'{line[:SHOWN]}'", "lines that LoadGen writes", at)


def stopping(run: LoadGenRun) -> Iterator[Fault]:
    """Compare the words about early stopping, in both files, with what the counts make of them."""
    wanted, told = stopping_words(run), run.value("early_stopping_result")
    if wanted is None or not isinstance(told, str):
        return
    for file, found, line in (
        (SUMMARY, " ".join(run.summary.steps), None),
        (DETAIL, told, run.line("early_stopping_result")),
    ):
        if spelt(found) != spelt(wanted):
            yield run.fault(
                file, f"early stopping: '{found[:SHOWN]}'", f"'{wanted}', by the counts", line
            )


def spelt(text: str) -> list[str]:
    """Give the words of a sentence about early stopping, whatever marks its lines."""
    return WHOLE.sub(r"\1th", text.replace("*", " ")).split()


def stopping_words(run: LoadGenRun) -> str | None:
    """Say what LoadGen does of early stopping, from the counts of a run that passed; None where
    they are missing, or did not.
    """
    count = run.number("result_query_count")
    if run.scenario is Scenario.OFFLINE:
        return ""
    if run.scenario is Scenario.SERVER:
        return "Run successful." if run.value("early_stopping_met") is True else None
    if run.rule is None or count is None or not 0 < count <= QUERIES_LIMIT:
        return None
    if run.scenario is Scenario.MULTI_STREAM:
        return estimated(run, int(count), run.rule.percentile, "early_stopping_latency_ms")
    first = estimated(run, int(count), run.rule.percentile, "early_stopping_latency_ss")
    return None if first is None else f"{first} {second_words(run, int(count))}"


def second_words(run: LoadGenRun, count: int) -> str:
    """Say what SingleStream's queries prove of MultiStream's percentile, or how many it would
    take.
    """
    words = estimated(run, count, MULTI_STREAM_PERCENTILE, "early_stopping_latency_ms")
    if words:
        return words[words.index("Early") :]
    needed = early_stopping.estimate(count, MULTI_STREAM_PERCENTILE).queries_needed
    short = (
        f"Not enough queries processed for {MULTI_STREAM_PERCENTILE}th percentile early stopping"
        " estimate"
    )
    return f"{short} (would need to process at least {needed} total queries)."


def estimated(run: LoadGenRun, count: int, percentile: float, key: str) -> str | None:
    """Say what so many queries prove; None where they are too few."""
    found, value = early_stopping.estimate(count, percentile), run.value(key)
    if found.place_from_top is None:
        return None
    discarded = (
        f"Processed at least {found.queries_needed} queries ({count}). Would discard"
        f" {found.place_from_top - 1} highest latency queries."
    )
    return f"{discarded} Early stopping {percentile}th percentile estimate: {value}"


def word(value: Any) -> str:
    """Spell a value as the summary does."""
    return {True: "Yes", False: "NO"}[value] if isinstance(value, bool) else str(value)


def figures(run: LoadGenRun) -> Iterator[tuple[str, str]]:
    """Yield the names of the summary's figures, and their keys in the detail log."""
    yield from FIGURES.items()
    of_query, per_query = (
        ("query_", "per_query_") if run.scenario is Scenario.MULTI_STREAM else ("", "")
    )  # where a query outlasts its samples
    yield from (
        (name, f"result_{statistic}_{of_query}latency_ns") for name, statistic in LATENCIES.items()
    )
    yield from (
        (
            f"{percentile} percentile latency",
            f"result_{percentile}_percentile_{per_query}latency_ns",
        )
        for percentile in PERCENTILES
    )
    headline = headline_name(run)
    if headline and headline not in FIGURES and run.rule:
        yield headline, f"result_{run.rule.percentile:.2f}_percentile_{per_query}latency_ns"


def headline_name(run: LoadGenRun) -> str | None:
    """Name the figure that is the scenario's result."""
    return (
        HEADLINES[run.scenario].format(run.rule.percentile) if run.scenario and run.rule else None
    )


def figure(run: LoadGenRun, name: str, key: str) -> Iterator[Fault]:
    """Compare one figure; what stands in one file must stand in the other."""
    told, value = run.summary.values.get(name), run.number(key)
    if value is not None and told is None:
        yield run.fault(SUMMARY, f"no '{name}'", f"{value:g}, as in the detail log")
    elif told is not None and value is None:
        yield run.summary_fault(
            name, f"{name}: {told.text}", f"the same as {key} in the detail log, which has none"
        )
    elif (
        told is not None
        and value is not None
        and not (
            told.text == str(run.value(key)) if key.endswith("_ns") else close(told.text, value)
        )
    ):
        yield run.summary_fault(
            name, f"{name}: {told.text}", f"{value:g}, as {key} in the detail log"
        )


def close(text: str, value: float) -> bool:
    """Compare a printed number with another, as far as both print digits."""
    told = number(text)
    return told is not None and math.isclose(told, value, rel_tol=SIX_DIGITS, abs_tol=TWO_DECIMALS)


@rule("loadgen.parameters", LoadGenRun)
def parameters(run: LoadGenRun) -> Iterator[Fault]:
    """The summary's test parameters are all effective settings of the detail log.

    Source: mlcommons/inference, loadgen/test_settings_internal.cc: LogSummary and
    LogEffectiveSettings; no accepted entry differs.
    Advice: submit both of LoadGen's files from the same run, unmodified.
    """
    for name in sorted(
        run.summary.parameters.keys() - (PARAMETERS.keys() if run.performance else set())
    ):
        yield run.summary_fault(name, f"parameter '{name}'", "the parameters that LoadGen writes")
    for name, key in PARAMETERS.items() if run.performance and run.detail else ():
        told, value = run.summary.parameters.get(name), run.value(key)
        if told is None:
            yield run.fault(SUMMARY, f"no parameter '{name}'", f"{value}, as in the detail log")
        elif value is not None and not agrees(told, value):
            yield run.summary_fault(
                name, f"{name} {told.text}", f"{value}, as {key} in the detail log"
            )


def agrees(told: Value, value: Any) -> bool:
    """Compare a parameter: whole numbers exactly, so that no digit of a seed is lost."""
    if isinstance(value, bool):
        return told.text == str(int(value))
    if isinstance(value, int):
        return told.text == str(value) or close(told.text, value) and not told.text.isdigit()
    return close(told.text, value) if isinstance(value, float) else told.text == str(value)


@rule("loadgen.headline", LoadGenRun)
def headline(run: LoadGenRun) -> Iterator[Fault]:
    """The summary contains the scenario's one result, and no other scenario's.

    Source: mlcommons/inference, loadgen/results.cc, PerformanceSummary::LogSummary.
    Advice: submit LoadGen's file unmodified.
    """
    if not run.performance or run.rule is None:
        return
    wanted = headline_name(run)
    others = {"Completed samples per second", "Samples per second"} - {wanted}
    if wanted not in run.summary.values:
        yield run.fault(SUMMARY, f"no '{wanted}'", "the scenario's result")
    for name in sorted(others & run.summary.values.keys()):
        yield run.summary_fault(name, f"'{name}'", f"only '{wanted}'")
