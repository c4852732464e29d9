"""Recognise a PATH once: what kind of result it is, its round, and what indicated the round."""

from dataclasses import dataclass

from compliance.recognition.evidence import RoundEvidence
from compliance.recognition.path_kind import PathKind, RecognisedPath
from compliance.recognition.round import recognise_path_round
from compliance.recognition.training_rounds import list_candidate_rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognisedResult:
    """A recognised PATH and its round."""

    target: RecognisedPath
    evidence: RoundEvidence | None
    """What was seen of its round; None if neither its content nor its folders indicate one."""
    candidates: tuple[str, ...] = ()
    """All rounds that it may belong to, the oldest first, if its content leaves several open."""


def recognise_target(target: RecognisedPath) -> RecognisedResult:
    """Recognise the round of a path whose kind is known. Only a set outside of any tree, whose
    logs do not name their round, may belong to several.
    """
    evidence = recognise_path_round(target)
    is_loose_set = target.kind is PathKind.SET and not target.position
    candidates = list_candidate_rounds(evidence.logs) if evidence and is_loose_set else ()
    if evidence and evidence.round not in candidates:
        candidates = ()
    return RecognisedResult(target=target, evidence=evidence, candidates=candidates)
