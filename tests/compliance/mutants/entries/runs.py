"""Mutants of inference entries: what runs ask for, do and claim."""

import re
from collections.abc import Callable
from typing import Final

from ..kinds import Kinds
from .kinds import (
    DETAIL,
    SUMMARY,
    Edit,
    Entry,
    field,
    in_closed,
    of_scenarios,
    substituted,
    times,
    to,
    without_line,
)

RUNS: Kinds[Entry] = Kinds()
PERCENTILES: Final = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
SETTINGS: Final = (
    "samples_per_query",
    "target_qps",
    "target_latency (ns)",
    "max_async_queries",
    "min_duration (ms)",
    "max_duration (ms)",
    "min_query_count",
    "max_query_count",
    "qsl_rng_seed",
    "sample_index_rng_seed",
    "schedule_rng_seed",
    "accuracy_log_rng_seed",
    "accuracy_log_probability",
    "performance_issue_unique",
    "performance_issue_same",
    "performance_issue_same_index",
    "performance_sample_count",
)


def simple(label: str) -> str:
    """Make a name of a label."""
    return re.sub(r"\W+", "_", label).strip("_").lower()


def grown(text: str) -> str:
    """Give a setting another value."""
    return {"true": "false", "false": "true"}.get(text) or str(int(float(text)) * 2 + 3)


def in_summary(change: Edit) -> Callable[[Entry], bool]:
    """Change the summary only."""
    return lambda entry: entry.summary(change)


def in_detail(change: Edit) -> Callable[[Entry], bool]:
    """Change the detail log only."""
    return lambda entry: entry.detail(change)


def in_both(change: Edit) -> Callable[[Entry], bool]:
    """Change both."""
    return lambda entry: entry.both(change)


for label in SETTINGS:
    RUNS.put(
        f"summary_{simple(label)}", in_summary(field(label, grown)), "summary and detail log agree"
    )
    RUNS.put(
        f"detail_{simple(label)}", in_detail(field(label, grown)), "summary and detail log agree"
    )
for label in PERCENTILES:
    RUNS.put(
        f"percentile_{simple(label)}",
        in_summary(field(f"{label} percentile latency (ns)", times(1000))),
        "percentiles ascend",
    )
    RUNS.put(
        f"percentile_{simple(label)}_missing",
        in_summary(without_line(f"{label} percentile latency")),
        "all percentiles",
    )
for label, factor in {
    "Min latency (ns)": 1_000_000.0,
    "Max latency (ns)": 0.01,
    "Mean latency (ns)": 1000.0,
}.items():
    RUNS.put(simple(label), in_summary(field(label, times(factor))), "min <= mean <= max")
    RUNS.put(f"{simple(label)}_missing", in_summary(without_line(label)), "all latencies")
RUNS.put(
    "mean_below_min", in_summary(field("Mean latency (ns)", times(0.001))), "min <= mean <= max"
)
RUNS.put(
    "percentile_negative",
    in_summary(field("50.00 percentile latency (ns)", lambda text: f"-{text}")),
    "a latency is not negative",
)
RUNS.put(
    "percentile_text", in_summary(field("99.00 percentile latency (ns)", to("fast"))), "a number"
)
HEADLINES: Final = (
    "90th percentile latency (ns)",
    "Samples per query",
    "Scheduled samples per second",
    "Samples per second",
)


def headline(change: Callable[[str], str]) -> Callable[[Entry], bool]:
    """Change the result that counts."""
    return lambda entry: any(entry.summary(field(label, change)) for label in HEADLINES)


RUNS.put("headline_better", headline(times(1.2)), "the result is the log's own")
RUNS.put("headline_worse", headline(times(0.8)), "the result is the log's own")
RUNS.put("headline_text", headline(to("many")), "a number")
RUNS.put("headline_negative", headline(lambda text: f"-{text}"), "a number above 0")
RUNS.put("headline_nan", headline(to("nan")), "a number")
RUNS.put(
    "headline_missing",
    lambda entry: any(entry.summary(without_line(label)) for label in HEADLINES),
    "a result",
)


NEARLY: Final[dict[str, tuple[float, float]]] = {
    "90th percentile latency (ns)": (0.9, 1.1),
    "Scheduled samples per second": (1.05, 0.9),
    "Samples per second": (1.05, 0.9),
}
"""Result of a scenario -> factors that make it a little better, and a little worse."""
for label, (better, worse) in NEARLY.items():
    RUNS.put(
        f"{simple(label)}_a_little_better",
        in_summary(field(label, times(better))),
        "the result is the log's own",
    )
    RUNS.put(
        f"{simple(label)}_a_little_worse",
        in_summary(field(label, times(worse))),
        "the result is the log's own",
    )


