"""JUnit XML: one suite per PATH, one case per rule with findings, which CI servers show as failed
tests.

Source of the format: github.com/windyroad/JUnit-Schema, JUnit.xsd; attribute `file` as Jenkins and
GitLab read it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final
from xml.etree import ElementTree

from compliance.reports.limits import capped
from compliance.verdict import Finding, Result, Severity, Verdict

ILLEGAL: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 forbids. Source: W3C, Extensible Markup Language 1.0, section 2.2."""


def render(results: Sequence[Result]) -> str:
    """Render the report."""
    root = element(None, "testsuites", {"name": "podium check"})
    for result in results:
        suite(root, result)
    for name in ("tests", "failures"):
        root.set(name, str(sum(int(each.get(name, "0")) for each in root)))
    ElementTree.indent(root)
    return (
        '<?xml version="1.0"'
        f' encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'
    )


def suite(root: ElementTree.Element, result: Result) -> None:
    """Add a suite for one PATH: the verdict is a case of its own, so that no suite is empty."""
    rules: dict[str, list[Finding]] = {}
    for finding in result.findings:
        rules.setdefault(finding.rule, []).append(finding)
    failed = sum(
        any(finding.severity is Severity.ERROR for finding in findings)
        for findings in rules.values()
    )
    broken = result.verdict is not Verdict.VALID
    counts = {
        "tests": str(len(rules) + 1),
        "failures": str(failed + broken),
        "errors": "0",
        "skipped": "0",
    }
    added = element(root, "testsuite", {"name": result.path, **counts})
    case = element(added, "testcase", {"name": "verdict", "classname": result.path})
    if broken:
        element(
            case,
            "failure",
            {"type": result.verdict.value, "message": f"{result.verdict} ({result.round})"},
        )
    for rule, findings in rules.items():
        rule_case(added, result, rule, findings)


def rule_case(
    suite: ElementTree.Element, result: Result, rule: str, findings: Sequence[Finding]
) -> None:
    """Add a case for one rule: a failure if it found an error, else its findings as the case's
    output.
    """
    first = findings[0]
    case = element(
        suite,
        "testcase",
        {
            "name": rule,
            "classname": result.path,
            "file": first.file,
            **({"line": str(first.line)} if first.line else {}),
        },
    )
    listed, left_out = capped(findings)
    lines = [
        *map(sentence, listed),
        *(f"{each.severity} {each.file}: and {each.more} more of this rule" for each in left_out),
    ]
    text = "\n".join((*lines, first.advice, first.source, ""))
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if errors:
        element(
            case,
            "failure",
            {
                "type": errors[0].weight.value,
                "message": f"found {errors[0].found}; expected {errors[0].required}",
            },
        ).text = legal(text)
    else:
        element(case, "system-out", {}).text = legal(text)


def sentence(finding: Finding) -> str:
    """Format a finding on one line."""
    return (
        f"{finding.severity} {finding.file}{f':{finding.line}' if finding.line else ''}: found"
        f" {finding.found}; expected {finding.required}"
    )


def element(
    parent: ElementTree.Element | None, tag: str, attributes: Mapping[str, str]
) -> ElementTree.Element:
    """Create an element, below `parent` if there is one."""
    told = {key: legal(value) for key, value in attributes.items()}
    return (
        ElementTree.Element(tag, told)
        if parent is None
        else ElementTree.SubElement(parent, tag, told)
    )


def legal(text: str) -> str:
    """Replace characters that XML forbids."""
    return ILLEGAL.sub("\ufffd", text)
