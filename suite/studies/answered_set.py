"""The answers of one system to the accuracy set, and how they differ from those of another one."""

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Final

from suite import registry
from suite.errors import PodiumError
from suite.measurement.paired import (
    DrawnScores,
    PairedDifference,
    compare_drawn_scores,
    draw_scores,
)

TOKEN_BYTES: Final = 4
"""A generated answer is its token ids as int32."""
SCORER_EXCEPTIONS: Final = (
    ValueError,
    LookupError,
    OSError,
    ArithmeticError,
    TypeError,
    MemoryError,
    RecursionError,
    struct.error,
)
"""Exceptions that a scorer, or a sampler of scores, may raise: it reads untrusted bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredSet:
    """The answers of an accuracy run; two with the same digest are equal."""

    workload: str
    profile: str
    truth: Path
    """Folder of the ground truth."""
    digest: str
    answers: Mapping[int, bytes] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerComparison:
    """How the answers of one system differ from those of another one to the same samples."""

    samples: int
    equal: int
    """Answers that are the same, byte for byte."""
    agreeing: int
    """Answers that may come from one model, by the workload's own comparison."""
    first_difference: float | None
    """Median number of the first token that differs, from 1; None of answers without tokens, or if
    none differs.
    """
    metrics: Mapping[str, PairedDifference]
    """Empty if the workload has no sampler of scores."""


def build_answered_set(
    workload: str, profile: str, truth: Path, answers: Mapping[int, bytes]
) -> AnsweredSet:
    """Build a set from logged answers."""
    digest = hashlib.sha256()
    for sample, answer in sorted(answers.items()):
        digest.update(f"{sample}:{len(answer)}:".encode())
        digest.update(answer)
    return AnsweredSet(
        workload=workload,
        profile=profile,
        truth=truth,
        digest=digest.hexdigest(),
        answers=answers,
    )


@lru_cache(maxsize=64)
def compare_answered_sets(one: AnsweredSet, other: AnsweredSet) -> AnswerComparison:
    """Compare the answers of one system with those of another one. The last comparisons are kept:
    a study asks for them after each of its runs.
    """
    unequal = list_unequal_answers(one, other)
    samples = len(one.answers.keys() | other.answers.keys())
    agree = registry.load_agreement(one.workload)
    has_tokens = bool(registry.list_end_tokens(one.workload, one.profile))
    firsts = [find_first_difference(*each) for each in unequal] if has_tokens else []
    return AnswerComparison(
        samples=samples,
        equal=samples - len(unequal),
        agreeing=samples - sum(not agree(*each) for each in unequal),
        first_difference=median(firsts) if firsts else None,
        metrics=compare_scores(one, other, len(unequal)),
    )


def list_unequal_answers(one: AnsweredSet, other: AnsweredSet) -> list[tuple[bytes, bytes]]:
    """Return the answers of both systems to each sample that they answer differently."""
    samples = sorted(one.answers.keys() | other.answers.keys())
    pairs = [(one.answers.get(each, b""), other.answers.get(each, b"")) for each in samples]
    return [(mine, others) for mine, others in pairs if mine != others]


def find_first_difference(one: bytes, other: bytes) -> int:
    """Return the number of the first token that differs, from 1."""
    shorter = min(len(one), len(other))
    place = next((each for each in range(shorter) if one[each] != other[each]), shorter)
    return place // TOKEN_BYTES + 1


def compare_scores(
    one: AnsweredSet, other: AnsweredSet, differing: int
) -> Mapping[str, PairedDifference]:
    """Test the difference of each score; none without a sampler, or for answers that it cannot
    read.
    """
    try:
        mine, others = draw_answer_scores(one), draw_answer_scores(other)
        if mine is None or others is None:
            return {}
        return compare_drawn_scores(mine, others, differing)
    except (PodiumError, *SCORER_EXCEPTIONS):
        return {}


@lru_cache(maxsize=16)
def draw_answer_scores(answered: AnsweredSet) -> DrawnScores | None:
    """Score many choices of a system's samples; None without a sampler."""
    build = registry.find_score_sampler(answered.workload)
    return draw_scores(build(answered.answers, answered.truth)) if build else None
