"""SARIF 2.1.0, for GitHub's code scanning and for editors.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0, sections 3.14 run,
3.19 toolComponent, 3.27 result, 3.49 reportingDescriptor.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from compliance.reports.limits import LeftOut, capped
from compliance.rules import catalogue
from compliance.verdict import Finding, Result, Severity
from suite import __version__
from suite.files.json_files import indented

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
BASE: Final = "SRCROOT"
"""The base of relative URIs: the working folder."""
Locate: TypeAlias = Callable[[str], dict[str, str]]


def render(results: Sequence[Result]) -> str:
    """Render the report: one run of one tool over all PATHs."""
    findings = [finding for result in results for finding in result.findings]
    rules = list(dict.fromkeys(finding.rule for finding in findings))
    driver = {
        "name": "podium check",
        "semanticVersion": __version__,
        "rules": [descriptor(rule, findings) for rule in rules],
    }
    places = {rule: place for place, rule in enumerate(rules)}
    here = Path.cwd()
    locate = cache(partial(location, here))  # a file may have hundreds of findings
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {BASE: {"uri": here.as_uri() + "/"}},
        "invocations": [{"executionSuccessful": True}],
        "results": [each for result in results for each in told_of(result, places, locate)],
        "properties": {
            "verdicts": [
                {"path": result.path, "round": result.round, "verdict": result.verdict.value}
                for result in results
            ]
        },
    }
    return indented({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def descriptor(id: str, findings: Sequence[Finding]) -> dict[str, Any]:
    """Describe a rule from the catalogue; a rule outside it is described by its findings."""
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


def told_of(result: Result, places: Mapping[str, int], locate: Locate) -> Iterator[dict[str, Any]]:
    """Yield the findings of one PATH; if a rule fires very often in one file, only the first
    findings and a count.
    """
    listed, left_out = capped(result.findings)
    for finding in listed:
        text = f"Found {finding.found}; expected {finding.required}. {finding.advice}"
        facts = {"path": result.path, "found": finding.found, "required": finding.required}
        yield told(finding, places, locate(finding.file), text, facts, finding.line)
    for each in left_out:
        yield told(
            each,
            places,
            locate(each.file),
            f"And {each.more} more of this rule in this file.",
            {"path": result.path, "more": each.more},
        )


def told(
    what: Finding | LeftOut,
    places: Mapping[str, int],
    where: Mapping[str, str],
    text: str,
    facts: Mapping[str, str | int],
    line: int | None = None,
) -> dict[str, Any]:
    """Render one finding at its location."""
    place: dict[str, Any] = {"artifactLocation": where}
    if line:
        place["region"] = {"startLine": line}
    return {
        "ruleId": what.rule,
        "ruleIndex": places[what.rule],
        "level": LEVELS[what.severity],
        "message": {"text": text},
        "locations": [{"physicalLocation": place}],
        "properties": facts,
    }


def location(here: Path, file: str) -> dict[str, str]:
    """Return a file's URI, relative to the working folder; absolute for files elsewhere."""
    path = Path(os.path.abspath(file))  # noqa: PTH100 - Path.resolve follows links, and fails on a link loop
    if path.is_relative_to(here):
        return {"uri": quoted(path.relative_to(here)), "uriBaseId": BASE}
    return {"uri": "file://" + quoted(path)}


def quoted(path: Path) -> str:
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
