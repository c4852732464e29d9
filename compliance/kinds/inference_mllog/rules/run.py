"""Check one LoadGen run of a published inference round since v1.0: mode, scenario, seeds, duration,
samples, results.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from compliance.kinds.inference_mllog.documents.run import INTERACTIVE_FOLDER, MllogRun
from compliance.logs.loadgen.setting_names import EQUAL_SAMPLE_SETTINGS, LOADGEN_SEEDS
from compliance.logs.loadgen.summary import parse_printed_number
from compliance.logs.loadgen.summary_keys import LOGGED_PERCENTILES, SUMMARY_RATE_KEYS
from compliance.recognition.round_evidence import find_round_of_seeds
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity

ALLOWED_TEST_MODES: Final = {
    True: ("PerformanceOnly", "SubmissionRun"),
    False: ("AccuracyOnly", "SubmissionRun"),
}
INFERRED_FROM_SCENARIOS: Final = {
    "Offline": ("SingleStream", "MultiStream"),
    "MultiStream": ("SingleStream",),
    INTERACTIVE_FOLDER: ("Server",),
}
"""Scenario of a folder -> scenarios that LoadGen may have run for it: results of edge systems are
inferred from SingleStream; interactive is Server.
"""
REQUIRED_RUN_EVENTS: Final = (
    "loadgen_version",
    "test_datetime",
    "requested_scenario",
    "effective_scenario",
    "effective_test_mode",
    "effective_samples_per_query",
    "effective_min_duration_ms",
    "effective_min_query_count",
    "effective_performance_sample_count",
    "generated_query_count",
    "generated_samples_per_query",
)
"""Events of every run."""
OFFLINE_RESULT_EVENTS: Final = (
    "generated_query_count",
    "generated_samples_per_query",
    "result_max_latency_ns",
    "result_samples_per_second",
)
MIN_SERVER_PERCENTILE: Final = 0.99
"""0-1. Source: inference_rules.adoc, Scenarios; mlperf.conf: *.Server.target_latency_percentile =
99.
"""
SUMMARY_RATE_TOLERANCE: Final = 1e-3
"""Relative: the summary has six digits, rates two decimals."""
OFFLINE_RATE_TOLERANCE: Final = 0.02


def has_detail_records(run: MllogRun) -> bool:
    """Return whether the detail log has records; otherwise the file's own finding is sufficient."""
    return bool(run.index)


@rule(
    "inference-mllog.records",
    MllogRun,
    About.SCORE,
    doubt="the figure and the settings that it was measured with",
    former="later.records",
)
def records(run: MllogRun) -> Iterator[Fault]:
    """A detail log contains LoadGen's records, with its settings.

    Source: mlcommons/inference, loadgen/logging.cc since LoadGen 1.0: lines that begin with
    :::MLLOG.
    Advice: copy the whole detail log again; if it is cut off at the source, repeat the run.
    """
    if run.source.path.exists() or (run.performance and not run.summary_source.path.exists()):
        missing = [key for key in REQUIRED_RUN_EVENTS if key not in run.index]
    else:
        missing = []
    if missing:
        yield run.build_fault(
            f"no {', '.join(missing)}", "LoadGen's records, as the run wrote them"
        )


@rule(
    "inference-mllog.mode",
    MllogRun,
    About.SCORE,
    doubt="the figure: it is another kind of run",
    former="later.mode",
)
def mode(run: MllogRun) -> Iterator[Fault]:
    """A performance folder contains a performance run, an accuracy folder an accuracy run. A
    submission run counts as both.

    Source: mlcommons/inference, loadgen/test_settings.h, TestMode; submission_rules.adoc, results:
    accuracy and performance folders.
    Advice: submit the logs of the run that the folder's name states.
    """
    told = run.find_value("effective_test_mode")
    if (
        has_detail_records(run)
        and told is not None
        and told not in ALLOWED_TEST_MODES[run.performance]
    ):
        yield run.build_fault(
            f"test mode {told}",
            " or ".join(ALLOWED_TEST_MODES[run.performance]),
            "effective_test_mode",
            about=None if run.performance else About.FORM,
        )


