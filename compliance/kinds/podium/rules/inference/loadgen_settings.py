"""Check LoadGen's settings: scenario, mode, seeds, special settings, minimums, sample counts."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice
from typing import Any, Final

from compliance.kinds.podium.documents.inference import LoadGenRun
from compliance.kinds.podium.rules.inference.loadgen_summary import EQUAL_ISSUE_KEY
from compliance.logs.loadgen.setting_names import EQUAL_SAMPLE_SETTINGS, LOADGEN_SEEDS
from compliance.rules import rule
from compliance.verdict import About, Fault
from suite.files.layout import SYSTEM_RECORD, compute_bound_seed
from suite.loadgen.scenario import Scenario
from suite.rounds.legality import is_within_tolerance
from suite.workload import Mode

LOADGEN_TEST_MODES: Final = {Mode.ACCURACY: "AccuracyOnly", Mode.PERFORMANCE: "PerformanceOnly"}
ECHOED_SETTINGS: Final = (
    "scenario",
    "test_mode",
    "min_duration_ms",
    "max_duration_ms",
    "min_query_count",
    "max_query_count",
    *LOADGEN_SEEDS,
    "accuracy_log_rng_seed",
    "accuracy_log_probability",
    "accuracy_log_sampling_target",
    "print_timestamps",
    *EQUAL_SAMPLE_SETTINGS,
    "sample_concatenate_permutation",
)
"""Settings that a detail log contains as requested and as effective."""
DISABLED_SETTING_VALUES: Final[Mapping[str, Any]] = {
    "effective_max_duration_ms": 0,
    "effective_max_query_count": 0,
    "effective_accuracy_log_probability": 0,
    "effective_performance_issue_unique": False,
    "effective_performance_issue_same": False,
    "effective_performance_issue_same_index": 0,
    "requested_performance_sample_count_override": 0,
    "requested_accuracy_sample_count_override": 0,
    "requested_server_coalesce_queries": False,
}
"""Settings that change the measurement, and their value when off."""
REQUESTED_PERCENTILE_KEYS: Final = {
    Scenario.SINGLE_STREAM: "requested_single_stream_target_latency_percentile",
    Scenario.MULTI_STREAM: "requested_multi_stream_target_latency_percentile",
    Scenario.SERVER: "requested_server_target_latency_percentile",
}
"""Settings that LoadGen logs as fractions."""


LOGGED_OFFLINE_PERCENTILE: Final = 0.99
"""The log's value for Offline, which has no percentile: test_settings_internal.cc."""
OFFLINE_QUERY_FACTOR: Final = 1.1
"""kSlack of test_settings_internal.cc: Offline's one query contains so many more samples than rate
and duration require.
"""
REQUESTED_RATE_KEYS: Final = {
    Scenario.SINGLE_STREAM: "requested_single_stream_expected_latency_ns",
    Scenario.MULTI_STREAM: "requested_multi_stream_expected_latency_ns",
    Scenario.SERVER: "requested_server_target_qps",
    Scenario.OFFLINE: "requested_offline_expected_qps",
}
"""Source of effective_target_qps: a rate or, in the streams, the time of one query."""
EFFECTIVE_RATE_KEY: Final = "effective_target_qps"
LOGGED_SETTING_TOLERANCE: Final = 1e-5
MAX_PADDED_QUERY_SAMPLES: Final = 1 << 16
"""Samples per query; MultiStream has 8."""


@rule("loadgen.effective", LoadGenRun, About.RULES)
def effective(run: LoadGenRun) -> Iterator[Fault]:
    """LoadGen's effective settings are the requested ones, or values that LoadGen derives from
    them.

    Source: mlcommons/inference, loadgen/test_settings_internal.cc: TestSettingsInternal's
    constructor.
    Advice: serve again without a user.conf or mlperf.conf that changes settings behind podium's.
    """
    for name in ECHOED_SETTINGS:
        requested, done = run.find_value(f"requested_{name}"), run.find_value(f"effective_{name}")
        coalesced = run.scenario is Scenario.OFFLINE and name == "min_query_count"
        if requested is not None and done is not None and requested != done and not coalesced:
            yield run.build_fault(
                f"{name} {done}", f"{requested}, as requested", f"effective_{name}"
            )
    for key, wanted in iterate_derived_settings(run):
        found = run.find_number(key)
        tolerance = LOGGED_SETTING_TOLERANCE if key == EFFECTIVE_RATE_KEY else 0.0
        if (
            found is not None
            and wanted is not None
            and not math.isclose(found, wanted, rel_tol=tolerance)
        ):
            yield run.build_fault(
                f"{key} {found:g}", f"{wanted:g}, as LoadGen derives it from the request", key
            )
    yield from check_offline_query(run)


