"""Judge a PATH: recognise its kind and the rounds that it may belong to, then walk over what it
consists of by the first of them that accepts it.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple

from compliance.empty_path import judge_without_round
from compliance.recognition.path_kind import (
    PathKind,
    RecognisedPath,
    recognise_path,
)
from compliance.recognition.result import (
    Candidate,
    choose_candidate,
    iterate_candidates,
    iterate_round_candidates,
)
from compliance.recognition.round import recognise_path_round
from compliance.recognition.round_evidence import RoundEvidence
from compliance.recognition.tree_bounds import TreeExcess, find_tree_excess
from compliance.recognition.tree_path import match_organisation_folder
from compliance.token_counter import TokenCounter
from compliance.unread_folders import (
    find_unread_folders,
    replace_consequences,
    report_tree_excess,
    report_unread_folder,
)
from compliance.verdict import (
    UNKNOWN_ROUND,
    Finding,
    JudgedResult,
    PathJudgement,
    ResultKind,
    Verdict,
    compute_verdict,
)
from compliance.walk import JudgingAids, Layout, Walk
from suite import registry
from suite.errors import PodiumError
from suite.files.layout import locate_absolutely
from suite.rounds.kind_checks import describe_broken_kind, require_judged_round

MAX_CACHED_FOLDERS: Final = 4_096
"""Maximum number of folders for which a judge remembers whether they are an organisation's; many
paths are below few folders.
"""

ROUND_SEPARATOR: Final = ", "
"""Separates the rounds of a path whose parts have several."""


class JudgedTarget(NamedTuple):
    """What judging one path by a round gave."""

    round: str
    findings: tuple[Finding, ...]
    results: tuple[JudgedResult, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The verdict on the findings."""
        return compute_verdict(self.findings)


class Judge:
    """Judges paths by the named round or, if none is named, by the round recognised from each
    path's content.
    """

    def __init__(
        self,
        round_name: str | None = None,
        truth: Path | None = None,
        counter: TokenCounter | None = None,
    ) -> None:
        self.round_name, self.aids = round_name, JudgingAids(truth=truth, counter=counter)
        self.walks: dict[str, Walk] = {}
        self.match_organisation_folder = lru_cache(maxsize=MAX_CACHED_FOLDERS)(
            match_organisation_folder
        )
        self.judge_once = cache(self.judge_target)
        self.judge_path_once = cache(self.judge_path)
        if round_name is not None:
            require_judged_round(round_name)  # raise RequestError now, not at the first path

    def judge_path(self, given: str) -> PathJudgement:
        """Judge one PATH as given; every problem becomes a finding. A folder that cannot be read is
        named, instead of what seems to be missing in it.
        """
        if excess := find_tree_excess(Path(given)):
            return self.report_excess(given, excess)
        target = recognise_path(Path(given), self.match_organisation_folder)
        judged = self.judge_recognised_path(target, given)
        roots = {target.path: display_path_as_given(target.path, given)}
        unread = prepare_reported_findings(
            (
                finding
                for path, reason in find_unread_folders(target.path)
                for finding in report_unread_folder(path, reason, judged.round)
            ),
            roots,
        )
        if unread:
            return replace_all_consequences(judged, unread)
        return judged

    def report_excess(self, given: str, excess: TreeExcess) -> PathJudgement:
        """Return the judgement of a path that is beyond a bound, and is therefore not read."""
        round_name = self.round_name or registry.DEFAULT_ROUND
        findings = report_tree_excess(excess, round_name)
        return PathJudgement(path=given, round=round_name, findings=findings)

    def judge_recognised_path(self, target: RecognisedPath, given: str) -> PathJudgement:
        """Judge a path whose kind is known: its candidates in order, of which the first that
        accepts it is its round.
        """
        candidates = iterate_candidates(target, self.recognise_round(target), self.round_name)
        return choose_candidate(candidates, partial(self.judge_candidate, target, given))

    def judge_candidate(
        self, target: RecognisedPath, given: str, candidate: Candidate
    ) -> PathJudgement:
        """Judge a path by one candidate."""
        if not candidate.round:
            parts = self.judge_parts(candidate.parts, target, given)
            return self.judge_shared_runs(parts, target)
        if target.kind is PathKind.BUNDLE and candidate.round != UNKNOWN_ROUND:
            return self.judge_bundle(target, given, candidate.round)
        found = self.judge_by_round(target, candidate)
        roots = {target.path: display_path_as_given(target.path, given)}
        return PathJudgement(
            path=given,
            round=candidate.round,
            findings=prepare_reported_findings(found.findings, roots),
            recognised_by=candidate.indicated_by,
            other_rounds=candidate.others,
            results=prepare_reported_results(found.results, roots),
        )

    def judge_as(self, path: Path, kind: PathKind) -> tuple[Finding, ...]:
        """Judge one path as a result of a kind that is known, once; a judge that several paths
        share reads common files once.
        """
        return self.judge_once(replace(recognise_path(path), kind=kind)).findings

    def judge_target(self, target: RecognisedPath) -> JudgedTarget:
        """Judge a path as a whole whose kind is known, and that is not a bundle."""
        candidates = iterate_round_candidates(target, self.recognise_round(target), self.round_name)
        return choose_candidate(candidates, partial(self.judge_by_round, target))

    def resolve_round_name(self, target: RecognisedPath) -> str:
        """Return the round of a path as a whole; UNKNOWN_ROUND if its content indicates an unknown
        one.
        """
        evidence = self.recognise_round(target)
        first, *others = iterate_round_candidates(target, evidence, self.round_name)
        if others:
            return self.judge_once(target).round
        return first.round

    def judge_parts(
        self, paths: Iterable[Path], target: RecognisedPath, given: str
    ) -> PathJudgement:
        """Judge each results tree, organisation, system or set in a folder by its own round; the
        result names all rounds.
        """
        judged = [
            self.judge_path(str(Path(given) / os.path.relpath(path, target.path))) for path in paths
        ]
        found = tuple(dict.fromkeys(finding for part in judged for finding in part.findings))
        return PathJudgement(
            path=given,
            round=ROUND_SEPARATOR.join(sorted({part.round for part in judged})),
            findings=found,
            results=tuple(result for part in judged for result in part.results),
        )

    def judge_shared_runs(self, judged: PathJudgement, target: RecognisedPath) -> PathJudgement:
        """Add what is to be said of several submissions in a folder together: no two of them have
        the same run.
        """
        if target.kind is not PathKind.TREES:
            return judged
        found = [
            finding
            for name in judged.round.split(ROUND_SEPARATOR)
            if name in self.walks and target.kind in self.walks[name].places
            for finding in self.judge_by_round(target, Candidate(round=name)).findings
        ]
        roots = {target.path: display_path_as_given(target.path, judged.path)}
        return replace(judged, findings=judged.findings + prepare_reported_findings(found, roots))

    def judge_bundle(self, target: RecognisedPath, given: str, round_name: str) -> PathJudgement:
        """Judge a bundle, with a temporary folder to unpack it into."""
        from suite.files.scratch import create_temporary_folder

        walk = self.open_walk(round_name)
        with create_temporary_folder() as folder:
            inside = folder / "bundle"
            found = walk.judge_bundle(target, inside)
        roots = {target.path: display_path_as_given(target.path, given), inside: Path(given)}
        return PathJudgement(
            path=given,
            round=round_name,
            findings=prepare_reported_findings(found, roots),
            results=prepare_reported_results(walk.take_results(), roots),
        )

    def recognise_round(self, target: RecognisedPath) -> RoundEvidence | None:
        """Recognise the round of a path from its content, unless the user named one."""
        if self.round_name:
            return None
        return recognise_path_round(target)

    def judge_by_round(self, target: RecognisedPath, candidate: Candidate) -> JudgedTarget:
        """Judge a path by one round; a path of an unknown round is reported as such."""
        if candidate.round == UNKNOWN_ROUND:
            found = tuple(judge_without_round(target, candidate.indicated_by))
            return JudgedTarget(candidate.round, found)
        try:
            walk = self.open_walk(candidate.round)
            return JudgedTarget(candidate.round, walk.judge_target(target), walk.take_results())
        except PodiumError:
            raise
        except Exception as error:  # another package's code may raise anything
            broken = describe_broken_kind(candidate.round, error)
            if broken is None:
                raise
            return JudgedTarget(candidate.round, tuple(judge_without_round(target, broken)))

    def open_walk(self, round_name: str) -> Walk:
        """Return the walk of a round, which is kept, so that files shared by several paths are read
        once; only this round's rules and parsers are imported.
        """
        if round_name not in self.walks:
            kind = registry.load_round_kind(round_name)
            build: Callable[[str, JudgingAids], Layout] = registry.load_kind_part(kind, "layout")
            self.walks[round_name] = Walk(round_name, build(round_name, self.aids))
        return self.walks[round_name]


