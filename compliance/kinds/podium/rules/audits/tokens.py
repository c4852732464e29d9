"""Check the compliance test of generated answers, TEST06: the tokens of the logged answers."""

from collections.abc import Iterator
from itertools import islice

from compliance.kinds.podium.documents.audit import Audit
from compliance.kinds.podium.documents.inference import LoadGenRun
from compliance.kinds.podium.rules.audits.outcome import is_same_file
from compliance.kinds.podium.rules.inference.answers import MAX_SHOWN_ANSWERS
from compliance.rules import rule
from compliance.verdict import About, Fault
from suite.audits.names import AuditTest
from suite.audits.tokens import find_token_contradictions
from suite.files.layout import ACCURACY_LOG
from suite.workload import Mode


@rule("audit.tokens", Audit, About.QUALITY)
def tokens(audit: Audit) -> Iterator[Fault]:
    """The answers that TEST06's runs logged begin with the token that was reported first, have as
    many tokens as LoadGen was told, and nothing behind an end token. A failed test is a
    warning.

    Source: mlcommons/inference, compliance/nvidia/TEST06/README.md; house rule: nothing behind an
    end token, where MLCommons' script looks for several of them at the end.
    Advice: report the tokens that are in the answer, end it at its end token, and run podium audit
    again.
    """
    if audit.test is not AuditTest.TEST06:
        return
    for run in audit.test_runs:
        yield from check_answer_tokens(audit, run)
    if audit.test_runs and not is_same_file(audit.copy, audit.test_runs[0].folder / ACCURACY_LOG):
        yield audit.build_fault(
            "another accuracy log",
            "that in performance/run_1",
            file=f"{Mode.ACCURACY}/{ACCURACY_LOG}",
        )


def check_answer_tokens(audit: Audit, run: LoadGenRun) -> Iterator[Fault]:
    """Yield the logged answers of a run whose tokens fail a check."""
    if not run.answers.samples:
        yield run.build_fault("no answers", "the answers that LoadGen logged", file=ACCURACY_LOG)
    ends = audit.end_tokens
    failed = (
        (place, checks)
        for place in range(len(run.answers.samples))
        if (checks := find_token_contradictions(run.answers.read_tokens(place), ends))
    )
    for place, checks in islice(failed, MAX_SHOWN_ANSWERS):
        yield run.build_fault(
            f"{', '.join(f'{check}: False' for check in sorted(checks))} for an answer to sample"
            f" {run.answers.samples[place]}",
            "the first token and the number of tokens as reported, and none behind an end token",
            run.answers.lines[place],
            file=ACCURACY_LOG,
            severity=audit.failure_severity,
        )
