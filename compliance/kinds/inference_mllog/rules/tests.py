"""Check the compliance tests of a closed entry of a published inference round since v1.0."""

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from compliance.kinds.inference_mllog.documents.entry_documents import MllogAuditTest
from compliance.kinds.inference_mllog.documents.headline import find_mllog_headline
from compliance.kinds.inference_mllog.documents.run import (
    MLLOG_FILE_LENIENCY,
    parse_claimed_scores,
    read_accuracy_text,
)
from compliance.kinds.inference_mllog.rules.figures import find_contradicted_results
from compliance.kinds.inference_mllog.rules.run import has_detail_records
from compliance.logs.loadgen.setting_names import LOADGEN_SEEDS
from compliance.logs.source_file import SourceFile, read_source_text
from compliance.recognition.round_evidence import map_rounds_by_seed
from compliance.recognition.tree_path import is_file, match_scenario_folder
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.audits.filed import recompute_audit_comparison
from suite.audits.verdict import AuditComparison
from suite.human_numbers import format_plain_number
from suite.loadgen.headline import LATENCY_METRIC

ACCURACY_OUTPUT: Final = "verify_accuracy.txt"
PERFORMANCE_OUTPUT: Final = "verify_performance.txt"
OUTPUT_LENGTH_OUTPUT: Final = "verify_output_len.txt"
TEST_OUTPUT_FILES: Final = {
    "TEST01": (ACCURACY_OUTPUT, PERFORMANCE_OUTPUT),
    "TEST04": (PERFORMANCE_OUTPUT,),
    "TEST04-A": (PERFORMANCE_OUTPUT,),
    "TEST05": (PERFORMANCE_OUTPUT,),
    "TEST06": (ACCURACY_OUTPUT,),
    "TEST07": (ACCURACY_OUTPUT,),
    "TEST08": (ACCURACY_OUTPUT,),
    "TEST09": (OUTPUT_LENGTH_OUTPUT,),
}
"""Test -> outputs of its verification scripts. Source:
submission_checker/checks/compliance_check.py, dir_exists_check.
"""
TESTS_WITH_RUN: Final = ("TEST01", "TEST04", "TEST04-A", "TEST05")
"""Tests with a submitted run."""
TEST_PASSED_TEXT: Final = "TEST PASS"
TEST_FAILED_TEXT: Final = "TEST FAIL"
TEST06_CHECKS: Final = {
    "First token check pass": ("True", "Skipped"),
    "EOS check pass": ("True",),
    "Sample length check pass": ("True",),
}
"""Lines of TEST06."""
BASELINE_ACCURACY_FILE: Final = "baseline_accuracy.txt"
COMPLIANCE_ACCURACY_FILE: Final = "compliance_accuracy.txt"
MAX_SCORE_DIFFERENCE_PERCENT: Final = {"CLIP_SCORE": 1.0, "FID_SCORE": 2.0}
"""Percent by which a test's score may differ from the baseline; of other metrics 1, or 0.1 for
benchmarks of 99.9 %. Source: accuracy-delta-perc.
"""
SCORE_LINE_PATTERN: Final = r"^{}\s*score\s*=\s*([0-9.eE+-]+)"
COUNT_LINE_PATTERN: Final = re.compile(r"^(num_\w+)\s*=\s*(\d{1,12})\b", re.MULTILINE)
MISMATCH_COUNT_NAME: Final = "num_perf_log_data_mismatch"
MAX_TEST_SLOWDOWN: Final = 0.11
MAX_SHORT_TEST_SLOWDOWN: Final = 0.21
"""A test's score may be a tenth worse than the result, a fifth for latencies up to
SHORT_TEST_LATENCY_NS.
Source: compliance, TEST01/verify_performance.py.
"""
SHORT_TEST_LATENCY_NS: Final = 200_000
MAX_TEST_OUTPUT_BYTES: Final = 1 << 20


def read_test_output(path: Path) -> str:
    return read_source_text(SourceFile(path, leniency=MLLOG_FILE_LENIENCY), MAX_TEST_OUTPUT_BYTES)


