"""The text report: the first screen says what to fix; long lists are truncated, and JSON has them
in full.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from compliance.verdict import Finding, Result, Severity, Verdict

SHOWN: Final = 5
"""Findings of one rule shown per PATH."""
LISTED: Final = 30
"""PATHs that the summary lists, worst first."""
DETAILED: Final = 20
"""PATHs whose findings are shown, worst first."""
RULES: Final = 15
"""Rules that the summary lists."""
WIDTH: Final = 200
"""Maximum characters shown of a value."""


def render(results: Sequence[Result]) -> str:
    """Render the report: one PATH's findings; for several PATHs a summary first."""
    if len(results) == 1:
        return joined(lines(results[0]))
    ordered = sorted(results, key=lambda result: -list(Verdict).index(result.verdict))
    told = [result for result in ordered if result.findings]
    text = joined(summary(results, ordered)) + "".join(
        "\n" + joined(lines(result)) for result in told[:DETAILED]
    )
    if len(told) > DETAILED:
        text += (
            f"\n{len(told) - DETAILED} more PATHs have findings: pass one of them alone, or use"
            " --format json\n"
        )
    return text


def joined(texts: Iterator[str]) -> str:
    """Join lines, without terminal control characters."""
    return "".join(f"{text if text.isprintable() else harmless(text)}\n" for text in texts)


def harmless(text: str) -> str:
    """Replace control characters; what stands for a byte of a file's name in another encoding
    stays.
    """
    return "".join(
        letter if letter.isprintable() or 0xD800 <= ord(letter) < 0xE000 else "?" for letter in text
    )


def summary(results: Sequence[Result], ordered: Sequence[Result]) -> Iterator[str]:
    """Count the verdicts, say what to fix first, and list the PATHs, worst first."""
    verdicts = Counter(result.verdict for result in results)
    counted = (
        f"{verdicts[verdict]} {verdict}" for verdict in reversed(Verdict) if verdicts[verdict]
    )
    yield f"{len(results)} PATHs: {', '.join(counted)}"
    for severity in (Severity.ERROR, Severity.WARNING):
        yield from most_frequent(results, severity)
    yield ""
    for result in ordered[:LISTED]:
        yield headline(result)
    rest = Counter(result.verdict for result in ordered[LISTED:])
    if rest:
        yield f"and {', '.join(f'{count} more {verdict}' for verdict, count in rest.items())}"


def most_frequent(results: Sequence[Result], severity: Severity) -> Iterator[str]:
    """List the rules with findings of one severity, those that affect most PATHs first."""
    rules = Counter(
        rule
        for result in results
        for rule in {finding.rule for finding in result.findings if finding.severity is severity}
    )
    if rules:
        yield f"{severity}s by rule (details: podium explain RULE):"
    for rule, count in rules.most_common(RULES):
        yield f"  {rule} in {count} PATH{'s' if count > 1 else ''}"
    if len(rules) > RULES:
        yield f"  and {len(rules) - RULES} more rules"


def headline(result: Result) -> str:
    """Format a result on one line: path, verdict, round, counts."""
    counts = Counter(finding.severity for finding in result.findings)
    told = ", ".join(
        counted(counts[severity], severity) for severity in Severity if counts[severity]
    )
    verdict = "cannot be judged here" if result.lacks_workload else result.verdict
    return f"{result.path}: {verdict} ({result.round}{'; ' + told if told else ''})"


def counted(count: int, severity: Severity) -> str:
    """Format the number of findings of a severity."""
    return f"{count} {severity}{'s' if count > 1 and severity is not Severity.INFO else ''}"


def lines(result: Result) -> Iterator[str]:
    """Yield the lines of one result: the verdict, then what to do, worst first."""
    yield headline(result)
    if result.others:
        yield (
            f"  {result.round} is told by {result.seen}; also possible: {', '.join(result.others)}"
            " (--round ROUND decides)"
        )
    for severity in Severity:
        for rule in dict.fromkeys(
            finding.rule for finding in result.findings if finding.severity is severity
        ):
            yield from group(
                [
                    finding
                    for finding in result.findings
                    if finding.rule == rule and finding.severity is severity
                ]
            )


def group(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the findings of one rule: what, where, and once what to do."""
    yield f"  {findings[0].severity} {findings[0].rule}"
    left = SHOWN
    for found, alike in told_alike(findings).items():
        if left > 0:
            yield from at_places(found, alike[:left])
        left -= len(alike)
    if left < 0:
        yield f"    and {-left} more"
    yield from (
        f"    -> {advice}"
        for advice in dict.fromkeys(finding.advice for finding in findings[:SHOWN])
    )


def told_alike(findings: Sequence[Finding]) -> Mapping[str, Sequence[str]]:
    """Group the locations of findings by what was found."""
    places: dict[str, list[str]] = {}
    for finding in findings:
        place = f"{finding.file}:{finding.line}" if finding.line else finding.file
        places.setdefault(
            f"found {short(finding.found)}; expected {short(finding.required)}", []
        ).append(place)
    return places


def at_places(found: str, places: Sequence[str]) -> Iterator[str]:
    """Yield what was found with its location, or with all locations if several share it."""
    if len(places) == 1:
        yield f"    {places[0]}: {found}"
        return
    yield f"    {found}"
    yield from (f"      {place}" for place in places)


def short(text: str) -> str:
    """Shorten a long value in its middle."""
    return text if len(text) <= WIDTH else f"{text[: WIDTH // 2]} ... {text[-WIDTH // 4 :]}"
