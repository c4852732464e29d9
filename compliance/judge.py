"""Judge a PATH: recognise its kind and its round, then call that round's judge."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Final, Protocol

from compliance.recognition.evidence import RoundEvidence
from compliance.recognition.parts import has_several_rounds, split_by_round
from compliance.recognition.path_kind import (
    PathKind,
    RecognisedPath,
    find_results_trees,
    recognise_path,
)
from compliance.recognition.round import list_target_organisations, recognise_path_round
from compliance.recognition.training_rounds import list_candidate_rounds
from compliance.recognition.tree_path import match_organisation_folder
from compliance.rules.known_round import UnjudgedPath, known
from compliance.verdict import UNKNOWN_ROUND, Finding, PathJudgement, Verdict, compute_verdict
from suite import registry
from suite.rounds import RoundKind

MAX_CACHED_FOLDERS: Final = 4_096
"""Maximum number of folders for which a judge remembers whether they are an organisation's; many
paths are below few folders.
"""


class RoundJudge(Protocol):
    """Judges paths by the rules of one round."""

    def judge_target(self, target: RecognisedPath, inside: Path) -> Iterator[Finding]:
        """Apply the rules for this kind of path; a bundle is unpacked into the folder `inside`."""
        ...


class Judge:
    """Judges paths by the named round or, if none is named, by the round recognised from each
    path's content.
    """

    def __init__(self, round_name: str | None = None, truth: Path | None = None) -> None:
        self.round_name, self.truth = round_name, truth
        self.judges: dict[str, RoundJudge] = {}
        self.has_contradictions: dict[Path, bool] = {}
        """Cache: organisation's folder -> whether its documents contradict one another."""
        self.cached_findings: dict[RecognisedPath, tuple[Finding, ...]] = {}
        """Cache: results judged one by one -> their findings."""
        self.last_recognised: tuple[RecognisedPath, RoundEvidence | None] | None = None
        """Cache: the last path recognised and its round, since both are needed more than once."""
        self.tried_findings: dict[tuple[RecognisedPath, str], tuple[Finding, ...]] = {}
        """Findings under a round that was tried, until they are requested."""
        self.find_organisation_folder = lru_cache(maxsize=MAX_CACHED_FOLDERS)(
            match_organisation_folder
        )
        if round_name is not None:
            registry.load_round_kind(round_name)  # raise RequestError now, not at the first path

    def judge_path(self, given: str) -> PathJudgement:
        """Judge one PATH as given; every problem becomes a finding."""
        target = recognise_path(Path(given), self.find_organisation_folder)
        if target.kind is PathKind.TREES:
            return self.judge_parts(find_results_trees(target.path), target, given)
        round_name = self.resolve_round_name(target)
        if apart := split_by_round(target, self.recognise_round(target), self.resolve_round_name):
            return self.judge_parts(apart, target, given)
        if target.kind is PathKind.BUNDLE:
            return self.judge_bundle(self.get_round_judge(round_name), target, given, round_name)
        found = list(self.judge_target(target))
        roots = {target.path: display_path_as_given(target.path, given)} if found else {}
        seen = self.recognise_round(target)
        whole = PathJudgement(
            path=given,
            round=round_name,
            findings=prepare_reported_findings(found, roots),
            recognised_by=seen.indicated_by if seen else "",
            other_rounds=seen.others if seen else (),
        )
        return self.judge_each_organisation(whole, target, seen) or whole

    def judge_each_organisation(
        self, whole: PathJudgement, target: RecognisedPath, seen: RoundEvidence | None
    ) -> PathJudgement | None:
        """Judge a tree that is broken as a whole once more, each organisation by its own logs'
        round; None unless all of them are then valid.

        A tree whose folder name contains the round stays whole, since only days and benchmarks can
        be misleading.
        """
        if (
            target.kind is not PathKind.TREE
            or whole.verdict is not Verdict.BROKEN
            or not (seen and seen.logs)
        ):
            return None
        found = list_target_organisations(target)
        apart = (
            self.judge_parts(found, target, whole.path)
            if has_several_rounds(found, self.resolve_round_name)
            else whole
        )
        return apart if apart.verdict is Verdict.VALID else None

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
            path=given, round=", ".join(sorted({part.round for part in judged})), findings=found
        )

    def judge_bundle(
        self, judge: RoundJudge, target: RecognisedPath, given: str, round_name: str
    ) -> PathJudgement:
        """Judge a bundle, with a temporary folder to unpack it into."""
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(prefix="podium-") as folder:
            inside = Path(folder) / "bundle"
            found = list(judge.judge_target(target, inside))
        roots = {target.path: display_path_as_given(target.path, given), inside: Path(given)}
        return PathJudgement(
            path=given, round=round_name, findings=prepare_reported_findings(found, roots)
        )

    def judge_target(self, target: RecognisedPath) -> Iterator[Finding]:
        """Judge a target that has been recognised and is not a bundle."""
        seen = self.recognise_round(target)
        if seen and seen.round is None:
            yield from known(UnjudgedPath(path=target.path, evidence=seen.indicated_by))
        else:
            name = self.resolve_round_name(target)
            tried = self.tried_findings.pop((target, name), None)
            yield from (
                self.get_round_judge(name).judge_target(target, target.path)
                if tried is None
                else tried
            )

    def resolve_round_name(self, target: RecognisedPath) -> str:
        """Return the round by which to judge a path; UNKNOWN if its content points to an unknown
        round.
        """
        seen = self.recognise_round(target)
        return (seen.round or UNKNOWN_ROUND) if seen else self.round_name or registry.DEFAULT_ROUND

    def recognise_round(self, target: RecognisedPath) -> RoundEvidence | None:
        """Recognise the round of a path from its content; None if the round was named, or nothing
        indicates one.
        """
        if self.round_name is not None:
            return None
        if self.last_recognised is None or self.last_recognised[0] != target:
            seen = recognise_path_round(target)
            self.last_recognised = (
                target,
                (
                    self.choose_accepting_round(target, seen)
                    if seen and seen.logs and target.kind is PathKind.SET and not target.position
                    else seen
                ),
            )
        return self.last_recognised[1]

    def choose_accepting_round(self, target: RecognisedPath, seen: RoundEvidence) -> RoundEvidence:
        """Choose between the rounds that a set outside of any tree may belong to: the first one,
        unless only a later one accepts it.
        """
        possible = list_candidate_rounds(seen.logs)
        if seen.round not in possible:
            return seen
        self.tried_findings.clear()
        for name in possible if len(possible) > 1 else ():
            if self.judge_by_round(name, target) is not Verdict.BROKEN:
                evidence_text = (
                    f"{seen.indicated_by}; round {seen.round} would reject it"
                    if name != seen.round
                    else seen.indicated_by
                )
                return seen._replace(
                    round=name,
                    indicated_by=evidence_text,
                    others=tuple(each for each in possible if each != name),
                )
        return seen._replace(others=tuple(each for each in possible if each != seen.round))

    def judge_by_round(self, round_name: str, target: RecognisedPath) -> Verdict:
        """Return the verdict on a path by one of the rounds that it may belong to; the findings are
        kept in case this is its round.
        """
        self.tried_findings[target, round_name] = tuple(
            self.get_round_judge(round_name).judge_target(target, target.path)
        )
        return compute_verdict(self.tried_findings[target, round_name])

    def get_round_judge(self, round_name: str) -> RoundJudge:
        """Return the judge of a round; it is cached, so files shared by several paths are read
        once.
        """
        if round_name not in self.judges:
            self.judges[round_name] = build_round_judge(round_name, self.truth)
        return self.judges[round_name]


