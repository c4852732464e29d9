"""The only module of this package that calls the judge."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from compliance.judge import Judge
from compliance.recognition.path_kind import Kind, Target, recognise
from compliance.verdict import Finding, Severity, Verdict, verdict
from submissions.result_index import UNPACKED, Result
from suite import registry
from suite.files.layout import file_sha256
from suite.files.untrusted_files import printable
from suite.rounds import RoundKind

BETWEEN: Final = ("tree.", "system.", "checkpoint.", "bundle.")
"""Prefixes of rules about more than one result."""
NOISE: Final = "noise."
"""Prefix of rules that detect a disturbance of a run."""
UNSCORED: Final = "accuracy.unscored"
"""The judge's rule for an accuracy that was reported but not recomputed."""
SEALED: Final[dict[str | None, tuple[tuple[Finding, ...], Path]]] = {}
"""SHA-256 of the last valid bundle -> its findings, and the name it had."""


def findings(
    path: Path, kind: Kind | None = None, judge: Judge | None = None
) -> tuple[Finding, ...]:
    """Judge one path, by its own kind or a requested one; a judge shared by several paths reads
    common files once.
    """
    if kind is None:
        return judge.result(str(path)).findings if judge else as_it_is(path)
    judge = judge or Judge()
    target = replace(recognise(path), kind=kind)
    if target not in judge.told:
        judge.told[target] = tuple(judge.findings(target))
    return judge.told[target]


def as_it_is(path: Path) -> tuple[Finding, ...]:
    """Judge one path by its own kind; a valid bundle, which nothing beside it changes, once for its
    bytes: packing, scoring and reporting ask for them.
    """
    try:
        sha256 = (
            file_sha256(path) if path.is_file() and recognise(path).kind is Kind.BUNDLE else None
        )
    except OSError:  # which the judge tells
        sha256 = None
    if sha256 in SEALED:
        return moved(SEALED[sha256], path)
    found = Judge().result(str(path)).findings
    if (
        sha256 and verdict(found) is Verdict.VALID
    ):  # a disk that was full while it was unpacked may be why another one is not
        SEALED.clear()
        SEALED[sha256] = found, path
    return found


def moved(judged: tuple[tuple[Finding, ...], Path], path: Path) -> tuple[Finding, ...]:
    """Return the findings about a bundle that was judged under another name."""
    found, before = judged
    if before == path:
        return found
    files = {each.file: Path(each.file) for each in found}
    names = {
        name: str(path / file.relative_to(before)) if file.is_relative_to(before) else name
        for name, file in files.items()
    }
    return tuple(replace(each, file=names[each.file]) for each in found)


@lru_cache(maxsize=8)
def judge_below(root: Path) -> Judge:
    """Return the judge of an unpacked bundle: scoring and reporting ask for the same findings, and
    nothing changes its files.
    """
    return Judge()


def judge_for(results: Sequence[Result]) -> Judge:
    """Return a judge that some results share."""
    roots = {result.root for result in results if result.home}
    unpacked = roots & set(UNPACKED.values())
    return judge_below(unpacked.pop()) if len(roots) == 1 and unpacked else Judge()


def errors(path: Path) -> list[str]:
    """Judge one path; one sentence per finding that invalidates it."""
    return [sentence(finding) for finding in findings(path) if finding.severity is Severity.ERROR]


def valid(result: Result, judge: Judge | None = None) -> bool:
    """Return whether the judge accepts a result. A training set is judged without scenarios in the
    same folder, but with the consistency of its
    organisation's documents."""
    return accepted(result, own_findings(result, judge), judge)


def own_findings(result: Result, judge: Judge | None = None) -> tuple[Finding, ...]:
    """Judge a single result."""
    return findings(result.alone or result.folder, kind_of(result), judge)


def accepted(result: Result, own: tuple[Finding, ...], judge: Judge | None = None) -> bool:
    """Return whether the judge accepts a result, given its findings."""
    if (
        verdict(own) is not Verdict.VALID
        or result.home is None
        or result.alone
        or registry.kind_of_round(round_of(result)) is not RoundKind.PODIUM
    ):
        return verdict(own) is Verdict.VALID
    return not at_odds(result.home, judge or Judge())


def noise_in(own: tuple[Finding, ...]) -> tuple[str, ...]:
    """Return the rules that found a disturbance of a result's runs."""
    return tuple(sorted({finding.rule for finding in own if finding.rule.startswith(NOISE)}))


def is_told(result: Result, judge: Judge) -> bool:
    """Return whether an accuracy is the run's own claim, not recomputed."""
    return result.scenario is not None and any(
        each.rule == UNSCORED for each in findings(result.folder, kind_of(result), judge)
    )


def at_odds(home: Path, judge: Judge) -> bool:
    """Return whether an organisation's documents contradict one another, which no single result
    shows. Cached per judge.
    """
    if (known := judge.at_odds.get(home)) is None:
        found = findings(home, Kind.ORGANISATION, judge)
        known = judge.at_odds[home] = any(
            each.severity is Severity.ERROR and each.rule.startswith(BETWEEN) for each in found
        )
    return known


def kind_of(result: Result) -> Kind:
    """Return the kind that a result is judged as."""
    return Kind.ENTRY if result.scenario else Kind.LOG if result.alone else Kind.SET


def round_of(result: Result) -> str:
    """Return the round that a result is judged and scored by."""
    path = result.alone or result.folder
    return Judge().round_for(Target(path=path, kind=kind_of(result), place=recognise(path).place))


def sentence(finding: Finding) -> str:
    """Format a finding in one line."""
    place = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
    return printable(
        f"{place}: {finding.rule}: found {finding.found}; expected {finding.required};"
        f" {finding.advice}"
    )
