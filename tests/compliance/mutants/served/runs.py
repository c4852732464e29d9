"""Mutants of one LoadGen run since v1.0: what it was asked for, what it tells, and its files."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ..kinds import Kinds
from .later import CLAIM, DETAIL, SUMMARY, Later

LATER_RUNS: Kinds[Later] = Kinds()
SEEDS: Final = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")
SHARES: Final = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
HELD: Final = (
    "effective_scenario",
    "effective_test_mode",
    "effective_min_duration_ms",
    "effective_samples_per_query",
    "effective_performance_sample_count",
    "generated_query_count",
    "generated_samples_per_query",
    "test_datetime",
    "loadgen_version",
    "requested_scenario",
    "effective_qsl_rng_seed",
    "result_validity",
    "result_max_latency_ns",
    "result_mean_latency_ns",
    "result_min_latency_ns",
)
TTFT: Final = "result_first_token_99.00_percentile_latency_ns"
TPOT: Final = "result_time_per_output_token_99.00_percentile_ns"
Seconds = Callable[[Later], bool]


def both(name: str) -> tuple[str, str]:
    """What was asked for, and what was used."""
    return f"requested_{name}", f"effective_{name}"


def set_to(value: Any, *keys: str) -> Seconds:
    """Give events another value."""
    return lambda entry: entry.change(keys, lambda _: value)


def times(factor: float, *keys: str) -> Seconds:
    """Multiply numbers."""
    return lambda entry: entry.change(keys, lambda value: type(value)(value * factor))


def of(scenario: str, change: Seconds) -> Seconds:
    """Do it in runs of one of LoadGen's scenarios alone."""
    return lambda entry: entry.value("effective_scenario") == scenario and change(entry)


def unless(scenario: str, change: Seconds) -> Seconds:
    """Do it in runs of LoadGen's other scenarios."""
    return lambda entry: entry.value("effective_scenario") != scenario and change(entry)


def labelled(label: str, new: Callable[[str], str]) -> Seconds:
    """Change a value of the summary."""

    def change(text: str) -> str:
        lines = text.splitlines(keepends=True)
        for at, line in enumerate(lines):
            name, colon, told = line.partition(":")
            if colon and name.replace("(ns)", "").replace("(ms)", "").strip() == label:
                lines[at] = f"{name}: {new(told.strip())}\n"
        return "".join(lines)

    return lambda entry: entry.undo.edit(entry.run / SUMMARY, change)


def more(text: str) -> str:
    """A number and a tenth."""
    return f"{float(text) * 1.1 + 1:.6g}"


def replaced(
    folder: Callable[[Later], Path], name: str, content: Callable[[bytes], bytes]
) -> Seconds:
    """Write a file anew."""
    return lambda entry: (
        (path := folder(entry) / name).is_file()
        and entry.undo.write(path, content(path.read_bytes()))
    )


def of_run(entry: Later) -> Path:
    return entry.run


def of_accuracy(entry: Later) -> Path:
    return entry.accuracy


