"""Judge a PATH: recognise its kind and its round, then call that round's judge."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from compliance.judges.empty_path import judge_without_round
from compliance.judges.recorder import ResultRecorder
from compliance.recognition.parts import has_several_rounds, split_by_round
from compliance.recognition.path_kind import (
    PathKind,
    RecognisedPath,
    find_judgeable_parts,
    find_studies,
    recognise_path,
)
from compliance.recognition.result import RecognisedResult, recognise_target
from compliance.recognition.round import CURVE_ROUND, list_target_organisations
from compliance.recognition.tree_path import match_organisation_folder
from compliance.unread_folders import (
    find_unread_folders,
    replace_consequences,
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
from suite import registry
from suite.files.layout import locate_absolutely
from suite.rounds import RoundKind

if TYPE_CHECKING:
    from compliance.documents.endpoints.answers import TokenCounter

MAX_CACHED_FOLDERS: Final = 4_096
"""Maximum number of folders for which a judge remembers whether they are an organisation's; many
paths are below few folders.
"""

ROUND_SEPARATOR: Final = ", "
"""Separates the rounds of a path whose parts have several."""
PODIUM_KINDS: Final = (PathKind.BUNDLE, PathKind.CHECKPOINT, PathKind.STUDY)
"""Kinds of files that podium alone writes."""


class RoundJudge(Protocol):
    """Judges paths by the rules of one round."""

    recorder: ResultRecorder
    """The results that it judged since they were last taken."""

    def judge_target(self, target: RecognisedPath) -> Iterator[Finding]:
        """Apply the rules for this kind of path."""
        ...


class JudgedTarget(NamedTuple):
    """What judging one path gave."""

    findings: tuple[Finding, ...]
    results: tuple[JudgedResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledRound:
    """The round by which a path is judged."""

    round: str
    """UNKNOWN_ROUND if its content indicates a round that is not known here."""
    indicated_by: str = ""
    others: tuple[str, ...] = ()
    """Other rounds that the path may belong to."""
    judged: JudgedTarget | None = None
    """What judging by this round gave, if it was chosen so; None otherwise."""


class Judge:
    """Judges paths by the named round or, if none is named, by the round recognised from each
    path's content.
    """

    def __init__(
        self,
        round_name: str | None = None,
        truth: Path | None = None,
        counter: "TokenCounter | None" = None,
    ) -> None:
        self.round_name, self.truth, self.counter = round_name, truth, counter
        self.judges: dict[str, RoundJudge] = {}
        self.match_organisation_folder = lru_cache(maxsize=MAX_CACHED_FOLDERS)(
            match_organisation_folder
        )
        self.judge_once = cache(self.judge_target)
        if round_name is not None:
            registry.load_round_kind(round_name)  # raise RequestError now, not at the first path

    def judge_path(self, given: str) -> PathJudgement:
        """Judge one PATH as given; every problem becomes a finding. A folder that cannot be read is
        named, instead of what seems to be missing in it.
        """
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
        return replace_all_consequences(judged, unread) if unread else judged

    def judge_recognised_path(self, target: RecognisedPath, given: str) -> PathJudgement:
        """Judge a path whose kind is known, as far as it can be read."""
        if target.kind is PathKind.TREES:
            parts = self.judge_parts(find_judgeable_parts(target.path), target, given)
            return self.judge_shared_runs(parts, target)
        recognised = self.recognise_round(target)
        if apart := split_by_round(target, recognised.evidence, self.resolve_round_name):
            return self.judge_parts(apart, target, given)
        settled = self.settle_round(recognised)
        if target.kind is PathKind.BUNDLE:
            return self.judge_bundle(target, given, settled.round)
        found = self.judge_settled(recognised, settled)
        roots = {target.path: display_path_as_given(target.path, given)}
        whole = PathJudgement(
            path=given,
            round=settled.round,
            findings=prepare_reported_findings(found.findings, roots),
            recognised_by=settled.indicated_by,
            other_rounds=settled.others,
            results=prepare_reported_results(found.results, roots),
        )
        return self.judge_each_organisation(whole, recognised) or whole

    def judge_as(self, path: Path, kind: PathKind) -> tuple[Finding, ...]:
        """Judge one path as a result of a kind that is known, once; a judge that several paths
        share reads common files once.
        """
        return self.judge_once(replace(recognise_path(path), kind=kind))

    def judge_target(self, target: RecognisedPath) -> tuple[Finding, ...]:
        """Judge a path whose kind is known, and that is not a bundle."""
        recognised = self.recognise_round(target)
        return self.judge_settled(recognised, self.settle_round(recognised)).findings

    def judge_each_organisation(
        self, whole: PathJudgement, recognised: RecognisedResult
    ) -> PathJudgement | None:
        """Judge a tree that is broken as a whole once more, each organisation by its own logs'
        round; None unless all of them are then valid.

        A tree whose folder name contains the round stays whole, since only days and benchmarks can
        be misleading.
        """
        target, seen = recognised.target, recognised.evidence
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
            path=given,
            round=ROUND_SEPARATOR.join(sorted({part.round for part in judged})),
            findings=found,
            results=tuple(result for part in judged for result in part.results),
        )

    def judge_shared_runs(self, judged: PathJudgement, target: RecognisedPath) -> PathJudgement:
        """Add what is to be said of several submissions of curves in a folder together: no two of
        them have the same run.
        """
        if CURVE_ROUND not in judged.round.split(ROUND_SEPARATOR):
            return judged
        found = self.load_round_judge(CURVE_ROUND).judge_target(target)
        roots = {target.path: display_path_as_given(target.path, judged.path)}
        return replace(judged, findings=judged.findings + prepare_reported_findings(found, roots))

    def judge_bundle(self, target: RecognisedPath, given: str, round_name: str) -> PathJudgement:
        """Judge a bundle, with a temporary folder to unpack it into; other rounds than podium's
        have none.
        """
        from tempfile import TemporaryDirectory

        from compliance.judges.bundles import judge_bundle
        from compliance.judges.podium import PodiumJudge

        judge = self.load_round_judge(round_name)
        with TemporaryDirectory(prefix="podium-") as folder:
            inside = Path(folder) / "bundle"
            found = list(
                judge_bundle(judge, target.path, inside)
                if isinstance(judge, PodiumJudge)
                else judge.judge_target(target)
            )
        roots = {target.path: display_path_as_given(target.path, given), inside: Path(given)}
        return PathJudgement(
            path=given,
            round=round_name,
            findings=prepare_reported_findings(found, roots),
            results=prepare_reported_results(judge.recorder.take_results(), roots),
        )

    def recognise_round(self, target: RecognisedPath) -> RecognisedResult:
        """Recognise the round of a path from its content, unless the round was named."""
        if self.round_name is not None:
            return RecognisedResult(target=target, evidence=None)
        return recognise_target(target)

    def resolve_round_name(self, target: RecognisedPath) -> str:
        """Return the round by which to judge a path; UNKNOWN_ROUND if its content indicates an
        unknown round.
        """
        return self.settle_round(self.recognise_round(target)).round

    def settle_round(self, recognised: RecognisedResult) -> SettledRound:
        """Choose the round by which to judge a path. Of several that it may belong to, this is the
        recognised one, unless that rejects it and another accepts it.
        """
        seen = recognised.evidence
        if seen is None:
            own = registry.DEFAULT_ROUND if is_podium_result(recognised.target) else UNKNOWN_ROUND
            return SettledRound(round=self.round_name or own)
        if len(recognised.candidates) < 2 or seen.round is None:
            return SettledRound(round=seen.round or UNKNOWN_ROUND, indicated_by=seen.indicated_by)
        others = [name for name in recognised.candidates if name != seen.round]
        tried: dict[str, JudgedTarget] = {}
        for name in (seen.round, *others):
            tried[name] = self.judge_by_round(recognised, name)
            if compute_verdict(tried[name].findings) is not Verdict.BROKEN:
                break
        accepted = compute_verdict(tried[name].findings) is not Verdict.BROKEN
        chosen = name if accepted else seen.round
        rejected = f"; round {seen.round} would reject it" if chosen != seen.round else ""
        return SettledRound(
            round=chosen,
            indicated_by=seen.indicated_by + rejected,
            others=tuple(each for each in recognised.candidates if each != chosen),
            judged=tried[chosen],
        )

    def judge_settled(self, recognised: RecognisedResult, settled: SettledRound) -> JudgedTarget:
        """Judge a path by its round; a path of an unknown round is reported as such."""
        if settled.judged is not None:
            return settled.judged
        if settled.round == UNKNOWN_ROUND:
            return JudgedTarget(tuple(judge_without_round(recognised.target, settled.indicated_by)))
        return self.judge_by_round(recognised, settled.round)

    def judge_by_round(self, recognised: RecognisedResult, round_name: str) -> JudgedTarget:
        """Judge a path by one round."""
        judge = self.load_round_judge(round_name)
        findings = tuple(judge.judge_target(recognised.target))
        return JudgedTarget(findings, judge.recorder.take_results())

    def load_round_judge(self, round_name: str) -> RoundJudge:
        """Return the judge of a round; it is cached, so files shared by several paths are read
        once.
        """
        if round_name not in self.judges:
            self.judges[round_name] = build_round_judge(round_name, self.truth, self.counter)
        return self.judges[round_name]


def build_round_judge(
    round_name: str, truth: Path | None, counter: "TokenCounter | None"
) -> RoundJudge:
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

            return InferenceMllogJudge(registry.load_inference_mllog_round(round_name), counter)
        case RoundKind.ENDPOINTS:
            from compliance.judges.endpoints import EndpointsJudge

            return EndpointsJudge(round_name, counter)
        case RoundKind.ENDPOINTS_CURVE:
            from compliance.judges.endpoints_curve import EndpointsCurveJudge

            return EndpointsCurveJudge(registry.load_endpoints_round(round_name))
        case RoundKind.PODIUM:
            from compliance.judges.podium import PodiumJudge

            return PodiumJudge(registry.load_round(round_name), truth)


def is_podium_result(target: RecognisedPath) -> bool:
    """Return whether podium alone writes such a result: a bundle, a checkpoint, a study, and a
    folder of studies.
    """
    return target.kind in PODIUM_KINDS or (
        target.kind is PathKind.TREE and any(find_studies(target.path))
    )


def replace_all_consequences(judged: PathJudgement, unread: Sequence[Finding]) -> PathJudgement:
    """Return a judgement that names unread folders instead of what they seem to lack, also in each
    result that has one; the folders in a set's are other results'.
    """
    return replace(
        judged,
        findings=tuple(dict.fromkeys(replace_consequences(judged.findings, unread))),
        results=tuple(
            replace(each, findings=tuple(dict.fromkeys(replace_consequences(each.findings, own))))
            if (
                own := [
                    cause
                    for cause in unread
                    if cause.file == each.path
                    or (
                        each.kind is not ResultKind.SET
                        and Path(cause.file).is_relative_to(each.path)
                    )
                ]
            )
            else each
            for each in judged.results
        ),
    )


def display_path_as_given(path: Path, given: str) -> Path:
    """Display a recognised path as the user would write it: as given, absolute, or relative to the
    working folder.
    """
    if path == locate_absolutely(given):
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
