"""Scores moves and winners from answers and labels; imports no framework, since the judge
runs it.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suite.workload import Scores

if TYPE_CHECKING:
    from workloads.common.score_samplers import SumSampler

TRUTH_LABELS_FILE: Final = "labels.txt"
MAX_ANSWER_ACTIONS: Final = 19 * 19 + 1
FLOAT_BYTES: Final = struct.calcsize("<f")


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionAnswer:
    """The network's answer for a position."""

    policy: tuple[float, ...]
    """Share of each legal action; 0 for illegal ones."""
    value: float
    """-1 to 1 for the mover."""

    @property
    def move(self) -> int:
        """The likeliest action; the first one if several are equal."""
        return max(range(len(self.policy)), key=self.policy.__getitem__)


def pack_position_answer(policy: Sequence[float], value: float) -> bytes:
    """Pack an answer: the policy and the value, little-endian float32."""
    return struct.pack(f"<{len(policy) + 1}f", *policy, value)


def unpack_position_answer(answer: bytes) -> PositionAnswer | None:
    """Unpack an answer; None if it is malformed."""
    count, rest = divmod(len(answer), FLOAT_BYTES)
    if rest or not 2 <= count - 1 <= MAX_ANSWER_ACTIONS:
        return None
    *policy, value = struct.unpack(f"<{count}f", answer)
    if all(map(isfinite, (*policy, value))):
        return PositionAnswer(policy=tuple(policy), value=value)
    return None


def score(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """Return the share of positions whose move is the likeliest action, and the share whose winner
    matches the value's sign.

    A missing or malformed answer counts as wrong for both.
    """
    right = find_right_moves(answers, truth)
    return {metric: sum(each) / len(each) for metric, each in right.items()}


def sample_minigo_scores(answers: Mapping[int, bytes], truth: Path) -> "SumSampler":
    """Return the scores over any choice of positions."""
    from workloads.common.score_samplers import build_share_sampler

    return build_share_sampler(find_right_moves(answers, truth))


def find_right_moves(answers: Mapping[int, bytes], truth: Path) -> Mapping[str, Sequence[bool]]:
    """Return for each position whether its move is the likeliest action, and whether the value's
    sign is that of its winner.
    """
    labels = read_truth_labels(truth)
    unpacked = [unpack_position_answer(answers.get(sample, b"")) for sample in range(len(labels))]
    pairs = list(zip(unpacked, labels, strict=True))
    return {
        "moves": [found is not None and found.move == move for found, (move, _) in pairs],
        "results": [found is not None and found.value * winner > 0 for found, (_, winner) in pairs],
    }


def read_truth_labels(truth: Path) -> list[tuple[int, int]]:
    """Read one `move winner` per line, where the winner is 1 if the mover wins and -1 if not;
    ValueError if the file is malformed.
    """
    path = truth / TRUTH_LABELS_FILE
    labels = [
        (int(move), int(winner))
        for move, winner in map(str.split, path.read_text("ascii").splitlines())
    ]
    if not labels or any(abs(winner) != 1 for _, winner in labels):
        raise ValueError(f"{path}: expected lines with a move and 1 or -1")
    return labels


def write_truth_labels(truth: Path, labels: Sequence[tuple[int, int]]) -> None:
    """Write the labels in the form that `read_truth_labels` reads."""
    (truth / TRUTH_LABELS_FILE).write_text(
        "".join(f"{move} {winner}\n" for move, winner in labels), "ascii"
    )
