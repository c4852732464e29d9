"""SARIF 2.1.0: findings as code scanners tell them, for GitHub's code scanning and for editors.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0, sections 3.14 run, 3.19 toolComponent, 3.27 result, 3.49 reportingDescriptor.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from compliance.rules import catalogue
from compliance.verdict import Finding, Result, Severity
from suite import __version__

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
BASE: Final = "SRCROOT"
"""The folder that relative addresses start from: the working folder."""


def render(results: Sequence[Result]) -> str:
    """Give the report: one run of one tool over all PATHs."""
    findings = [finding for result in results for finding in result.findings]
    rules = list(dict.fromkeys(finding.rule for finding in findings))
    driver = {"name": "podium check", "semanticVersion": __version__, "rules": [descriptor(rule, findings) for rule in rules]}
    places = {rule: place for place, rule in enumerate(rules)}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {BASE: {"uri": Path.cwd().as_uri() + "/"}},
        "invocations": [{"executionSuccessful": True}],
        "results": [told(result, finding, places) for result in results for finding in result.findings],
        "properties": {"verdicts": [{"path": result.path, "round": result.round, "verdict": result.verdict.value} for result in results]},
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def descriptor(id: str, findings: Sequence[Finding]) -> dict[str, Any]:
    """Describe a rule, from the catalogue; one that is not in it by what its finding says."""
    first = next(finding for finding in findings if finding.rule == id)
    rule = catalogue().get(id)
    text = rule.text if rule else first.required
    advice = rule.advice if rule else first.advice
    return {
        "id": id,
        "shortDescription": {"text": text},
        "fullDescription": {"text": f"{text} Source: {first.source}"},
        "help": {"text": f"{advice} Source: {first.source}"},
        "defaultConfiguration": {"level": LEVELS[rule.severity if rule else first.severity]},
        "properties": {"source": first.source},
    }


def told(result: Result, finding: Finding, places: Mapping[str, int]) -> dict[str, Any]:
    """Say one finding."""
    place: dict[str, Any] = {"artifactLocation": location(finding.file)}
    if finding.line:
        place["region"] = {"startLine": finding.line}
    return {
        "ruleId": finding.rule,
        "ruleIndex": places[finding.rule],
        "level": LEVELS[finding.severity],
        "message": {"text": f"Found {finding.found}; required {finding.required}. {finding.advice}"},
        "locations": [{"physicalLocation": place}],
        "properties": {"path": result.path, "found": finding.found, "required": finding.required},
    }


def location(file: str) -> dict[str, str]:
    """Name a file from the working folder; one that lies elsewhere by its whole address."""
    path, here = Path(os.path.abspath(file)), Path.cwd()  # noqa: PTH100 - Path.resolve follows links, and fails on a loop of them
    if path.is_relative_to(here):
        return {"uri": quoted(path.relative_to(here)), "uriBaseId": BASE}
    return {"uri": "file://" + quoted(path)}


def quoted(path: Path) -> str:
    """Write a path as an address: a name in another encoding byte by byte, half a surrogate pair, which only a bundle can name, as a mark."""
    name = "".join("\ufffd" if 0xD800 <= ord(letter) < 0xDC80 or 0xDD00 <= ord(letter) < 0xE000 else letter for letter in path.as_posix())
    return quote(name.encode("utf-8", "surrogateescape"))
