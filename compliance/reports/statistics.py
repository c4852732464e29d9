"""Count findings by rule, as `podium check --statistics` prints them."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from compliance.reports.counts import format_count
from compliance.verdict import PathJudgement, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCount:
    """How often a rule was broken."""

    rule: str
    severity: Severity
    findings: int
    paths: int
    """PATHs with such a finding."""
    accepted: int
    """Findings that waivers accept."""


def render_rule_counts(results: Sequence[PathJudgement], output_format: str) -> str:
    """Render a line for each rule with findings, the most frequent first: as text or JSON."""
    counts = count_rules(results)
    if output_format == "json":
        return json.dumps({"rules": [asdict(each) for each in counts]}, indent=2)
    if not counts:
        return f"no findings in {format_count(len(results), 'PATH')}"
    width = max(len(f"{each.findings:,}") for each in counts)
    longest = max(len(each.rule) for each in counts)
    return "\n".join(
        f"{each.findings:>{width},}  {each.severity:<7}  {each.rule:<{longest}}"
        f"  in {format_count(each.paths, 'PATH')}{format_accepted(each.accepted)}"
        for each in counts
    )


def format_accepted(count: int) -> str:
    """Format how many findings waivers accept; empty if none."""
    if count:
        return f", {count:,} accepted"
    return ""


def count_rules(results: Sequence[PathJudgement]) -> list[RuleCount]:
    """Count the findings of each rule and severity, the most frequent first; one severity comes
    after a worse one with as many.
    """
    found = [(result.path, finding) for result in results for finding in result.findings]
    counts = []
    for severity in Severity:
        own = [(path, finding) for path, finding in found if finding.severity is severity]
        for rule in sorted({finding.rule for _, finding in own}):
            alike = [(path, finding) for path, finding in own if finding.rule == rule]
            counts.append(
                RuleCount(
                    rule=rule,
                    severity=severity,
                    findings=len(alike),
                    paths=len({path for path, _ in alike}),
                    accepted=sum(finding.accepted is not None for _, finding in alike),
                )
            )
    return sorted(counts, key=lambda each: -each.findings)
