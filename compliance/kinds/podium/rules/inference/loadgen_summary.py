"""Check LoadGen's summary against its detail log: a run writes both from the same values."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from compliance.kinds.podium.documents.inference import LoadGenRun
from compliance.logs.loadgen.summary import EARLY_EXIT_REMARK, LogValue, parse_printed_number
from compliance.logs.loadgen.summary_keys import (
    LATENCY_EXTREMES,
    SUMMARY_CONSTRAINT_KEYS,
    SUMMARY_LATENCY_KEYS,
    SUMMARY_OVERHEAD_KEYS,
    SUMMARY_PARAMETER_KEYS,
    SUMMARY_RATE_KEYS,
    SUMMARY_TEXT_KEYS,
    SUMMARY_TOKEN_KEYS,
    TARGET_LATENCY_NAME,
    TOKEN_PARAMETER_KEYS,
    name_query_latency,
)
from compliance.rules import rule
from compliance.verdict import About, Fault
from suite.files.layout import DETAIL_LOG, SUMMARY_LOG
from suite.loadgen.early_stopping import compute_queries_needed, estimate_early_stopping
from suite.loadgen.headline import FIRST_TOKEN_KEY
from suite.loadgen.scenario import Scenario

TOKEN_RATE_KEYS: Final = {
    Scenario.SINGLE_STREAM: {
        "TPS w/ loadgen overhead": "result_token_throughput_with_loadgen_overhead"
    },
    Scenario.SERVER: {"Completed tokens per second": "result_completed_tokens_per_second"},
    Scenario.OFFLINE: {"Tokens per second": "result_tokens_per_second"},
}
"""Rates of tokens in the summary, where they are measured."""
UNCOMPARED_TOKEN_RATE: Final = "TPS w/o loadgen overhead"
"""SingleStream's, which LoadGen 6.0.17 writes in another unit into the detail log."""
SECOND_ESTIMATE_PERCENTILE: Final = 99.0
"""loadgen/results.cc, PerformanceSummary::EarlyStopping: SingleStream estimates this percentile
too.
"""
WHOLE_PERCENTILE_PATTERN: Final = re.compile(r"(\d)\.0th\b")
"""Later LoadGen versions print a whole percentile as `90.0th`, earlier ones as `90th`."""
EQUAL_ISSUE_KEY: Final = "effective_sample_concatenate_permutation"
"""Whether each sample is issued equally often."""
HEADLINE_NAME_FORMATS: Final = {
    Scenario.SINGLE_STREAM: "{:.1f}th percentile latency",
    Scenario.MULTI_STREAM: "{:.1f}th percentile latency",
    Scenario.SERVER: "Completed samples per second",
    Scenario.OFFLINE: "Samples per second",
}
LOGGED_NUMBER_TOLERANCE: Final = 1e-5
"""Relative: the detail log prints floats with six significant digits."""
PRINTED_RATE_TOLERANCE: Final = 0.0051
"""Absolute: the summary prints rates with two decimals."""
VALIDITIES: Final = ("VALID", "INVALID")
INVALID_REASON_KEY: Final = "result_invalid_reason"
LATENCY_ADVICE: Final = "Reduce target QPS to improve latency."
DURATION_ADVICE: Final = {
    Scenario.SINGLE_STREAM: (
        "Decrease the expected latency so the loadgen pre-generates more queries."
    ),
    Scenario.MULTI_STREAM: (
        "Decrease the expected latency so the loadgen pre-generates more queries."
    ),
    Scenario.SERVER: "Increase the target QPS so the loadgen pre-generates more queries.",
    Scenario.OFFLINE: (
        "Increase expected QPS so the loadgen pre-generates a larger (coalesced) query."
    ),
}
QUERIES_ADVICE: Final = "The test exited early, before enough queries were issued."
"""This and those above: loadgen/results.cc, PerfConstraintsMet, MinDurationMet and LogDetail."""
MAX_SHOWN_LINE_CHARACTERS: Final = 120
"""Maximum characters of an unknown line in a finding."""
MAX_PLAUSIBLE_QUERIES: Final = 1e12
"""More queries than any run has time for."""


