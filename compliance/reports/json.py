"""The JSON report (schema report.json); of a rule that fires very often in one file, the first findings and a count."""

import json
from collections.abc import Sequence
from typing import Any, Final

from compliance.reports.limits import capped
from compliance.verdict import Finding, Result

FIELDS: Final = ("rule", "severity", "file", "line", "found", "required", "source", "advice")


def render(results: Sequence[Result]) -> str:
    """Return the report."""
    return json.dumps({"results": [document(result) for result in results]}, indent=2, ensure_ascii=False) + "\n"


def document(result: Result) -> dict[str, Any]:
    """Return one result as the schema has it."""
    listed, left_out = capped(result.findings)
    return {
        "path": result.path,
        "round": result.round,
        "verdict": result.verdict.value,
        "findings": [finding_document(finding) for finding in listed],
        "left_out": [each._asdict() for each in left_out],
    }


def finding_document(finding: Finding) -> dict[str, Any]:
    """Return one finding as the schema has it."""
    return {name: getattr(finding, name) for name in FIELDS}
