"""Check LoadGen's detail log: keys, times, LoadGen version, errors and warnings."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC
from typing import Final

from compliance.documents.timestamps import find_date_problem
from compliance.kinds.podium.documents.inference import LoadGenRun, parse_power_time
from compliance.kinds.podium.rules.inference.loadgen_settings import (
    ECHOED_SETTINGS,
    REQUESTED_PERCENTILE_KEYS,
    REQUESTED_RATE_KEYS,
)
from compliance.logs.finite_numbers import is_finite_number
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import RUN_RECORD, SUMMARY_LOG
from suite.loadgen.loadgen_errors import format_repeated_errors, is_harmless_error
from suite.loadgen.scenario import Scenario

REQUIRED_LOG_KEYS: Final = (
    "test_datetime",
    "loadgen_version",
    "loadgen_git_status_message",
    "sut_name",
    "qsl_reported_total_count",
    "qsl_reported_performance_count",
    *(f"requested_{name}" for name in ECHOED_SETTINGS),
    *(f"effective_{name}" for name in ECHOED_SETTINGS),
    "requested_performance_sample_count_override",
    "requested_accuracy_sample_count_override",
    "effective_samples_per_query",
    "effective_target_qps",
    "effective_target_latency_ns",
    "effective_target_latency_percentile",
    "effective_target_duration_ms",
    "effective_max_async_queries",
    "effective_min_sample_count",
    "effective_performance_sample_count",
    "effective_accuracy_sample_count",
)
"""Keys that occur once in every detail log."""
ISSUE_LOG_KEYS: Final = (
    "loaded_qsl_set",
    "generated_query_count",
    "generated_samples_per_query",
    "generated_query_duration",
    "power_begin",
    "power_end",
)
"""Keys that occur once in a performance run, and in an accuracy run once for each set of samples in
memory.
"""
PERFORMANCE_LOG_KEYS: Final = (
    "result_validity",
    "result_min_duration_met",
    "result_min_queries_met",
    "early_stopping_met",
    "result_query_count",
    "result_min_latency_ns",
    "result_max_latency_ns",
    "result_mean_latency_ns",
    "num_errors",
)
"""Keys that occur once in the detail log of a performance run."""
STOPPING_LOG_KEYS: Final = {
    False: ("early_stopping_result",),
    True: ("early_stopping_ttft_result", "early_stopping_tpot_result"),
}
"""The same, by whether tokens are measured."""
REQUESTED_LOG_KEYS: Final = {
    Scenario.SINGLE_STREAM: (),
    Scenario.MULTI_STREAM: ("requested_multi_stream_samples_per_query",),
    Scenario.SERVER: (
        "requested_server_target_latency_ns",
        "requested_server_coalesce_queries",
        "requested_server_max_async_queries",
    ),
    Scenario.OFFLINE: (),
}
"""Requested settings of each scenario besides its rate and its percentile."""
RESULT_LOG_KEYS: Final = {
    Scenario.SINGLE_STREAM: (
        "result_qps_with_loadgen_overhead",
        "result_qps_without_loadgen_overhead",
        "early_stopping_latency_ss",
    ),
    Scenario.MULTI_STREAM: ("early_stopping_latency_ms",),
    Scenario.SERVER: (
        "result_scheduled_samples_per_sec",
        "result_completed_samples_per_sec",
        "result_perf_constraints_met",
        "result_overlatency_query_count",
    ),
    Scenario.OFFLINE: ("result_samples_per_second",),
}
REPEATABLE_KEY_PREFIXES: Final = ("generic_message", "error_", "warning_", "logger_")
"""Prefixes of keys that may occur several times."""
LIST_KEY_ENDINGS: Final = ("loaded_qsl_set",)
TEXT_KEY_ENDINGS: Final = (
    "_datetime",
    "_version",
    "_status_message",
    "sut_name",
    "power_begin",
    "power_end",
    "_validity",
    "_scenario",
    "_test_mode",
    "_stopping_result",
    "_ttft_result",
    "_tpot_result",
)
FLAG_KEY_ENDINGS: Final = (
    "_print_timestamps",
    "_issue_unique",
    "_issue_same",
    "_concatenate_permutation",
    "_coalesce_queries",
    "_met",
)
"""Suffixes of keys whose value is a list, a string or a boolean; the others are numbers."""
ERROR_COUNT_REMARKS: Final = {
    0: "No errors encountered during test.",
    1: "1 ERROR encountered. See detailed log.",
}
"""Last lines of a summary, by the number of errors; loadgen/logging.cc, AsyncLog::SetLogFiles."""
LOADGEN_VERSION_PATTERN: Final = re.compile(r"\d+\.\d+(\.\d+)? @ [0-9a-f]{7,40}")


@rule("loadgen.keys", LoadGenRun, About.FORM)
def keys(run: LoadGenRun) -> Iterator[Fault]:
    """A detail log has the keys for its mode and scenario, each once, with a value of the right
    type.

    Source: mlcommons/inference, loadgen of 6.0.17: test_settings_internal.cc, loadgen.cc,
    results.cc.
    Advice: copy mlperf_log_detail.txt again, whole; if a key is missing in the original, the run
    was cut off or another LoadGen wrote it: serve again with podium's.
    """
    required = list(iterate_required_keys(run)) if run.detail else []
    for key in required:
        if key not in run.index:
            yield run.build_fault(f"no {key}", "every key for its mode and scenario")
        kind, fits = resolve_key_type(key)
        for record in run.list_records(key):
            if not fits(record.value):
                yield run.build_fault(f"{key} {str(record.value)[:60]!r}", kind, record.line)
    if not run.performance and len({len(run.list_records(key)) for key in ISSUE_LOG_KEYS}) > 1:
        counts = ", ".join(f"{key} {len(run.list_records(key))} times" for key in ISSUE_LOG_KEYS)
        yield run.build_fault(counts, "once for each set of samples in memory", ISSUE_LOG_KEYS[0])
    many = (
        REPEATABLE_KEY_PREFIXES if run.performance else (*REPEATABLE_KEY_PREFIXES, *ISSUE_LOG_KEYS)
    )
    for key, records in run.index.items():
        if len(records) > 1 and not key.startswith(many):
            yield run.build_fault(f"{key}: {len(records)} records", "exactly 1", records[1].line)


def resolve_key_type(key: str) -> tuple[str, Callable[[object], bool]]:
    """Return the type of a required key's value, and its test."""
    if key.endswith(LIST_KEY_ENDINGS):
        return "a list", lambda value: isinstance(value, list)
    if key.endswith(TEXT_KEY_ENDINGS):
        return "a string", lambda value: isinstance(value, str)
    if key.endswith(FLAG_KEY_ENDINGS):
        return ("true or false", lambda value: isinstance(value, bool))
    return ("a finite number", is_finite_number)


