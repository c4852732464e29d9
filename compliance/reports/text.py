"""Render the text report: the first screen shows what to fix; long lists are truncated, and JSON
has them in full.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from compliance.verdict import Finding, PathJudgement, Severity, Verdict

MAX_SHOWN_FINDINGS: Final = 5
"""Findings of one rule shown per PATH."""
MAX_LISTED_PATHS: Final = 30
"""PATHs that the summary lists, worst first."""
MAX_DETAILED_PATHS: Final = 20
"""PATHs whose findings are shown, worst first."""
MAX_LISTED_RULES: Final = 15
"""Rules that the summary lists."""
MAX_VALUE_CHARACTERS: Final = 200
"""Maximum characters shown of a value."""


def render_text_report(results: Sequence[PathJudgement]) -> str:
    """Render the report: one PATH's findings; for several PATHs a summary first."""
    if len(results) == 1:
        return join_report_lines(format_result_lines(results[0]))
    ordered = sorted(results, key=lambda result: -list(Verdict).index(result.verdict))
    with_findings = [result for result in ordered if result.findings]
    text = join_report_lines(summarise_results(results, ordered)) + "".join(
        "\n" + join_report_lines(format_result_lines(result))
        for result in with_findings[:MAX_DETAILED_PATHS]
    )
    if len(with_findings) > MAX_DETAILED_PATHS:
        text += (
            f"\n{len(with_findings) - MAX_DETAILED_PATHS} more PATHs have findings: check"
            " one of them separately, or use --format json\n"
        )
    return text


def join_report_lines(texts: Iterator[str]) -> str:
    """Join lines, without terminal control characters."""
    return "".join(
        f"{text if text.isprintable() else replace_control_characters(text)}\n" for text in texts
    )


def replace_control_characters(text: str) -> str:
    """Replace control characters; lone surrogates, which represent bytes of a file name in another
    encoding, stay.
    """
    return "".join(
        letter if letter.isprintable() or 0xD800 <= ord(letter) < 0xE000 else "?" for letter in text
    )


def summarise_results(
    results: Sequence[PathJudgement], ordered: Sequence[PathJudgement]
) -> Iterator[str]:
    """Count the verdicts, show what to fix first, and list the PATHs, worst first."""
    verdicts = Counter(result.verdict for result in results)
    counted = (
        f"{verdicts[verdict]} {verdict}" for verdict in reversed(Verdict) if verdicts[verdict]
    )
    yield f"{len(results)} PATHs: {', '.join(counted)}"
    for severity in (Severity.ERROR, Severity.WARNING):
        yield from list_frequent_rules(results, severity)
    yield ""
    for result in ordered[:MAX_LISTED_PATHS]:
        yield format_result_headline(result)
    rest = Counter(result.verdict for result in ordered[MAX_LISTED_PATHS:])
    if rest:
        yield f"and {', '.join(f'{count} more {verdict}' for verdict, count in rest.items())}"


def list_frequent_rules(results: Sequence[PathJudgement], severity: Severity) -> Iterator[str]:
    """List the rules with findings of one severity, those that affect most PATHs first."""
    rules = Counter(
        rule
        for result in results
        for rule in {finding.rule for finding in result.findings if finding.severity is severity}
    )
    if rules:
        yield f"{severity}s by rule (details: podium explain RULE):"
    for rule, count in rules.most_common(MAX_LISTED_RULES):
        yield f"  {rule} in {count} PATH{'s' if count > 1 else ''}"
    if len(rules) > MAX_LISTED_RULES:
        yield f"  and {len(rules) - MAX_LISTED_RULES} more rules"


def format_result_headline(result: PathJudgement) -> str:
    """Format a result on one line: path, verdict, round, counts."""
    counts = Counter(finding.severity for finding in result.findings)
    counts_text = ", ".join(
        format_severity_count(counts[severity], severity)
        for severity in Severity
        if counts[severity]
    )
    verdict = "cannot be judged here" if result.lacks_workload else result.verdict
    return f"{result.path}: {verdict} ({result.round}{'; ' + counts_text if counts_text else ''})"


def format_severity_count(count: int, severity: Severity) -> str:
    """Format the number of findings of a severity."""
    return f"{count} {severity}{'s' if count > 1 and severity is not Severity.INFO else ''}"


def format_result_lines(result: PathJudgement) -> Iterator[str]:
    """Yield the lines of one result: the verdict, then the findings, worst first."""
    yield format_result_headline(result)
    if result.other_rounds:
        yield (
            f"  {result.round} was recognised by {result.recognised_by}; also possible:"
            f" {', '.join(result.other_rounds)} (use --round ROUND)"
        )
    for severity in Severity:
        for rule in dict.fromkeys(
            finding.rule for finding in result.findings if finding.severity is severity
        ):
            yield from format_rule_findings(
                [
                    finding
                    for finding in result.findings
                    if finding.rule == rule and finding.severity is severity
                ]
            )


def format_rule_findings(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the findings of one rule: values, locations, and once the advice."""
    doubts = list(dict.fromkeys(finding.doubt for finding in findings if finding.doubt))
    in_doubt = f" (in doubt: {'; '.join(doubts)})" if doubts else ""
    yield f"  {findings[0].severity} {findings[0].rule}{in_doubt}"
    left = MAX_SHOWN_FINDINGS
    for found, alike in group_equal_findings(findings).items():
        if left > 0:
            yield from format_finding_locations(found, alike[:left])
        left -= len(alike)
    if left < 0:
        yield f"    and {-left} more"
    yield from (
        f"    -> {advice}"
        for advice in dict.fromkeys(finding.advice for finding in findings[:MAX_SHOWN_FINDINGS])
        if advice
    )


def group_equal_findings(findings: Sequence[Finding]) -> Mapping[str, Sequence[str]]:
    """Group the locations of findings by what was found."""
    locations: dict[str, list[str]] = {}
    for finding in findings:
        location = f"{finding.file}:{finding.line}" if finding.line else finding.file
        locations.setdefault(
            f"found {truncate_middle(finding.found)}; expected {truncate_middle(finding.required)}",
            [],
        ).append(location)
    return locations


def format_finding_locations(found: str, locations: Sequence[str]) -> Iterator[str]:
    """Yield what was found with its location, or with all locations if several share it."""
    if len(locations) == 1:
        yield f"    {locations[0]}: {found}"
        return
    yield f"    {found}"
    yield from (f"      {location}" for location in locations)


def truncate_middle(text: str) -> str:
    """Shorten a long value in its middle."""
    return (
        text
        if len(text) <= MAX_VALUE_CHARACTERS
        else f"{text[: MAX_VALUE_CHARACTERS // 2]} ... {text[-MAX_VALUE_CHARACTERS // 4 :]}"
    )
