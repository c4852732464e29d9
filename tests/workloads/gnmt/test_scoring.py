"""BLEU from raw answers and packed references, as the judge computes it."""

import subprocess
import sys
from pathlib import Path

import pytest
from sampled_scores import check_whole_score

from workloads.common.text import references
from workloads.common.text.token_answers import pack_token_ids
from workloads.gnmt import scoring
from workloads.gnmt.scoring import GNMT_END_ID, decode_gnmt_words, score

TOKENS = [*scoring.GNMT_SPECIAL_TOKENS, "the", "cat", "sl@@", "ee@@", "ps", ".", "well", "here"]
REFERENCES = ["the cat sleeps well .", "the cat sleeps here ."]
RIGHT = {
    0: pack_token_ids([4, 5, 6, 7, 8, 10, 9, GNMT_END_ID]),
    1: pack_token_ids([4, 5, 6, 7, 8, 11, 9, GNMT_END_ID]),
}


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    references.write_references(tmp_path, REFERENCES)
    scoring.write_gnmt_vocabulary(tmp_path, TOKENS)
    return tmp_path


def test_right_answers_are_1(truth: Path) -> None:
    """Pieces are joined to words; what stands behind the end mark is not read."""
    assert score(RIGHT, truth) == {"bleu": pytest.approx(1.0)}
    assert score({**RIGHT, 1: RIGHT[1] + pack_token_ids([4, 4])}, truth)["bleu"] == pytest.approx(
        1.0
    )


@pytest.mark.parametrize(
    "other", [None, b"", b"\1\2\3", pack_token_ids([GNMT_END_ID]), pack_token_ids([4, 5])]
)
def test_missing_misshapen_and_short_answers_cost(truth: Path, other: bytes | None) -> None:
    """Leaving out sentences that are hard must not help."""
    answers = {0: RIGHT[0]} | ({} if other is None else {1: other})
    assert score(answers, truth)["bleu"] < 0.8


def test_numbers_outside_the_vocabulary_are_unknown_words() -> None:
    """Never an error, never another word from the table's end."""
    assert decode_gnmt_words([4, 99, -1, 2_000_000_000], TOKENS) == [
        "the",
        "<unk>",
        "<unk>",
        "<unk>",
    ]


def test_a_piece_without_its_rest_is_a_word() -> None:
    assert decode_gnmt_words([6, 7], TOKENS) == ["slee"]
    assert decode_gnmt_words([], TOKENS) == []


@pytest.mark.parametrize(
    "content", ["", "<pad>\n<unk>\n<s>\nthe\n", "\n".join([*TOKENS, "the"]) + "\n"]
)
def test_a_damaged_vocabulary_is_an_error(truth: Path, content: str) -> None:
    """The judge says that it could not recompute, instead of computing with shifted words."""
    (truth / scoring.GNMT_VOCABULARY_FILE).write_text(content)
    with pytest.raises(ValueError, match="do not begin with"):
        score(RIGHT, truth)


def test_tokens_with_odd_line_ends_stay_whole(tmp_path: Path) -> None:
    """WMT's vocabulary holds pieces with U+2028 and U+0085; other readers of lines would cut
    them.
    """
    tokens = [*scoring.GNMT_SPECIAL_TOKENS, "a\u2028b", "c\x85"]
    scoring.write_gnmt_vocabulary(tmp_path, tokens)
    assert scoring.read_gnmt_vocabulary(tmp_path) == tokens


def test_no_framework_is_imported() -> None:
    """The judge scores on machines without torch, and starts without waiting for sacrebleu."""
    code = (
        "import sys, workloads.gnmt.scoring; sys.exit(bool({'torch', 'sacrebleu', 'numpy'} &"
        " sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_sampler_gives_the_score(truth: Path) -> None:
    """Right, short and missing translations."""
    for other in (RIGHT, {0: RIGHT[0]}, {**RIGHT, 1: pack_token_ids([4, 5, 6, 7, GNMT_END_ID])}):
        check_whole_score(score, scoring.sample_gnmt_scores, other, truth)