def iterate_required_keys(run: LoadGenRun) -> Iterator[str]:
    """List the keys that a detail log must contain."""
    yield from (*REQUIRED_LOG_KEYS, *ISSUE_LOG_KEYS)
    if run.performance:
        yield from (*PERFORMANCE_LOG_KEYS, *STOPPING_LOG_KEYS[run.measures_tokens])
    if run.scenario:
        yield REQUESTED_RATE_KEYS[run.scenario]
        if run.scenario in REQUESTED_PERCENTILE_KEYS:
            yield from (REQUESTED_PERCENTILE_KEYS[run.scenario],)
        yield from REQUESTED_LOG_KEYS[run.scenario]
        if run.performance:
            yield from RESULT_LOG_KEYS[run.scenario]


@rule("loadgen.version", LoadGenRun, About.RULES)
def version(run: LoadGenRun) -> Iterator[Fault]:
    """LoadGen is a release, built without changes.

    Source: inference_rules.adoc v0.5, LoadGen: it may not be modified; its detail log contains the
    revision and git status.
    Advice: install mlcommons-loadgen from the package index.
    """
    found = run.find_value("loadgen_version")
    if found is not None and not (
        isinstance(found, str) and LOADGEN_VERSION_PATTERN.fullmatch(found)
    ):
        yield run.build_fault(f"version '{found}'", "<version> @ <revision>", "loadgen_version")
    if run.find_value("loadgen_git_status_message"):
        yield run.build_fault(
            f"changed sources: {run.find_value('loadgen_git_status_message')!r}",
            "none",
            "loadgen_git_status_message",
        )


@rule("loadgen.errors", LoadGenRun, About.SCORE)
def errors(run: LoadGenRun) -> Iterator[Fault]:
    """Detail log and summary contain no errors except races inside LoadGen's own logger.

    Source: mlcommons/inference, loadgen/logging.h: is_error; results.cc: num_errors;
    suite/loadgen/loadgen_errors.py lists the harmless ones.
    Advice: read the message, which names the wrong setting or answer; then repeat the run.
    """
    logged_errors = [record for record in run.detail if record.event.metadata.get("is_error")]
    sentences = [(f"{record.key}: {record.value}", record.line) for record in run.voiding_errors]
    first_lines = dict(reversed(sentences))
    for text, sentence in format_repeated_errors(text for text, _ in sentences).items():
        yield run.build_fault(sentence, "no errors", first_lines[text])
    counted = run.find_number("num_errors") or 0
    if not 0 <= counted <= len(logged_errors):  # fewer if one followed the results
        yield run.build_fault(f"{counted:g} errors", f"{len(logged_errors)}", "num_errors")
    ending = ERROR_COUNT_REMARKS.get(
        len(logged_errors), f"{len(logged_errors)} ERRORS encountered. See detailed log."
    )
    if ending not in run.summary.remarks:
        found = next(
            (remark for remark in run.summary.remarks if "ERROR" in remark),
            "no statement about errors",
        )
        yield run.build_fault(found, ending, run.summary.remarks.get(found), file=SUMMARY_LOG)
    if len(run.summary.remarks) != 2:
        yield run.build_fault(
            f"{len(run.summary.remarks)} closing sentences",
            "one about warnings, one about errors",
            file=SUMMARY_LOG,
        )