@rule(
    "inference-mllog.test_files",
    MllogAuditTest,
    About.RULES,
    doubt="whether the system keeps the rules that the test is for",
    former="later.test_files",
)
def test_files(test: MllogAuditTest) -> Iterator[Fault]:
    """A compliance test contains the output of its verification scripts, and its run.

    Source: submission-checker.py, check_compliance_dir; compliance_check.py, dir_exists_check.
    Advice: run the verification scripts, and add their output.
    """
    for name in TEST_OUTPUT_FILES.get(test.name, ()):
        if not is_file(test.folder / name):
            yield test.build_fault(f"no {name}", name)
    if test.name in TESTS_WITH_RUN and test.run is None:
        yield test.build_fault("no run", "performance/run_1 with LoadGen's logs")


@rule(
    "inference-mllog.test_passed",
    MllogAuditTest,
    About.RULES,
    doubt="whether the system keeps the rules that the test is for",
    former="later.test_passed",
)
def test_passed(test: MllogAuditTest) -> Iterator[Fault]:
    """A compliance test passed. Answers may differ between runs if their scores are equally good.

    Source: submission-checker.py, check_compliance_acc_dir and check_compliance_perf_dir;
    inference, compliance: the scripts' last lines.
    Advice: find out why the test failed; if answers differ between runs, add the scores of both
    runs to TEST01/accuracy.
    """
    for name in TEST_OUTPUT_FILES.get(test.name, ()):
        path = test.folder / name
        if is_file(path):
            text = read_test_output(path)
        else:
            text = TEST_PASSED_TEXT
        if test.name == "TEST06":
            if is_file(path):
                yield from check_test06_lines(test, path, text)
        elif TEST_PASSED_TEXT not in text or TEST_FAILED_TEXT in text:
            if test.name == "TEST01" and name == ACCURACY_OUTPUT:
                yield from check_sampled_scores(test, path)
            else:
                yield test.build_fault("not passed", TEST_PASSED_TEXT, file=path)
        elif (
            counts := {found[1]: int(found[2]) for found in COUNT_LINE_PATTERN.finditer(text)}
        ).get(MISMATCH_COUNT_NAME):
            yield test.build_fault(
                f"{MISMATCH_COUNT_NAME} = {counts[MISMATCH_COUNT_NAME]}",
                "0, since the test passed",
                file=path,
            )


def check_test06_lines(test: MllogAuditTest, path: Path, text: str) -> Iterator[Fault]:
    """Check the outcome of each check in TEST06."""
    for name, wanted in TEST06_CHECKS.items():
        found = re.findall(rf"^\s*{name}\s*:\s*(\w+)", text, re.MULTILINE)
        if not found or any(each not in wanted for each in found):
            yield test.build_fault(
                f"{name}: {found[0] if found else 'nothing'}", " or ".join(wanted), file=path
            )


def check_sampled_scores(test: MllogAuditTest, path: Path) -> Iterator[Fault]:
    """Compare the scores of the sampled answers in both runs; equal scores are accepted instead of
    equal answers.
    """
    folder = test.folder / "accuracy"
    baseline, reached = (
        parse_claimed_scores(read_accuracy_text(folder / BASELINE_ACCURACY_FILE), test.model),
        parse_claimed_scores(read_accuracy_text(folder / COMPLIANCE_ACCURACY_FILE), test.model),
    )
    if not test.model:
        return
    for metric in test.model.accuracy:
        one, other = (scores.get(metric, (0.0,))[-1] for scores in (baseline, reached))
        most = MAX_SCORE_DIFFERENCE_PERCENT.get(metric, 0.1 if "99.9" in test.benchmark else 1.0)
        if not one or not other:
            yield test.build_fault(
                f"different answers, and no {metric} of both runs",
                f"{BASELINE_ACCURACY_FILE} and {COMPLIANCE_ACCURACY_FILE}",
                file=path,
            )
        elif abs(1 - one / other) * 100 > most:
            yield test.build_fault(
                f"different answers, {metric} {other:g}",
                f"{one:g}, within {most:g} percent",
                file=folder / COMPLIANCE_ACCURACY_FILE,
            )


