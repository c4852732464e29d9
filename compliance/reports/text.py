"""Render the text report: the first screen shows what to fix; long lists are truncated, and
--verbose and JSON have them in full.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from compliance.reports.counts import (
    build_result_rows,
    format_verdict_details,
    sort_worst_first,
)
from compliance.verdict import NO_SUCH_PATH, Acceptance, Finding, PathJudgement, Severity, Verdict

MAX_VALUE_CHARACTERS: Final = 200
"""Maximum characters shown of a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLimits:
    """How many items of each list the report shows; None for all."""

    findings: int | None = 5
    """Of one rule and PATH."""
    results: int | None = 20
    """Of one PATH, worst first."""
    paths: int | None = 30
    """In the summary, worst first."""
    detailed_paths: int | None = 20
    """With their findings, worst first."""
    rules: int | None = 15
    """In the summary."""


SHORT: Final = TextLimits()
FULL: Final = TextLimits(findings=None, results=None, paths=None, detailed_paths=None, rules=None)


def render_text_report(results: Sequence[PathJudgement], *, verbose: bool = False) -> str:
    """Render the report: one PATH's findings; for several PATHs a summary first. If `verbose`,
    lists are complete.
    """
    limits = FULL if verbose else SHORT
    if len(results) == 1:
        return join_report_lines(format_result_lines(results[0], limits))
    ordered = sort_worst_first(results)
    detailed = [
        result
        for result in ordered
        if not result.is_absent and (result.findings or len(result.results) > 1)
    ]
    text = join_report_lines(summarise_results(results, ordered, limits)) + "".join(
        "\n" + join_report_lines(format_result_lines(result, limits))
        for result in detailed[: limits.detailed_paths]
    )
    if more := len(detailed) - len(detailed[: limits.detailed_paths]):
        text += f"\n{more} more PATHs have findings or several results: -v shows them\n"
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
    results: Sequence[PathJudgement], ordered: Sequence[PathJudgement], limits: TextLimits
) -> Iterator[str]:
    """Count the verdicts, show what to fix first, and list the PATHs, worst first."""
    verdicts = Counter(result.verdict for result in results)
    counted = (
        f"{verdicts[verdict]} {verdict}" for verdict in reversed(Verdict) if verdicts[verdict]
    )
    yield f"{len(results)} PATHs: {', '.join(counted)}"
    for severity in (Severity.ERROR, Severity.WARNING):
        yield from iterate_frequent_rules(results, severity, limits)
    yield ""
    shown = ordered[: limits.paths]
    for result in shown:
        yield format_result_headline(result)
    if rest := Counter(result.verdict for result in ordered[len(shown) :]):
        yield f"and {format_omitted_verdicts(rest)} (-v lists them)"


def format_omitted_verdicts(rest: Mapping[Verdict, int]) -> str:
    """Format how many results of each verdict a list leaves out."""
    return ", ".join(f"{count} more {verdict}" for verdict, count in rest.items())


def iterate_frequent_rules(
    results: Sequence[PathJudgement], severity: Severity, limits: TextLimits
) -> Iterator[str]:
    """List the rules with findings of one severity, those that affect most PATHs first."""
    rules = Counter(
        rule
        for result in results
        for rule in {
            finding.rule
            for finding in result.findings
            if finding.severity is severity and finding.accepted is None
        }
    )
    if rules:
        yield f"{severity}s by rule (details: podium explain RULE):"
    shown = rules.most_common(limits.rules)
    for rule, count in shown:
        yield f"  {rule} in {count} PATH{'s' if count > 1 else ''}"
    if more := len(rules) - len(shown):
        yield f"  and {more} more rules"


def format_result_headline(result: PathJudgement) -> str:
    """Format a result on one line: path, verdict, round, what was judged and what could not be
    checked, counts of findings.
    """
    if result.is_absent:
        return f"{result.path}: {NO_SUCH_PATH}"
    verdict = "cannot be judged here"
    if not result.lacks_workload:
        verdict = result.verdict
    return f"{result.path}: {verdict} ({format_verdict_details(result)})"


def iterate_judged_results(judged: PathJudgement, limits: TextLimits) -> Iterator[str]:
    """Yield a line for each result in a PATH, worst first, and one for what belongs to none of
    them; nothing if the PATH is a single result.
    """
    if len(judged.results) < 2:
        return
    rows = build_result_rows(judged, limits.results)
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield f"  {'  '.join([*cells, row.findings])}".rstrip()
    if limits.results:
        left_out = sort_worst_first(judged.results)[limits.results :]
    else:
        left_out = []
    if rest := Counter(each.verdict for each in left_out):
        yield f"  and {format_omitted_verdicts(rest)} (-v lists them)"


def format_result_lines(result: PathJudgement, limits: TextLimits = SHORT) -> Iterator[str]:
    """Yield the lines of one PATH: the verdict, its results if there are several, then the
    findings, worst first, and those that waivers accept.
    """
    yield format_result_headline(result)
    if result.is_absent:
        return
    yield from iterate_judged_results(result, limits)
    if result.other_rounds:
        yield (
            f"  {result.round} was recognised by {result.recognised_by}; also possible:"
            f" {', '.join(result.other_rounds)} (use --round ROUND)"
        )
    alike: dict[tuple[Acceptance | None, Severity, str], list[Finding]] = {}
    for finding in result.findings:
        kind = (finding.accepted, finding.severity, finding.rule)
        alike.setdefault(kind, []).append(finding)
    for kind in sorted(alike, key=lambda each: (bool(each[0]), list(Severity).index(each[1]))):
        yield from format_rule_findings(alike[kind], limits)


def format_rule_findings(findings: Sequence[Finding], limits: TextLimits = SHORT) -> Iterator[str]:
    """Yield the findings of one rule: values, locations, and once the advice and the waiver."""
    doubts = list(dict.fromkeys(finding.doubt for finding in findings if finding.doubt))
    in_doubt = ""
    if doubts:
        in_doubt = f" (in doubt: {'; '.join(doubts)})"
    waiver = findings[0].accepted
    yield f"  {'accepted ' * bool(waiver)}{findings[0].severity} {findings[0].rule}{in_doubt}"
    if waiver:
        yield f"    accepted {waiver}"
    if limits.findings is None:
        most = len(findings)
    else:
        most = limits.findings
    left = most
    for found, alike in group_equal_findings(findings).items():
        if left > 0:
            yield from format_finding_locations(found, alike[:left])
        left -= len(alike)
    if left < 0:
        yield f"    and {-left} more (-v lists them)"
    yield from (
        f"    -> {advice}"
        for advice in dict.fromkeys(finding.advice for finding in findings[:most])
        if advice
    )


def group_equal_findings(findings: Sequence[Finding]) -> Mapping[str, Sequence[str]]:
    """Group the locations of findings by what was found."""
    locations: dict[str, list[str]] = {}
    for finding in findings:
        if finding.line:
            location = f"{finding.file}:{finding.line}"
        else:
            location = finding.file
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
    if len(text) <= MAX_VALUE_CHARACTERS:
        return text
    return f"{text[: MAX_VALUE_CHARACTERS // 2]} ... {text[-MAX_VALUE_CHARACTERS // 4 :]}"
