"""Define findings: what they bear on, and the verdict that follows from them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

NO_SUCH_PATH: Final = "no such file or folder"
"""What is found of a PATH that does not exist."""


class Severity(StrEnum):
    """Severity of a finding."""

    ERROR = "error"
    """The result does not count as submitted."""
    WARNING = "warning"
    """Accepted, but worth a review."""
    INFO = "info"
    """For information: values that could not be recomputed, files that were left out."""


class About(StrEnum):
    """What of a result a rule bears on. In a published round only the first four may be errors."""

    SCORE = "score"
    """The figure or the time cannot be had from the files, or the files contradict it."""
    QUALITY = "quality"
    """The target or accuracy is missed, unproven or computed otherwise than the round requires."""
    RULES = "rules"
    """A setting, seed, count, bound or hyperparameter is forbidden by the round's own text or
    checker.
    """
    IDENTITY = "identity"
    """Two files contradict each other about who, which system, division or benchmark."""
    FORM = "form"
    """Everything else: order and numbering of events, layout, missing extras, file names."""


class Verdict(StrEnum):
    """The verdict on a result, ordered from best to worst."""

    VALID = "valid"
    NOT_CONVERGED = "not-converged"
    """A legal training run, or set, that missed its target."""
    UNKNOWN = "unknown"
    """The round's rules are unknown, or the workload is not installed, so the result was not
    judged.
    """
    BROKEN = "broken"
    """Violates a rule, or cannot be read."""


class ResultKind(StrEnum):
    """The kinds of results that a PATH may contain, as reports name them."""

    LOG = "log"
    SET = "set"
    RUN = "run"
    ENTRY = "entry"
    STUDY = "study"
    POINT = "point"
    CURVE = "curve"


INSTALLED_RULE: Final = "tree.installed"
"""Id of the rule that fires if a result's workload is not installed."""
UNKNOWN_ROUND: Final = "unknown"
"""Placeholder for an unknown round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A violation that a rule yields; the rule adds its id, severity and source."""

    file: Path
    found: str
    required: str
    line: int | None = None
    advice: str | None = None
    """Overrides the rule's advice."""
    severity: Severity | None = None
    """Overrides the rule's severity."""
    about: About | None = None
    """Overrides what the rule bears on."""
    doubt: str = ""
    """Overrides what of the result an error of the rule puts in doubt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """That a finding is known and accepted, by a waiver (compliance/waivers.py)."""

    by: str
    until: str
    """The last day on which it holds, ISO 8601."""
    why: str

    def __str__(self) -> str:
        return f"by {self.by} until {self.until}: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding about a result, with everything needed to act on it."""

    rule: str
    severity: Severity
    file: str
    line: int | None
    """Counted from 1 in the file on disk; None if the finding is not about a single line."""
    found: str
    required: str
    source: str
    """Source of the rule."""
    advice: str
    """How to fix it."""
    about: About = About.FORM
    """What of the result it bears on."""
    doubt: str = ""
    """What of the result an error puts in doubt; empty for form, and in podium-v1."""
    weight: Verdict = Verdict.BROKEN
    """The verdict that an error of this rule leads to."""
    former_rule: str = ""
    """The rule's id before this release, if it had another one."""
    unchecked: str = ""
    """What of the result the judge could not check; empty if the finding is about anything else."""
    accepted: Acceptance | None = None
    """Listed, but of no effect on a verdict; None if no waiver accepts it."""

    @property
    def is_open_error(self) -> bool:
        """Return whether it is an error that no waiver accepts."""
        return self.severity is Severity.ERROR and self.accepted is None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedResult:
    """One of the results that were judged in a PATH."""

    kind: ResultKind
    path: str
    files: int
    """Logs of a set, runs of an entry, points of a curve; 0 for other kinds."""
    findings: tuple[Finding, ...]
    evidence: tuple[str, ...] = ()
    """Of a result of the Endpoints client: the files that its figures were checked against."""

    @property
    def verdict(self) -> Verdict:
        """Return the worst verdict that any error about this result leads to."""
        return compute_verdict(self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathJudgement:
    """The judgement of one PATH."""

    path: str
    """The PATH as given."""
    round: str
    findings: tuple[Finding, ...]
    recognised_by: str = ""
    """Evidence for the round; empty if it was named, or if each part has its own."""
    other_rounds: tuple[str, ...] = ()
    """Other rounds that the result may belong to."""
    results: tuple[JudgedResult, ...] = ()
    """The results in the PATH, each with the findings about it alone."""

    @property
    def findings_besides(self) -> tuple[Finding, ...]:
        """Return the findings that belong to no single result: of the layout, systems, ledgers."""
        known = {finding for result in self.results for finding in result.findings}
        return tuple(finding for finding in self.findings if finding not in known)

    @property
    def verdict(self) -> Verdict:
        """Return the worst verdict that any error leads to."""
        return compute_verdict(self.findings)

    @property
    def is_absent(self) -> bool:
        """Return whether there is no file or folder at the PATH."""
        return any(finding.found == NO_SUCH_PATH for finding in self.findings)

    @property
    def lacks_workload(self) -> bool:
        """Return whether the only obstacle to judging the result is a workload package that is not
        installed.
        """
        return self.verdict is Verdict.UNKNOWN and any(
            finding.rule == INSTALLED_RULE for finding in self.findings
        )


def compute_verdict(findings: Iterable[Finding]) -> Verdict:
    """Derive the verdict from findings; only errors that no waiver accepts count."""
    weights = [finding.weight for finding in findings if finding.is_open_error]
    if weights:
        return max(weights, key=list(Verdict).index)
    return Verdict.VALID


def change_findings(
    judged: PathJudgement, change: Callable[[Sequence[Finding]], Sequence[Finding]]
) -> PathJudgement:
    """Return a judgement whose findings, and those of each of its results, are changed alike."""
    return replace(
        judged,
        findings=tuple(change(judged.findings)),
        results=tuple(
            replace(each, findings=tuple(change(each.findings))) for each in judged.results
        ),
    )


def judge_strictly(judged: PathJudgement) -> PathJudgement:
    """Turn warnings about the form into errors, for a result that is about to be submitted."""
    return change_findings(judged, escalate_form_warnings)


def escalate_form_warnings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Turn warnings about the form into errors."""
    escalated = []
    for each in findings:
        if each.about is About.FORM and each.severity is Severity.WARNING:
            escalated.append(replace(each, severity=Severity.ERROR))
        else:
            escalated.append(each)
    return tuple(escalated)