@rule(
    "inference-mllog.scenario",
    MllogRun,
    About.IDENTITY,
    doubt="which scenario it is a result of",
    former="later.scenario",
)
def scenario(run: MllogRun) -> Iterator[Fault]:
    """The scenario of the log is that of its folder, or one from which that scenario may be
    inferred.

    Source: inference_rules.adoc, Scenarios; submission-checker.py: Offline and MultiStream of edge
    systems from SingleStream; Interactive is Server.
    Advice: submit the logs of the scenario that the folder's name states.
    """
    if (
        run.scenario
        and run.logged_scenario
        and run.logged_scenario
        not in (run.scenario, *INFERRED_FROM_SCENARIOS.get(run.scenario, ()))
    ):
        yield run.build_fault(f"scenario {run.logged_scenario}", run.scenario, "effective_scenario")


@rule(
    "inference-mllog.seeds",
    MllogRun,
    About.RULES,
    doubt="whether the samples were drawn as the round requires",
    former="later.seeds",
)
def seeds(run: MllogRun) -> Iterator[Fault]:
    """The random seeds are the round's seeds.

    Source: mlcommons/inference, mlperf.conf of the round; submission-checker.py, MODEL_CONFIG,
    seeds.
    Advice: use the round's mlperf.conf and repeat the run.
    """
    if not has_detail_records(run):
        return
    told = {name: run.find_value(f"effective_{name}") for name in LOADGEN_SEEDS}
    wanted = {name: getattr(run.round.rules, name) for name in LOADGEN_SEEDS}
    if told != wanted and (other := find_round_of_seeds(told)):
        yield replace(
            run.build_fault(
                describe_seeds(told), describe_seeds(wanted), f"effective_{LOADGEN_SEEDS[0]}"
            ),
            advice=advise_about_seeds(other),
        )
        return
    for name, seed in told.items():
        if seed != wanted[name]:
            yield run.build_fault(f"{name} {seed}", f"{wanted[name]}", f"effective_{name}")


def describe_seeds(seeds: Mapping[str, Any]) -> str:
    """Name the seeds of a run, or of a round."""
    return ", ".join(f"{name} {seed}" for name, seed in seeds.items())


def advise_about_seeds(round_name: str) -> str:
    """Say which round's configuration was used."""
    return (
        f"the seeds are those of {round_name}: its mlperf.conf was used; repeat the run with the"
        f" round's own, or name {round_name} with --round if it is a result of that"
    )


@rule(
    "inference-mllog.valid",
    MllogRun,
    About.SCORE,
    doubt="the figure: LoadGen did not accept the run",
    former="later.valid",
)
def valid(run: MllogRun) -> Iterator[Fault]:
    """LoadGen reports a performance run as VALID, in the detail log and in the summary.

    Source: submission-checker.py, check_performance_dir; mlcommons/inference, loadgen/results.cc.
    Advice: follow the summary's recommendations and repeat the run.
    """
    if not run.performance or not has_detail_records(run):
        return
    if run.find_value("result_validity") != "VALID":
        yield run.build_fault(
            f"result_validity {run.find_value('result_validity')}", "VALID", "result_validity"
        )
    told = run.summary.find_text("Result is")
    if told is None and run.summary_source.path.is_file():
        yield run.build_fault("no result", "Result is : VALID", file=run.summary_source.path)
    if told is not None and told != "VALID":
        yield run.build_summary_fault("Result is", f"Result is: {told}", "VALID")


@rule(
    "inference-mllog.errors",
    MllogRun,
    About.SCORE,
    former="later.errors",
    severity=Severity.WARNING,
)
def errors(run: MllogRun) -> Iterator[Fault]:
    """LoadGen logged no errors.

    Source: submission-checker.py, which rejects accuracy runs with errors, but not performance
    runs.
    Advice: fix the cause and repeat the run.
    """
    if told := run.find_number("num_errors"):
        yield run.build_fault(f"{told:g} errors", "none", "num_errors")


