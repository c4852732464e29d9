"""SARIF 2.1.0, for GitHub's code scanning and for editors.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0, sections 3.14 run,
3.19 toolComponent, 3.27 result, 3.35
suppression, 3.49 reportingDescriptor.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from compliance.reports.limits import OmittedFindings, split_listed_findings
from compliance.rules import load_rules
from compliance.verdict import Finding, PathJudgement, Severity
from suite import __version__
from suite.files.json_files import format_json
from suite.files.layout import locate_absolutely

SARIF_SCHEMA_URL: Final = "https://json.schemastore.org/sarif-2.1.0.json"
SARIF_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
URI_BASE_ID: Final = "SRCROOT"
"""The base of relative URIs: the working folder."""
LocateFile: TypeAlias = Callable[[str], dict[str, str]]


def render_sarif_report(results: Sequence[PathJudgement]) -> str:
    """Render the report: one run of one tool over all PATHs."""
    findings = [finding for result in results for finding in result.findings]
    rules = list(dict.fromkeys(finding.rule for finding in findings))
    driver = {
        "name": "podium check",
        "semanticVersion": __version__,
        "rules": [build_rule_descriptor(rule, findings) for rule in rules],
    }
    rule_indices = {rule: position for position, rule in enumerate(rules)}
    here = Path.cwd()
    locate = cache(partial(build_artifact_location, here))  # a file may have hundreds of findings
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {URI_BASE_ID: {"uri": here.as_uri() + "/"}},
        "invocations": [{"executionSuccessful": True}],
        "results": [
            each for result in results for each in build_sarif_results(result, rule_indices, locate)
        ],
        "properties": {
            "verdicts": [
                {"path": result.path, "round": result.round, "verdict": result.verdict.value}
                for result in results
            ]
        },
    }
    return format_json({"$schema": SARIF_SCHEMA_URL, "version": "2.1.0", "runs": [run]})


def build_rule_descriptor(id: str, findings: Sequence[Finding]) -> dict[str, Any]:
    """Describe a rule from the catalogue; a rule outside it is described by its findings."""
    first = next(finding for finding in findings if finding.rule == id)
    rule = load_rules().get(id)
    text = rule.text if rule else first.required
    advice = rule.advice if rule else first.advice
    return {
        "id": id,
        "shortDescription": {"text": text},
        "fullDescription": {"text": f"{text} Source: {first.source}"},
        "help": {"text": f"{advice} Source: {first.source}"},
        "defaultConfiguration": {"level": SARIF_LEVELS[rule.severity if rule else first.severity]},
        "properties": {"source": first.source, "about": rule.about if rule else first.about},
    }


def build_sarif_results(
    result: PathJudgement, rule_indices: Mapping[str, int], locate: LocateFile
) -> Iterator[dict[str, Any]]:
    """Yield the findings of one PATH; if a rule fires very often in one file, only the first
    findings and a count.
    """
    listed, left_out = split_listed_findings(result.findings)
    for finding in listed:
        in_doubt = ""
        if finding.doubt:
            in_doubt = f" In doubt: {finding.doubt}."
        text = f"Found {finding.found}; expected {finding.required}.{in_doubt} {finding.advice}"
        properties = {"path": result.path, "found": finding.found, "required": finding.required}
        yield build_sarif_result(
            finding, rule_indices, locate(finding.file), text, properties, finding.line
        )
    for each in left_out:
        yield build_sarif_result(
            each,
            rule_indices,
            locate(each.file),
            f"And {each.more} more of this rule in this file.",
            {"path": result.path, "more": each.more},
        )


def build_sarif_result(
    finding: Finding | OmittedFindings,
    rule_indices: Mapping[str, int],
    artifact_location: Mapping[str, str],
    text: str,
    properties: Mapping[str, str | int],
    line: int | None = None,
) -> dict[str, Any]:
    """Render one finding at its location."""
    physical_location: dict[str, Any] = {"artifactLocation": artifact_location}
    if line:
        physical_location["region"] = {"startLine": line}
    waived = {"kind": "external", "status": "accepted", "justification": str(finding.accepted)}
    return {
        "ruleId": finding.rule,
        "ruleIndex": rule_indices[finding.rule],
        "level": SARIF_LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [{"physicalLocation": physical_location}],
        "properties": properties,
        **({"suppressions": [waived]} if finding.accepted else {}),
    }


def build_artifact_location(here: Path, file: str) -> dict[str, str]:
    """Return a file's URI, relative to the working folder; absolute for files elsewhere."""
    path = locate_absolutely(file)
    if path.is_relative_to(here):
        return {"uri": encode_path_as_uri(path.relative_to(here)), "uriBaseId": URI_BASE_ID}
    return {"uri": "file://" + encode_path_as_uri(path)}


def encode_path_as_uri(path: Path) -> str:
    """Encode a path as a URI: names in other encodings byte by byte, lone surrogates, which only a
    bundle can contain, as replacement marks.
    """
    name = path.as_posix()
    if not name.isascii():
        name = "".join(
            "\ufffd" if 0xD800 <= ord(letter) < 0xDC80 or 0xDD00 <= ord(letter) < 0xE000 else letter
            for letter in name
        )
    return quote(name.encode("utf-8", "surrogateescape"))
