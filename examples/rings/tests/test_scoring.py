"""The score counts what is right, and nothing else."""

from pathlib import Path

from podium_rings import scoring


def test_a_missing_or_misshapen_answer_is_wrong(tmp_path: Path) -> None:
    (tmp_path / scoring.TRUTH).write_text("0\n1\n2\n1\n")
    answers = {0: scoring.encode_answer(0), 1: scoring.encode_answer(1), 2: b"2"}
    assert scoring.score(answers, tmp_path) == {"top1": 0.5}