@rule(
    "inference-mllog.duration",
    MllogRun,
    About.RULES,
    doubt="whether the run was as long as the round requires",
    former="later.duration",
)
def duration(run: MllogRun) -> Iterator[Fault]:
    """A performance run requests at least the duration that the round requires.

    Source: inference_rules.adoc, Scenarios: 600 seconds; submission-checker.py, TEST_DURATION_MS.
    Advice: use the round's mlperf.conf, set no smaller minimum in user.conf, and repeat the run.
    """
    told, least = run.find_number("effective_min_duration_ms"), run.round.rules.min_duration_ms
    if run.performance and has_detail_records(run) and (told is None or told < least):
        yield run.build_fault(f"min_duration {told} ms", f"{least} ms", "effective_min_duration_ms")


@rule(
    "inference-mllog.samples",
    MllogRun,
    About.RULES,
    doubt="whether the run used as many samples as the round requires",
    former="later.samples",
)
def samples(run: MllogRun) -> Iterator[Fault]:
    """The samples in memory, and in Offline's query, are at least as many as the benchmark
    requires.

    Source: submission-checker.py, MODEL_CONFIG, performance-sample-count; OFFLINE_MIN_SPQ,
    OFFLINE_MIN_SPQ_SINCE_V4.
    Advice: use the round's mlperf.conf, and repeat the run.
    """
    if not run.performance or not run.closed or not has_detail_records(run):
        return
    least, told = (
        run.model.performance_samples if run.model else None,
        run.find_number("effective_performance_sample_count"),
    )
    if least is not None and told is not None and told < least:
        yield run.build_fault(
            f"performance_sample_count {told:g}",
            f"at least {least}",
            "effective_performance_sample_count",
        )
    fewest = None
    if run.logged_scenario == "Offline":
        fewest = run.round.find_offline_samples(run.model)
    for name in ("effective_samples_per_query", "generated_samples_per_query"):
        issued = run.find_number(name)
        if fewest is not None and issued is not None and issued < fewest:
            yield run.build_fault(f"{name} {issued:g}", f"at least {fewest}", name)


@rule(
    "inference-mllog.bound",
    MllogRun,
    About.RULES,
    doubt="whether the run met the latency bound",
    former="later.bound",
)
def bound(run: MllogRun) -> Iterator[Fault]:
    """Server meets its latency bound: the benchmark's bound, or the token bounds that LoadGen
    received.

    Source: submission-checker.py, MODEL_CONFIG, latency-constraint; mlcommons/inference,
    loadgen/results.cc, PerfConstraintsMet.
    Advice: lower the rate and repeat the run.
    """
    if not run.performance or run.logged_scenario != "Server":
        return
    if run.find_value("result_perf_constraints_met") is False:
        yield run.build_fault(
            "result_perf_constraints_met false", "true", "result_perf_constraints_met"
        )
    limit = None
    if run.model:
        limit = run.model.bounds_ns.get(run.scenario or run.logged_scenario)
    if not run.closed or limit is None or run.find_value("requested_use_token_latencies") is True:
        return
    for key in ("result_99.00_percentile_latency_ns", "effective_target_latency_ns"):
        told = run.find_number(key)
        if told is not None and told > limit:
            yield run.build_fault(f"{key} {told:g}", f"at most {limit}", key)
    percentile = run.find_number("effective_target_latency_percentile")
    if percentile is not None and percentile < MIN_SERVER_PERCENTILE:
        yield run.build_fault(
            f"target_latency_percentile {percentile:g}",
            f"{MIN_SERVER_PERCENTILE}",
            "effective_target_latency_percentile",
        )


