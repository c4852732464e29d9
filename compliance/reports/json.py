"""The JSON report (schema report.json); if a rule fires very often in one file, only the first
findings and a count.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from compliance.reports.limits import split_listed_findings
from compliance.verdict import Finding, JudgedResult, PathJudgement, Severity
from suite.files.json_files import format_json

FINDING_FIELDS: Final = (
    "rule",
    "severity",
    "about",
    "file",
    "line",
    "found",
    "required",
    "source",
    "advice",
)


def render_json_report(results: Sequence[PathJudgement]) -> str:
    """Render the report."""
    return format_json({"results": [build_result_document(result) for result in results]})


def build_result_document(result: PathJudgement) -> dict[str, Any]:
    """Convert one result to the schema's form."""
    listed, left_out = split_listed_findings(result.findings)
    return {
        "path": result.path,
        "round": result.round,
        "round_seen": result.recognised_by,
        "other_rounds": list(result.other_rounds),
        "verdict": result.verdict.value,
        "judged": [build_judged_document(each) for each in result.results],
        "findings": [build_finding_document(finding) for finding in listed],
        "left_out": [each._asdict() for each in left_out],
    }


def build_judged_document(result: JudgedResult) -> dict[str, Any]:
    """Convert one of the results in a PATH to the schema's form."""
    counts = Counter(finding.severity for finding in result.findings)
    return {
        "path": result.path,
        "kind": result.kind.value,
        "files": result.files,
        "verdict": result.verdict.value,
        "findings": {severity.value: counts[severity] for severity in Severity},
        "unchecked": sorted({each.unchecked for each in result.findings if each.unchecked}),
    }


def build_finding_document(finding: Finding) -> dict[str, Any]:
    """Convert one finding to the schema's form; `former_rule` only if the rule had one, `doubt`
    only for an error in a published round.
    """
    document = {name: getattr(finding, name) for name in FINDING_FIELDS}
    optional = {"former_rule": finding.former_rule, "doubt": finding.doubt}
    return document | {name: text for name, text in optional.items() if text}
