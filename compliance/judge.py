"""Judges a PATH: recognises what it is and which round it belongs to, then calls that round's
judge.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Final, Protocol

from compliance.recognition.evidence import Witness
from compliance.recognition.parts import differ, parts
from compliance.recognition.path_kind import Kind, Target, recognise, results_trees
from compliance.recognition.round import homes_of, recognised
from compliance.recognition.training_rounds import candidates
from compliance.recognition.tree_path import home_of
from compliance.rules.known_round import Unjudged, known
from compliance.verdict import UNKNOWN, Finding, Result, Verdict, verdict
from suite import registry
from suite.rounds import RoundKind

HOMES: Final = 4_096
"""How many folders a judge remembers as being an organisation's or not; many paths lie below few
folders.
"""


class RoundJudge(Protocol):
    """Judges paths by the rules of one round."""

    def findings(self, target: Target, inside: Path) -> Iterator[Finding]:
        """Apply the rules for this kind of path; a bundle is unpacked into the folder `inside`."""
        ...


class Judge:
    """Judges paths by the named round or, if none is named, by the round recognised from each
    path's content.
    """

    def __init__(self, round_name: str | None = None, truth: Path | None = None) -> None:
        self.round_name, self.truth = round_name, truth
        self.judges: dict[str, RoundJudge] = {}
        self.at_odds: dict[Path, bool] = {}
        """Cache: organisation's folder -> whether its documents contradict one another."""
        self.told: dict[Target, tuple[Finding, ...]] = {}
        """Cache: results judged one by one -> their findings."""
        self.last: tuple[Target, Witness | None] | None = None
        """Cache: the last path recognised and its round, since both are needed more than once."""
        self.tried: dict[tuple[Target, str], tuple[Finding, ...]] = {}
        """Findings by a round that was tried, until they are asked for."""
        self.home_of = lru_cache(maxsize=HOMES)(home_of)
        if round_name is not None:
            registry.kind_of_round(round_name)  # raise RequestError now, not at the first path

    def result(self, given: str) -> Result:
        """Judge one PATH as given; every problem becomes a finding."""
        target = recognise(Path(given), self.home_of)
        if target.kind is Kind.TREES:
            return self.each(results_trees(target.path), target, given)
        round_name = self.round_for(target)
        if apart := parts(target, self.seen(target), self.round_for):
            return self.each(apart, target, given)
        if target.kind is Kind.BUNDLE:
            return self.bundle(self.judge_of(round_name), target, given, round_name)
        found = list(self.findings(target))
        roots = {target.path: as_given(target.path, given)} if found else {}
        seen = self.seen(target)
        whole = Result(
            path=given,
            round=round_name,
            findings=told(found, roots),
            seen=seen.seen if seen else "",
            others=seen.others if seen else (),
        )
        return self.by_organisation(whole, target, seen) or whole

    def by_organisation(self, whole: Result, target: Target, seen: Witness | None) -> Result | None:
        """Judge a tree that is broken as a whole once more, each organisation by its own logs'
        round; None unless all of them are then valid.

        A tree whose folder's name tells the round stays whole: only days and benchmarks may
        mislead.
        """
        if (
            target.kind is not Kind.TREE
            or whole.verdict is not Verdict.BROKEN
            or not (seen and seen.logs)
        ):
            return None
        found = homes_of(target)
        apart = self.each(found, target, whole.path) if differ(found, self.round_for) else whole
        return apart if apart.verdict is Verdict.VALID else None

    def each(self, paths: Iterable[Path], target: Target, given: str) -> Result:
        """Judge each results tree, organisation, system or set in a folder by its own round; the
        result names all rounds.
        """
        judged = [
            self.result(str(Path(given) / os.path.relpath(path, target.path))) for path in paths
        ]
        found = tuple(dict.fromkeys(finding for part in judged for finding in part.findings))
        return Result(
            path=given, round=", ".join(sorted({part.round for part in judged})), findings=found
        )

    def bundle(self, judge: RoundJudge, target: Target, given: str, round_name: str) -> Result:
        """Judge a bundle, with a temporary folder to unpack it into."""
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(prefix="podium-") as folder:
            inside = Path(folder) / "bundle"
            found = list(judge.findings(target, inside))
        roots = {target.path: as_given(target.path, given), inside: Path(given)}
        return Result(path=given, round=round_name, findings=told(found, roots))

    def findings(self, target: Target) -> Iterator[Finding]:
        """Judge a target that has been recognised and is not a bundle."""
        seen = self.seen(target)
        if seen and seen.round is None:
            yield from known(Unjudged(path=target.path, seen=seen.seen))
        else:
            name = self.round_for(target)
            tried = self.tried.pop((target, name), None)
            yield from self.judge_of(name).findings(target, target.path) if tried is None else tried

    def round_for(self, target: Target) -> str:
        """Return the round by which to judge a path; UNKNOWN if its content points to a round that
        is not known.
        """
        seen = self.seen(target)
        return (seen.round or UNKNOWN) if seen else self.round_name or registry.DEFAULT_ROUND

    def seen(self, target: Target) -> Witness | None:
        """Recognise the round of a path from its content; None if the round was named, or nothing
        indicates one.
        """
        if self.round_name is not None:
            return None
        if self.last is None or self.last[0] != target:
            seen = recognised(target)
            self.last = (
                target,
                (
                    self.settled(target, seen)
                    if seen and seen.logs and target.kind is Kind.SET and not target.place
                    else seen
                ),
            )
        return self.last[1]

    def settled(self, target: Target, seen: Witness) -> Witness:
        """Decide between the rounds that a set outside of any tree may have been filed in: the
        first one, unless a later one alone accepts it.
        """
        possible = candidates(seen.logs)
        if seen.round not in possible:
            return seen
        self.tried.clear()
        for name in possible if len(possible) > 1 else ():
            if self.verdict_by(name, target) is not Verdict.BROKEN:
                told = (
                    f"{seen.seen}; by {seen.round} it is broken"
                    if name != seen.round
                    else seen.seen
                )
                return seen._replace(
                    round=name, seen=told, others=tuple(each for each in possible if each != name)
                )
        return seen._replace(others=tuple(each for each in possible if each != seen.round))

    def verdict_by(self, round_name: str, target: Target) -> Verdict:
        """Return the verdict on a path by one of the rounds that it may belong to; the findings are
        kept for the case that this is its round.
        """
        self.tried[target, round_name] = tuple(
            self.judge_of(round_name).findings(target, target.path)
        )
        return verdict(self.tried[target, round_name])

    def judge_of(self, round_name: str) -> RoundJudge:
        """Return the judge of a round; it is cached, so files shared by several paths are read
        once.
        """
        if round_name not in self.judges:
            self.judges[round_name] = make_judge(round_name, self.truth)
        return self.judges[round_name]


