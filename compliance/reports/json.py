"""The JSON report (schema report.json); if a rule fires very often in one file, only the first
findings and a count.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from compliance.reports.limits import OmittedFindings, split_listed_findings
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
        "left_out": [build_omission_document(each) for each in left_out],
    }


def build_judged_document(result: JudgedResult) -> dict[str, Any]:
    """Convert one of the results in a PATH to the schema's form."""
    counts = Counter(finding.severity for finding in result.findings if not finding.accepted)
    accepted = len(result.findings) - counts.total()
    return {
        "path": result.path,
        "kind": result.kind.value,
        "files": result.files,
        "verdict": result.verdict.value,
        "findings": {severity.value: counts[severity] for severity in Severity}
        | ({"accepted": accepted} if accepted else {}),
        "unchecked": sorted({each.unchecked for each in result.findings if each.unchecked}),
    }


def build_finding_document(finding: Finding) -> dict[str, Any]:
    """Convert one finding to the schema's form; `former_rule` only if the rule had one, `doubt`
    only for an error in a published round, `accepted` only by a waiver.
    """
    document = {name: getattr(finding, name) for name in FINDING_FIELDS}
    optional = {
        "former_rule": finding.former_rule,
        "doubt": finding.doubt,
        "accepted": asdict(finding.accepted) if finding.accepted else None,
    }
    return document | {name: stated for name, stated in optional.items() if stated}


def build_omission_document(omitted: OmittedFindings) -> dict[str, Any]:
    """Convert a count of findings that are not listed to the schema's form."""
    document = omitted._asdict()
    accepted = document.pop("accepted")
    return document | ({"accepted": asdict(accepted)} if accepted else {})