@RUNS.add("5 % more is a lie as well")
def headline_a_little_better(entry: Entry) -> bool:
    factor = 0.95 if entry.scenario == "SingleStream" else 1.05
    return entry.scenario != "MultiStream" and headline(times(factor))(entry)


MEAN: Final = "Mean latency (ns)"
RUNS.put(
    "percentile_90_a_little_other",
    of_scenarios(
        ("SingleStream",), in_summary(field("90.00 percentile latency (ns)", times(0.99)))
    ),
    "the headline is this percentile",
)
RUNS.put(
    "mean_a_little_other",
    of_scenarios(("SingleStream",), in_summary(field(MEAN, times(0.93)))),
    "1 / mean latency is the rate",
)
RUNS.put(
    "offline_max_a_little_other",
    of_scenarios(("Offline",), in_summary(field("Max latency (ns)", times(1.1)))),
    "samples / max latency is the rate",
)
RUNS.put(
    "summary_sut_name",
    in_summary(field("SUT name", to("another machine"))),
    "summary and detail log are of one system",
)
RUNS.put(
    "qps_with_overhead",
    in_summary(field("QPS w/ loadgen overhead", times(1.3))),
    "queries / duration",
)
RUNS.put(
    "qps_without_overhead",
    in_summary(field("QPS w/o loadgen overhead", times(1.3))),
    "1 / mean latency",
)
RUNS.put(
    "completed_rate",
    in_summary(field("Completed samples per second", times(2))),
    "queries / duration",
)

RUNS.put(
    "completed_rate_a_little_higher",
    in_summary(field("Completed samples per second", times(1.3))),
    "queries / duration",
)
RUNS.put(
    "completed_rate_lower",
    in_summary(field("Completed samples per second", times(0.6))),
    "queries / duration",
)
RUNS.put(
    "qps_of_few_queries",
    in_summary(field("QPS w/ loadgen overhead", times(0.001))),
    "queries / duration",
)
RUNS.put(
    "headline_of_another_percentile",
    in_summary(substituted("90th percentile", "50th percentile")),
    "the scenario's result",
)
RUNS.put(
    "headlines_of_other_scenarios",
    in_summary(
        substituted(
            "^Mode     :.*",
            "Mode     : Performance\nSamples per second: 5\nSamples per query : 5",
            1,
        )
    ),
    "the scenario's result alone",
)
RUNS.put(
    "percentile_99_of_a_nanosecond",
    in_summary(field("99.00 percentile latency (ns)", to(1))),
    "percentiles ascend",
)
RUNS.put(
    "percentile_nan", in_summary(field("97.00 percentile latency (ns)", to("nan"))), "a number"
)
RUNS.put(
    "min_latency_negative",
    in_summary(field("Min latency (ns)", lambda text: f"-{text}")),
    "a latency is not negative",
)
RUNS.put(
    "interval_skipped",
    in_summary(substituted(r"^((?:97|99)\.00 percentile : )1", r"\g<1>2")),
    "each query is answered in its interval",
)
RUNS.put(
    "interval_of_another_length",
    in_summary(substituted(r'"ms" : [\d.]+', '"ms" : 70.5')),
    "the benchmark's interval",
)
RUNS.put(
    "interval_of_another_bound",
    in_summary(substituted(r'"target_ns" : \d+', '"target_ns" : 77000000')),
    "the benchmark's interval",
)
RUNS.put(
    "recommended",
    in_summary(
        substituted(
            "Min queries satisfied : Yes",
            "Min queries satisfied : Yes\nRecommendations:\n * Reduce target QPS to improve"
            " latency.",
        )
    ),
    "a valid run gets no advice",
)
RUNS.put(
    "parameters_missing",
    in_summary(substituted(r"^Test Parameters Used[\s\S]*?(?=\n\n)", "Test Parameters Used")),
    "the settings that were used",
)
RUNS.put(
    "parameter_missing",
    in_summary(substituted(r"^min_query_count.*\n", "")),
    "the settings that were used",
)


