"""Check values that occur several times in a run's detail log and summary: settings, results and
times, and the arithmetic between them.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Final

from compliance.kinds.inference_mllog.documents.run import MllogRun
from compliance.kinds.inference_mllog.rules.run import has_detail_records
from compliance.logs.loadgen.summary import parse_printed_number
from compliance.logs.loadgen.summary_keys import (
    LOGGED_PERCENTILES,
    SUMMARY_CONSTRAINT_KEYS,
    SUMMARY_LATENCY_KEYS,
    SUMMARY_OVERHEAD_KEYS,
    SUMMARY_PARAMETER_KEYS,
    SUMMARY_TEXT_KEYS,
    SUMMARY_TOKEN_KEYS,
    TOKEN_PARAMETER_KEYS,
    name_query_latency,
)
from compliance.rules import rule
from compliance.verdict import About, Fault
from suite.units import NS_PER_S

SINGLE_EVENT_PREFIXES: Final = (
    "requested_",
    "effective_",
    "result_",
    "early_stopping_",
    "qsl_reported_",
)
"""Prefixes of the events that LoadGen logs once."""
LATENCY_SUM_LIMIT: Final = 2.0**64
"""Nanoseconds at which LoadGen's sum of latencies starts from 0 again."""
LOADGEN_CHANGED_SETTINGS: Final = frozenset({"min_query_count"})
"""Settings that LoadGen changes: Offline has one query with all samples."""
SUMMARY_STATISTIC_KEYS: Final[Mapping[str, str]] = {
    "Completed tokens per second": "result_completed_tokens_per_second",
    "Tokens per second": "result_tokens_per_second",
    **SUMMARY_OVERHEAD_KEYS,
    **SUMMARY_LATENCY_KEYS,
    **SUMMARY_TOKEN_KEYS,
}
COMPARED_PARAMETER_KEYS: Final[Mapping[str, str]] = {
    name: key
    for name, key in (SUMMARY_PARAMETER_KEYS | TOKEN_PARAMETER_KEYS).items()
    if name != "print_timestamps"
}
"""Settings in the summary. Accepted ones print 0 where the detail log has true: Inference v6.0,
Lenovo, 3d-unet-99, TEST01.
"""
PRINTED_NUMBER_TOLERANCE: Final = 2e-5
"""Relative: numbers are printed with six digits."""
PRINTED_RATE_ERROR: Final = 0.0051
"""Rates are printed with two decimals."""
DERIVED_RATE_TOLERANCE: Final = 0.02
"""Relative: rates compared with the values that they are computed from."""


@rule(
    "inference-mllog.once",
    MllogRun,
    About.SCORE,
    doubt="which of the values counts",
    former="later.once",
)
def once(run: MllogRun) -> Iterator[Fault]:
    """Each setting and each result occurs exactly once in a detail log.

    Source: mlcommons/inference, loadgen/test_settings_internal.cc and results.cc, LogDetail.
    Advice: put the detail log of one run here; logs of several runs are separate files.
    """
    for key, found in run.index.items():
        if len(found) > 1 and key.startswith(SINGLE_EVENT_PREFIXES):
            yield run.build_fault(f"{key} occurs {len(found)} times", "once", found[1].line)


@rule(
    "inference-mllog.settings",
    MllogRun,
    About.RULES,
    doubt="which settings the run was made with",
    former="later.settings",
)
def settings(run: MllogRun) -> Iterator[Fault]:
    """The effective settings of a run are the requested ones.

    Source: mlcommons/inference, loadgen/test_settings_internal.cc: effective settings follow from
    the requested ones.
    Advice: set user.conf and mlperf.conf before the test starts, and repeat the run with the
    round's files.
    """
    for key, found in run.index.items():
        name = key.removeprefix("requested_")
        if name == key or name in LOADGEN_CHANGED_SETTINGS:
            continue
        used, requested = run.find_value(f"effective_{name}"), found[-1].value
        if used is not None and used != requested:
            yield run.build_fault(
                f"{name} {used}", f"{requested}, as requested", f"effective_{name}"
            )