def iterate_derived_settings(run: LoadGenRun) -> Iterator[tuple[str, float | None]]:
    """Yield (effective key, value that LoadGen derives from the request); None if the log lacks the
    source of the value.
    """
    scenario, get_number = run.scenario, run.find_number
    if scenario is None:
        return
    offline = scenario is Scenario.OFFLINE
    if scenario is Scenario.MULTI_STREAM:
        per_query = get_number("requested_multi_stream_samples_per_query")
    elif offline:
        per_query = None
    else:
        per_query = 1.0
    counts = run.find_numbers("effective_min_query_count", "effective_samples_per_query")
    yield EFFECTIVE_RATE_KEY, compute_target_rate(run)
    duration = 0.0 if offline else get_number("requested_min_duration_ms")
    percentile: float | None = LOGGED_OFFLINE_PERCENTILE
    if scenario in REQUESTED_PERCENTILE_KEYS:
        percentile = get_number(REQUESTED_PERCENTILE_KEYS[scenario])
    bound: float | None = 0.0
    queries_at_once: float | None = 1.0
    if scenario is Scenario.SERVER:
        bound = get_number("requested_server_target_latency_ns")
        queries_at_once = get_number("requested_server_max_async_queries")
    yield "effective_target_duration_ms", duration
    yield "effective_target_latency_percentile", percentile
    yield "effective_target_latency_ns", bound
    yield "effective_max_async_queries", queries_at_once
    yield "effective_min_query_count", 1.0 if offline else None
    yield "effective_samples_per_query", per_query
    yield "effective_min_sample_count", counts[0] * counts[1] if counts else None
    yield "effective_performance_sample_count", get_number("qsl_reported_performance_count")


def compute_target_rate(run: LoadGenRun) -> float | None:
    """Return the requested rate in queries/s; for the streams, one divided by the expected
    latency.
    """
    requested = run.find_number(REQUESTED_RATE_KEYS[run.scenario]) if run.scenario else None
    if not requested:
        return None
    if run.scenario in (Scenario.SERVER, Scenario.OFFLINE):
        return requested
    return 1e9 / requested


def check_offline_query(run: LoadGenRun) -> Iterator[Fault]:
    """Check the size of Offline's one query; one sample more or less is accepted, since the log has
    six digits of the rate.
    """
    found = run.find_numbers(
        "requested_min_query_count",
        "requested_min_duration_ms",
        "requested_offline_expected_qps",
        "effective_samples_per_query",
    )
    if run.scenario is not Scenario.OFFLINE or found is None:
        return
    least, duration_ms, rate, made = found
    wanted = max(least, math.floor(OFFLINE_QUERY_FACTOR * rate * duration_ms / 1000))
    if not math.isclose(made, wanted, rel_tol=LOGGED_SETTING_TOLERANCE, abs_tol=1.0):
        yield run.build_fault(
            f"one query of {made:g} samples",
            f"{wanted:g}, for rate, duration and minimum",
            "effective_samples_per_query",
        )


def compute_generated_samples(run: LoadGenRun, effective: float) -> float:
    """Return the samples of a query with these effective ones: Offline rounds them up to whole
    rounds of the loaded samples where these are issued equally often.

    Source: mlcommons/inference, loadgen 6.0, loadgen.cc, GenerateQueries.
    """
    loaded = run.find_number("effective_performance_sample_count")
    equal = run.scenario is Scenario.OFFLINE and run.find_value(EQUAL_ISSUE_KEY) is True
    if equal and loaded:
        return math.ceil(effective / loaded) * loaded
    return effective


@rule("loadgen.mode", LoadGenRun, About.RULES)
def mode(run: LoadGenRun) -> Iterator[Fault]:
    """Scenario and mode match the folder: AccuracyOnly in accuracy/, PerformanceOnly in
    performance/.

    Source: submission_rules.adoc, Directory structure; mlcommons/inference,
    loadgen/test_settings.h.
    Advice: move each run to its own folder; never copy a run from one scenario to another.
    """
    for prefix in ("requested", "effective"):
        found = run.find_value(f"{prefix}_test_mode")
        if found is not None and found != LOADGEN_TEST_MODES[run.mode]:
            yield run.build_fault(
                f"{prefix} mode {found}", LOADGEN_TEST_MODES[run.mode], f"{prefix}_test_mode"
            )
        found = run.find_value(f"{prefix}_scenario")
        if run.scenario and found is not None and found != run.scenario.label:
            yield run.build_fault(
                f"{prefix} scenario {found}", run.scenario.label, f"{prefix}_scenario"
            )