def build_round_judge(round_name: str, truth: Path | None) -> RoundJudge:
    """Create the judge of a round; only this round's rules and parsers are imported."""
    match registry.load_round_kind(round_name):
        case RoundKind.TRAINING:
            from compliance.judges.training import TrainingJudge

            return TrainingJudge(registry.load_published_training(round_name))
        case RoundKind.INFERENCE_TEXT:
            from compliance.judges.inference_text import InferenceTextJudge

            return InferenceTextJudge(registry.load_inference_text_round(round_name), truth)
        case RoundKind.INFERENCE_MLLOG:
            from compliance.judges.inference_mllog import InferenceMllogJudge

            return InferenceMllogJudge(registry.load_inference_mllog_round(round_name))
        case RoundKind.PODIUM:
            from compliance.judges.podium import PodiumJudge

            return PodiumJudge(registry.load_round(round_name), truth)


def resolve_without_links(given: str) -> Path:
    """Return an absolute path without following links."""
    # Path.resolve follows links, and fails on a link loop
    return Path(os.path.abspath(given))  # noqa: PTH100


def display_path_as_given(path: Path, given: str) -> Path:
    """Display a recognised path as the user would write it: as given, absolute, or relative to the
    working folder.
    """
    if path == resolve_without_links(given):
        return Path(given)
    return path if Path(given).is_absolute() else Path(os.path.relpath(path))


def prepare_reported_findings(
    found: Iterable[Finding], roots: Mapping[Path, Path]
) -> tuple[Finding, ...]:
    """Deduplicate findings, and show their files as the user would name them."""
    found = tuple(found)
    if not found:
        return found
    named = cache(partial(format_finding_path, roots))  # a file may have thousands of findings
    return tuple(dict.fromkeys(replace(finding, file=named(finding.file)) for finding in found))


def format_finding_path(roots: Mapping[Path, Path], name: str) -> str:
    """Display a finding's file as the user would name it: below the PATH as given, or relative to
    the working folder.
    """
    file = Path(name)
    for root, given in roots.items():
        if file.is_relative_to(root):
            return str(given / file.relative_to(root))
    return os.path.relpath(file)