RUNS.put(
    "summary_with_errors",
    in_summary(substituted("^No errors encountered.*", "3 ERRORS encountered.")),
    "errors that the detail log has",
)
RUNS.put("invalid", in_summary(field("Result is", to("INVALID"))), "VALID")
RUNS.put(
    "invalid_and_valid",
    in_summary(
        lambda text: text.replace("Result is : VALID", "Result is : INVALID\nResult is : VALID")
    ),
    "VALID, once",
)
RUNS.put("validity_missing", in_summary(without_line("Result is")), "VALID")
RUNS.put("validity_garbage", in_summary(field("Result is", to("GOOD"))), "VALID")
RUNS.put(
    "duration_not_satisfied", in_summary(field("Min duration satisfied", to("NO"))), "satisfied"
)
RUNS.put("queries_not_satisfied", in_summary(field("Min queries satisfied", to("NO"))), "satisfied")
RUNS.put(
    "constraints_not_satisfied",
    in_summary(field("Performance constraints satisfied", to("NO"))),
    "satisfied",
)
RUNS.put(
    "constraints_missing",
    in_summary(without_line("Performance constraints satisfied")),
    "says whether the latency held",
)
RUNS.put("summary_mode", in_summary(field("Mode", to("Accuracy"))), "performance mode")
RUNS.put(
    "summary_scenario",
    in_summary(field("Scenario", lambda text: "Server" if text == "Offline" else "Offline")),
    "the folder's scenario",
)
RUNS.put(
    "detail_scenario",
    in_detail(field("Scenario", lambda text: "Server" if text == "Offline" else "Offline")),
    "the folder's scenario",
)
RUNS.put(
    "summary_scenario_unknown",
    in_summary(field("Scenario", to("Multi Stream Free"))),
    "the folder's scenario",
)
RUNS.put(
    "detail_scenario_unknown",
    in_detail(field("Scenario", to("Multi Stream Free"))),
    "the folder's scenario",
)
RUNS.put("detail_mode", in_detail(field("Test mode", to("Accuracy"))), "performance mode")
RUNS.put(
    "both_modes_accuracy",
    lambda entry: all(
        [
            entry.summary(field("Mode", to("Accuracy"))),
            entry.detail(field("Test mode", to("Accuracy"))),
        ]
    ),
    "performance mode",
)
RUNS.put(
    "find_peak_mode",
    lambda entry: all(
        [
            entry.summary(field("Mode", to("FindPeakPerformance"))),
            entry.detail(field("Test mode", to("FindPeakPerformance"))),
        ]
    ),
    "performance mode",
)


@RUNS.add("60 s; fewer only where a number of queries makes it longer")
def asked_for_ten_seconds(entry: Entry) -> bool:
    return (
        entry.closed and entry.scenario == "Server" and entry.both(lasting("min_duration", 10_000))
    )


MANY: Final = ("SingleStream", "MultiStream", "Server")


def lasting(name: str, length_ms: int) -> Edit:
    """Set a duration, in both ways to write it."""
    return lambda text: field(f"{name} (ms)", to(length_ms))(
        field(f"{name}_ms", to(length_ms))(text)
    )


RUNS.put(
    "asked_for_a_second",
    of_scenarios(("SingleStream", "MultiStream"), in_both(lasting("min_duration", 1000))),
    "60 s",
)
RUNS.put("half_a_second_at_most", in_both(lasting("max_duration", 500)), "60 s")
RUNS.put(
    "few_queries_at_most",
    of_scenarios(MANY, in_both(field("max_query_count", to(500)))),
    "the scenario's number of queries",
)
RUNS.put(
    "answers_sampled",
    in_closed(in_both(field("accuracy_log_probability", to(0.1)))),
    "closed settings",
)
for seed in ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"):
    RUNS.put(f"other_{seed}", in_closed(in_both(field(seed, to(1234567890)))), "the round's seeds")
RUNS.put(
    "few_loaded_samples",
    in_closed(in_both(field("performance_sample_count", to(10)))),
    "the benchmark's sample count",
)
RUNS.put(
    "unique_samples",
    in_closed(in_both(field("performance_issue_unique", to("true")))),
    "closed settings",
)
RUNS.put(
    "same_sample",
    in_closed(in_both(field("performance_issue_same", to("true")))),
    "closed settings",
)
RUNS.put(
    "same_sample_index",
    in_closed(in_both(field("performance_issue_same_index", to(5)))),
    "closed settings",
)


@RUNS.add("the scenario's number of queries is asked for")
def asked_for_few_queries(entry: Entry) -> bool:
    return (
        entry.closed
        and entry.scenario != "Offline"
        and entry.both(field("min_query_count", to(512)))
    )


@RUNS.add("24,576 samples")
def few_offline_samples(entry: Entry) -> bool:
    def change(text: str) -> str:
        text = field("samples_per_query", to(1000))(field("min_sample_count", to(1000))(text))
        return re.sub(r'"samples per query" : \d+', '"samples per query" : 1000', text)

    return entry.closed and entry.scenario == "Offline" and entry.both(change)