@rule("loadgen.valid", LoadGenRun, About.SCORE)
def valid(run: LoadGenRun) -> Iterator[Fault]:
    """LoadGen reports a performance run as VALID.

    Source: mlcommons/inference, loadgen/results.cc: PerfConstraintsMet, MinDurationMet,
    MinQueriesMet, early stopping.
    Advice: follow the summary's recommendation: lower the target rate, or raise the expected one,
    and repeat the run.
    """
    if not run.performance:
        return
    if run.summary.find_text("Result is") != "VALID":
        yield run.build_summary_fault(
            "Result is", f"Result is {run.summary.find_text('Result is')}", "VALID"
        )
    if run.find_value("result_validity") not in (None, "VALID"):
        yield run.build_fault(f"{run.find_value('result_validity')}", "VALID", "result_validity")
    for key in (
        "result_perf_constraints_met",
        "result_min_duration_met",
        "result_min_queries_met",
        "early_stopping_met",
    ):
        if run.find_value(key) not in (None, True):
            yield run.build_fault(f"{key} {run.find_value(key)}", "true", key)


@rule("loadgen.summary", LoadGenRun, About.SCORE)
def summary(run: LoadGenRun) -> Iterator[Fault]:
    """Every result and statistic in the summary matches the detail log, and the summary contains
    only lines that LoadGen writes.

    Source: mlcommons/inference, loadgen/results.cc: both are written from the same values.
    Advice: copy summary and detail log again from one run, without lines added by other programs.
    """
    yield from check_unknown_lines(run)
    if not run.performance:
        return
    for name, key in (SUMMARY_TEXT_KEYS | SUMMARY_CONSTRAINT_KEYS).items():
        stated, value = run.summary.values.get(name), run.find_value(key)
        if value is not None and (stated is None or stated.text != format_summary_value(value)):
            yield run.build_summary_fault(
                name,
                f"{name}: {stated.text if stated else 'missing'}",
                f"{format_summary_value(value)}, as in the detail log",
            )
    for name, key in iterate_summary_figures(run):
        yield from check_summary_figure(run, name, key)
    yield from check_stopping_text(run)


def check_unknown_lines(run: LoadGenRun) -> Iterator[Fault]:
    """Yield lines that LoadGen does not write into the summary of such a run: a figure under an
    invented name could be presented as a result.
    """
    known = set()
    if run.performance:
        known = {
            *SUMMARY_TEXT_KEYS,
            *SUMMARY_CONSTRAINT_KEYS,
            *(name for name, _ in iterate_summary_figures(run)),
            *((UNCOMPARED_TOKEN_RATE,) if measures_single_stream_tokens(run) else ()),
        }
    if run.rule or not run.performance:
        for name in sorted(run.summary.values.keys() - known):
            yield run.build_summary_fault(
                name, f"'{name}'", "the names that LoadGen writes for this scenario"
            )
    notes = {} if run.find_value(EQUAL_ISSUE_KEY) is True else run.summary.notes
    for line, at in {**run.summary.unrecognised_lines, **notes}.items():
        yield run.build_fault(
            f"'{line[:MAX_SHOWN_LINE_CHARACTERS]}'",
            "lines that LoadGen writes",
            at,
            file=SUMMARY_LOG,
        )


def check_stopping_text(run: LoadGenRun) -> Iterator[Fault]:
    """Compare LoadGen's advice to a run that is INVALID, and its sentences about early stopping,
    with the counts, and those of one file with those of the other.
    """
    if run.find_value("result_validity") not in VALIDITIES:
        return
    if run.measures_tokens:
        yield from check_token_stopping_text(run)
        return
    advice, wanted = format_invalid_reason(run), format_stopping_text(run)
    logged_advice, logged_text = map(run.find_value, (INVALID_REASON_KEY, "early_stopping_result"))
    told = []
    if isinstance(logged_advice, str):
        told.append((DETAIL_LOG, logged_advice, advice, run.find_line(INVALID_REASON_KEY)))
    if wanted is not None and isinstance(logged_text, str):
        stated = " ".join(run.summary.steps)
        told.append((SUMMARY_LOG, stated, f"{format_advice(run, advice)} {wanted}", None))
        line = run.find_line("early_stopping_result")
        told.append((DETAIL_LOG, logged_text, wanted, line))
    for file, found, required, at in told:
        if split_stopping_words(found) != split_stopping_words(required):
            yield run.build_fault(
                f"early stopping: '{found[:MAX_SHOWN_LINE_CHARACTERS]}'",
                f"'{required.strip()}', as the counts imply",
                at,
                file=file,
            )