@rule(
    "inference-mllog.summary",
    MllogRun,
    About.SCORE,
    doubt="the figure, of which there are two",
    former="later.summary",
)
def summary(run: MllogRun) -> Iterator[Fault]:
    """LoadGen's summary agrees with the detail log.

    Source: mlcommons/inference, loadgen/results.cc: both are printed from the same values.
    Advice: put summary and detail log of one run here.
    """
    if has_detail_records(run):
        yield from find_contradicted_results(run)
        yield from find_contradicted_numbers(run, COMPARED_PARAMETER_KEYS)


def find_contradicted_results(run: MllogRun) -> Iterator[Fault]:
    """Yield the results in a summary that the detail log contradicts."""
    yield from find_contradicted_numbers(run, SUMMARY_STATISTIC_KEYS)
    for name, key in SUMMARY_TEXT_KEYS.items():
        shown, logged = run.summary.values.get(name), run.find_value(key)
        if (
            shown
            and isinstance(logged, str)
            and keep_visible_text(shown.text) != keep_visible_text(logged)
        ):
            yield build_contradiction_fault(run, name, shown.text, logged)
    for name, key in SUMMARY_CONSTRAINT_KEYS.items():
        shown, logged = run.summary.values.get(name), run.find_value(key)
        if shown and logged is not None and (shown.text.casefold() == "yes") is not logged:
            yield build_contradiction_fault(run, name, shown.text, logged)


def keep_visible_text(text: str) -> str:
    """Return a name without spaces and characters that do not print, which are form."""
    return "".join(each for each in text if each.isprintable() and each != " ")


def find_contradicted_numbers(run: MllogRun, events: Mapping[str, str]) -> Iterator[Fault]:
    """Yield the numbers in a summary that the detail log contradicts; `events` maps each name in
    the summary to its event.
    """
    for name, key in events.items():
        shown = run.summary.values.get(name) or run.summary.parameters.get(name)
        logged = run.find_value(resolve_latency_event(key, run))
        if shown and logged is not None and not is_printed_as_logged(shown.text, logged):
            yield build_contradiction_fault(run, name, shown.text, logged)


def resolve_latency_event(key: str, run: MllogRun) -> str:
    """Return the event of a latency in the summary: in MultiStream the one for queries, not for
    samples.
    """
    other = name_query_latency(key)
    if other in run.index:
        return other
    return key


def build_contradiction_fault(run: MllogRun, name: str, shown: str, logged: object) -> Fault:
    """Build the fault for a line that the detail log contradicts."""
    return run.build_summary_fault(name, f"{name} {shown}", f"{logged}, as in the detail log")


def is_printed_as_logged(text: str, logged: object) -> bool:
    """Return whether a printed number is the logged one."""
    shown = parse_printed_number(text)
    if isinstance(logged, bool):
        if logged:
            return text in ("1", "true")
        return text in ("0", "false")
    if not isinstance(logged, int | float):
        return True
    if shown is None:
        return False
    if isinstance(logged, int) and re.fullmatch(r"-?\d+", text):
        return int(text) == logged
    return math.isclose(shown, logged, rel_tol=PRINTED_NUMBER_TOLERANCE, abs_tol=PRINTED_RATE_ERROR)


@rule("inference-mllog.whole", MllogRun, About.SCORE, doubt="the figure", former="later.whole")
def whole(run: MllogRun) -> Iterator[Fault]:
    """A performance run has all its results: latencies, percentiles, and the rate or latency that
    counts.

    Source: mlcommons/inference, loadgen/results.cc, LogDetail.
    Advice: copy the whole detail log again; if it is cut off at the source, repeat the run.
    """
    if not run.performance or run.find_value("result_validity") is None:
        return
    family = "result_{}_percentile_latency_ns"
    wanted = [
        "result_min_latency_ns",
        "result_max_latency_ns",
        "result_mean_latency_ns",
        *map(family.format, LOGGED_PERCENTILES),
    ]
    wanted += {
        "Offline": ["result_samples_per_second"],
        "Server": ["result_scheduled_samples_per_sec"],
    }.get(run.logged_scenario or "", [])
    for key in wanted:
        logged = run.find_number(key)
        if logged is None or logged < 0:
            yield run.build_fault(f"{key} {run.find_value(key)}", "a number", key)