@rule("loadgen.seeds", LoadGenRun, About.RULES)
def seeds(run: LoadGenRun) -> Iterator[Fault]:
    """LoadGen's three seeds are the round's seeds.

    Source: inference_rules.adoc v0.5, LoadGen operation: seeds are released with the round; the
    round's [loadgen].
    Advice: leave the seeds to podium infer.
    """
    for name in LOADGEN_SEEDS:
        wanted = getattr(run.round.loadgen, name)
        for prefix in ("requested", "effective"):
            found = run.find_value(f"{prefix}_{name}")
            if found is not None and found != wanted:
                yield run.build_fault(f"{found}", f"{wanted}", f"{prefix}_{name}")


@rule("loadgen.binding", LoadGenRun, About.IDENTITY)
def binding(run: LoadGenRun) -> Iterator[Fault]:
    """The accuracy log's seed derives from the campaign's nonce and the checkpoint's hash, in
    detail log and summary.

    Source: house rule: the seed is 63 bits of SHA-256(nonce, checkpoint); LoadGen's own files
    contain it.
    Advice: the run belongs to another checkpoint or campaign: serve this one again.
    """
    if run.record is None:
        return
    wanted = compute_bound_seed(run.record.system.nonce, run.record.system.checkpoint_sha256)
    for key in ("requested_accuracy_log_rng_seed", "effective_accuracy_log_rng_seed"):
        if run.find_value(key) is not None and run.find_value(key) != wanted:
            yield run.build_fault(
                f"{run.find_value(key)}", f"{wanted}, from this campaign and checkpoint", key
            )
    stated = run.summary.parameters.get("accuracy_log_rng_seed")
    if stated and stated.text != str(wanted):
        yield run.build_summary_fault(
            "accuracy_log_rng_seed", stated.text, f"{wanted}, from this campaign and checkpoint"
        )


@rule("loadgen.settings", LoadGenRun, About.RULES)
def settings(run: LoadGenRun) -> Iterator[Fault]:
    """Settings that change the measurement are off: maximum counts, same or unique samples,
    overrides, coalescing. Samples are issued equally often if the row requires it.

    Source: inference_rules.adoc v0.5, LoadGen; mlcommons/inference, loadgen/test_settings.h.
    Advice: leave these settings at their defaults.
    """
    equal = run.rule is not None and run.rule.equal_issue
    for key, off in {**DISABLED_SETTING_VALUES, EQUAL_ISSUE_KEY: equal}.items():
        found = run.find_value(key)
        if found is not None and found != off:
            yield run.build_fault(f"{key} {found}", f"{off}", key)


@rule("loadgen.sampling", LoadGenRun, About.RULES)
def sampling(run: LoadGenRun) -> Iterator[Fault]:
    """A performance run requests the round's number of logged answers. An accuracy run logs all
    (target 0).

    Source: house rule: logged answers are compared with the accuracy run;
    accuracy_log_sampling_target; the round's sampled_answers.
    Advice: leave the setting to podium infer.
    """
    wanted = run.round.loadgen.sampled_answers if run.performance else 0
    found = run.find_value("effective_accuracy_log_sampling_target")
    if found is not None and found != wanted:
        yield run.build_fault(f"{found}", f"{wanted}", "effective_accuracy_log_sampling_target")


@rule("loadgen.minimums", LoadGenRun, About.RULES)
def minimums(run: LoadGenRun) -> Iterator[Fault]:
    """A performance run requests at least the scenario's duration and queries.

    Source: inference_rules.adoc v0.5, Scenarios; the scenario's min_duration_ms and min_queries.
    Advice: leave loadgen.min_duration_ms and loadgen.min_queries unchanged, or raise them.
    """
    if not run.performance or run.rule is None:
        return
    wanted = {"min_duration_ms": run.rule.min_duration_ms}
    if (
        run.scenario is not Scenario.OFFLINE
    ):  # loadgen.queries checks Offline's one query by its samples
        wanted["min_query_count"] = run.rule.min_queries
    for name, least in wanted.items():
        for key in (f"requested_{name}", f"effective_{name}"):
            found = run.find_number(key)
            if found is not None and found < least:
                yield run.build_fault(f"{key} {found:g}", f"at least {least}", key)


