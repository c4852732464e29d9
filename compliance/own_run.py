"""Shorten the report inside `podium run`: what disturbed the host is one line, and nobody is told
not to edit files that podium wrote a moment ago.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from compliance.verdict import Finding, PathJudgement, Severity, change_findings

DISTURBANCE_PREFIX: Final = "noise."
"""Prefix of the rules about what disturbed a run."""
PACE_RULE: Final = "tree.pace"
"""The rule that a disturbed run breaks, too: it compares the speeds of two runs."""
OTHERS_SHARE_PATTERN: Final = re.compile(r"other programs on ([\d.]+)% of the cores")
"""What noise.others found."""
TELEMETRY_GLOB: Final = "telemetry*.jsonl"
EDITING_ADVICE_PATTERN: Final = re.compile(r"(?:[;,] (?:and )?)?do not edit (?:\.(?=\w)|[^;.])*")


def fold_disturbances(
    results: Sequence[PathJudgement],
) -> tuple[list[PathJudgement], str]:
    """Take the warnings about a disturbed host out of the results; return the results, and one line
    about the warnings, empty if there are none.
    """
    every = [finding for result in results for finding in result.findings]
    has_noise = any(is_disturbance(finding) for finding in every)
    folded = [
        finding
        for finding in every
        if is_disturbance(finding)
        or (has_noise and finding.rule == PACE_RULE and finding.severity is Severity.WARNING)
    ]
    kept = [
        change_findings(result, lambda found: [each for each in found if each not in folded])
        for result in results
    ]
    return kept, describe_disturbances(folded, results) if folded else ""


def is_disturbance(finding: Finding) -> bool:
    """Return whether a warning is about what disturbed a run."""
    return finding.rule.startswith(DISTURBANCE_PREFIX) and finding.severity is Severity.WARNING


def describe_disturbances(folded: Sequence[Finding], results: Sequence[PathJudgement]) -> str:
    """Describe the warnings in one line: how busy the host was, in how many runs, and what else."""
    shares = sorted(
        float(match[1])
        for finding in folded
        if (match := OTHERS_SHARE_PATTERN.search(finding.found))
    )
    ends = dict.fromkeys(f"{share:.0f}" for share in shares[:1] + shares[-1:])
    others = []
    if shares:
        others.append(f"other programs used {' to '.join(ends)} % of the cores")
    rules = sorted({finding.rule for finding in folded if not is_share_finding(finding)})
    disturbed = {finding.file for finding in folded if is_disturbance(finding)}
    return (
        f"disturbed: {'; '.join([*others, *rules])}, during {len(disturbed)} of"
        f" {max(count_observed_runs(results), len(disturbed))} runs; podium -v run lists them"
    )


def is_share_finding(finding: Finding) -> bool:
    """Return whether a warning states the share of other programs."""
    return OTHERS_SHARE_PATTERN.search(finding.found) is not None


def count_observed_runs(results: Sequence[PathJudgement]) -> int:
    """Count the runs with telemetry."""
    return len({path for result in results for path in Path(result.path).rglob(TELEMETRY_GLOB)})


def omit_editing_advice(results: Sequence[PathJudgement]) -> list[PathJudgement]:
    """Leave out of each advice that files must not be edited."""
    return [
        change_findings(
            result,
            lambda found: [replace(each, advice=shorten_advice(each.advice)) for each in found],
        )
        for result in results
    ]


def shorten_advice(advice: str) -> str:
    """Leave out of an advice that files must not be edited; empty if it says nothing else."""
    shortened = EDITING_ADVICE_PATTERN.sub("", advice).lstrip("; ")
    if shortened == ".":
        return ""
    return shortened
