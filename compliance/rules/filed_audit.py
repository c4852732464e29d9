"""The compliance tests of a published inference entry, as filed."""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final

from compliance.documents.published_inference import HEADLINES, AuditTest
from compliance.logs.source import SourceFile, read_text
from compliance.rules import rule
from compliance.verdict import Fault, Severity

TEXT_LIMIT: Final = 1 << 20
FAILED: Final = re.compile(r"\bTEST FAIL|\bFAIL(?:ED|URE)?\b")
PASSED: Final = re.compile(r"\bPASS(?:ED)?\b")
SCORE: Final = re.compile(r"^test score\s*=\s*([0-9.eE+]+)", re.MULTILINE)


def texts(sources: Sequence[SourceFile]) -> Iterator[tuple[SourceFile, str]]:
    """Read the files that tell how a test went."""
    yield from ((source, read_text(SourceFile(source.path), TEXT_LIMIT)) for source in sources)


@rule("filed.audit_passed", AuditTest)
def passed(test: AuditTest) -> Iterator[Fault]:
    """A compliance test that was filed was passed.

    Source: mlcommons/inference, v0.5/audit/nvidia: verify_accuracy.py and verify_performance.py print TEST PASS or TEST FAIL.
    Advice: find out why the test failed; a result whose compliance test fails is not valid.
    """
    for source, text in texts(test.verdicts):
        if match := FAILED.search(text):
            line = text.count("\n", 0, match.start()) + 1
            yield Fault(file=source.path, line=line, found=match[0], required="TEST PASS")
        elif not PASSED.search(text):
            yield Fault(file=source.path, found="no outcome", required="TEST PASS", severity=Severity.WARNING)


@rule("filed.audit_outcome", AuditTest, severity=Severity.WARNING)
def outcome(test: AuditTest) -> Iterator[Fault]:
    """A compliance test comes with what the round's script said of it.

    Source: mlcommons/inference, v0.5/audit/nvidia: README of each test; TEST04-B is compared in TEST04-A's folder.
    Advice: file the output of the test's verification script.
    """
    if not test.verdicts and test.name != "TEST04-B":
        yield Fault(file=test.folder, found="no outcome", required="the output of the verification script")
    if test.name not in test.round.audit:
        yield Fault(file=test.folder, found=f"the folder {test.folder.name}", required=", ".join(sorted(test.round.audit)))


@rule("filed.audit_settings", AuditTest, severity=Severity.WARNING)
def settings(test: AuditTest) -> Iterator[Fault]:
    """A compliance test's run has the settings that make it that test.

    Source: mlcommons/inference, v0.5/audit/nvidia: audit.config of each test.
    Advice: run LoadGen with the test's audit.config.
    """
    known = test.round.audit.get(test.name)
    if known is None or test.run is None or not test.run.detail.stamped:
        return
    for name, wanted in known.settings.items():
        told = test.run.detail.effective.get(name)
        spelt = str(wanted).lower() if isinstance(wanted, bool) else f"{wanted:g}"
        if told is None or told.text != spelt:
            yield test.run.in_detail(f"{name} {told.text if told else 'not told'}", f"{spelt}, as {test.name} has it", told.line if told else None)


@rule("filed.audit_score", AuditTest)
def score(test: AuditTest) -> Iterator[Fault]:
    """The score that a verification script compared is the one in the summary of the test's run.

    Source: mlcommons/inference, v0.5/audit/nvidia, verify_performance.py; house rule: a claim agrees with its own log.
    Advice: run the verification script on the run that is filed.
    """
    run = test.run
    if run is None or run.scenario is None:
        return
    result = run.summary.number(HEADLINES[run.scenario][0])
    for source, text in texts(test.verdicts) if result is not None else ():
        for match in SCORE.finditer(text):
            if result is not None and not math.isclose(float_of(match[1]), result, rel_tol=1e-5):
                line = text.count("\n", 0, match.start()) + 1
                yield Fault(file=source.path, line=line, found=match[0], required=f"{result:g}, as in the summary", severity=Severity.WARNING)


def float_of(text: str) -> float:
    """Read a number; NaN where there is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
