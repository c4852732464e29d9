"""Recognise a PATH once: what kind of result it is, and the rounds that it may belong to."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol, TypeVar

from compliance.recognition.parts import has_several_rounds, split_by_round
from compliance.recognition.path_kind import (
    PathKind,
    RecognisedPath,
    find_judgeable_parts,
    find_studies,
)
from compliance.recognition.round import list_target_organisations
from compliance.recognition.round_evidence import RoundEvidence
from compliance.verdict import UNKNOWN_ROUND, Verdict
from suite import registry
from suite.rounds.kind_checks import find_round_obstacle

PODIUM_KINDS: Final = (
    PathKind.BUNDLE,
    PathKind.CHECKPOINT,
    PathKind.STUDY,
    PathKind.HISTORY,
)
"""Kinds of files that podium alone writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A way to judge a path: by one round, or its parts each by their own."""

    round: str = ""
    """UNKNOWN_ROUND if its content indicates a round that is not known here; empty for parts."""
    indicated_by: str = ""
    others: tuple[str, ...] = ()
    """Other rounds that the path may belong to."""
    parts: Sequence[Path] = ()
    """Parts to be judged one by one in its place."""
    accepted_if: frozenset[Verdict] = frozenset(Verdict)
    """Verdicts by which this candidate is chosen."""


class HasVerdict(Protocol):
    """A judgement, in whatever form."""

    @property
    def verdict(self) -> Verdict:
        """The verdict."""
        ...


Judged = TypeVar("Judged", bound=HasVerdict)
NOT_BROKEN: Final = frozenset(Verdict) - {Verdict.BROKEN}
ONLY_VALID: Final = frozenset({Verdict.VALID})


def iterate_candidates(
    target: RecognisedPath, evidence: RoundEvidence | None, named_round: str | None
) -> Iterator[Candidate]:
    """Yield the ways to judge a path, the recognised one first: it holds if none is accepted.

    A tree that its round rejects may be of several rounds, each organisation of its own. A tree
    whose folder name contains the round stays whole, since only days and benchmarks can be
    misleading.

    Args:
        target: the path, whose kind is known.
        evidence: what its content says of its round; None if it says nothing.
        named_round: the user's; the content then does not matter.
    """
    if target.kind is PathKind.TREES:
        yield Candidate(parts=tuple(find_judgeable_parts(target.path)))
        return
    if apart := split_by_round(target, evidence):
        yield Candidate(parts=apart)
        return
    yield from iterate_round_candidates(target, evidence, named_round)
    if target.kind is PathKind.TREE and evidence and evidence.logs:
        organisations = list_target_organisations(target)
        if has_several_rounds(organisations):
            yield Candidate(parts=organisations, accepted_if=ONLY_VALID)


def iterate_round_candidates(
    target: RecognisedPath, evidence: RoundEvidence | None, named_round: str | None
) -> Iterator[Candidate]:
    """Yield the rounds that a path as a whole may belong to, the recognised one first."""
    if evidence is None:
        if named_round:
            yield Candidate(round=named_round)
        else:
            yield build_unread_candidate(target)
        return
    rounds = list_possible_rounds(target, evidence)
    first = Candidate(
        round=evidence.round or UNKNOWN_ROUND,
        indicated_by=evidence.indicated_by,
        others=tuple(name for name in rounds if name != evidence.round),
        accepted_if=NOT_BROKEN,
    )
    yield first
    for name in first.others:
        yield replace(
            first,
            round=name,
            indicated_by=f"{evidence.indicated_by}; round {evidence.round} would reject it",
            others=tuple(other for other in rounds if other != name),
        )


def build_unread_candidate(target: RecognisedPath) -> Candidate:
    """Build the candidate of a path that no evidence was read from."""
    if not is_podium_result(target):
        return Candidate(round=UNKNOWN_ROUND)
    if obstacle := find_round_obstacle(registry.DEFAULT_ROUND):
        return Candidate(round=UNKNOWN_ROUND, indicated_by=f"podium's {target.kind}; {obstacle}")
    return Candidate(round=registry.DEFAULT_ROUND)


def choose_candidate(
    candidates: Iterable[Candidate], judge: Callable[[Candidate], Judged]
) -> Judged:
    """Judge by each candidate in turn, and return the first judgement that is accepted, or else
    that of the first candidate.
    """
    first: Judged | None = None
    for candidate in candidates:
        judged = judge(candidate)
        if judged.verdict in candidate.accepted_if:
            return judged
        if first is None:
            first = judged
    assert first is not None  # there is always a candidate
    return first


def list_possible_rounds(target: RecognisedPath, evidence: RoundEvidence) -> tuple[str, ...]:
    """List the rounds that a set outside of any tree may belong to, since its logs do not name
    their round; none where one alone is possible.
    """
    if evidence.logs is None or target.kind is not PathKind.SET or target.position:
        return ()
    rounds = evidence.logs.list_candidate_rounds()
    if evidence.round in rounds and len(rounds) > 1:
        return rounds
    return ()


def is_podium_result(target: RecognisedPath) -> bool:
    """Return whether podium alone writes such a result: a bundle, a checkpoint, a study, and a
    folder of studies.
    """
    return target.kind in PODIUM_KINDS or (
        target.kind is PathKind.TREE and any(find_studies(target.path))
    )