@rule("loadgen.target", LoadGenRun, About.RULES)
def target(run: LoadGenRun) -> Iterator[Fault]:
    """Percentile, latency bound and samples per query are the scenario's.

    Source: inference_rules.adoc v0.5, Scenarios, table; the scenario's row.
    Advice: leave percentile and bound unchanged; lower server.target_qps until the bound is met.
    """
    if run.rule is None or run.scenario is None:
        return
    key = REQUESTED_PERCENTILE_KEYS.get(run.scenario)
    found = run.find_number(key) if key else None
    if key and found is not None and not is_within_tolerance(found * 100, run.rule.percentile):
        yield run.build_fault(f"percentile {found * 100:g}", f"{run.rule.percentile:g}", key)
    if run.scenario is Scenario.SERVER:
        for key in ("requested_server_target_latency_ns", "effective_target_latency_ns"):
            bound = run.find_value(key)
            wanted = run.rule.bound_ns or 0
            if bound is not None and bound != wanted:
                yield run.build_fault(f"bound {bound} ns", f"{wanted} ns", key)
    per_query = run.find_value("effective_samples_per_query")
    if (
        run.scenario is not Scenario.OFFLINE
        and per_query is not None
        and per_query != run.rule.samples_per_query
    ):
        yield run.build_fault(
            f"{per_query} samples per query",
            f"{run.rule.samples_per_query}",
            "effective_samples_per_query",
        )


@rule("loadgen.samples", LoadGenRun, About.RULES)
def samples(run: LoadGenRun) -> Iterator[Fault]:
    """LoadGen uses the whole accuracy set, keeps the row's number of samples in memory, and loads
    the samples that it issues.

    Source: inference_rules.adoc v0.5, QSL: performance_sample_count; the row's performance_samples
    and accuracy_samples.
    Advice: serve the whole data set; leave the counts to the workload.
    """
    if run.record is None:
        return
    total = run.record.system.sample_count
    for key in ("qsl_reported_total_count", "effective_accuracy_sample_count"):
        if run.find_value(key) is not None and run.find_value(key) != total:
            yield run.build_fault(
                f"{run.find_value(key)} samples", f"{total}, as in {SYSTEM_RECORD}", key
            )
    wanted = run.inference.accuracy_samples if run.inference else None
    if wanted is not None and total != wanted:
        file = run.system_source.path
        yield run.build_fault(f"an accuracy set of {total}", f"{wanted}", file=file)
    samples_in_memory = run.find_number("effective_performance_sample_count")
    least = min(run.inference.performance_samples, total) if run.inference else 0
    if samples_in_memory is not None and samples_in_memory < least:
        yield run.build_fault(
            f"{samples_in_memory:g} samples in memory",
            f"at least {least}",
            "effective_performance_sample_count",
        )
    yield from check_loaded_sets(run, samples_in_memory, total)


def check_loaded_sets(
    run: LoadGenRun, samples_in_memory: float | None, total: int
) -> Iterator[Fault]:
    """Check the loaded samples: one set in a performance run; in an accuracy run, set after set
    until all samples were loaded.

    MultiStream's sets repeat up to one query of their samples: loadgen/loadgen.cc,
    GenerateLoadableSets.
    """
    sets = [
        collect_distinct_samples(record.value)
        for record in run.list_records("loaded_qsl_set")
        if isinstance(record.value, list)
    ]
    if samples_in_memory is None or not sets:
        return
    found, wanted = (
        sum(isinstance(each, int) and 0 <= each < total for each in set().union(*sets)),
        (samples_in_memory if run.performance else total),
    )
    most = max(len(each) for each in sets)
    if found != wanted or most > samples_in_memory:
        yield run.build_fault(
            f"{found} different samples loaded, up to {most} at once",
            f"{wanted:g}, up to {samples_in_memory:g} at once",
            "loaded_qsl_set",
        )
    per_query = run.find_number("effective_samples_per_query") or 1.0
    padding = 0
    if run.scenario is Scenario.MULTI_STREAM:
        padding = int(min(per_query, MAX_PADDED_QUERY_SAMPLES)) - 1
    for record in run.index["loaded_qsl_set"]:
        if isinstance(record.value, list) and not is_padded_set(record.value, padding):
            yield run.build_fault(
                f"{len(record.value)} samples with repetitions",
                f"each sample once, then the first {padding} again as padding",
                record.line,
            )


def is_padded_set(samples: Sequence[object], padding: int) -> bool:
    """Return whether a loaded set contains each sample once and then, for MultiStream, its first
    ones again.
    """
    own = samples[: max(len(samples) - padding, 0)]
    return len(collect_distinct_samples(own)) == len(own) > 0 and list(samples) == [
        *own,
        *islice(cycle(own), padding),
    ]


def collect_distinct_samples(samples: Sequence[object]) -> set[int | str]:
    """Return the different samples: integers, and other values as text."""
    return {each if type(each) is int else repr(each) for each in samples}