LATER_RUNS.made(
    SEEDS,
    lambda name: lambda entry: entry.change(both(name), lambda seed: seed - 1),
    "other",
    "the round's seeds",
)
LATER_RUNS.made(
    SEEDS,
    lambda name: lambda entry: entry.change([f"effective_{name}"], lambda seed: seed + 1),
    "effective",
    "the round's seeds",
)
LATER_RUNS.made(
    SEEDS,
    lambda name: lambda entry: entry.change([f"requested_{name}"], lambda seed: seed + 1),
    "requested",
    "as requested",
)
LATER_RUNS.made(
    SEEDS,
    lambda name: lambda entry: entry.change(both(name), lambda seed: seed - 1, entry.accuracy),
    "accuracy",
    "the round's seeds",
)
LATER_RUNS.made(HELD, lambda key: lambda entry: entry.drop(key), "gone", "in each log")
LATER_RUNS.made(
    SHARES,
    lambda share: lambda entry: entry.drop(f"result_{share}_percentile_latency_ns"),
    "gone_percentile",
    "all percentiles",
)
LATER_RUNS.made(
    SHARES[1:],
    lambda share: times(0.01, f"result_{share}_percentile_latency_ns"),
    "low_percentile",
    "percentiles ascend",
)
LATER_RUNS.made(
    (
        "early_stopping_met",
        "result_min_duration_met",
        "result_min_queries_met",
        "result_perf_constraints_met",
    ),
    lambda key: lambda entry: needs(entry, key) and set_to(False, key)(entry),
    "false",
    "true",
)
LATER_RUNS.made(
    ("INVALID", "", "valid?"), lambda text: set_to(text, "result_validity"), "validity", "VALID"
)
LATER_RUNS.made(
    (
        "Min latency",
        "Max latency",
        "Mean latency",
        "50.00 percentile latency",
        "99.00 percentile latency",
        "target_qps",
        "min_duration",
        "min_query_count",
        "samples_per_query",
        "performance_sample_count",
        "qsl_rng_seed",
        "performance_issue_same_index",
        "Samples per second",
        "Completed samples per second",
        "Tokens per second",
        "Completed tokens per second",
        "QPS w/o loadgen overhead",
    ),
    lambda label: labelled(label, more),
    "summary",
    "as in the detail log",
)
LATER_RUNS.made(
    ("Offline", "SingleStream", "Nothing"),
    lambda name: unless(name, labelled("Scenario", lambda _: name)),
    "summary_scenario",
    "as in the detail log",
)
LATER_RUNS.made(
    (DETAIL, SUMMARY),
    lambda name: lambda entry: entry.undo.delete(entry.run / name),
    "missing",
    "LoadGen's files",
)
LATER_RUNS.made(
    (DETAIL, SUMMARY),
    lambda name: lambda entry: entry.undo.delete(entry.accuracy / name),
    "missing_accuracy",
    "LoadGen's files",
)
LATER_RUNS.made(
    (DETAIL, SUMMARY),
    lambda name: replaced(of_run, name, lambda _: b""),
    "empty",
    "LoadGen's files",
)
LATER_RUNS.made(
    (DETAIL, CLAIM),
    lambda name: replaced(of_accuracy, name, lambda _: b""),
    "empty_accuracy",
    "LoadGen's files",
)
LATER_RUNS.made(
    (DETAIL,),
    lambda name: replaced(of_run, name, lambda content: content[: len(content) // 2]),
    "half",
    "a whole log",
)
LATER_RUNS.made(
    (DETAIL,), lambda name: replaced(of_run, name, lambda content: content * 2), "twice", "one run"
)
LATER_RUNS.made(
    (DETAIL,),
    lambda name: replaced(of_accuracy, name, lambda content: content * 2),
    "twice_accuracy",
    "one run",
)
LATER_RUNS.made(
    (DETAIL,),
    lambda name: replaced(of_run, name, lambda content: content.decode("latin-1").encode("utf-16")),
    "utf16",
    "UTF-8",
)
LATER_RUNS.made(
    (DETAIL,),
    lambda name: replaced(of_run, name, lambda content: b"\x00\xff garbage"),
    "garbage",
    "LoadGen's records",
)
LATER_RUNS.put("ten_seconds", set_to(10_000, *both("min_duration_ms")), "600 seconds")
LATER_RUNS.put("a_minute_in_effect", set_to(60_000, "effective_min_duration_ms"), "600 seconds")
LATER_RUNS.put(
    "few_loaded",
    lambda entry: set_to(
        entry.model.performance_samples // 2, "effective_performance_sample_count"
    )(entry),
    "enough samples loaded",
)
LATER_RUNS.put("unique", set_to(True, *both("performance_issue_unique")), "no test's settings")
LATER_RUNS.put("same", set_to(True, *both("performance_issue_same")), "no test's settings")
LATER_RUNS.put("same_index", set_to(3, *both("performance_issue_same_index")), "no test's settings")
LATER_RUNS.put("accuracy_mode", set_to("AccuracyOnly", *both("test_mode")), "a performance run")
LATER_RUNS.put("find_peak", set_to("FindPeakPerformance", *both("test_mode")), "a performance run")
LATER_RUNS.put(
    "performance_mode_in_accuracy",
    lambda entry: entry.change(both("test_mode"), lambda _: "PerformanceOnly", entry.accuracy),
    "an accuracy run",
)
LATER_RUNS.put(
    "few_offline_samples",
    of("Offline", set_to(42, *both("samples_per_query"), "generated_samples_per_query")),
    "enough samples",
)
LATER_RUNS.put(
    "few_generated", of("Offline", set_to(42, "generated_samples_per_query")), "enough samples"
)
LATER_RUNS.put(
    "offline_faster",
    of("Offline", times(1.1, "result_samples_per_second")),
    "samples by the highest latency",
)
LATER_RUNS.put(
    "scheduled_faster",
    of("Server", times(1.1, "result_scheduled_samples_per_sec")),
    "queries by their schedule",
)
LATER_RUNS.put(
    "completed_faster",
    of("Server", times(1.3, "result_completed_samples_per_sec")),
    "queries by their time",
)
LATER_RUNS.put(
    "stream_faster",
    of("SingleStream", times(1.1, "result_qps_without_loadgen_overhead")),
    "one by the mean",
)
LATER_RUNS.put(
    "estimate_better",
    of("SingleStream", times(0.9, "early_stopping_latency_ss")),
    "between the percentiles",
)
LATER_RUNS.put(
    "multi_estimate_better",
    of("MultiStream", times(0.9, "early_stopping_latency_ms")),
    "between the percentiles",
)
LATER_RUNS.put(
    "estimate_zero", of("SingleStream", set_to(0, "early_stopping_latency_ss")), "an estimate"
)
LATER_RUNS.put(
    "few_queries", of("SingleStream", set_to(40, "result_query_count")), "64 queries at least"
)
LATER_RUNS.put(
    "mean_below_min",
    lambda entry: set_to(entry.value("result_min_latency_ns") // 2, "result_mean_latency_ns")(
        entry
    ),
    "between lowest and highest",
)
LATER_RUNS.put(
    "max_below",
    lambda entry: set_to(
        entry.value("result_50.00_percentile_latency_ns") // 2, "result_max_latency_ns"
    )(entry),
    "the highest",
)
LATER_RUNS.put("negative", set_to(-5, "result_min_latency_ns"), "a latency")
LATER_RUNS.put("latency_text", set_to("fast", "result_99.00_percentile_latency_ns"), "a number")
LATER_RUNS.put(
    "latency_nan", set_to(float("nan"), "result_99.00_percentile_latency_ns"), "a number"
)
LATER_RUNS.put("long_ago", set_to("2008-01-02T03:04:05Z", "test_datetime"), "in its round")
LATER_RUNS.put(
    "in_the_future", set_to("2052-01-02T03:04:05Z", "test_datetime"), "not in the future"
)
LATER_RUNS.put(
    "power_on_another_day", set_to("01-02-2001 03:04:05.678", "power_begin"), "one clock"
)


def needs(entry: Later, key: str) -> bool:
    """Tell whether a run of this kind must have it true."""
    return not (key == "early_stopping_met" and entry.value("effective_scenario") == "Offline")


@LATER_RUNS.add("early stopping's word")
def early_stopping_gone(entry: Later) -> bool:
    return entry.value("effective_scenario") != "Offline" and entry.drop("early_stopping_met")


@LATER_RUNS.add("the scenario of its folder")
def of_another_scenario(entry: Later) -> bool:
    other = {"Offline": "Server", "Server": "Offline"}.get(entry.value("effective_scenario"))
    return other is not None and entry.change(both("scenario"), lambda _: other)


@LATER_RUNS.add("at most the bound")
def slower_than_the_bound(entry: Later) -> bool:
    bound = entry.model.bounds_ns.get(entry.scenario)
    if bound is None or entry.value("requested_use_token_latencies"):
        return False
    return entry.change(
        [f"result_{share}_percentile_latency_ns" for share in ("99.00", "99.90")],
        lambda _: bound + 1,
    )


@LATER_RUNS.add("the benchmark's bound")
def bound_doubled(entry: Later) -> bool:
    bound = entry.model.bounds_ns.get(entry.scenario)
    return (
        bound is not None
        and not entry.value("requested_use_token_latencies")
        and entry.change(["effective_target_latency_ns"], lambda _: 2 * bound)
    )


@LATER_RUNS.add("the 99th percentile")
def a_lower_percentile(entry: Later) -> bool:
    return (
        entry.scenario in entry.model.bounds_ns
        and of("Server", set_to(0.9, *both("target_latency_percentile")))(entry)
        and not entry.model.token_latencies
    )


@LATER_RUNS.add("results after the run")
def over_in_a_second(entry: Later) -> bool:
    def shorten(text: str) -> str:
        return re.sub(r'(?m)^(.*"result_.*, "time_ms": )[\d.]+', r"\g<1>1000.5", text)

    return entry.undo.edit(entry.run / DETAIL, shorten)


@LATER_RUNS.add("one run")
def validity_twice(entry: Later) -> bool:
    def repeat(text: str) -> str:
        return text + next(
            line for line in text.splitlines(keepends=True) if '"result_validity"' in line
        )

    return entry.undo.edit(entry.run / DETAIL, repeat)


@LATER_RUNS.add("VALID in both")
def invalid_in_the_summary(entry: Later) -> bool:
    return labelled("Result is", lambda _: "INVALID")(entry)


@LATER_RUNS.add("the run of its summary")
def summary_of_another(entry: Later) -> bool:
    other = next(
        (path for path in entry.others if (path / "performance" / "run_1" / SUMMARY).is_file()),
        None,
    )
    return other is not None and entry.undo.copy(
        other / "performance" / "run_1" / SUMMARY, entry.run / SUMMARY
    )


@LATER_RUNS.add("a performance run")
def accuracy_logs_in_performance(entry: Later) -> bool:
    return entry.undo.copy(entry.accuracy / DETAIL, entry.run / DETAIL)


@LATER_RUNS.add("an accuracy run")
def performance_logs_in_accuracy(entry: Later) -> bool:
    return entry.undo.copy(entry.run / DETAIL, entry.accuracy / DETAIL)


@LATER_RUNS.add("a performance run")
def no_performance(entry: Later) -> bool:
    return entry.undo.delete(entry.folder / "performance")


def language(change: Seconds) -> Seconds:
    """Do it in runs of language models that count tokens."""
    return lambda entry: entry.model.token_latencies and change(entry)


def equally(change: Seconds) -> Seconds:
    """Do it in runs that issue each sample equally often."""
    return lambda entry: entry.model.equal_issue and change(entry)


def bounded(key: str, factor: float) -> Seconds:
    """Set a token latency to a multiple of its bound."""
    bounds = {
        TTFT: "first_token_ns",
        TPOT: "per_token_ns",
        "requested_server_ttft_latency": "first_token_ns",
        "requested_server_tpot_latency": "per_token_ns",
    }

    def change(entry: Later) -> bool:
        bound = getattr(entry.model, bounds[key]).get(entry.scenario)
        return bound is not None and entry.change([key], lambda _: round(bound * factor))

    return change


LATER_RUNS.put("first_token_late", bounded(TTFT, 1.01), "TTFT below its bound")
LATER_RUNS.put("token_late", bounded(TPOT, 1.01), "TPOT below its bound")
LATER_RUNS.put("first_token_zero", bounded(TTFT, 0), "TTFT above 0")
LATER_RUNS.put("token_zero", bounded(TPOT, 0), "TPOT above 0")
LATER_RUNS.put(
    "first_token_bound_wider", bounded("requested_server_ttft_latency", 2), "the benchmark's bounds"
)
LATER_RUNS.put(
    "token_bound_wider", bounded("requested_server_tpot_latency", 2), "the benchmark's bounds"
)
LATER_RUNS.put("first_token_gone", language(of("Server", lambda entry: entry.drop(TTFT))), "TTFT")
LATER_RUNS.put("token_gone", language(of("Server", lambda entry: entry.drop(TPOT))), "TPOT")
LATER_RUNS.put(
    "token_latencies_off",
    language(set_to(False, "requested_use_token_latencies")),
    "token latencies",
)
LATER_RUNS.put(
    "no_tokens",
    language(set_to(0, "result_completed_tokens_per_second", "result_tokens_per_second")),
    "tokens above 0",
)
LATER_RUNS.put(
    "token_rate_nan",
    language(
        set_to(float("nan"), "result_completed_tokens_per_second", "result_tokens_per_second")
    ),
    "a number of tokens",
)
DOUBLED: Final = times(2, "result_completed_tokens_per_second", "result_tokens_per_second")
LATER_RUNS.put("token_rate_doubled", unless("SingleStream", language(DOUBLED)), "as in the summary")
LATER_RUNS.put(
    "not_equally", equally(set_to(False, *both("sample_concatenate_permutation"))), "equal issue"
)
LATER_RUNS.put(
    "not_quite_equally",
    equally(of("Server", times(1.0001, "generated_query_count"))),
    "each sample equally often",
)
