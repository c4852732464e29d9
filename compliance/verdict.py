"""Define findings: what they bear on, and the verdict that follows from them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final


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

    @property
    def verdict(self) -> Verdict:
        """Return the worst verdict that any error leads to."""
        return compute_verdict(self.findings)

    @property
    def lacks_workload(self) -> bool:
        """Return whether the only obstacle to judging the result is a workload package that is not
        installed.
        """
        return self.verdict is Verdict.UNKNOWN and any(
            finding.rule == INSTALLED_RULE for finding in self.findings
        )


def compute_verdict(findings: Iterable[Finding]) -> Verdict:
    """Derive the verdict from findings; only errors count."""
    weights = [finding.weight for finding in findings if finding.severity is Severity.ERROR]
    return max(weights, key=list(Verdict).index) if weights else Verdict.VALID


def escalate_form_warnings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Turn warnings about the form into errors, for a result that is about to be submitted."""
    return tuple(
        replace(each, severity=Severity.ERROR)
        if each.about is About.FORM and each.severity is Severity.WARNING
        else each
        for each in findings
    )
