"""The compliance tests of a closed entry of a published inference round since v1.0."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from compliance.documents.inference.served import LENIENCY, claims_in
from compliance.documents.inference.served_files import LaterTest
from compliance.documents.inference.served_headline import served_value
from compliance.logs.source_file import SourceFile, read_text
from compliance.recognition.tree_path import is_file, scenario_of
from compliance.rules import rule
from compliance.rules.served.run import SEEDS
from compliance.verdict import Fault, Severity
from suite.audits.filed import recomputed
from suite.audits.verdict import Compared
from suite.loadgen.headline import LATENCY

ANSWERS: Final = "verify_accuracy.txt"
SPEED: Final = "verify_performance.txt"
LENGTH: Final = "verify_output_len.txt"
FILES: Final = {
    "TEST01": (ANSWERS, SPEED),
    "TEST04": (SPEED,),
    "TEST04-A": (SPEED,),
    "TEST05": (SPEED,),
    "TEST06": (ANSWERS,),
    "TEST07": (ANSWERS,),
    "TEST08": (ANSWERS,),
    "TEST09": (LENGTH,),
}
"""Test -> outputs of its verification scripts. Source:
submission_checker/checks/compliance_check.py, dir_exists_check.
"""
RUN: Final = ("TEST01", "TEST04", "TEST04-A", "TEST05")
"""Tests whose run is filed."""
PASSED: Final = "TEST PASS"
FAILED: Final = "TEST FAIL"
CHECKS: Final = {
    "First token check pass": ("True", "Skipped"),
    "EOS check pass": ("True",),
    "Sample length check pass": ("True",),
}
"""Lines of TEST06."""
BASELINE: Final = "baseline_accuracy.txt"
COMPLIANCE: Final = "compliance_accuracy.txt"
APART: Final = {"CLIP_SCORE": 1.0, "FID_SCORE": 2.0}
"""Percent by which a test's score may differ from the baseline; of other metrics 1, or 0.1 for
benchmarks of 99.9 %. Source: accuracy-delta-perc.
"""
SCORE: Final = r"^{}\s*score\s*=\s*([0-9.eE+-]+)"
NUMBERS: Final = re.compile(r"^(num_\w+)\s*=\s*(\d{1,12})\b", re.MULTILINE)
MISMATCHES: Final = "num_perf_log_data_mismatch"
SLOWER: Final = 0.11
SLOWER_SHORT: Final = 0.21
"""A test's score may be a tenth worse than the result, a fifth for latencies up to SHORT_NS.
Source: compliance, TEST01/verify_performance.py.
"""
SHORT_NS: Final = 200_000
LIMIT: Final = 1 << 20


def text_of(path: Path) -> str:
    """Read what a script printed."""
    return read_text(SourceFile(path, leniency=LENIENCY), LIMIT)


@rule("later.test_files", LaterTest)
def test_files(test: LaterTest) -> Iterator[Fault]:
    """A compliance test comes with what its verification scripts printed, and with its run.

    Source: submission-checker.py, check_compliance_dir; compliance_check.py, dir_exists_check.
    Advice: run the verification scripts, and file their output.
    """
    for name in FILES.get(test.name, ()):
        if not is_file(test.folder / name):
            yield test.fault(f"no {name}", name)
    if test.name in RUN and test.run is None:
        yield test.fault("no run", "performance/run_1 with LoadGen's logs")


@rule("later.test_passed", LaterTest)
def test_passed(test: LaterTest) -> Iterator[Fault]:
    """A compliance test passed; answers may differ from run to run if their scores are as good.

    Source: submission-checker.py, check_compliance_acc_dir and check_compliance_perf_dir;
    inference, compliance: the scripts' last lines.
    Advice: find out why the test failed; if answers differ from run to run, file the scores of both
    runs in TEST01/accuracy.
    """
    for name in FILES.get(test.name, ()):
        path = test.folder / name
        text = text_of(path) if is_file(path) else PASSED
        if test.name == "TEST06":
            yield from lines_of_test06(test, path, text) if is_file(path) else ()
        elif PASSED not in text or FAILED in text:
            yield from (
                overturned(test, path)
                if test.name == "TEST01" and name == ANSWERS
                else [test.fault("not passed", PASSED, path)]
            )
        elif (counts := {found[1]: int(found[2]) for found in NUMBERS.finditer(text)}).get(
            MISMATCHES
        ):
            yield test.fault(
                f"{MISMATCHES} = {counts[MISMATCHES]}", "0, since the test passed", path
            )


def lines_of_test06(test: LaterTest, path: Path, text: str) -> Iterator[Fault]:
    """Look for the outcome of each check of TEST06."""
    for name, wanted in CHECKS.items():
        found = re.findall(rf"^\s*{name}\s*:\s*(\w+)", text, re.MULTILINE)
        if not found or any(each not in wanted for each in found):
            yield test.fault(
                f"{name}: {found[0] if found else 'nothing'}", " or ".join(wanted), path
            )


def overturned(test: LaterTest, path: Path) -> Iterator[Fault]:
    """Compare the scores of the sampled answers in both runs, which may stand in for equal
    answers.
    """
    folder = test.folder / "accuracy"
    baseline, reached = (
        claims_in(folder / BASELINE, test.model),
        claims_in(folder / COMPLIANCE, test.model),
    )
    for metric in test.model.accuracy if test.model else ():
        one, other = baseline.get(metric, 0.0), reached.get(metric, 0.0)
        most = APART.get(metric, 0.1 if "99.9" in test.benchmark else 1.0)
        if not one or not other:
            yield test.fault(
                f"answers differ, and no {metric} of both runs",
                f"{BASELINE} and {COMPLIANCE}",
                path,
            )
        elif abs(1 - one / other) * 100 > most:
            yield test.fault(
                f"answers differ, {metric} {other:g}",
                f"{one:g}, within {most:g} percent",
                folder / COMPLIANCE,
            )


@rule("later.test_seeds", LaterTest)
def test_seeds(test: LaterTest) -> Iterator[Fault]:
    """A test's run has the round's random seeds, that of TEST05 the seeds of TEST05; it is valid,
    and of the entry's scenario.

    Source: submission-checker.py, check_performance_dir and MODEL_CONFIG: seeds, test05_seeds; up
    to v2.0 it did not look at them in tests.
    Advice: run LoadGen with the round's mlperf.conf and the test's audit.config.
    """
    run = test.run
    if run is None or not run.index or test.name not in RUN:
        return
    rules, unsure = test.round.rules, only_logged(test)
    for name in SEEDS:
        wanted = rules.test05_seeds.get(name) if test.name == "TEST05" else getattr(rules, name)
        told = run.value(f"effective_{name}")
        if wanted is not None and told != wanted:
            yield run.fault(f"{name} {told}", f"{wanted}", f"effective_{name}", unsure)
    if test.name != "TEST04-A" and run.value("result_validity") != "VALID":
        yield run.fault(
            f"result_validity {run.value('result_validity')}", "VALID", "result_validity", unsure
        )
    scenarios = {each.logged for each in test.entry if each.logged}
    if run.logged and scenarios and run.logged not in scenarios:
        yield run.fault(
            f"scenario {run.logged}", " or ".join(sorted(scenarios)), "effective_scenario", unsure
        )


@rule("later.test_settings", LaterTest)
def test_settings(test: LaterTest) -> Iterator[Fault]:
    """A test's run was made with the settings of that test.

    Source: mlcommons/inference, compliance: audit.config of TEST01 (a sample of answers is logged)
    and TEST04 (one sample is issued again and again).
    Advice: run LoadGen with the test's audit.config.
    """
    run = test.run
    if run is None or not run.index:
        return
    unsure = only_logged(test)
    if test.name == "TEST01" and not (
        run.number("effective_accuracy_log_sampling_target")
        or run.number("effective_accuracy_log_probability")
    ):
        yield run.fault(
            "no answers sampled",
            "accuracy_log_sampling_target, as TEST01 has it",
            "effective_accuracy_log_sampling_target",
            unsure,
        )
    if test.name == "TEST04" and run.value("effective_performance_issue_same") is not True:
        yield run.fault(
            "performance_issue_same false",
            "true, as TEST04 has it",
            "effective_performance_issue_same",
            unsure,
        )


def only_logged(test: LaterTest) -> Severity | None:
    """Return the severity of what the round's checker did not look at in a test's run; the outcome
    and the files count in every round.
    """
    return Severity.WARNING if test.round.rules.test_runs_logged else None


@rule("later.test_score", LaterTest)
def test_score(test: LaterTest) -> Iterator[Fault]:
    """The scores that a verification script compared are close to each other.

    Source: mlcommons/inference, compliance, TEST01 and TEST04: verify_performance.py.
    Advice: run the verification script on the runs that are filed.
    """
    path = test.folder / SPEED
    if not is_file(path) or test.name == "TEST04-A":
        return
    text = text_of(path)
    reached, wanted = (
        next(iter(re.findall(SCORE.format(name), text, re.MULTILINE)), None)
        for name in ("test", "reference")
    )
    one, other = number_of(reached), number_of(wanted)
    logged = next((each.logged for each in test.entry), None)
    if one is None or other is None or logged is None or test.name != "TEST01":
        return
    latency = logged in ("SingleStream", "MultiStream")
    most = SLOWER_SHORT if latency and other <= SHORT_NS else SLOWER
    if one > other * (1 + most) if latency else one < other * (1 - most):
        yield test.fault(f"test score {one:g}", f"near the reference score {other:g}", path)


@rule("later.test_speed", LaterTest, severity=Severity.WARNING)
def test_speed(test: LaterTest) -> Iterator[Fault]:
    """The speed of a test's run, computed again from the logs, is as near to the result's as the
    test asks; TEST04-B's to that of TEST04-A.

    Source: mlcommons/inference, compliance: verify_performance.py of each test;
    suite/audits/rules.toml has the limits.
    Advice: run the test again beside the result that is submitted, on the same system with the same
    settings.
    """
    found = compared(test)
    if test.run and found and not found.passed:
        other = "the run of TEST04-A" if test.beside else "the result"
        yield test.run.fault(f"{found.ratio:.3g} times the speed of {other}", found.required)


def compared(test: LaterTest) -> Compared | None:
    """Compare a test's run with the run that it belongs to, of an entry's several the one that is
    nearest; None if the logs do not tell.
    """
    reached = served_value(test.run) if test.run and test.run.index else None
    scenario = scenario_of(test.run.logged) if test.run and test.run.logged else None
    if reached is None or scenario is None:
        return None
    others = [
        served_value(run) for run in ([test.beside] if test.beside else test.entry) if run.index
    ]
    metric = LATENCY if reached[1] == "ns" else reached[0]
    wanted = [other[2] for other in others if other and other[:2] == reached[:2]]
    found = [
        each
        for value in wanted
        if (each := recomputed(test.round.name, test.name, scenario, metric, value, reached[2]))
    ]
    return min(found, key=lambda each: abs(each.ratio - 1), default=None)


def number_of(text: str | None) -> float | None:
    """Read a number; None if there is none."""
    try:
        value = float(text) if text else math.nan
    except ValueError:
        return None
    return None if math.isnan(value) else value