@rule(
    "inference-mllog.arithmetic",
    MllogRun,
    About.SCORE,
    doubt="the figure",
    former="later.arithmetic",
)
def arithmetic(run: MllogRun) -> Iterator[Fault]:
    """Rates follow from counts and times: from the issued and completed queries and the duration.

    Source: mlcommons/inference, loadgen/results.cc: a rate is a count divided by a duration; the
    mean latency is between the lowest and the highest.
    Advice: copy LoadGen's detail log again from this run; if rates and counts disagree there too,
    repeat the run with the round's LoadGen.
    """
    if not run.performance or not has_detail_records(run):
        return
    low, mean, high = (
        run.find_number(f"result_{name}_latency_ns") for name in ("min", "mean", "max")
    )
    if low is not None and mean is not None and high is not None and not low <= mean <= high:
        overflown = has_overflown_mean(run, low, mean, high)
        yield run.build_fault(
            f"mean latency {mean:.0f} ns"
            + (", whose sum is more than LoadGen's 64 bits hold" if overflown else ""),
            f"between {low:.0f} and {high:.0f}",
            "result_mean_latency_ns",
            about=About.FORM if overflown else None,
        )
    count, generated = (
        run.find_number("result_query_count"),
        run.find_number("generated_query_count"),
    )
    if count and generated and count > generated:
        yield run.build_fault(
            f"{count:.0f} queries processed",
            f"at most {generated:.0f}, the generated queries",
            "result_query_count",
        )
    if run.logged_scenario == "SingleStream" and mean:
        yield from check_derived_result(run, "result_qps_without_loadgen_overhead", NS_PER_S / mean)
    if run.logged_scenario == "Server":
        yield from check_server_rates(run, count, generated)
        yield from check_token_rates(run)


def has_overflown_mean(run: MllogRun, low: float, mean: float, high: float) -> bool:
    """Return whether a mean is right if LoadGen's sum of all latencies overflowed: it then lacks a
    multiple of 2^64 ns.

    Source: mlcommons/inference, loadgen/results.cc: accumulated in uint64_t nanoseconds.
    """
    counts = (
        run.find_number("generated_query_count"),
        run.find_number("generated_samples_per_query"),
    )
    samples = math.prod(count or 1.0 for count in counts)
    least, most = (
        (low - mean) * samples / LATENCY_SUM_LIMIT,
        (high - mean) * samples / LATENCY_SUM_LIMIT,
    )
    return most >= 1 and math.floor(most) >= max(1, math.ceil(least))


def check_token_rates(run: MllogRun) -> Iterator[Fault]:
    """Compare the rate of completed tokens with the scheduled rate of tokens: both have the same
    number of tokens per sample.
    """
    rates = (
        "result_token_throughput_with_loadgen_overhead",
        "result_completed_samples_per_sec",
        "result_scheduled_samples_per_sec",
    )
    by_schedule, completed, scheduled = map(run.find_number, rates)
    if (
        by_schedule
        and completed
        and scheduled
        and run.find_number("result_completed_tokens_per_second")
    ):
        yield from check_derived_result(
            run, "result_completed_tokens_per_second", by_schedule * completed / scheduled
        )


def check_derived_result(run: MllogRun, key: str, wanted: float) -> Iterator[Fault]:
    """Compare a result with the value that it follows from."""
    logged = run.find_number(key)
    if logged is not None and abs(logged / wanted - 1) > DERIVED_RATE_TOLERANCE:
        yield run.build_fault(f"{key} {logged:g}", f"{wanted:g}", key)


def check_server_rates(
    run: MllogRun, count: float | None, generated: float | None
) -> Iterator[Fault]:
    """Compare Server's rates with its schedule, and the completed rate with the time that it
    took.
    """
    duration = run.find_number("generated_query_duration")
    if generated and duration:
        yield from check_derived_result(
            run, "result_scheduled_samples_per_sec", generated / duration * NS_PER_S
        )
    completed = run.find_number("result_completed_samples_per_sec")
    latest = run.find_number("result_max_latency_ns")
    if not (completed and count and duration and latest is not None):
        return
    took, least, most = count / completed, duration / NS_PER_S, (duration + latest) / NS_PER_S
    if not least * (1 - DERIVED_RATE_TOLERANCE) <= took <= most * (1 + DERIVED_RATE_TOLERANCE):
        yield run.build_fault(
            f"{completed:g} samples/s",
            f"{count / most:g} to {count / least:g}",
            "result_completed_samples_per_sec",
        )
