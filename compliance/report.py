"""What a user reads: grouped text whose first screen tells what to fix, or JSON (schema report.json)."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from compliance.verdict import Finding, Result, Severity

SHOWN: Final = 5
"""Findings of one rule that the text shows for a PATH; the JSON has them all."""


def as_json(results: Sequence[Result]) -> str:
    """Give the report as one JSON document."""
    return json.dumps({"results": [document(result) for result in results]}, indent=2, ensure_ascii=False)


def document(result: Result) -> dict[str, Any]:
    """Give one result as the schema has it."""
    findings = [{key: value for key, value in asdict(finding).items() if key != "weight"} for finding in result.findings]
    return {"path": result.path, "round": result.round, "verdict": result.verdict.value, "findings": findings}


def as_text(results: Sequence[Result]) -> str:
    """Give the report as text: errors of each path first, rule by rule, then one line per path."""
    return "\n".join(line for result in results for line in (*lines(result), ""))


def lines(result: Result) -> Iterator[str]:
    """Say one result: the verdict, then what to do, the worst first."""
    counts = {severity: sum(finding.severity is severity for finding in result.findings) for severity in Severity}
    told = ", ".join(f"{count} {severity}{'s' if count > 1 and severity is not Severity.INFO else ''}" for severity, count in counts.items() if count)
    yield f"{result.path}: {result.verdict} ({result.round}{'; ' + told if told else ''})"
    for severity in Severity:
        for rule in dict.fromkeys(finding.rule for finding in result.findings if finding.severity is severity):
            yield from group([finding for finding in result.findings if finding.rule == rule and finding.severity is severity])


def group(findings: Sequence[Finding]) -> Iterator[str]:
    """Say the findings of one rule: where, what, and once what to do."""
    first = findings[0]
    yield f"  {first.severity} {first.rule}"
    for finding in findings[:SHOWN]:
        place = f"{finding.file}:{finding.line}" if finding.line else finding.file
        yield f"    {place}: found {finding.found}; required {finding.required}"
    if len(findings) > SHOWN:
        yield f"    and {len(findings) - SHOWN} more"
    yield f"    -> {first.advice}"