def make_judge(round_name: str, truth: Path | None) -> RoundJudge:
    """Create the judge of a round; only this round's rules and parsers are imported."""
    match registry.kind_of_round(round_name):
        case RoundKind.TRAINING:
            from compliance.judges.training import TrainingJudge

            return TrainingJudge(registry.published_training(round_name))
        case RoundKind.INFERENCE:
            from compliance.judges.inference import InferenceJudge

            return InferenceJudge(registry.published_inference(round_name), truth)
        case RoundKind.SERVED:
            from compliance.judges.served import ServedJudge

            return ServedJudge(registry.served_round(round_name))
        case RoundKind.PODIUM:
            from compliance.judges.podium import PodiumJudge

            return PodiumJudge(registry.round(round_name), truth)


def absolute(given: str) -> Path:
    """Return an absolute path without following links."""
    return Path(os.path.abspath(given))  # noqa: PTH100 - Path.resolve follows links, and fails on a link loop


def as_given(path: Path, given: str) -> Path:
    """Display a recognised path as the user would write it: as given, absolute, or relative to the
    working folder.
    """
    if path == absolute(given):
        return Path(given)
    return path if Path(given).is_absolute() else Path(os.path.relpath(path))


def told(found: Iterable[Finding], roots: Mapping[Path, Path]) -> tuple[Finding, ...]:
    """Deduplicate findings, and show their files as the user would name them."""
    found = tuple(found)
    if not found:
        return found
    named = cache(partial(shown, roots))  # a file may have thousands of findings
    return tuple(dict.fromkeys(replace(finding, file=named(finding.file)) for finding in found))


def shown(roots: Mapping[Path, Path], name: str) -> str:
    """Display a finding's file as the user would name it: below the PATH as given, or relative to
    the working folder.
    """
    file = Path(name)
    for root, given in roots.items():
        if file.is_relative_to(root):
            return str(given / file.relative_to(root))
    return os.path.relpath(file)