@rule("loadgen.warnings", LoadGenRun, About.SCORE, severity=Severity.WARNING)
def warnings(run: LoadGenRun) -> Iterator[Fault]:
    """LoadGen logged no warnings except about its own logger.

    Source: mlcommons/inference, loadgen/logging.h: is_warning; suite/loadgen/loadgen_errors.py
    lists the harmless ones.
    Advice: read the message in the detail log.
    """
    for record in run.detail:
        if record.event.metadata.get("is_warning") and not is_harmless_error(str(record.value)):
            yield run.build_fault(f"{record.key}: {record.value}", "no warnings", record.line)


@rule("loadgen.strays", LoadGenRun, About.FORM, severity=Severity.WARNING)
def strays(run: LoadGenRun) -> Iterator[Fault]:
    """A run's folder contains only LoadGen's files, podium's run record and, in an accuracy run,
    the score.

    Source: submission_rules.adoc, Directory structure; house rule: files that the judge does not
    read are reported, and in a bundle they are an error.
    Advice: keep notes and copies outside the results folder.
    """
    for path in run.unexpected_paths:
        yield run.build_fault(path.name, "only the files of the run", file=path)


@rule("loadgen.clock", LoadGenRun, About.SCORE)
def clock(run: LoadGenRun) -> Iterator[Fault]:
    """The times of a detail log never decrease, and its wall-clock timestamps are valid and not
    after today.

    Source: mlcommons/inference, loadgen/logging.cc: entries are in order, and no accepted entry of
    inference v0.5 differs; loadgen/utils.cc, DateTimeStringForPower.
    Advice: set the machine's clock, keep it in step (NTP) and serve again.
    """
    for key in ("power_begin", "power_end"):
        for record in run.list_records(key):
            stamp = parse_power_time(record.value)
            if stamp is None:
                yield run.build_fault(
                    f"{key} {str(record.value)[:60]!r}",
                    "month-day-year hours:minutes:seconds.milliseconds",
                    record.line,
                )
            elif wrong := find_date_problem(stamp.replace(tzinfo=UTC).timestamp()):
                yield run.build_fault(f"{key} {wrong.found}", wrong.required, record.line)
    last = 0.0
    for record in run.detail:
        if record.event.time_ms < last:
            yield run.build_fault(
                f"{record.key} at {record.event.time_ms} ms, after {last} ms",
                "increasing times",
                record.line,
            )
        last = max(last, record.event.time_ms)


@rule("loadgen.searched", LoadGenRun, About.SCORE)
def searched(run: LoadGenRun) -> Iterator[Fault]:
    """A searched rate belongs to a VALID performance run of Server. The lowest INVALID rate of the
    search is above it and was measured.

    Source: house rule: `podium compare` gives ratios only between searched rates;
    harness/serving/adoption.py writes what the search proved.
    Advice: search again with --peak, and keep the runs of the search.
    """
    found = run.record.searched if run.record else None
    if found is None:
        return
    if (
        not run.performance
        or run.scenario is not Scenario.SERVER
        or run.find_value("result_validity") != "VALID"
    ):
        yield run.build_fault(
            "a searched rate", "only in VALID performance runs of Server", file=RUN_RECORD
        )
    rate = run.find_number("requested_server_target_qps")
    if found.invalid_qps is not None and rate is not None and not found.invalid_qps > rate:
        yield run.build_fault(
            f"a lowest INVALID rate of {found.invalid_qps:g} queries/s",
            f"above {rate:g}, the rate of this VALID run",
            file=RUN_RECORD,
        )
    least = 1 if found.invalid_qps is None else 2
    if found.runs < least or found.probes < 0:
        yield run.build_fault(
            f"{found.runs} full runs and {found.probes} probes",
            f"at least {least} full runs, for the stated search result",
            file=RUN_RECORD,
        )
    if not 0 < found.tolerance < 1:
        yield run.build_fault(
            f"a tolerance of {found.tolerance:g}", "above 0 and below 1", file=RUN_RECORD
        )
