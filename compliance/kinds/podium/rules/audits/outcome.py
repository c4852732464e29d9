"""Check what the compliance tests of podium's results came to: speeds and answers are computed from
the runs, and no stated outcome is trusted.
"""

from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import Final

from compliance.kinds.podium.documents.audit import Audit
from compliance.kinds.podium.rules.inference.answers import MAX_SHOWN_ANSWERS, is_same_model_answer
from compliance.recognition.tree_path import is_file
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.audits.verdict import describe_compared_speeds
from suite.files.layout import ACCURACY_LOG, compute_file_sha256
from suite.workload import Mode

MAX_SHOWN_LETTERS: Final = 200
"""Of a line of a verify file that was edited."""


@rule("audit.speed", Audit, About.SCORE)
def speed(audit: Audit) -> Iterator[Fault]:
    """The system is about as fast with the test's settings as without them, by the detail logs of
    all runs. A failed test is a warning: the result keeps its verdict.

    Source: mlcommons/inference, compliance/nvidia: verify_performance.py of each test; for
    podium-v1 suite/audits/rules.toml.
    Advice: find out why the system is faster with one sample, or slower with other seeds or with
    logged answers; if the machine was busy, audit again.
    """
    for run, key in audit.runs_without_figure:
        yield run.build_fault(f"no {key}", "the metric that compares the test's speed", key)
    outcome = audit.outcome
    if outcome and not outcome.compared.passed:
        yield audit.build_fault(
            describe_compared_speeds(outcome.compared, outcome.reference, outcome.found),
            outcome.compared.required,
            severity=audit.failure_severity,
        )


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
    """The verify files, in which MLCommons' submission checker looks for the outcome, have the text
    that the runs give.

    Source: house rule: a claim agrees with its own logs; suite/audits/outcome.py.
    Advice: run the test again with podium audit, which writes its verify files from the runs.
    """
    if audit.outcome is None:
        return
    for name, text in audit.outcome.format_verify_files().items():
        if audit.texts.get(name) == text:
            continue
        found, wanted = find_first_difference(audit.texts.get(name, ""), text)
        yield audit.build_fault(
            found[:MAX_SHOWN_LETTERS] or "no text", f"{wanted}, as the runs give", file=name
        )


def find_first_difference(stated: str, text: str) -> tuple[str, str]:
    """Return the first lines in which two texts differ; the whole texts if none does."""
    lines = zip_longest(stated.splitlines(), text.splitlines(), fillvalue="no further line")
    return next(((found, wanted) for found, wanted in lines if found != wanted), (stated, text))


@rule("audit.failed", Audit, About.SCORE, severity=Severity.WARNING)
def failed(audit: Audit) -> Iterator[Fault]:
    """A system passes the compliance tests that it was put to. A failed one is a finding about the
    system: the result keeps its verdict.

    Source: house rule: MLCommons' rounds refuse a result whose compliance test fails; here it is
    shown beside the result, since a busy machine fails tests of honest systems.
    Advice: find out why the test failed, or run podium audit again; the ledger keeps both tests.
    """
    if audit.scenario and audit.outcome and not audit.outcome.passed:
        found = f"{audit.scenario.label} {audit.folder.name} failed"
        yield audit.build_fault(found, "a passed test")
