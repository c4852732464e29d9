"""The judge's findings as tables: rule, place, found value, source of the rule, advice."""

from collections.abc import Sequence
from typing import Final

from compliance.verdict import Finding, Severity, Verdict
from submissions.report.document import Section, Table, Tone

MOST: Final = 200
"""Maximum number of findings per severity on the page; the rest are counted."""
TITLES: Final = {
    Severity.ERROR: "Errors",
    Severity.WARNING: "Warnings",
    Severity.INFO: "Said for completeness",
}
FINDINGS: Final = "findings"
"""Id of the section."""
COLUMNS: Final = ("rule", "place", "found", "required", "what to do", "source of the rule")
TONES: Final = {
    Verdict.VALID: Tone.GOOD,
    Verdict.NOT_CONVERGED: Tone.CAUTION,
    Verdict.UNKNOWN: Tone.CAUTION,
    Verdict.BROKEN: Tone.BAD,
}
DAMAGED: Final = "Broken"
WORDS: Final = {
    Verdict.VALID: "Valid",
    Verdict.NOT_CONVERGED: "Target not reached",
    Verdict.UNKNOWN: "Not judged",
    Verdict.BROKEN: "Not compliant",
}


def section(found: Sequence[Finding], problems: Sequence[str]) -> Section:
    """List the findings, errors first."""
    tables = []
    beside = [each for each in problems if not any(each == finding.found for finding in found)]
    if beside:
        tables.append(
            Table(
                title="What is wrong",
                columns=("problem",),
                rows=tuple((each,) for each in beside[:MOST]),
            )
        )
    for severity, title in TITLES.items():
        rows = [row(each) for each in found if each.severity is severity]
        more = f", of which {MOST} are listed" if len(rows) > MOST else ""
        if rows:
            tables.append(
                Table(
                    title=f"{title}: {len(rows)}{more}",
                    columns=COLUMNS,
                    rows=tuple(rows[:MOST]),
                    folded=severity is Severity.INFO,
                )
            )
    intro = (
        "podium explain RULE says more of a rule."
        if found
        else ""
        if problems
        else "The judge has found nothing to say."
    )
    return Section(id=FINDINGS, title="Findings of the judge", intro=intro, tables=tuple(tables))


def row(finding: Finding) -> tuple[str, ...]:
    """Format one finding as a row."""
    place = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
    return finding.rule, place, finding.found, finding.required, finding.advice, finding.source


def counted(found: Sequence[Finding]) -> str:
    """Count the findings by severity."""
    counts = [(sum(each.severity is severity for each in found), severity) for severity in Severity]
    return (
        ", ".join(
            f"{count} {severity}{'s' if count != 1 and severity is not Severity.INFO else ''}"
            for count, severity in counts
            if count
        )
        or "no findings"
    )