def replace_all_consequences(judged: PathJudgement, unread: Sequence[Finding]) -> PathJudgement:
    """Return a judgement that names unread folders instead of what they seem to lack, also in each
    result that has one; the folders in a set's are other results'.
    """
    results = list(judged.results)
    for place, each in enumerate(judged.results):
        own = [
            cause
            for cause in unread
            if cause.file == each.path
            or (each.kind is not ResultKind.SET and Path(cause.file).is_relative_to(each.path))
        ]
        if own:
            findings = tuple(dict.fromkeys(replace_consequences(each.findings, own)))
            results[place] = replace(each, findings=findings)
    return replace(
        judged,
        findings=tuple(dict.fromkeys(replace_consequences(judged.findings, unread))),
        results=tuple(results),
    )


def display_path_as_given(path: Path, given: str) -> Path:
    """Display a recognised path as the user would write it: as given, absolute, or relative to the
    working folder.
    """
    if path == locate_absolutely(given):
        return Path(given)
    if Path(given).is_absolute():
        return path
    return Path(os.path.relpath(path))


def prepare_reported_findings(
    found: Iterable[Finding], roots: Mapping[Path, Path]
) -> tuple[Finding, ...]:
    """Deduplicate findings, and show their files as the user would name them."""
    found = tuple(found)
    if not found:
        return found
    named = cache(partial(format_finding_path, roots))  # a file may have thousands of findings
    return tuple(dict.fromkeys(replace(finding, file=named(finding.file)) for finding in found))


def prepare_reported_results(
    judged: Iterable[JudgedResult], roots: Mapping[Path, Path]
) -> tuple[JudgedResult, ...]:
    """Show the results, and the files of their findings, as the user would name them."""
    return tuple(
        replace(
            each,
            path=format_finding_path(roots, each.path),
            findings=prepare_reported_findings(each.findings, roots),
        )
        for each in judged
    )


def format_finding_path(roots: Mapping[Path, Path], name: str) -> str:
    """Display a finding's file as the user would name it: below the PATH as given, or relative to
    the working folder.
    """
    file = Path(name)
    for root, given in roots.items():
        if file.is_relative_to(root):
            return str(given / file.relative_to(root))
    return os.path.relpath(file)
