"""Check the runs of a published inference entry's compliance tests, independently of the scripts'
output.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from compliance.kinds.inference_text.documents.entry import (
    SUMMARY_HEADLINES,
    TextAuditTest,
    TextRun,
)
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.audits.filed import recompute_audit_comparison
from suite.audits.verdict import AuditComparison
from suite.human_numbers import format_plain_number
from suite.loadgen.headline import LATENCY_METRIC
from suite.loadgen.scenario import Scenario

MAX_NAMED_DIFFERING_SAMPLES: Final = 3


@rule(
    "inference-text.audit_speed",
    TextAuditTest,
    About.SCORE,
    former="filed.audit_speed",
    severity=Severity.WARNING,
)
def speed(test: TextAuditTest) -> Iterator[Fault]:
    """The recomputed speed of a test's run is as near to the result's as the test requires.
    TEST04-B's is compared with TEST04-A's.

    Source: mlcommons/inference, compliance: verify_performance.py of each test;
    suite/audits/rules.toml contains the limits.
    Advice: repeat the test with the submitted result's system and settings.
    """
    found = compare_audit_run(test)
    if test.run and found and not found.passed:
        other = "the result"
        if test.compared_run:
            other = "the run of TEST04-A"
        yield test.run.build_summary_fault(
            found.metric,
            f"{format_plain_number(found.ratio)} times the speed of {other}",
            found.required,
        )


def compare_audit_run(test: TextAuditTest) -> AuditComparison | None:
    """Compare a test's run with its performance run, or with the nearest of several; None if the
    logs do not contain the values.
    """
    if test.run:
        scenario, reached = select_headline_result(test.run)
    else:
        scenario, reached = None, None
    compared = [test.compared_run] if test.compared_run else test.entry.performance
    others = [select_headline_result(run) for run in compared]
    if scenario is None or reached is None:
        return None
    if scenario is Scenario.SINGLE_STREAM:
        metric = LATENCY_METRIC
    else:
        metric = SUMMARY_HEADLINES[scenario][0]
    wanted = [value for other, value in others if other is scenario and value is not None]
    found = [
        each
        for value in wanted
        if (
            each := recompute_audit_comparison(
                test.round.name, test.name, scenario, metric, value, reached
            )
        )
    ]
    return min(found, key=lambda each: abs(each.ratio - 1), default=None)


def select_headline_result(run: TextRun) -> tuple[Scenario | None, float | None]:
    """Return the scenario that LoadGen ran, and its result from the summary."""
    scenario = run.logged_scenario or run.scenario
    return scenario, run.summary.find_number(SUMMARY_HEADLINES[scenario][0]) if scenario else None


@rule(
    "inference-text.audit_answers",
    TextAuditTest,
    About.QUALITY,
    former="filed.audit_answers",
    severity=Severity.WARNING,
)
def answers(test: TextAuditTest) -> Iterator[Fault]:
    """TEST01's logged answers equal the accuracy run's in full. (The verification script compares
    only the first number of each.)

    Source: mlcommons/inference, v0.5/audit/nvidia, TEST01/verify_accuracy.py; house rule: all bytes
    of an answer count.
    Advice: if answers differ between runs, submit the scores of both runs in TEST01/accuracy.
    """
    known = None
    if test.entry.accuracy:
        known = test.entry.accuracy.tally
    if test.answers is None or known is None or not known.whole:
        return
    differing = {
        sample: None
        for sample, answer in test.answers.first.items()
        if known.first.get(sample) != answer
    }
    differing |= dict.fromkeys(sample for sample, _ in test.answers.differing)
    if differing:
        shown = ", ".join(map(str, islice(differing, MAX_NAMED_DIFFERING_SAMPLES))) + (
            " ..." if len(differing) > MAX_NAMED_DIFFERING_SAMPLES else ""
        )
        quality = ""
        if test.top1:
            quality = f"; top-1 of the first answers {test.top1.percent:.1f} %"
        found = (
            f"different answers to {len(differing)} of {test.answers.distinct} samples:"
            f" {shown}{quality}"
        )
        yield test.build_fault(found, "the accuracy run's answers", file=test.answers.path)