@rule(
    "inference-mllog.test_seeds",
    MllogAuditTest,
    About.RULES,
    doubt="whether the test was made as the round requires",
    former="later.test_seeds",
)
def test_seeds(test: MllogAuditTest) -> Iterator[Fault]:
    """A test's run has the round's random seeds, or for TEST05 the seeds of TEST05. It is valid,
    and has the entry's scenario.

    Source: submission-checker.py, check_performance_dir and MODEL_CONFIG: seeds, test05_seeds; up
    to v2.0 it did not check them in tests.
    Advice: run LoadGen with the round's mlperf.conf and the test's audit.config.
    """
    run = test.run
    if run is None or not run.index or test.name not in TESTS_WITH_RUN:
        return
    rules, unsure = test.round.rules, weigh_unchecked_run(test)
    drawn_for = map_rounds_by_seed("qsl_rng_seed").get(run.find_value("effective_qsl_rng_seed"))
    other_round = None
    if drawn_for != test.round.name:
        other_round = drawn_for
    for name in LOADGEN_SEEDS:
        if test.name == "TEST05":
            wanted = rules.test05_seeds.get(name)
        else:
            wanted = getattr(rules, name)
        told = run.find_value(f"effective_{name}")
        if wanted is not None and told != wanted:
            of_round = ""
            if other_round:
                of_round = f", as in {other_round}"
            yield run.build_fault(
                f"{name} {told}{of_round}",
                f"{wanted}",
                f"effective_{name}",
                severity=unsure,
                about=About.FORM if other_round else None,
            )
    if test.name != "TEST04-A" and run.find_value("result_validity") != "VALID":
        yield run.build_fault(
            f"result_validity {run.find_value('result_validity')}",
            "VALID",
            "result_validity",
            severity=unsure,
        )
    scenarios = {each.logged_scenario for each in test.entry if each.logged_scenario}
    if run.logged_scenario and scenarios and run.logged_scenario not in scenarios:
        yield run.build_fault(
            f"scenario {run.logged_scenario}",
            " or ".join(sorted(scenarios)),
            "effective_scenario",
            severity=unsure,
        )


@rule(
    "inference-mllog.test_summary",
    MllogAuditTest,
    About.RULES,
    doubt="whether the system keeps the rules that the test is for",
)
def test_summary(test: MllogAuditTest) -> Iterator[Fault]:
    """The results in the summary of a test's run agree with its detail log.

    Source: mlcommons/inference, loadgen/results.cc: both are printed from the same values.
    Advice: put summary and detail log of the test's own run here.
    """
    if test.run is None or not has_detail_records(test.run):
        return
    unsure = weigh_unchecked_run(test)
    for fault in find_contradicted_results(test.run):
        yield replace(fault, severity=unsure)


@rule(
    "inference-mllog.test_settings",
    MllogAuditTest,
    About.RULES,
    doubt="whether the test was made as the round requires",
    former="later.test_settings",
)
def test_settings(test: MllogAuditTest) -> Iterator[Fault]:
    """A test's run uses the settings of that test.

    Source: mlcommons/inference, compliance: audit.config of TEST01 (a sample of answers is logged)
    and TEST04 (one sample is issued repeatedly).
    Advice: run LoadGen with the test's audit.config.
    """
    run = test.run
    if run is None or not run.index:
        return
    unsure = weigh_unchecked_run(test)
    if test.name == "TEST01" and not (
        run.find_number("effective_accuracy_log_sampling_target")
        or run.find_number("effective_accuracy_log_probability")
    ):
        yield run.build_fault(
            "no answers sampled",
            "accuracy_log_sampling_target, as in TEST01",
            "effective_accuracy_log_sampling_target",
            severity=unsure,
        )
    if test.name == "TEST04" and run.find_value("effective_performance_issue_same") is not True:
        yield run.build_fault(
            "performance_issue_same false",
            "true, as in TEST04",
            "effective_performance_issue_same",
            severity=unsure,
        )


