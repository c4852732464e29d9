"""The judge's findings as tables: rule, location, found value, source of the rule, advice."""

from collections.abc import Sequence
from typing import Final

from compliance.verdict import Finding, Severity, Verdict
from submissions.report.document import Section, Table, Tone

MAX_PAGE_FINDINGS: Final = 200
"""Maximum number of findings per severity on the page; the rest are counted."""
SEVERITY_TITLES: Final = {
    Severity.ERROR: "Errors",
    Severity.WARNING: "Warnings",
    Severity.INFO: "Notes",
}
FINDINGS_SECTION_ID: Final = "findings"
"""Id of the section."""
FINDING_COLUMNS: Final = ("rule", "place", "found", "required", "what to do", "source of the rule")
VERDICT_TONES: Final = {
    Verdict.VALID: Tone.GOOD,
    Verdict.NOT_CONVERGED: Tone.CAUTION,
    Verdict.UNKNOWN: Tone.CAUTION,
    Verdict.BROKEN: Tone.BAD,
}
DAMAGED_LABEL: Final = "Broken"
VERDICT_LABELS: Final = {
    Verdict.VALID: "Valid",
    Verdict.NOT_CONVERGED: "Target not reached",
    Verdict.UNKNOWN: "Not judged",
    Verdict.BROKEN: "Not compliant",
}


def build_findings_section(findings: Sequence[Finding], problems: Sequence[str]) -> Section:
    """List the findings, errors first."""
    tables = []
    other_problems = [
        each for each in problems if not any(each == finding.found for finding in findings)
    ]
    if other_problems:
        tables.append(
            Table(
                title="Errors",
                columns=("problem",),
                rows=tuple((each,) for each in other_problems[:MAX_PAGE_FINDINGS]),
            )
        )
    for severity, title in SEVERITY_TITLES.items():
        rows = [format_finding_row(each) for each in findings if each.severity is severity]
        more = ""
        if len(rows) > MAX_PAGE_FINDINGS:
            more = f", the first {MAX_PAGE_FINDINGS} of which are listed"
        if rows:
            tables.append(
                Table(
                    title=f"{title}: {len(rows)}{more}",
                    columns=FINDING_COLUMNS,
                    rows=tuple(rows[:MAX_PAGE_FINDINGS]),
                    folded=severity is Severity.INFO,
                )
            )
    if findings:
        intro = "For details of a rule, run podium explain RULE."
    elif problems:
        intro = ""
    else:
        intro = "The judge found no problems."
    return Section(id=FINDINGS_SECTION_ID, title="Findings", intro=intro, tables=tuple(tables))


def format_finding_row(finding: Finding) -> tuple[str, ...]:
    if finding.line is None:
        location = finding.file
    else:
        location = f"{finding.file}:{finding.line}"
    return finding.rule, location, finding.found, finding.required, finding.advice, finding.source


def format_finding_counts(findings: Sequence[Finding]) -> str:
    """Count the findings by severity."""
    counts = [
        (sum(each.severity is severity for each in findings), severity) for severity in Severity
    ]
    return (
        ", ".join(
            f"{count} {severity}{'s' if count != 1 and severity is not Severity.INFO else ''}"
            for count, severity in counts
            if count
        )
        or "no findings"
    )
