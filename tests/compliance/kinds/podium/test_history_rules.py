"""What the judge finds in a history that was edited, cut or merged."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from histories import write_history

from compliance.judge import Judge
from compliance.verdict import Verdict
from suite.errors import JudgedError
from suite.history.book import read_history


def judge(path: Path) -> set[str]:
    return {each.rule for each in Judge().judge_path(str(path)).findings}


def test_a_history_is_recognised_by_its_name_or_its_lines(tmp_path: Path) -> None:
    for name in ("history.jsonl", "speed.jsonl"):
        path = write_history(tmp_path / name, [1.0, 2.0])
        judged = Judge().judge_path(str(path))
        assert (judged.verdict, judged.round) == (Verdict.VALID, "podium-v1")


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (lambda text: "", "history.digest"),
        (lambda text: text[:-40], "file.cut"),
        (lambda text: text.replace("\n", "\n>>>>>>> other\n", 1), "file.record"),
        (lambda text: text.replace('"value": 1.0', '"value": -1.0', 1), "file.shape"),
        (lambda text: text.replace('"value": 1.0', '"value": NaN', 1), "file.number"),
        (lambda text: text.replace('"format": 1', '"format": 2', 1), "file.shape"),
        (lambda text: text.replace('"nodes": 1', '"nodes":  1', 1), "history.digest"),
        (lambda text: text + text.splitlines()[0] + "\n", "history.once"),
    ],
)
def test_a_spoiled_history_is_found(tmp_path: Path, spoil: Callable[[str], str], rule: str) -> None:
    path = write_history(tmp_path / "history.jsonl", [1.0, 2.0])
    path.write_text(spoil(path.read_text()))
    assert rule in judge(path)


def test_every_edited_letter_is_found_by_both_readers(tmp_path: Path) -> None:
    """The judge and `podium history` refuse the same files."""
    path = write_history(tmp_path / "history.jsonl", [1.0, 2.0])
    text = path.read_text()
    drawn = random.Random(5)
    for place in drawn.sample(range(len(text) - 1), 100):
        letter = drawn.choice("0a}, ".replace(text[place], "b"))
        path.write_text(text[:place] + letter + text[place + 1 :])
        assert judge(path), (place, letter)
        with pytest.raises(JudgedError):
            read_history(path)
