"""JUnit XML: one suite per PATH, one case per result in it and per rule with findings, which CI
servers show as failed tests.

Source of the format: github.com/windyroad/JUnit-Schema, JUnit.xsd; attribute `file` as Jenkins and
GitLab read it.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final
from xml.etree import ElementTree

from compliance.reports.counts import (
    format_severity_counts,
    format_verdict_details,
)
from compliance.reports.limits import format_severity, split_listed_findings
from compliance.verdict import Finding, JudgedResult, PathJudgement, Verdict
from suite.files.untrusted_files import replace_unprintable

SEPARATORS: Final = re.compile("([\t\n]+)")
"""Characters that cannot be printed, but separate words and lines of a text."""


def render_junit_report(results: Sequence[PathJudgement]) -> str:
    """Render a suite for each PATH."""
    root = build_xml_element(None, "testsuites", {"name": "podium check"})
    for result in results:
        add_test_suite(root, result)
    for name in ("tests", "failures"):
        root.set(name, str(sum(int(each.get(name, "0")) for each in root)))
    ElementTree.indent(root)
    return (
        '<?xml version="1.0"'
        f' encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'
    )


def add_test_suite(root: ElementTree.Element, result: PathJudgement) -> None:
    """Add a suite for one PATH: the verdict is a case of its own, so that no suite is empty.

    A verdict other than valid is no failure beside those of the rules that led to it.
    """
    rules: dict[str, list[Finding]] = {}
    for finding in result.findings:
        rules.setdefault(finding.rule, []).append(finding)
    failed = sum(any(finding.is_open_error for finding in findings) for findings in rules.values())
    verdicts = (result.verdict, *(each.verdict for each in result.results))
    counts = {
        "tests": str(len(rules) + len(result.results) + 1),
        "failures": str(failed),
        "errors": "0",
        "skipped": str(sum(verdict is not Verdict.VALID for verdict in verdicts)),
    }
    added = build_xml_element(root, "testsuite", {"name": result.path, **counts})
    case = build_xml_element(added, "testcase", {"name": "verdict", "classname": result.path})
    if result.verdict is not Verdict.VALID:
        message = f"{result.verdict} ({format_verdict_details(result)})"
        build_xml_element(case, "skipped", {"message": message})
    for judged in result.results:
        add_result_case(added, result, judged)
    for rule, findings in rules.items():
        add_rule_case(added, result, rule, findings)


def add_result_case(
    suite: ElementTree.Element, result: PathJudgement, judged: JudgedResult
) -> None:
    """Add a case for one of the results in a PATH."""
    case = build_xml_element(
        suite,
        "testcase",
        {
            "name": f"{judged.kind} {os.path.relpath(judged.path, result.path)}",
            "classname": result.path,
        },
    )
    if judged.verdict is not Verdict.VALID:
        found = format_severity_counts(judged.findings)
        build_xml_element(case, "skipped", {"message": f"{judged.verdict} ({found})"})


def add_rule_case(
    suite: ElementTree.Element, result: PathJudgement, rule: str, findings: Sequence[Finding]
) -> None:
    """Add a case for one rule: a failure if it found an error, else its findings as the case's
    output.
    """
    first = findings[0]
    case = build_xml_element(
        suite,
        "testcase",
        {
            "name": rule,
            "classname": result.path,
            "file": first.file,
            **({"line": str(first.line)} if first.line else {}),
        },
    )
    listed, left_out = split_listed_findings(findings)
    lines = [
        *map(format_junit_finding, listed),
        *(
            f"{format_severity(each)} {each.file}: and {each.more} more of this rule"
            for each in left_out
        ),
    ]
    text = "\n".join((*lines, first.advice, first.source, ""))
    errors = [finding for finding in findings if finding.is_open_error]
    if errors:
        build_xml_element(
            case,
            "failure",
            {
                "type": errors[0].weight.value,
                "message": f"found {errors[0].found}; expected {errors[0].required}",
            },
        ).text = replace_illegal_characters(text)
    else:
        build_xml_element(case, "system-out", {}).text = replace_illegal_characters(text)


def format_junit_finding(finding: Finding) -> str:
    """Format a finding on one line."""
    return (
        f"{format_severity(finding)} {finding.file}{f':{finding.line}' if finding.line else ''}:"
        f" found {finding.found}; expected {finding.required}"
    )


def build_xml_element(
    parent: ElementTree.Element | None, tag: str, attributes: Mapping[str, str]
) -> ElementTree.Element:
    """Create an element, below `parent` if there is one."""
    legal_attributes = {key: replace_illegal_characters(value) for key, value in attributes.items()}
    if parent is None:
        return ElementTree.Element(tag, legal_attributes)
    return ElementTree.SubElement(parent, tag, legal_attributes)


def replace_illegal_characters(text: str) -> str:
    """Replace characters that XML forbids or discourages, and those that a terminal obeys.

    Source: W3C, Extensible Markup Language 1.0, section 2.2.
    """
    parts = SEPARATORS.split(text)
    return "".join(
        part if SEPARATORS.fullmatch(part) else replace_unprintable(part) for part in parts
    )