@rule(
    "inference-mllog.special",
    MllogRun,
    About.RULES,
    doubt="whether the run is a result or a test",
    former="later.special",
)
def special(run: MllogRun) -> Iterator[Fault]:
    """A result does not use settings for compliance tests.

    Source: mlcommons/inference, compliance: audit.config of TEST01 and TEST04.
    Advice: remove audit.config, and repeat the run.
    """
    if not run.performance:
        return
    for name in (f"effective_{each}" for each in EQUAL_SAMPLE_SETTINGS):
        if run.find_value(name) not in (None, False, 0):
            yield run.build_fault(
                f"{name} {run.find_value(name)}",
                "false",
                name,
                severity=None if run.closed else Severity.WARNING,
            )


@rule(
    "inference-mllog.latencies",
    MllogRun,
    About.SCORE,
    doubt="the latencies",
    former="later.latencies",
)
def latencies(run: MllogRun) -> Iterator[Fault]:
    """Latencies of queries and of tokens increase from the lowest through the percentiles to the
    highest.

    Source: mlcommons/inference, loadgen/results.cc: all come from one sorted list.
    Advice: copy LoadGen's detail log again from this run; if it has these values there too, repeat
    the run.
    """
    for family in ("result_{}_latency_ns", "result_first_token_{}_latency_ns"):
        names = [
            family.format(name)
            for name in ("min", *(f"{share}_percentile" for share in LOGGED_PERCENTILES), "max")
        ]
        told = [(name, value) for name in names if (value := run.find_number(name)) is not None]
        for (lower, low), (name, high) in zip(told, told[1:], strict=False):
            if high < low:
                yield run.build_fault(f"{name} {high:.0f}", f"at least {low:.0f}, {lower}", name)


@rule("inference-mllog.result", MllogRun, About.SCORE, doubt="the figure", former="later.result")
def result(run: MllogRun) -> Iterator[Fault]:
    """The result follows from the generated queries, and the summary agrees.

    Source: mlcommons/inference, loadgen/results.cc: Offline's samples per second are the issued
    samples divided by the highest latency; loadgen.cc: where each sample is issued equally often,
    whole rounds of the samples in memory are issued.
    Advice: put summary and detail log of one run here.
    """
    if not run.performance:
        return
    for name, key in SUMMARY_RATE_KEYS.items():
        shown, told = run.summary.values.get(name), run.find_number(key)
        value = None
        if shown:
            value = parse_printed_number(shown.text)
        if (
            value is not None
            and told is not None
            and not math.isclose(value, told, rel_tol=SUMMARY_RATE_TOLERANCE, abs_tol=0.0051)
        ):
            yield run.build_summary_fault(
                name, f"{name} {value:g}", f"{told:g}, as in the detail log"
            )
    count, each, latest, rate = map(run.find_number, OFFLINE_RESULT_EVENTS)
    if run.logged_scenario == "Offline" and count and each and latest and rate:
        yield from check_offline_rate(run, rate, count_offline_samples(count, each), latest / 1e9)


def count_offline_samples(queries: float, samples_per_query: float) -> float:
    """Return the samples that Offline requested. Some LoadGens, such as revision c3c68ee, log the
    samples of its one query as the number of queries, too.
    """
    if queries == samples_per_query:
        return samples_per_query
    return queries * samples_per_query


def check_offline_rate(
    run: MllogRun, rate: float, samples: float, seconds: float
) -> Iterator[Fault]:
    """Compare the rate with the issued samples divided by the highest latency."""
    if all(
        abs(rate * seconds / issued - 1) > OFFLINE_RATE_TOLERANCE
        for issued in list_issued_counts(run, samples)
    ):
        yield run.build_fault(
            f"{rate:g} samples/s",
            f"{samples / seconds:.6g}: {samples:.0f} in {seconds:g} s",
            "result_samples_per_second",
        )


def list_issued_counts(run: MllogRun, requested: float) -> tuple[float, ...]:
    """List how many samples Offline may have issued: as many as requested, or as many whole rounds
    of the samples in memory as these need, where each sample is issued equally often.
    """
    loaded = run.find_number("effective_performance_sample_count")
    stated = run.find_value("effective_sample_concatenate_permutation")
    if not loaded or stated is False or not (run.model and run.model.equal_issue):
        return (requested,)
    return requested, math.ceil(requested / loaded) * loaded