def weigh_unchecked_run(test: MllogAuditTest) -> Severity | None:
    """Return the severity of findings that the round's checker did not check in a test's run; the
    outcome and the files count in every round.
    """
    if test.round.rules.test_runs_logged:
        return Severity.WARNING
    return None


@rule(
    "inference-mllog.test_score",
    MllogAuditTest,
    About.QUALITY,
    doubt="whether the test's run is as accurate as the result",
    former="later.test_score",
)
def test_score(test: MllogAuditTest) -> Iterator[Fault]:
    """The scores in a verification script's output are close to each other.

    Source: mlcommons/inference, compliance, TEST01 and TEST04: verify_performance.py.
    Advice: run the verification script on the submitted runs.
    """
    path = test.folder / PERFORMANCE_OUTPUT
    if not is_file(path) or test.name == "TEST04-A":
        return
    text = read_test_output(path)
    reached, wanted = (
        next(iter(re.findall(SCORE_LINE_PATTERN.format(name), text, re.MULTILINE)), None)
        for name in ("test", "reference")
    )
    one, other = parse_number_or_none(reached), parse_number_or_none(wanted)
    logged = next((each.logged_scenario for each in test.entry), None)
    if one is None or other is None or logged is None or test.name != "TEST01":
        return
    latency = logged in ("SingleStream", "MultiStream")
    if latency and other <= SHORT_TEST_LATENCY_NS:
        most = MAX_SHORT_TEST_SLOWDOWN
    else:
        most = MAX_TEST_SLOWDOWN
    if one > other * (1 + most) if latency else one < other * (1 - most):
        yield test.build_fault(
            f"test score {one:g}", f"near the reference score {other:g}", file=path
        )


@rule(
    "inference-mllog.test_speed",
    MllogAuditTest,
    About.SCORE,
    former="later.test_speed",
    severity=Severity.WARNING,
)
def test_speed(test: MllogAuditTest) -> Iterator[Fault]:
    """The recomputed speed of a test's run is as near to the result's as the test requires.
    TEST04-B's is compared with TEST04-A's.

    Source: mlcommons/inference, compliance: verify_performance.py of each test;
    suite/audits/rules.toml contains the limits.
    Advice: repeat the test with the submitted result's system and settings.
    """
    found = compare_mllog_audit_test(test)
    if test.run and found and not found.passed:
        other = "the result"
        if test.compared_run:
            other = "the run of TEST04-A"
        yield test.run.build_fault(
            f"{format_plain_number(found.ratio)} times the speed of {other}", found.required
        )


def compare_mllog_audit_test(test: MllogAuditTest) -> AuditComparison | None:
    """Compare a test's run with its performance run, or with the nearest of several; None if the
    logs do not contain the values.
    """
    reached = None
    if test.run and test.run.index:
        reached = find_mllog_headline(test.run)
    scenario = None
    if test.run and test.run.logged_scenario:
        scenario = match_scenario_folder(test.run.logged_scenario)
    if reached is None or scenario is None:
        return None
    compared = [test.compared_run] if test.compared_run else test.entry
    others = [find_mllog_headline(run) for run in compared if run.index]
    if reached[1] == "ns":
        metric = LATENCY_METRIC
    else:
        metric = reached[0]
    wanted = [other[2] for other in others if other and other[:2] == reached[:2]]
    found = [
        each
        for value in wanted
        if (
            each := recompute_audit_comparison(
                test.round.name, test.name, scenario, metric, value, reached[2]
            )
        )
    ]
    return min(found, key=lambda each: abs(each.ratio - 1), default=None)


def parse_number_or_none(text: str | None) -> float | None:
    """Read a number; None if there is none."""
    try:
        value = float(text) if text else math.nan
    except ValueError:
        return None
    if math.isnan(value):
        return None
    return value
