"""The JSON report (schema report.json); if a rule fires very often in one file, only the first
findings and a count.
"""

from collections.abc import Sequence
from typing import Any, Final

from compliance.reports.limits import capped
from compliance.verdict import Finding, Result
from suite.files.json_files import indented

FIELDS: Final = ("rule", "severity", "file", "line", "found", "required", "source", "advice")


def render(results: Sequence[Result]) -> str:
    """Render the report."""
    return indented({"results": [document(result) for result in results]})


def document(result: Result) -> dict[str, Any]:
    """Convert one result to the schema's form."""
    listed, left_out = capped(result.findings)
    return {
        "path": result.path,
        "round": result.round,
        "round_seen": result.seen,
        "other_rounds": list(result.others),
        "verdict": result.verdict.value,
        "findings": [finding_document(finding) for finding in listed],
        "left_out": [each._asdict() for each in left_out],
    }


def finding_document(finding: Finding) -> dict[str, Any]:
    """Convert one finding to the schema's form."""
    return {name: getattr(finding, name) for name in FIELDS}