@RUNS.add("the benchmark's latency bound")
def bound_doubled(entry: Entry) -> bool:
    def change(text: str) -> str:
        return re.sub(
            r"((?:server|multi_stream)_target_latency_ns : )(\d+)",
            lambda match: match[1] + str(int(match[2]) * 2),
            field("target_latency (ns)", times(2))(text),
        )

    return entry.closed and entry.scenario in ("Server", "MultiStream") and entry.both(change)


@RUNS.add("the benchmark's percentile")
def percentile_lowered(entry: Entry) -> bool:
    return (
        entry.closed
        and entry.scenario != "Offline"
        and entry.detail(
            lambda text: re.sub(r"(target_latency_percentile : )0\.9\d*", r"\g<1>0.5", text)
        )
    )


@RUNS.add("the latency of the percentile is within the bound")
def slower_than_bound(entry: Entry) -> bool:
    def change(text: str) -> str:
        for label in (*PERCENTILES, "Max latency (ns)"):
            name = f"{label} percentile latency (ns)" if label in PERCENTILES else label
            text = field(
                name, times({"99.00": 3, "99.90": 3.5, "Max latency (ns)": 4}.get(label, 1))
            )(text)
        return text

    return entry.closed and entry.scenario in ("Server", "MultiStream") and entry.summary(change)


@RUNS.add("one query at a time")
def more_queries_at_a_time(entry: Entry) -> bool:
    return entry.scenario == "MultiStream" and entry.both(
        lambda text: field("max_async_queries", to(8))(
            field("multi_stream_max_async_queries", to(8))(text)
        )
    )


@RUNS.add("more samples per query than were generated")
def more_samples_per_query_than_generated(entry: Entry) -> bool:
    def change(text: str) -> str:
        for label in ("Samples per query", "samples_per_query", "multi_stream_samples_per_query"):
            text = field(label, times(2))(text)
        return text

    return entry.scenario == "MultiStream" and entry.both(change)


def of_server(change: Callable[[Entry], bool]) -> Callable[[Entry], bool]:
    """Only where there are five runs."""
    return lambda entry: len(entry.runs) == 5 and change(entry)


def copied_run(entry: Entry) -> bool:
    """Copy a run over another."""
    return all(
        entry.undo.copy(entry.runs[0] / name, entry.runs[2] / name) for name in (SUMMARY, DETAIL)
    )


def copied_run_shifted(entry: Entry) -> bool:
    """Copy a run over another with another date and process."""
    copied_run(entry)
    return entry.undo.edit(
        entry.runs[2] / DETAIL,
        lambda text: re.sub(
            r'"pid": \d+, "tid": \d+',
            '"pid": 4242, "tid": 4242',
            field("Date + time of test", to("2019-10-19T01:02:03Z"))(text),
        ),
    )


RUNS.put(
    "server_run_missing", of_server(lambda entry: entry.undo.delete(entry.runs[2])), "5 Server runs"
)
RUNS.put(
    "server_last_run_missing",
    of_server(lambda entry: entry.undo.delete(entry.runs[-1])),
    "5 Server runs",
)
RUNS.put("server_run_copied", of_server(copied_run), "runs of their own")
RUNS.put("server_run_copied_with_another_date", of_server(copied_run_shifted), "runs of their own")
for name, log in {"summary": SUMMARY, "detail": DETAIL}.items():
    RUNS.put(
        f"server_run_with_the_{name}_of_another",
        of_server(
            lambda entry, log=log: entry.undo.copy(  # type: ignore[misc]
                entry.runs[0] / log, entry.runs[1] / log
            )
        ),
        "runs of their own",
    )
RUNS.put(
    "server_run_of_another_loadgen",
    of_server(
        lambda entry: entry.undo.edit(
            entry.runs[1] / DETAIL, substituted(r"(version : \S+ @ )\w+", r"\g<1>1b1cabc04b")
        )
    ),
    "one LoadGen version per entry",
)
RUNS.put(
    "server_run_invalid",
    of_server(
        lambda entry: entry.undo.edit(entry.runs[3] / SUMMARY, field("Result is", to("INVALID")))
    ),
    "each run VALID",
)
RUNS.put(
    "server_run_of_another_rate",
    of_server(
        lambda entry: entry.undo.edit(entry.runs[3] / SUMMARY, field("target_qps", times(2)))
    ),
    "summary and detail log agree",
)
RUNS.put(
    "server_run_without_detail",
    of_server(lambda entry: entry.undo.delete(entry.runs[3] / DETAIL)),
    "required files",
)
RUNS.put(
    "server_run_with_other_seeds",
    of_server(
        lambda entry: all(
            entry.undo.edit(entry.runs[4] / name, field("schedule_rng_seed", to(7)))
            for name in (SUMMARY, DETAIL)
        )
    ),
    "the round's seeds",
)
