"""Check what the compliance tests of podium's results came to: speeds and answers are recomputed
from the runs, and no stated outcome is trusted.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from compliance.kinds.podium.documents.audit import Audit
from compliance.kinds.podium.rules.inference.answers import MAX_SHOWN_ANSWERS, is_same_model_answer
from compliance.recognition.tree_path import is_file
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite import registry
from suite.audits.names import ANSWER_TESTS, AuditTest
from suite.audits.tokens import count_token_contradictions
from suite.audits.verdict import (
    AuditComparison,
    compare_audit_runs,
    compare_ranked_runs,
    count_differing_answers,
    describe_compared_speeds,
)
from suite.files.layout import (
    ACCURACY_LOG,
    VERIFY_ACCURACY,
    VERIFY_PERFORMANCE,
    compute_file_sha256,
)
from suite.workload import Mode

PASS, FAIL = "TEST PASS", "TEST FAIL"
AUDIT_RATIO_TOLERANCE: Final = 1e-9
"""Relative: the error from writing and reading a number."""


@rule("audit.speed", Audit, About.SCORE)
def speed(audit: Audit) -> Iterator[Fault]:
    """With the test's settings the system is about as fast as without them. The speed is recomputed
    from the detail logs of all runs. A test that podium recorded as failed is a warning: the result
    keeps its verdict.

    Source: mlcommons/inference, compliance/nvidia: verify_performance.py of each test; for
    podium-v1 suite/audits/rules.toml.
    Advice: find out why the system is faster with one sample, or slower with other seeds or with
    logged answers; if the machine was busy, audit again.
    """
    found = recompute_audit_speed(audit)
    for run, key in audit.runs_without_figure:
        yield run.build_fault(f"no {key}", "the metric that compares the test's speed", key)
    if found and not found.passed:
        figures = [audit.collect_figures(runs) for runs in (audit.reference_runs, audit.test_runs)]
        yield audit.build_fault(
            describe_compared_speeds(found, *figures),
            found.required,
            severity=audit.failure_severity,
        )


def recompute_audit_speed(audit: Audit) -> AuditComparison | None:
    """Compare the runs again; None if something is missing."""
    figures = [audit.collect_figures(runs) for runs in (audit.reference_runs, audit.test_runs)]
    if audit.rules is None or audit.row is None or audit.scenario is None or not all(figures):
        return None
    return compare_audit_runs(audit.rules, audit.row, audit.scenario, *figures)


@rule("audit.answers", Audit, About.QUALITY)
def answers(audit: Audit) -> Iterator[Fault]:
    """TEST01's performance runs give the same answers as the accuracy run: whole answers, byte for
    byte or within the workload's tolerance.

    Source: mlcommons/inference, compliance/nvidia/TEST01/README.md; house rule: whole answers,
    since MLCommons' script compares only the first element of each.
    Advice: serve the same model in both modes; if answers depend on the batch, remove that
    dependence.
    """
    truth = audit.truth
    if truth is None:
        return
    for run in audit.test_runs:
        if not run.answers.samples:
            yield run.build_fault(
                "no answers", "the answers that LoadGen logged", file=ACCURACY_LOG
            )
        wrong = (
            place
            for place, sample in enumerate(run.answers.samples)
            if sample not in truth
            or not is_same_model_answer(run, run.answers.read_answer(place), truth[sample])
        )
        for place in islice(wrong, MAX_SHOWN_ANSWERS):
            yield run.build_fault(
                f"a different answer to sample {run.answers.samples[place]}",
                "the accuracy run's",
                run.answers.lines[place],
                file=ACCURACY_LOG,
                severity=audit.failure_severity,
            )
    if audit.test_runs and not is_same_file(audit.copy, audit.test_runs[0].folder / ACCURACY_LOG):
        yield audit.build_fault(
            "another accuracy log",
            "that in performance/run_1",
            file=f"{Mode.ACCURACY}/{ACCURACY_LOG}",
        )


def is_same_file(one: Path, other: Path) -> bool:
    """Return whether two files exist and are equal."""
    try:
        return (
            is_file(one)
            and is_file(other)
            and compute_file_sha256(one) == compute_file_sha256(other)
        )
    except OSError:
        return False


@rule("audit.told", Audit, About.SCORE)
def stated_outcome(audit: Audit) -> Iterator[Fault]:
    """audit.json and the verify files agree with the recomputed runs.

    Source: house rule: a claim agrees with its own logs.
    Advice: submit the folder as podium audit wrote it; to pass a test, run it again.
    """
    found, record = recompute_audit_speed(audit), audit.record
    if found is None or record is None:
        return
    counts = count_audit_answers(audit)
    wanted: dict[str, Any] = {
        "metric": found.metric,
        "lowest": found.lowest,
        "highest": found.highest,
        "answers": counts[0],
        "differing": counts[1],
    }
    wanted |= {
        "reference": tuple(audit.collect_figures(audit.reference_runs)),
        "found": tuple(audit.collect_figures(audit.test_runs)),
    }
    for name, value in wanted.items():
        if getattr(record, name) != value:
            yield audit.build_fault(
                f"{name} {getattr(record, name)}", f"{value}, as recomputed from the runs"
            )
    if not is_recomputed_ratio(audit, record.ratio, found.ratio):
        yield audit.build_fault(
            f"ratio {record.ratio:g}", f"{found.ratio:g}, as recomputed from the runs"
        )
    fast, right = (
        found.passed,
        not counts[1] and (counts[0] > 0 or audit.test not in ANSWER_TESTS),
    )
    if record.passed and not (fast and right):
        yield audit.build_fault("passed", "failed, as recomputed from the runs")
    yield from check_verdict_texts(
        audit,
        {
            VERIFY_PERFORMANCE: fast,
            **({VERIFY_ACCURACY: right} if audit.test is AuditTest.TEST01 else {}),
        },
    )


def is_recomputed_ratio(audit: Audit, stated: float, found: float) -> bool:
    """Return whether a ratio is that of the runs that count or, of a failed test of an earlier
    version, that of the best runs.
    """
    figures = [audit.collect_figures(runs) for runs in (audit.reference_runs, audit.test_runs)]
    known = [found]
    if audit.failure_severity and audit.rules and audit.row and audit.scenario:
        best = compare_ranked_runs(
            audit.rules, audit.row, audit.scenario, figures[0], figures[1], (0, 0)
        )
        known.append(best.ratio)
    return any(math.isclose(stated, each, rel_tol=AUDIT_RATIO_TOLERANCE) for each in known)


def count_audit_answers(audit: Audit) -> tuple[int, int]:
    """Count the compared answers, and those that differ."""
    if audit.test is AuditTest.TEST06:
        return count_token_contradictions(audit.logged_tokens, audit.end_tokens)[:2]
    truth = audit.truth
    if truth is None or audit.record is None:
        return 0, 0
    found: dict[int, list[bytes]] = {}
    for run in audit.test_runs:
        for place, sample in enumerate(run.answers.samples):
            found.setdefault(sample, []).append(run.answers.read_answer(place))
    return count_differing_answers(
        found, truth, registry.load_agreement(audit.entry.workload or "" if audit.entry else "")
    )


def check_verdict_texts(audit: Audit, passed: Mapping[str, bool]) -> Iterator[Fault]:
    """Check the stated outcome against the numbers: a pass stated as a failure is only a
    warning.
    """
    for name, right in passed.items():
        text = audit.texts.get(name)
        if text is None:
            yield audit.build_fault("no such file", f"{PASS if right else FAIL}", file=name)
        elif PASS in text and (not right or FAIL in text):
            yield audit.build_fault(PASS, f"{FAIL}, as recomputed from the runs", file=name)
        elif right and PASS not in text and audit.record and audit.record.passed:
            yield audit.build_fault("no outcome", PASS, file=name, severity=Severity.WARNING)


@rule("audit.failed", Audit, About.SCORE, severity=Severity.WARNING)
def failed(audit: Audit) -> Iterator[Fault]:
    """A test that podium recorded as failed stays failed, even if its recomputed runs now pass. It
    is a finding about the system: the result keeps its verdict.

    Source: house rule: MLCommons' rounds refuse a result whose compliance test fails; here it is
    shown beside the result, since a busy machine fails tests of honest systems.
    Advice: find out why the test failed, or run podium audit again; the ledger keeps both tests.
    """
    if audit.record and not audit.record.passed:
        scenario = audit.scenario.label if audit.scenario else audit.record.scenario
        yield audit.build_fault(f"{scenario} {audit.folder.name} failed", "a passed test")
