"""Say in a few words what was judged in a PATH, what could not be checked, and what was found."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from compliance.verdict import (
    Finding,
    JudgedResult,
    PathJudgement,
    ResultKind,
    Severity,
    Verdict,
    compute_verdict,
)

EVIDENCE_WORDS: Final[Mapping[str, str]] = {
    "summary": "checked by their summaries alone",
    "snapshot": "checked by summary and snapshot",
    "events": "recounted from events",
    "tokenizer": "recounted from events, with their tokens",
}
"""The most telling evidence of a result -> how its figures were checked."""
J = TypeVar("J", PathJudgement, JudgedResult)
PLURALS: Final[Mapping[str, str]] = {"entry": "entries", "study": "studies"}
"""Plurals that do not just add an s."""
FILE_NOUNS: Final[Mapping[ResultKind, str]] = {
    ResultKind.SET: "log",
    ResultKind.ENTRY: "run",
    ResultKind.CURVE: "point",
}
"""Kind of result -> what `files` counts."""


class ResultRow(NamedTuple):
    """The cells of one result."""

    verdict: str
    path: str
    """Below its PATH."""
    contents: str
    findings: str


def sort_worst_first(judged: Iterable[J]) -> list[J]:
    """Sort by verdict, worst first; those of one verdict keep their order."""
    return sorted(judged, key=lambda each: -list(Verdict).index(each.verdict))


def format_count(count: int, noun: str) -> str:
    """Format a number of things."""
    return f"{count:,} {noun if count == 1 else PLURALS.get(noun, f'{noun}s')}"


def format_verdict_details(judged: PathJudgement) -> str:
    """Format what a verdict rests on: round, what was judged, what could not be checked, counts of
    findings.
    """
    parts = (
        judged.round,
        format_judged_counts(judged.results),
        format_evidence(judged.results),
        format_unchecked_counts(judged.findings),
        format_severity_counts(judged.findings),
    )
    return "; ".join(filter(None, parts))


def format_check_summary(results: Sequence[PathJudgement], given: int) -> str:
    """Format one line about all PATHs: verdicts and findings; `given` is how many were named, of
    which the last ones may not have been judged.
    """
    verdicts = Counter(result.verdict for result in results)
    counted = [
        f"{verdicts[verdict]:,} {verdict}" for verdict in reversed(Verdict) if verdicts[verdict]
    ]
    if left := given - len(results):
        counted.append(f"{left:,} not checked")
    found = format_severity_counts(finding for each in results for finding in each.findings)
    return "; ".join(filter(None, (", ".join(counted), found)))


def format_judged_counts(results: Sequence[JudgedResult]) -> str:
    """Format how many results of each kind were judged, with their logs or runs."""
    return ", ".join(iterate_kind_counts(results))


def format_evidence(results: Sequence[JudgedResult]) -> str:
    """Format how the figures of results of the Endpoints client were checked."""
    deepest = Counter(each.evidence[-1] for each in results if each.evidence)
    every = sum(deepest.values())
    return ", ".join(
        EVIDENCE_WORDS.get(name, name) + (f" ({count:,} of {every:,})" if count < every else "")
        for name, count in deepest.items()
    )


def iterate_kind_counts(results: Sequence[JudgedResult]) -> Iterator[str]:
    """Yield the count of each kind that there is."""
    for kind in ResultKind:
        alike = [each for each in results if each.kind is kind]
        files = sum(each.files for each in alike)
        if alike:
            held = ""
            if files:
                held = f" of {format_count(files, FILE_NOUNS[kind])}"
            yield f"{format_count(len(alike), kind)}{held}"


def format_unchecked_counts(findings: Iterable[Finding]) -> str:
    """Format what could not be checked, and of how many results."""
    counts = Counter(finding.unchecked for finding in findings if finding.unchecked)
    listed = ", ".join(f"{what} of {count:,}" for what, count in sorted(counts.items()))
    if listed:
        return f"not checked: {listed}"
    return ""


def format_severity_counts(findings: Iterable[Finding]) -> str:
    """Format the numbers of findings by severity, and of those that waivers accept; empty if there
    are none.
    """
    findings = tuple(findings)
    counts = Counter(finding.severity for finding in findings if finding.accepted is None)
    parts = [
        f"{counts[severity]:,} {severity}"
        f"{'s' if counts[severity] > 1 and severity is not Severity.INFO else ''}"
        for severity in Severity
        if counts[severity]
    ]
    if accepted := len(findings) - counts.total():
        parts.append(f"{accepted:,} accepted")
    return ", ".join(parts)


def build_result_rows(judged: PathJudgement, most: int | None = None) -> list[ResultRow]:
    """Build a row for each of a PATH's results, worst first, at most `most` of them, and one for
    the findings that belong to none.
    """
    rows = [
        ResultRow(
            str(each.verdict),
            os.path.relpath(each.path, judged.path),
            format_result_contents(each),
            format_severity_counts(each.findings),
        )
        for each in sort_worst_first(judged.results)[:most]
    ]
    if besides := judged.findings_besides:
        verdict = str(compute_verdict(besides))
        rows.append(ResultRow(verdict, "everything else", "", format_severity_counts(besides)))
    return rows


def format_result_contents(result: JudgedResult) -> str:
    """Format the kind of a result, with the number of its logs or runs."""
    held = ""
    if result.files:
        held = format_count(result.files, FILE_NOUNS[result.kind])
    if held:
        return f"{result.kind} of {held}"
    return str(result.kind)
