"""Check LoadGen's settings in a published inference round: consistent everywhere, and as the round
requires.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from compliance.kinds.inference_text.documents.entry import TextRun
from compliance.kinds.inference_text.rules.loadgen_run import (
    has_performance_summary,
    has_readable_detail_log,
)
from compliance.logs.loadgen.setting_names import EQUAL_SAMPLE_SETTINGS, LOADGEN_SEEDS
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.loadgen.scenario import Scenario

SETTING_TOLERANCE: Final = 1e-5
"""LoadGen prints six digits of a setting."""
ANSWER_SAMPLING_SETTINGS: Final = (
    "accuracy_log_rng_seed",
    "accuracy_log_probability",
    "accuracy_log_sampling_target",
)
UNCHANGED_SETTINGS: Final = (
    "min_duration_ms",
    "max_duration_ms",
    "max_query_count",
    *LOADGEN_SEEDS,
    *ANSWER_SAMPLING_SETTINGS,
    "performance_issue_unique",
    "performance_issue_same",
)
"""Settings that take effect as requested, with the same name in both blocks."""
SCENARIO_SETTINGS: Final = {
    Scenario.SINGLE_STREAM: {
        "min_query_count": "min_query_count",
        "single_stream_target_latency_percentile": "target_latency_percentile",
    },
    Scenario.MULTI_STREAM: {
        "min_query_count": "min_query_count",
        "multi_stream_target_qps": "target_qps",
        "multi_stream_target_latency_percentile": "target_latency_percentile",
        "multi_stream_samples_per_query": "samples_per_query",
        "multi_stream_max_async_queries": "max_async_queries",
    },
    Scenario.SERVER: {
        "min_query_count": "min_query_count",
        "server_target_qps": "target_qps",
        "server_target_latency_ns": "target_latency_ns",
        "server_target_latency_percentile": "target_latency_percentile",
        "server_max_async_queries": "max_async_queries",
    },
    Scenario.OFFLINE: {"offline_expected_qps": "target_qps"},
}
"""Scenario -> a requested setting -> its effective setting."""
SUMMARISED_SETTINGS: Final = (
    "samples_per_query",
    "target_qps",
    "target_latency_ns",
    "max_async_queries",
    "min_duration_ms",
    "max_duration_ms",
    "min_query_count",
    "max_query_count",
    *LOADGEN_SEEDS,
    "accuracy_log_rng_seed",
    "accuracy_log_probability",
    *EQUAL_SAMPLE_SETTINGS,
    "performance_sample_count",
)
LATE_ANSWER_FACTOR: Final = 1.01
"""LoadGen skips the next interval if an answer comes later than that interval."""


def is_equal_published_setting(left: str, right: str) -> bool:
    """Compare two settings: text exactly, numbers to the digits that LoadGen prints, seeds
    exactly.
    """
    if left == right:
        return True
    try:
        return not (left.isdigit() and right.isdigit()) and math.isclose(
            float(left), float(right), rel_tol=SETTING_TOLERANCE
        )
    except ValueError:
        return False


@rule(
    "inference-text.parameters",
    TextRun,
    About.RULES,
    doubt="which settings the run was made with",
    former="served.parameters",
)
def parameters(run: TextRun) -> Iterator[Fault]:
    """The summary's test parameters equal the detail log's effective settings, and both have the
    same system.

    Source: mlcommons/inference, loadgen/test_settings_internal.cc, LogSummary and
    LogEffectiveSettings; no accepted entry differs.
    Advice: put summary and detail log of one run here.
    """
    if not run.summary.has_results or not has_readable_detail_log(run):
        return
    for name, value in run.summary.parameters.items():
        setting = run.find_record(f"effective_{name}")
        if setting is None or not is_equal_published_setting(value.text, setting.text):
            yield run.build_summary_fault(
                name,
                f"{name} {value.text}",
                f"{setting.text if setting else 'nothing'}, as in the detail log",
            )
    for name in SUMMARISED_SETTINGS:
        setting = run.find_record(f"effective_{name}")
        if setting and name not in run.summary.parameters:
            yield run.build_summary_fault(
                name, f"no parameter {name}", f"{setting.text}, as in the detail log"
            )
    named, tested = (
        run.summary.values.get("SUT name"),
        run.find_value("sut_name"),
    )
    if named and tested is not None and named.text.strip() != tested.strip():
        yield run.build_summary_fault(
            "SUT name", f"SUT name {named.text}", f"{tested}, as in the detail log"
        )


@rule(
    "inference-text.effective",
    TextRun,
    About.RULES,
    doubt="which settings the run was made with",
    former="served.effective",
)
def effective(run: TextRun) -> Iterator[Fault]:
    """Effective settings equal the requested ones.

    Source: mlcommons/inference, loadgen/test_settings_internal.cc: the constructor copies the
    requested settings.
    Advice: set user.conf and mlperf.conf before the test starts, and repeat the run with the
    round's files.
    """
    if not has_readable_detail_log(run):
        return
    pairs = {
        **dict(zip(UNCHANGED_SETTINGS, UNCHANGED_SETTINGS, strict=True)),
        **(SCENARIO_SETTINGS[run.scenario] if run.scenario else {}),
    }
    for requested_name, name in pairs.items():
        requested, setting = (
            run.find_record(f"requested_{requested_name}"),
            run.find_record(f"effective_{name}"),
        )
        if requested and setting and not is_equal_published_setting(requested.text, setting.text):
            yield run.build_fault(
                f"{name} {setting.text}", f"{requested.text}, as requested", setting.line
            )
        if name in LOADGEN_SEEDS and not (requested and setting):
            yield run.build_fault(f"no {name}", "the seed, both requested and effective")


@rule(
    "inference-text.seeds",
    TextRun,
    About.RULES,
    doubt="whether the samples were drawn as the round requires",
    former="served.seeds",
)
def seeds(run: TextRun) -> Iterator[Fault]:
    """The random seeds are the round's seeds.

    Source: mlcommons/inference, mlperf.conf of the round's branch: *.*.qsl_rng_seed and the two
    beside it. LoadGen's default of 0, for all three, was chosen by nobody: a warning.
    Advice: use the round's mlperf.conf and repeat the run.
    """
    effective = [run.find_record(f"effective_{name}") for name in LOADGEN_SEEDS]
    by_default = {setting.text if setting else "" for setting in effective} == {"0"}
    for name, setting in zip(LOADGEN_SEEDS, effective, strict=True):
        wanted = str(getattr(run.round.loadgen, name))
        if setting and setting.text != wanted:
            fault = run.build_fault(f"{name} {setting.text}", wanted, setting.line)
            if by_default:
                yield replace(fault, about=About.FORM)
            else:
                yield fault
        shown = run.summary.parameters.get(name)
        if shown and shown.text != wanted:
            yield run.build_summary_fault(name, f"{name} {shown.text}", wanted)


@rule(
    "inference-text.special",
    TextRun,
    About.RULES,
    doubt="whether the run is a result or a test",
    former="served.special",
)
def special(run: TextRun) -> Iterator[Fault]:
    """A result does not use settings for compliance tests or trials.

    Source: inference_rules.adoc v0.5, Load generator; mlcommons/inference, v0.5/audit/nvidia:
    settings of the compliance tests.
    Advice: remove audit.config and such settings, and repeat the run.
    """
    weight = None
    if not run.closed:
        weight = Severity.WARNING
    # some accepted entries have one without effect; forbidden changes are checked below
    if run.detail.audit:
        yield run.build_fault(
            "an audit.config that may have changed the settings",
            "the settings of a result",
            run.detail.audit,
            severity=Severity.WARNING,
        )
    for name in EQUAL_SAMPLE_SETTINGS:
        setting = run.find_record(f"effective_{name}")
        if setting and setting.text not in ("false", "0"):
            yield run.build_fault(
                f"{name} {setting.text}", "false, or 0", setting.line, severity=weight
            )
    for name in ANSWER_SAMPLING_SETTINGS:
        if value := run.find_number(f"effective_{name}"):
            yield run.build_fault(f"{name} {value:g}", "0", f"effective_{name}", severity=weight)
    for name, least in (
        ("max_duration_ms", run.round.minimums.min_duration_ms),
        ("max_query_count", run.rule.min_queries if run.rule else 1),
    ):
        value = run.find_number(f"effective_{name}")
        if value and run.performance:
            yield run.build_fault(
                f"{name} {value:g}",
                "0: no limit",
                f"effective_{name}",
                severity=None if value < least else Severity.WARNING,
            )


@rule(
    "inference-text.samples",
    TextRun,
    About.RULES,
    doubt="whether the run used as many samples as the round requires",
    former="served.samples",
)
def samples(run: TextRun) -> Iterator[Fault]:
    """The number of samples in memory is at least the benchmark's minimum and equals the setting.

    Source: mlcommons/inference, mlperf.conf: performance_sample_count_override;
    submission-checker.py; loadgen.cc, GenerateLoadableSets.
    Advice: use the round's performance_sample_count_override and repeat the run.
    """
    if not run.performance or not has_readable_detail_log(run):
        return
    count, total = (
        run.find_number("effective_performance_sample_count"),
        run.find_number("qsl_reported_total_count"),
    )
    if run.row and (count is None or count < run.row.performance_samples):
        found = "missing"
        if count is not None:
            found = f"{count:g}"
        yield run.build_fault(
            f"performance_sample_count {found}",
            f"at least {run.row.performance_samples}",
            "effective_performance_sample_count",
            severity=None if run.closed else Severity.WARNING,
        )
    override, own = (
        run.find_number("requested_performance_sample_count_override"),
        run.find_number("qsl_reported_performance_count"),
    )
    requested = override or own
    if requested is not None and count is not None and requested != count:
        yield run.build_fault(
            f"performance_sample_count {count:g}",
            f"{requested:g}, as requested",
            "effective_performance_sample_count",
        )
    loaded = run.loaded
    if loaded is None or count is None or total is None:
        return
    expected = min(count, total)
    if loaded.distinct != expected:
        yield run.build_fault(f"{loaded.distinct} samples loaded", f"{expected:g}", loaded.line)
    if loaded.highest >= total:
        yield run.build_fault(
            f"sample {loaded.highest} loaded", f"samples 0 to {total - 1:g}", loaded.line
        )
    padding = max(loaded.count - loaded.distinct, 0)
    if padding and (
        run.scenario is not Scenario.MULTI_STREAM
        or padding > (run.find_number("effective_samples_per_query") or 1) - 1
    ):
        yield run.build_fault(
            f"{padding} samples loaded twice",
            "each sample once, except MultiStream's padding",
            loaded.line,
        )


def check_single_stream_percentile(run: TextRun, share: float | None) -> Iterator[Fault]:
    """Yield a SingleStream percentile that differs from the round's, in the closed division."""
    row = run.rule
    if not (run.closed and row and has_readable_detail_log(run)):
        return
    if share is None or round(share * 100, 6) != row.percentile:
        yield run.build_fault(
            f"target latency percentile {share}",
            f"{row.percentile / 100:g}",
            "effective_target_latency_percentile",
        )


