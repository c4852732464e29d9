"""Answers in blocks, as LoadGen writes them, are read as they are line by line."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from compliance.logs.loadgen import accuracy_counts, accuracy_log
from compliance.logs.loadgen.accuracy_log import AnswerIndex
from compliance.logs.source_file import SourceFile

COUNT = 600
"""Lines of more than one buffer."""
ODD: dict[str, Callable[[int, str], str]] = {
    "none": lambda number, line: line,
    "a line of another form": lambda number, line: (
        line.replace("{ ", "{  ") if number == 300 else line
    ),
    "a sample twice": lambda number, line: line.replace('"qsl_idx" : 301,', '"qsl_idx" : 299,'),
    "half a byte": lambda number, line: line.replace('" }', '0" }') if number == 300 else line,
    "a sample beyond the limit": lambda number, line: line.replace(
        '"qsl_idx" : 300,', f'"qsl_idx" : {accuracy_log.MAX_DENSE_SAMPLES},'
    ),
    "no comma": lambda number, line: line.removesuffix(",") if number == 300 else line,
    "a number of 19 digits": lambda number, line: line.replace(
        '"seq_id" : 300,', '"seq_id" : 1234567890123456789,'
    ),
}


def lines() -> list[str]:
    """Write an accuracy log's answers, of several sizes."""
    random = Random(5)
    every = [
        (number, random.randbytes(random.choice((0, 4, 4, 4, 40))).hex()) for number in range(COUNT)
    ]
    return [
        f'{{ "seq_id" : {number}, "qsl_idx" : {number}, "data" : "{data}" }},'
        for number, data in every
    ]


def read(path: Path) -> tuple[AnswerIndex, list[object]]:
    source = SourceFile(path)
    return accuracy_log.index_accuracy_log(source), list(source.parse_errors)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("held", [accuracy_log.MAX_CACHED_ANSWER_BYTES, 1000])
def test_blocks_are_read_as_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str, held: int
) -> None:
    """Every index, every flaw, and all bytes, also behind what is kept of them."""
    monkeypatch.setattr(accuracy_log, "MAX_CACHED_ANSWER_BYTES", held)
    spoilt = [ODD[odd](number, line) for number, line in enumerate(lines())]
    (tmp_path / "log.json").write_text(
        "\n".join(["[", *spoilt[:-1], spoilt[-1].removesuffix(","), "]", ""])
    )
    blocks, flaws = read(tmp_path / "log.json")
    with monkeypatch.context() as patch:
        patch.setattr(accuracy_log, "index_usual_lines", lambda *_: (0, False))
        alone, others = read(tmp_path / "log.json")
    assert flaws == others and [*blocks.items()] == [*alone.items()]
    assert all(
        blocks.find_first_position(sample) == alone.find_first_position(sample)
        for sample in range(-1, 2 * COUNT)
    )
    for name in (
        "sequence",
        "samples",
        "offsets",
        "lines",
        "cached",
        "ends",
        "sparse_positions",
        "distinct",
        "complete",
    ):
        assert getattr(blocks, name) == getattr(alone, name), name


def test_a_match_of_several_answers_ends_behind_one() -> None:
    """Pythons before 3.11.5 ended a possessive match in the middle of the next one, which was
    lost.
    """
    text = "\n".join(lines()[10:16]).encode() + b"\n"
    for cut in range(len(text)):
        run, short = (
            accuracy_log.USUAL_LINES_PATTERN.match(text[:cut]),
            accuracy_counts.SHORT_ANSWERS_PATTERN.match(b", " + text[:cut]),
        )
        assert run is not None and run[0] == b"".join(
            line for line in text[:cut].splitlines(keepends=True) if line.endswith(b"\n")
        )
        assert short is not None and (not short[0] or short[0].endswith(b"}"))