def check_token_stopping_text(run: LoadGenRun) -> Iterator[Fault]:
    """Compare the sentences about early stopping of first and further tokens, and LoadGen's advice,
    in both files, and those of first tokens with the counts.
    """
    first, further = (
        str(run.find_value(f"early_stopping_{name}_result") or "") for name in ("ttft", "tpot")
    )
    stated = " ".join(run.summary.steps)
    advice = format_advice(run, str(run.find_value(INVALID_REASON_KEY) or ""))
    if split_stopping_words(stated) != split_stopping_words(f"{advice} {first} {further}"):
        yield run.build_fault(
            f"early stopping: '{stated[:MAX_SHOWN_LINE_CHARACTERS]}'",
            "the sentences of the detail log",
            file=SUMMARY_LOG,
        )
    if run.find_value("early_stopping_met") is not True:
        return  # it says first why further tokens fail
    wanted = format_stopping_text(run)
    if wanted is not None and split_stopping_words(first) != split_stopping_words(wanted):
        yield run.build_fault(
            f"early stopping: '{first[:MAX_SHOWN_LINE_CHARACTERS]}'",
            f"'{wanted}', as the counts imply",
            "early_stopping_ttft_result",
        )


def format_invalid_reason(run: LoadGenRun) -> str:
    """Return LoadGen's advice by what was not met; empty if nothing is to be done about it."""
    told = {
        "result_perf_constraints_met": LATENCY_ADVICE,
        "result_min_duration_met": DURATION_ADVICE[run.scenario] if run.scenario else "",
        "result_min_queries_met": QUERIES_ADVICE,
    }
    return " ".join(text for key, text in told.items() if run.find_value(key) is False)


def format_advice(run: LoadGenRun, reason: str) -> str:
    """Return the advice as the summary has it: with where to look for too few queries."""
    if run.find_value("result_min_queries_met") is False:
        return f"{reason} {EARLY_EXIT_REMARK}"
    return reason


def measures_single_stream_tokens(run: LoadGenRun) -> bool:
    """Return whether it is a SingleStream run that measures tokens."""
    return run.measures_tokens and run.scenario is Scenario.SINGLE_STREAM


def split_stopping_words(text: str) -> list[str]:
    """Return the words of a sentence about early stopping, without line marks."""
    return WHOLE_PERCENTILE_PATTERN.sub(r"\1th", text.replace("*", " ")).split()


def format_stopping_text(run: LoadGenRun) -> str | None:
    """Return LoadGen's sentence about early stopping for the counts of a run; None if they are
    missing.
    """
    if run.scenario is Scenario.OFFLINE:
        return ""
    count = run.find_number("result_query_count")
    if run.scenario is Scenario.SERVER and run.find_value("early_stopping_met") is True:
        return "Run successful."
    if run.rule is None or count is None or not 0 < count <= MAX_PLAUSIBLE_QUERIES:
        return None
    if run.scenario is Scenario.SERVER:
        return format_missing_queries(run, int(count), run.rule.percentile)
    if run.scenario is Scenario.MULTI_STREAM:
        return format_stopping_estimate(
            run, int(count), run.rule.percentile, "early_stopping_latency_ms"
        )
    first = format_stopping_estimate(
        run, int(count), run.rule.percentile, "early_stopping_latency_ss"
    )
    if estimate_early_stopping(int(count), run.rule.percentile).rank_from_top is None:
        return first
    return f"{first} {format_second_estimate(run, int(count))}"