@rule(
    "inference-text.bound",
    TextRun,
    About.RULES,
    doubt="whether the run met the latency bound",
    former="served.bound",
)
def bound(run: TextRun) -> Iterator[Fault]:
    """In the closed division the latency bound and its percentile are at least as strict as the
    round's. In both divisions the run meets its own bound.

    Source: inference_rules.adoc v0.5, Benchmarks: latency constraints, 99th percentile (GNMT 97th);
    mlperf.conf of the round.
    Advice: lower the rate or the samples per query, and repeat the run with the round's
    mlperf.conf.
    """
    if not has_performance_summary(run) or run.scenario is None or run.scenario is Scenario.OFFLINE:
        return
    target, share = (
        run.find_number("effective_target_latency_ns"),
        run.index.find_number("effective_target_latency_percentile"),
    )
    row = run.rule
    if run.scenario is Scenario.SINGLE_STREAM:
        yield from check_single_stream_percentile(run, share)
        return
    if (
        run.scenario is Scenario.MULTI_STREAM
        and (run.find_number("effective_max_async_queries") or 1) != 1
    ):
        yield run.build_fault(
            f"max_async_queries {run.find_number('effective_max_async_queries'):g}",
            "1",
            "effective_max_async_queries",
        )
    if run.closed and row and row.bound_ns is not None and has_readable_detail_log(run):
        # mlperf.conf: 66 ms, and 15 queries per second
        slack = 1.0
        if run.scenario is Scenario.MULTI_STREAM:
            slack = 1.02
        if target is None or target > row.bound_ns * slack:
            yield run.build_fault(
                f"target latency {target} ns",
                f"at most {row.bound_ns} ns",
                "effective_target_latency_ns",
            )
        if share is None or round(share * 100, 6) < row.percentile:
            yield run.build_fault(
                f"target latency percentile {share}",
                f"at least {row.percentile / 100:g}",
                "effective_target_latency_percentile",
            )
        rate = run.find_number("effective_target_qps")
        if run.scenario is Scenario.MULTI_STREAM and (
            not rate or 1e9 / rate > row.bound_ns * slack
        ):
            yield run.build_fault(
                f"target_qps {rate}",
                f"a query every {row.bound_ns / 1e6:g} ms",
                "effective_target_qps",
            )
    yield from check_latency_bound(run, target, share)


