"""The kinds of mutants: name -> what is done to a copy of an entry."""

from typing import Final

from mutants_inference import (
    Kind,
    alone,
    answers,
    backwards,
    claims,
    closed,
    configured,
    copy_over,
    detail,
    earlier_stamps,
    edit,
    effective,
    everywhere,
    field,
    headless,
    in_accuracy,
    logged,
    measured,
    of,
    of_images,
    only,
    other_classes,
    other_errors,
    removed,
    run_detail,
    run_summary,
    same_run,
    setting,
    several,
    single_answers,
    sub,
    summary,
    utf16,
    value,
    verified,
    written,
)

from suite.files.layout import ACCURACY_LOG, ACCURACY_TEXT, DETAIL_LOG, SUMMARY_LOG

SEEDS: Final = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")
PARAMETERS: Final = (
    "samples_per_query",
    "target_qps",
    "max_async_queries",
    "min_query_count",
    "max_query_count",
    *SEEDS,
    "accuracy_log_rng_seed",
    "accuracy_log_probability",
    "performance_issue_same_index",
    "performance_sample_count",
)
REQUIRED: Final = (
    "division",
    "submitter",
    "status",
    "system_name",
    "number_of_nodes",
    "host_processor_model_name",
    "host_processors_per_node",
    "host_memory_capacity",
    "host_storage_capacity",
    "host_storage_type",
    "accelerators_per_node",
    "accelerator_model_name",
    "accelerator_memory_capacity",
    "framework",
    "operating_system",
)
DESCRIBED: Final = (
    "input_data_types",
    "retraining",
    "starting_weights_filename",
    "weight_data_types",
    "weight_transformations",
)
CONSTRAINED: Final = of("Server", "MultiStream")