def format_missing_queries(run: LoadGenRun, count: int, percentile: float) -> str | None:
    """Return LoadGen's sentence about a Server run that proves no percentile; None if the counts do
    not say so.
    """
    over = run.find_number("result_overlatency_query_count")
    if over is None or not 0 <= over <= count:
        return None
    more = compute_queries_needed(int(over), percentile) - count
    if more <= 0:
        return None
    return (
        f"Run unsuccessful. Processed {count} queries. Would need to run at least {more} more"
        " queries, with the run being successful if every additional query were under latency."
    )


def format_second_estimate(run: LoadGenRun, count: int) -> str:
    """Return LoadGen's sentence about MultiStream's percentile in SingleStream: the estimate, or
    how many queries it needs.
    """
    estimate_text = format_stopping_estimate(
        run, count, SECOND_ESTIMATE_PERCENTILE, "early_stopping_latency_ms"
    )
    found = estimate_early_stopping(count, SECOND_ESTIMATE_PERCENTILE)
    if found.rank_from_top is not None:
        return estimate_text[estimate_text.index("Early") :]
    short = (
        f"Not enough queries processed for {SECOND_ESTIMATE_PERCENTILE}th percentile early stopping"
        " estimate"
    )
    return f"{short} (would need to process at least {found.queries_needed} total queries)."


def format_stopping_estimate(run: LoadGenRun, count: int, percentile: float, key: str) -> str:
    """Return LoadGen's sentence about the estimate, or about too few queries for one."""
    found, value = estimate_early_stopping(count, percentile), run.find_value(key)
    if found.rank_from_top is None:
        return (
            f"Only processed {count} queries. Need to process at least {found.queries_needed}"
            " queries for early stopping."
        )
    discarded = (
        f"Processed at least {found.queries_needed} queries ({count}). Would discard"
        f" {found.rank_from_top - 1} highest latency queries."
    )
    return f"{discarded} Early stopping {percentile}th percentile estimate: {value}"


def format_summary_value(value: Any) -> str:
    """Format a value as the summary does."""
    if isinstance(value, bool):
        return {True: "Yes", False: "NO"}[value]
    return str(value)


def iterate_summary_figures(run: LoadGenRun) -> Iterator[tuple[str, str]]:
    """Yield the names of the summary's figures, and their keys in the detail log."""
    yield from (SUMMARY_RATE_KEYS | SUMMARY_OVERHEAD_KEYS).items()
    of_queries = run.scenario is Scenario.MULTI_STREAM  # a query may outlast its samples
    for name, key in SUMMARY_LATENCY_KEYS.items():
        yield name, name_query_latency(key) if of_queries else key
    if run.measures_tokens:
        yield from iterate_token_figures(run)
    headline = format_headline_name(run)
    if headline and headline not in SUMMARY_RATE_KEYS and run.rule:
        key = f"result_{run.rule.percentile:.2f}_percentile_latency_ns"
        yield headline, name_query_latency(key) if of_queries else key


def iterate_token_figures(run: LoadGenRun) -> Iterator[tuple[str, str]]:
    """Yield the same of first tokens, of the time per further token, and of rates of tokens."""
    yield from (TOKEN_RATE_KEYS.get(run.scenario, {}) if run.scenario else {}).items()
    yield from SUMMARY_TOKEN_KEYS.items()
    for statistic in LATENCY_EXTREMES:
        yield (
            f"{statistic} Time per Output Token",
            f"result_time_to_output_token_{statistic.lower()}",
        )
    if measures_single_stream_tokens(run) and run.rule:
        percentile = run.rule.percentile
        yield (
            f"{percentile:.1f}th first token percentile latency",
            FIRST_TOKEN_KEY.format(percentile),
        )


def format_headline_name(run: LoadGenRun) -> str | None:
    """Return the name of the scenario's result."""
    if run.scenario and run.rule:
        return HEADLINE_NAME_FORMATS[run.scenario].format(run.rule.percentile)
    return None