def check_latency_bound(run: TextRun, target: float | None, share: float | None) -> Iterator[Fault]:
    """Compare the relevant percentile with the bound: a latency in Server, skipped intervals in
    MultiStream.
    """
    if share:
        percentile = round(100 * share, 2)
    elif run.rule:
        percentile = run.rule.percentile
    else:
        percentile = 99.0
    if run.closed and run.rule:
        percentile = max(percentile, run.rule.percentile)
    if run.scenario is Scenario.MULTI_STREAM:
        name = f"interval {percentile:.2f} percentile"
        intervals = run.summary.find_number(name)
        if intervals is not None and intervals != 1:
            yield run.build_summary_fault(
                name,
                f"{intervals:g} intervals between queries at the {percentile:g}th percentile",
                "1: no interval was skipped",
            )
        name, rate = (
            f"query {percentile:.2f} percentile latency",
            run.find_number("effective_target_qps"),
        )
        latency = run.summary.find_number(name)
        if (
            latency is not None
            and rate
            and intervals == 1
            and latency > 1e9 / rate * LATE_ANSWER_FACTOR
        ):
            yield run.build_summary_fault(
                name,
                f"{name} {latency:.0f} ns",
                f"at most {1e9 / rate:.0f}, since a later answer skips an interval",
            )
        return
    name = f"{percentile:.2f} percentile latency"
    latency, limit = run.summary.find_number(name), target
    if run.closed and run.rule and run.rule.bound_ns is not None:
        limit = min(target or run.rule.bound_ns, run.rule.bound_ns)
    if latency is not None and limit is not None and latency > limit:
        yield run.build_summary_fault(name, f"{name} {latency:g} ns", f"at most {limit:g} ns")