KINDS: Final[dict[str, Kind]] = {
    # the summary of a performance run
    "result_invalid": summary(sub("Result is : VALID", "Result is : INVALID")),
    "result_missing": summary(sub(r"^Result is.*\n", "")),
    "result_twice": summary(sub(r"^Result is : VALID", "Result is : INVALID\nResult is : VALID")),
    "constraints_missed": only(
        CONSTRAINED, summary(sub("constraints satisfied : Yes", "constraints satisfied : NO"))
    ),
    "constraints_untold": only(CONSTRAINED, summary(sub(r"^.*constraints satisfied.*\n", ""))),
    "duration_missed": summary(sub("Min duration satisfied : Yes", "Min duration satisfied : NO")),
    "queries_missed": summary(sub("Min queries satisfied : Yes", "Min queries satisfied : NO")),
    "recommended": summary(
        sub(
            "Min queries satisfied : Yes",
            "Min queries satisfied : Yes\nRecommendations:\n * Reduce target QPS to improve"
            " latency.",
        )
    ),
    "latency_better": only(of("SingleStream"), value("90th percentile latency", 0.9)),
    "latency_worse": only(of("SingleStream"), value("90th percentile latency", 1.1)),
    "percentile_better": only(of("SingleStream"), value("90.00 percentile latency", 0.98)),
    "other_percentile": only(
        of("SingleStream"), summary(sub("90th percentile", "50th percentile"))
    ),
    "rate_better": only(of("Server"), value("Scheduled samples per second", 1.05)),
    "rate_worse": only(of("Server"), value("Scheduled samples per second", 0.9)),
    "completed_more": only(of("Server"), value("Completed samples per second", 1.3)),
    "completed_less": only(of("Server"), value("Completed samples per second", 0.6)),
    "throughput_better": only(of("Offline"), value("Samples per second", 1.05)),
    "throughput_worse": only(of("Offline"), value("Samples per second", 0.9)),
    "streams_more": only(of("MultiStream"), value("Samples per query", 1.5)),
    "qps_without_overhead": only(of("SingleStream"), value("QPS w/o loadgen overhead", 1.2)),
    "qps_with_overhead": only(of("SingleStream"), value("QPS w/ loadgen overhead", 1.6)),
    "few_issued": only(of("SingleStream"), value("QPS w/ loadgen overhead", 0.001)),
    "mean_high": value("Mean latency", 40),
    "mean_low": value("Mean latency", 0.01),
    "lowest_high": value("Min latency", 1e6),
    "highest_low": value("Max latency", 0.001),
    "median_high": summary(sub(r"^(50.00 percentile latency[^:]*: )(\d+)", r"\g<1>9\g<2>9")),
    "percentiles_descend": summary(sub(r"^(99.00 percentile latency[^:]*: )\d+", r"\g<1>1")),
    "percentile_missing": summary(sub(r"^95.00 percentile latency.*\n", "")),
    "latency_nan": summary(sub(r"^(97.00 percentile latency[^:]*: )\d+", r"\g<1>nan")),
    "latency_negative": summary(sub(r"^(Min latency[^:]*: )(\d+)", r"\g<1>-\g<2>")),
    "late_queries": only(
        of("Server"),
        closed(
            summary(sub(r"^((?:97|99)\.[09]0 percentile latency[^:]*: )\d+", r"\g<1>900000000000"))
        ),
    ),
    "interval_skipped": only(
        of("MultiStream"), summary(sub(r"^((?:97|99)\.00 percentile : )1", r"\g<1>2"))
    ),
    "late_answers": only(
        of("MultiStream"),
        summary(sub(r"^(9[79]\.\d0 percentile latency[^:]*: )\d+", r"\g<1>900000000000")),
    ),
    "interval_length": only(of("MultiStream"), summary(sub(r'"ms" : [\d.]+', '"ms" : 70.5'))),
    "bound_told": only(
        of("MultiStream"), summary(sub(r'"target_ns" : \d+', '"target_ns" : 77000000'))
    ),
    "headline_missing": summary(headless),
    "headline_of_another": summary(
        sub(
            r"^Mode     :.*",
            "Mode     : Performance\nSamples per second: 5\nSamples per query : 5",
            1,
        )
    ),
    "scenario_in_summary": summary(sub(r"^Scenario : .*", "Scenario : Multi Stream Free")),
    "mode_in_summary": summary(sub(r"^Mode     : .*", "Mode     : FindPeakPerformance")),
    "errors_told": summary(other_errors),
    "summary_empty": written(run_summary, b""),
    "summary_missing": removed(run_summary),
    "summary_binary": written(run_summary, bytes(range(256)) * 20),
    "summary_utf16": utf16(run_summary),
    "parameters_missing": summary(
        sub(r"^Test Parameters Used[\s\S]*?(?=\n\n)", "Test Parameters Used")
    ),
    **{
        f"summary_{name}": summary(sub(rf"^({name} : )(\S+)", r"\g<1>\g<2>1"))
        for name in PARAMETERS
    },
    "summary_min_duration": summary(sub(r"^min_duration \(ms\): \d+", "min_duration (ms): 1000")),
    "summary_target_latency": summary(
        sub(r"^target_latency \(ns\): \d+", "target_latency (ns): 123456789")
    ),
    "summary_parameter_missing": summary(sub(r"^min_query_count.*\n", "")),
    # the detail log of a performance run
    "error_logged": detail(
        logged("ERROR : Ending early: Too many outstanding queries.", "Log Contention")
    ),
    "git_dirty": closed(
        detail(sub(r"ns : git_status :\n", "ns : git_status :\n\n M loadgen.cc\n", 1))
    ),
    "revision_unknown": closed(detail(sub(r"(version : \S+ @ )\w+", r"\g<1>0badc0ffee"))),
    "revision_of_another": closed(detail(sub(r"(version : \S+ @ )\w+", r"\g<1>55c0ea4e77"))),
    "version_unknown": closed(detail(sub(r"version : \S+ @", "version : .9z9 @"))),
    "version_missing": closed(detail(sub(r"^.*ns : version : .*\n", ""))),
    "sources_changed": closed(
        detail(
            sub(
                r"^[0-9a-f]{40} /loadgen.cc", "0123456789012345678901234567890123456789 /loadgen.cc"
            )
        )
    ),
    "sources_of_another": closed(
        detail(
            sub(
                r"^[0-9a-f]{40} /loadgen.cc", "5310bbe20daf6ed879b640ea6b92ff4da12afe2c /loadgen.cc"
            )
        )
    ),
    "sources_untold": closed(detail(sub(r"^[0-9a-f]{40} /loadgen.cc\n", ""))),
    "clock_backwards": detail(backwards),
    "clock_fast": detail(earlier_stamps),
    "generation_missing": detail(sub(r"^.*GeneratedQueries.*\n", "")),
    "loading_missing": detail(sub(r"^.*Loading QSL.*\n", "")),
    "end_missing": detail(lambda text: text[: text.rindex("Log Contention")]),
    "few_generated": detail(sub(r'("queries" : )\d+', r"\g<1>0")),
    "half_generated": only(
        CONSTRAINED,
        detail(sub(r'("queries" : )(\d+)', lambda match: match[1] + str(int(match[2]) // 2))),
    ),
    "other_samples_per_query": detail(sub(r'("samples per query" : )(\d+)', r"\g<1>\g<2>1")),
    "few_samples": only(
        of("Offline"), everywhere(sub(r"(samples.per.query\"? ?: )\d+", r"\g<1>1000"))
    ),
    "schedule_short": detail(
        sub(r'("duration" : )(\d+)', lambda match: match[1] + str(int(match[2]) // 3))
    ),
    "schedule_long": detail(
        sub(r'("duration" : )(\d+)', lambda match: match[1] + str(int(match[2]) * 2))
    ),
    "power_short": detail(sub(r"(POWER_END: .*\"time\" : )(.*)", r"\g<1>01-01-2019 00:00:00.000")),
    "power_end_missing": detail(sub(r"^.*POWER_END: \"mode\" : Perf.*\n", "")),
    "power_garbled": detail(sub(r"(POWER_BEGIN: .*\"time\" : ).*", r"\g<1>yesterday")),
    "power_of_another_mode": detail(sub(r'(POWER_END: "mode" : )Performance', r"\g<1>Accuracy")),
    "mode_of_detail": detail(sub(r"ns : Test mode : \w+", "ns : Test mode : Accuracy")),
    "peak_found": everywhere(sub(r"(Test mode|Mode    ) : \w+", r"\g<1> : FindPeakPerformance")),
    "phase_missing": detail(sub(r"^.*Starting performance mode.*\n", "")),
    "scenario_of_detail": detail(sub(r"ns : Scenario : .*", "ns : Scenario : Multi Stream Free")),
    "set_short": detail(sub(r'"set" : "\[\d+,\d+,\d+,', '"set" : "[')),
    "set_repeated": detail(sub(r'"set" : "\[(\d+),\d+,', r'"set" : "[\g<1>,\g<1>,')),
    "set_beyond": detail(sub(r'"set" : "\[\d+,', '"set" : "[60000,')),
    "set_garbled": detail(sub(r'"set" : "\[\d+,', '"set" : "[x,')),
    "detail_empty": written(run_detail, b""),
    "detail_missing": removed(run_detail),
    "detail_binary": written(run_detail, bytes(range(256)) * 20),
    "detail_cut": lambda base: edit(run_detail(base), lambda text: text[: len(text) // 2]),
    "detail_utf16": utf16(run_detail),
    "detail_of_accuracy": alone(copy_over(lambda base: base.accuracy / DETAIL_LOG, run_detail)),
    **{
        f"effective_{name}": effective(name)
        for name in (
            "max_query_count",
            *SEEDS,
            "accuracy_log_rng_seed",
            "min_duration (ms)",
            "max_duration (ms)",
        )
    },
    "effective_min_query_count": only(
        of("SingleStream", "MultiStream", "Server"), effective("min_query_count")
    ),
    "settings_missing": detail(sub(r"^.*ns : Effective Settings:\n", "")),
    # settings everywhere
    **{f"seed_{name}": setting(name, "12345") for name in SEEDS},
    "asked_for_a_second": only(
        of("SingleStream", "MultiStream"), setting("min_duration_ms", "1000")
    ),
    "asked_for_few": only(of("SingleStream", "MultiStream"), setting("min_query_count", "100")),
    "wide_bound": only(CONSTRAINED, closed(setting("target_latency_ns", "900000000"))),
    "low_percentile": only(CONSTRAINED, closed(setting("target_latency_percentile", "0.5"))),
    "few_in_memory": closed(setting("performance_sample_count", "10")),
    "one_sample": closed(setting("performance_issue_same", "true")),
    "unique_samples": closed(setting("performance_issue_unique", "true")),
    "answers_sampled": closed(setting("accuracy_log_probability", "0.1")),
    "few_at_most": only(
        of("SingleStream", "MultiStream", "Server"), setting("max_query_count", "500")
    ),
    "short_at_most": setting("max_duration_ms", "500"),
    # the accuracy run
    "accuracy_of_performance": alone(
        copy_over(run_detail, lambda base: base.accuracy / DETAIL_LOG)
    ),
    "accuracy_summary_of_performance": copy_over(
        run_summary, lambda base: base.accuracy / SUMMARY_LOG
    ),
    "accuracy_detail_missing": removed(lambda base: base.accuracy / DETAIL_LOG),
    "accuracy_summary_missing": removed(lambda base: base.accuracy / SUMMARY_LOG),
    "accuracy_summary_empty": written(lambda base: base.accuracy / SUMMARY_LOG, b""),
    "accuracy_summary_garbage": written(
        lambda base: base.accuracy / SUMMARY_LOG, b"once upon a time\n" * 9
    ),
    "accuracy_run_missing": removed(lambda base: base.accuracy),
    "accuracy_seed": in_accuracy(sub(r"(ns : qsl_rng_seed : )\d+", r"\g<1>1")),
    "accuracy_scenario": in_accuracy(
        sub(r"ns : Scenario : .*", "ns : Scenario : Multi Stream Free")
    ),
    "accuracy_error": in_accuracy(logged("ERROR : out of memory", "Starting accuracy")),
    "accuracy_other_loadgen": in_accuracy(sub(r"(version : \S+ @ )\w+", r"\g<1>55c0ea4e77")),
    "data_set_small": closed(in_accuracy(sub(r"QSL total size: \d+", "QSL total size: 500"))),
    "set_not_loaded": in_accuracy(sub(r'"set" : "\[\d+,\d+,', '"set" : "[', 1)),
    "answer_missing": single_answers(answers(lambda rows: rows[1:])),
    "answers_missing": answers(lambda rows: rows[: len(rows) // 2]),
    "answer_twice": answers(lambda rows: [*rows, rows[0]]),
    "answer_to_another": single_answers(
        answers(lambda rows: [sub(r'"qsl_idx" : \d+', '"qsl_idx" : 60001')(rows[0]), *rows[1:]])
    ),
    "sequence_twice": answers(
        lambda rows: [sub(r'"seq_id" : \d+', '"seq_id" : 5')(row) for row in rows[:9]] + rows[9:]
    ),
    "answers_changed": of_images(answers(other_classes)),
    "answer_empty": of_images(
        answers(lambda rows: [sub(r'"data" : "\w+"', '"data" : ""')(rows[0]), *rows[1:]])
    ),
    "answer_longer": of_images(
        answers(lambda rows: [sub(r'"data" : "(\w+)"', r'"data" : "\g<1>00"')(rows[0]), *rows[1:]])
    ),
    "answer_garbled": answers(
        lambda rows: [sub(r'"data" : "', '"data" : "XY')(rows[0]), *rows[1:]]
    ),
    "answer_odd": answers(lambda rows: [sub(r'"data" : "(\w)', '"data" : "')(rows[0]), *rows[1:]]),
    "answers_cut": lambda base: edit(
        base.accuracy / ACCURACY_LOG, lambda text: text[: len(text) * 2 // 3]
    ),
    "answers_unclosed": lambda base: edit(
        base.accuracy / ACCURACY_LOG, lambda text: text.rstrip().rstrip("]")
    ),
    "answers_garbage": written(lambda base: base.accuracy / ACCURACY_LOG, bytes(range(256)) * 50),
    "answers_none": written(lambda base: base.accuracy / ACCURACY_LOG, b"[\n]\n"),
    "answers_removed": removed(lambda base: base.accuracy / ACCURACY_LOG),
    "claim_higher": claims(
        sub(
            r"(accuracy|mAP)=(\d)(\d)",
            lambda match: f"{match[1]}={match[2]}{(int(match[3]) + 1) % 10}",
        )
    ),
    "claim_of_count": claims(sub(r"good=(\d+)", lambda match: f"good={int(match[1]) + 100}")),
    "claim_of_total": claims(sub(r"total=(\d+)", lambda match: f"total={int(match[1]) - 1}")),
    "claim_low": closed(
        claims(
            sub(
                r"(accuracy|mAP)=\d+|BLEU: \d+",
                lambda match: f"{match[1]}=10" if match[1] else "BLEU: 10",
            )
        )
    ),
    "claim_missing": claims(sub(r"accuracy=|mAP=|BLEU:", "quality ")),
    "claim_empty": written(lambda base: base.accuracy / ACCURACY_TEXT, b""),
    "claim_removed": removed(lambda base: base.accuracy / ACCURACY_TEXT),
    "claim_nan": claims(sub(r"(accuracy=|mAP=|BLEU: )[\d.]+", r"\g<1>nan")),
    # the entry
    "runs_missing": removed(lambda base: base.entry / "performance"),
    "run_missing": removed(lambda base: base.runs[-1]),
    "run_twice": same_run,
    "summary_of_another_run": several(
        copy_over(run_summary, lambda base: base.runs[1] / SUMMARY_LOG)
    ),
    "detail_of_another_run": several(copy_over(run_detail, lambda base: base.runs[1] / DETAIL_LOG)),
    "run_of_another_loadgen": several(
        lambda base: edit(
            base.runs[1] / DETAIL_LOG, sub(r"(version : \S+ @ )\w+", r"\g<1>1b1cabc04b")
        )
    ),
    "answers_file_missing": removed(lambda base: base.runs[0] / ACCURACY_LOG),
    "answers_in_performance": alone(
        written(
            lambda base: base.runs[0] / ACCURACY_LOG,
            b'[\n{ "seq_id" : 0, "qsl_idx" : 1, "data" : "00000000" }\n]\n',
        )
    ),
    # what is filed with it
    "system_missing": removed(lambda base: base.description),
    "system_garbled": written(lambda base: base.description, b"{'division': closed"),
    "system_list": written(lambda base: base.description, b"[]"),
    **{f"system_without_{name}": field(lambda base: base.description, name) for name in REQUIRED},
    "system_of_the_other_division": lambda base: field(
        lambda base: base.description, "division", "open" if base.closed else "closed"
    )(base),
    "system_of_no_division": field(lambda base: base.description, "division", "ajar"),
    "system_of_another": field(lambda base: base.description, "submitter", "Somebody Else"),
    "system_status": field(lambda base: base.description, "status", "wished for"),
    "measurements_missing": removed(lambda base: base.measurements),
    **{
        f"no_{name}": removed(lambda base, name=name: base.measurements / name)
        for name in ("mlperf.conf", "README.md")
    },
    "no_user.conf": closed(removed(lambda base: base.measurements / "user.conf")),
    "measured_missing": (
        lambda base: (path := measured(base)) is not None and removed(lambda _: path)(base)
    ),
    "measured_garbled": (
        lambda base: (path := measured(base)) is not None and written(lambda _: path, b"{")(base)
    ),
    **{f"measured_without_{name}": field(measured, name) for name in DESCRIBED},
    "retrained": closed(field(measured, "retraining", "yes")),
    "odd_numbers": closed(field(measured, "weight_data_types", "fp8")),
    "code_missing": removed(lambda base: base.home / "code"),
    "user_asks_for_a_second": closed(configured("*.{}.min_duration = 1000")),
    "user_asks_for_few": only(
        of("SingleStream", "MultiStream", "Server"),
        closed(configured("*.{}.min_query_count = 100")),
    ),
    "user_asks_for_a_seed": configured("*.{}.qsl_rng_seed = 7"),
    "user_asks_for_a_wide_bound": only(
        CONSTRAINED, closed(configured("*.{}.target_latency = 5000"))
    ),
    # compliance tests
    "audit_failed": verified(sub("TEST PASS", "TEST FAIL")),
    "audit_without_outcome": verified(sub("TEST PASS.*", "")),
    "audit_empty": verified(lambda _: ""),
    "audit_mismatches": verified(sub(r"(num_perf_log_data_mismatch = )\d+", r"\g<1>9"), "accuracy"),
    "audit_slow": verified(sub(r"(test score = )(.*)", r"\g<1>0.5")),
    "audit_of_another": verified(sub(r"(reference score = )(\d)", r"\g<1>7\g<2>")),
}
