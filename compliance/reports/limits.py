"""Limit machine-readable reports to the first findings of a rule in one file, plus a count of the
rest.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from compliance.verdict import Acceptance, Finding, Severity

MAX_LISTED_FINDINGS: Final = 100
"""Maximum findings of one rule and severity in one file that a machine-readable report lists."""


class OmittedFindings(NamedTuple):
    """Findings of one rule in one file that a report counts but does not list."""

    rule: str
    severity: Severity
    file: str
    accepted: Acceptance | None
    more: int


def split_listed_findings(
    findings: Sequence[Finding],
) -> tuple[list[Finding], list[OmittedFindings]]:
    """Separate the listed findings from the merely counted ones; the verdict is based on all."""
    counts: Counter[tuple[str, Severity, str, Acceptance | None]] = Counter()
    listed = []
    for finding in findings:
        kind = (finding.rule, finding.severity, finding.file, finding.accepted)
        counts[kind] += 1
        if counts[kind] <= MAX_LISTED_FINDINGS:
            listed.append(finding)
    return listed, [
        OmittedFindings(*kind, count - MAX_LISTED_FINDINGS)
        for kind, count in counts.items()
        if count > MAX_LISTED_FINDINGS
    ]


def format_severity(found: Finding | OmittedFindings) -> str:
    """Format a severity, with the waiver of a finding that is accepted."""
    if found.accepted:
        return f"accepted {found.severity} ({found.accepted})"
    return found.severity