def check_summary_figure(run: LoadGenRun, name: str, key: str) -> Iterator[Fault]:
    """Compare one figure, which must be in both files or in neither."""
    stated, value = run.summary.values.get(name), run.find_number(key)
    if value is not None and stated is None:
        yield run.build_fault(f"no '{name}'", f"{value:g}, as in the detail log", file=SUMMARY_LOG)
    elif stated is not None and value is None:
        yield run.build_summary_fault(
            name, f"{name}: {stated.text}", f"the value of {key}, which the detail log lacks"
        )
    elif stated is not None and value is not None:
        if key.endswith("_ns"):
            is_equal = stated.text == str(run.find_value(key))
        else:
            is_equal = is_printed_number_close(stated.text, value)
        if not is_equal:
            yield run.build_summary_fault(
                name, f"{name}: {stated.text}", f"{value:g}, as {key} in the detail log"
            )


def is_printed_number_close(text: str, value: float) -> bool:
    """Compare a printed number with another, to the digits that both print."""
    printed = parse_printed_number(text)
    return printed is not None and math.isclose(
        printed, value, rel_tol=LOGGED_NUMBER_TOLERANCE, abs_tol=PRINTED_RATE_TOLERANCE
    )


@rule("loadgen.parameters", LoadGenRun, About.RULES)
def parameters(run: LoadGenRun) -> Iterator[Fault]:
    """The summary's test parameters are exactly the effective settings of the detail log.

    Source: mlcommons/inference, loadgen/test_settings_internal.cc: LogSummary and
    LogEffectiveSettings; no accepted entry differs.
    Advice: copy summary and detail log again from one run.
    """
    keys = select_parameter_keys(run)
    for name in sorted(run.summary.parameters.keys() - (keys.keys() if run.performance else set())):
        yield run.build_summary_fault(
            name, f"parameter '{name}'", "the parameters that LoadGen writes"
        )
    if not (run.performance and run.detail):
        return
    for name, key in keys.items():
        stated, value = run.summary.parameters.get(name), run.find_value(key)
        if stated is None:
            yield run.build_fault(
                f"no parameter '{name}'", f"{value}, as in the detail log", file=SUMMARY_LOG
            )
        elif value is not None and not is_printed_as(stated, value):
            yield run.build_summary_fault(
                name, f"{name} {stated.text}", f"{value}, as {key} in the detail log"
            )


def select_parameter_keys(run: LoadGenRun) -> Mapping[str, str]:
    """Return the parameters of a summary, and their keys in the detail log: where tokens are
    measured, their bounds take the place of the latency's.
    """
    if not run.measures_tokens:
        return SUMMARY_PARAMETER_KEYS
    others = {
        name: key for name, key in SUMMARY_PARAMETER_KEYS.items() if name != TARGET_LATENCY_NAME
    }
    return others | TOKEN_PARAMETER_KEYS


def is_printed_as(stated: LogValue, value: Any) -> bool:
    """Compare a parameter: whole numbers exactly, so that every digit of a seed counts."""
    if isinstance(value, bool):
        return stated.text == str(int(value))
    if isinstance(value, int):
        return (
            stated.text == str(value)
            or is_printed_number_close(stated.text, value)
            and not stated.text.isdigit()
        )
    if isinstance(value, float):
        return is_printed_number_close(stated.text, value)
    return stated.text == str(value)


@rule("loadgen.headline", LoadGenRun, About.SCORE, former="entry.value")
def headline(run: LoadGenRun) -> Iterator[Fault]:
    """The summary contains the scenario's one result, and no other scenario's.

    Source: mlcommons/inference, loadgen/results.cc, PerformanceSummary::LogSummary.
    Advice: copy mlperf_log_summary.txt again from the folder of this scenario's run.
    """
    if not run.performance or run.rule is None:
        return
    wanted = format_headline_name(run)
    others = {"Completed samples per second", "Samples per second"} - {wanted}
    if wanted not in run.summary.values:
        yield run.build_fault(f"no '{wanted}'", "the scenario's result", file=SUMMARY_LOG)
    for name in sorted(others & run.summary.values.keys()):
        yield run.build_summary_fault(name, f"'{name}'", f"only '{wanted}'")
