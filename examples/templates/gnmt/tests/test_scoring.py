"""The score counts what is right, and nothing else."""

from pathlib import Path

from podium_rings import scoring


def test_a_missing_or_misshapen_answer_is_wrong(tmp_path: Path) -> None:
    (tmp_path / scoring.TRUTH).write_text("2 3 4 5 6\n7 8 9 10 11\n")
    right = {0: scoring.encode_answer([2, 3, 4, 5, 6, 0, 0])}
    assert scoring.score(right | {1: scoring.encode_answer([7, 8, 9, 10, 11])}, tmp_path) == {
        "bleu": 1.0
    }
    for answer in (b"", b"abc", scoring.encode_answer([2, 2, 2, 2, 2])):
        assert scoring.score(right | {1: answer}, tmp_path)["bleu"] < 0.7
