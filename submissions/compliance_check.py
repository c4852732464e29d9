"""The only place where this package calls the judge."""

from pathlib import Path
from typing import Final

from compliance.judge import Judge
from compliance.recognition.path_kind import Kind, Target, recognise
from compliance.verdict import Finding, Severity, Verdict, verdict
from submissions.result_index import Result
from suite import registry
from suite.files.untrusted_files import printable
from suite.rounds import RoundKind

BETWEEN: Final = ("tree.", "system.", "checkpoint.", "bundle.")
"""Beginnings of the rules about more than one result."""
NOISE: Final = "noise."
"""Beginning of the rules that say that something disturbed a run."""
UNSCORED: Final = "accuracy.unscored"
"""The judge's rule that says of an accuracy that it is told, and was not recomputed."""


def findings(path: Path, kind: Kind | None = None, judge: Judge | None = None) -> tuple[Finding, ...]:
    """Judge one path, as what it is or as the kind that is asked for; one judge for several paths reads once what they share."""
    judge = judge or Judge()
    if kind is None:
        return judge.result(str(path)).findings
    target = recognise(path)
    return tuple(judge.findings(Target(path=target.path, kind=kind, place=target.place)))


def errors(path: Path) -> list[str]:
    """Judge one path; one sentence per finding that keeps it from counting."""
    return [sentence(finding) for finding in findings(path) if finding.severity is Severity.ERROR]


def valid(result: Result, judge: Judge | None = None) -> bool:
    """Return whether the judge accepts a result: a training set without the scenarios that may lie in the same folder, but with what its
    organisation's documents say of one another."""
    return accepted(result, own_findings(result, judge), judge)


def own_findings(result: Result, judge: Judge | None = None) -> tuple[Finding, ...]:
    """Judge a result alone."""
    return findings(result.alone or result.folder, kind_of(result), judge)


def accepted(result: Result, own: tuple[Finding, ...], judge: Judge | None = None) -> bool:
    """Return whether the judge accepts a result of which it has these findings."""
    if verdict(own) is not Verdict.VALID or result.home is None or result.alone or registry.kind_of_round(round_of(result)) is not RoundKind.PODIUM:
        return verdict(own) is Verdict.VALID
    return not at_odds(result.home, judge or Judge())


def noise_in(own: tuple[Finding, ...]) -> tuple[str, ...]:
    """Name the rules that say that a result's runs were disturbed."""
    return tuple(sorted({finding.rule for finding in own if finding.rule.startswith(NOISE)}))


def is_told(result: Result, judge: Judge) -> bool:
    """Tell an accuracy that nobody recomputed: the run's own word."""
    return result.scenario is not None and any(each.rule == UNSCORED for each in findings(result.folder, kind_of(result), judge))


def at_odds(home: Path, judge: Judge) -> bool:
    """Return whether an organisation's documents contradict one another: what no single result shows. Asked once for each judge."""
    if (known := judge.at_odds.get(home)) is None:
        found = findings(home, Kind.ORGANISATION, judge)
        known = judge.at_odds[home] = any(each.severity is Severity.ERROR and each.rule.startswith(BETWEEN) for each in found)
    return known


def kind_of(result: Result) -> Kind:
    """Say what a result is judged as."""
    return Kind.ENTRY if result.scenario else Kind.LOG if result.alone else Kind.SET


def round_of(result: Result) -> str:
    """Say by which round a result is judged and scored."""
    path = result.alone or result.folder
    return Judge().round_for(Target(path=path, kind=kind_of(result), place=recognise(path).place))


def sentence(finding: Finding) -> str:
    """Say a finding in one line."""
    place = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
    return printable(f"{place}: {finding.rule}: found {finding.found}; expected {finding.required}; {finding.advice}")
