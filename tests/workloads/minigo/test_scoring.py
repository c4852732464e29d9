"""Scores of answers, and which answers may be one model's."""

import math
import struct
from pathlib import Path

import pytest
from sampled_scores import check_whole_score

from workloads.minigo import scoring
from workloads.minigo.agreement import agree

LABELS = [(0, 1), (3, -1), (4, 1)]


def answer(move: int, value: float) -> bytes:
    return scoring.pack_position_answer(
        [0.9 if action == move else 0.02 for action in range(5)], value
    )


def test_moves_and_results_are_counted_apart(tmp_path: Path) -> None:
    """A right move with a wrong value, and the other way round."""
    scoring.write_truth_labels(tmp_path, LABELS)
    assert scoring.score({0: answer(0, 0.1), 1: answer(3, 0.2), 2: answer(0, 0.9)}, tmp_path) == {
        "moves": 2 / 3,
        "results": 2 / 3,
    }


@pytest.mark.parametrize(
    "bad", [b"", b"abc", answer(0, math.nan), struct.pack("<2f", 1.0, 1.0), bytes(4 * 364)]
)
def test_what_is_no_answer_finds_nothing(tmp_path: Path, bad: bytes) -> None:
    """An engine that breaks must not score by chance."""
    scoring.write_truth_labels(tmp_path, LABELS[:1])
    assert (
        scoring.score({0: bad}, tmp_path)
        == {"moves": 0, "results": 0}
        == scoring.score({}, tmp_path)
    )
    assert not agree(bad, bad)


@pytest.mark.parametrize("text", ["", "1 0\n", "x 1\n", "1\n"])
def test_bad_labels_are_refused(tmp_path: Path, text: str) -> None:
    """The judge reads them from anybody."""
    (tmp_path / scoring.TRUTH_LABELS_FILE).write_text(text)
    with pytest.raises(ValueError):
        scoring.read_truth_labels(tmp_path)


def test_answers_of_one_model_agree() -> None:
    """Within a twentieth; another move, another value or another board does not."""
    assert agree(answer(1, 0.5), answer(1, 0.52))
    assert not agree(answer(1, 0.5), answer(1, 0.6)) and not agree(answer(1, 0.5), answer(2, 0.5))
    assert not agree(answer(1, 0.5), scoring.pack_position_answer([0.5, 0.5], 0.5))


def test_the_sampler_gives_the_score(tmp_path: Path) -> None:
    """Moves and winners apart."""
    scoring.write_truth_labels(tmp_path, [(1, 1), (2, -1), (0, 1)])
    answers = {0: answer(1, 0.5), 1: answer(0, -0.5), 2: answer(2, -0.1)}
    check_whole_score(scoring.score, scoring.sample_minigo_scores, answers, tmp_path)
