"""What servers tell of their tokens is kept for the tokens that the log has, and for no others."""

import json
from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("tokenizers", reason="the extra `openai` is not installed")

from harness.serving.network.openai.answer_checks import build_said_answer
from harness.serving.network.openai.answer_reader import ReadAnswer
from harness.serving.network.openai.answer_tokens import AnswerTokenizer, UncountedAnswers

VOCABULARY = ("<|end|>", "a", "b", "c", "\u0120", "ab", "\u0120c", "\u00c3", "\u00a9")
"""In GPT-2's letters for bytes: \u0120 is a space, the last two are the bytes of an \u00e9."""
END, A, B, C, SPACE, AB, SPACE_C, FIRST_BYTE, LAST_BYTE = range(len(VOCABULARY))


@pytest.fixture
def tokenizer(tmp_path: Path) -> AnswerTokenizer:
    """A tokenizer of bytes, which joins `ab` and ` c`."""
    bytes_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    special = {"id": END, "content": VOCABULARY[END], "special": True, "normalized": False}
    special |= dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    content = {
        "version": "1.0",
        "added_tokens": [special],
        "pre_tokenizer": {**bytes_level, "use_regex": False},
        "decoder": bytes_level,
        "model": {
            "type": "BPE",
            "vocab": {each: place for place, each in enumerate(VOCABULARY)},
            "merges": ["a b", "\u0120 c"],
        },
    }
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    return AnswerTokenizer(path, END, (END,))


def keep(
    tokenizer: AnswerTokenizer | UncountedAnswers,
    text: str,
    named: Sequence[str],
    told: int | None = None,
    finish: str = "length",
) -> list[float] | None:
    """What is kept of an answer whose tokens the server names so: -1, -2 and so on."""
    count = len(named) if told is None else told
    answer = ReadAnswer(
        content=[text],
        finish_reason=finish,
        log_probabilities=[-1.0 - place for place in range(count)],
        likely_texts=list(named) or [""] * count,
    )
    said = build_said_answer(tokenizer, answer, tokenizer.encode_answer(text, answer.ended))
    return None if said is None else list(said.values)


def test_the_tokenizer_joins(tokenizer: AnswerTokenizer):
    ids = tokenizer.encode_answer("ab c\u00e9", True)
    assert ids == array("i", [AB, SPACE_C, FIRST_BYTE, LAST_BYTE, END])


@pytest.mark.parametrize(
    "named",
    [
        ["ab", " c"],
        ["ab", "c"],
        ["ab", "\u0120c"],
    ],
)
def test_servers_write_spaces_as_they_like(tokenizer: AnswerTokenizer, named: list[str]):
    assert keep(tokenizer, "ab c", named) == [-1.0, -2.0]


@pytest.mark.parametrize("named", [["\ufffd", "\u00e9"], ["", ""], ["", "\u00e9"]])
def test_parts_of_characters_have_many_names(tokenizer: AnswerTokenizer, named: list[str]):
    assert keep(tokenizer, "\u00e9", named) == [-1.0, -2.0]


@pytest.mark.parametrize("last", [["<|end|>"], [""], ["<eos>"], []])
def test_the_end_has_any_name_or_none(tokenizer: AnswerTokenizer, last: list[str]):
    kept = keep(tokenizer, "ab c", ["ab", " c", *last], finish="stop")
    assert kept == [-1.0, -2.0, *[-3.0] * len(last)]


@pytest.mark.parametrize(
    ("text", "named", "kept"),
    [
        ("ab ab", ["ab", " ", "a", "b"], 2),
        ("abcab c", ["ab", "c", "a", "b", " c"], 2),
        ("ab cab", ["ab", " ", "c", "ab"], 1),
        ("cab", ["ca", "b"], 0),
    ],
)
def test_other_pieces_end_what_is_kept(
    tokenizer: AnswerTokenizer, text: str, named: list[str], kept: int
):
    """Also where there are as many: the log's tokens would get others' values."""
    assert (keep(tokenizer, text, named) or []) == [-1.0 - place for place in range(kept)]


def test_tokens_without_names_have_to_be_as_many(tokenizer: AnswerTokenizer):
    assert keep(tokenizer, "ab c", [], told=2) == [-1.0, -2.0]
    assert keep(tokenizer, "ab c", [], told=3) is None
    assert keep(tokenizer, "ab c", [], told=1) is None
    assert keep(tokenizer, "ab c", [], told=0) is None


def test_nothing_is_kept_where_nobody_counts_tokens():
    """The log then has texts."""
    assert keep(UncountedAnswers(), "ab c", ["ab c"]) is None
