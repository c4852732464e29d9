"""BLEU from raw answers, as the judge takes it; and that it is tensor2tensor's."""

import math
import re
import struct
import subprocess
import sys
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from sampled_scores import check_whole_score

from suite.errors import RequestError
from workloads.common.text.bleu import BleuForm, compute_bleu
from workloads.common.text.token_answers import pack_token_ids
from workloads.transformer.scoring import (
    TRUTH_VOCABULARY_FILE,
    sample_transformer_scores,
    score,
    write_transformer_truth,
)
from workloads.transformer.subwords import EOS_ID, build_subtoken_vocabulary

LINES = [
    "The quick brown fox, it jumps.",
    "Over 3.5 lazy dogs!",
    "And \u00d6l \u201equoted\u201c runs on and on.",
]
WORDS = build_subtoken_vocabulary(LINES, 70)


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    write_transformer_truth(tmp_path, LINES, WORDS)
    return tmp_path


def answers(*lines: str) -> dict[int, bytes]:
    return {
        sample: pack_token_ids([*WORDS.encode_text(line), EOS_ID])
        for sample, line in enumerate(lines)
    }


def test_right_answers(truth: Path) -> None:
    """On 0-1; and case does not count."""
    assert score(answers(*LINES), truth)["bleu"] == pytest.approx(1.0)
    assert score(answers(*(line.upper().replace("\u00d6L", "\u00f6l") for line in LINES)), truth)[
        "bleu"
    ] == pytest.approx(1.0)


def test_other_answers_score_less(truth: Path) -> None:
    """Words in another order, and those of another sentence."""
    turned = score(answers("fox the quick, brown jumps it.", *LINES[1:]), truth)["bleu"]
    assert 0.3 < turned < 0.95
    assert score(answers(*LINES[1:], LINES[0]), truth)["bleu"] < 0.1


def test_a_missing_answer_is_an_empty_one(truth: Path) -> None:
    """Leaving out hard sentences must cost: brevity is punished over the whole set."""
    whole, part = score(answers(*LINES), truth)["bleu"], score(answers(*LINES[:2]), truth)["bleu"]
    assert part < 0.9 * whole


@pytest.mark.parametrize(
    "answer", [b"", b"\x01", b"\x01\x00\x00\x00\x00", struct.pack("<3i", -5, 10**9, 0)]
)
def test_misshapen_answers_are_empty_ones(truth: Path, answer: bytes) -> None:
    """No whole number of int32s, or subtokens that there are not."""
    assert score(answers(*LINES) | {0: answer}, truth) == score(
        {1: answers(*LINES)[1], 2: answers(*LINES)[2]}, truth
    )


def test_answers_beyond_the_truth_count_nothing(truth: Path) -> None:
    """Extra samples neither help nor hurt."""
    assert score(answers(*LINES) | {9: b"\x05\x00\x00\x00"}, truth) == score(answers(*LINES), truth)


def test_damaged_truth_is_told(truth: Path) -> None:
    """An error, not a low score."""
    (truth / TRUTH_VOCABULARY_FILE).unlink()
    with pytest.raises(RequestError, match="vocabulary"):
        score({}, truth)


def category(letter: str) -> str:
    return "".join(
        chr(point) for point in range(0x3000) if unicodedata.category(chr(point))[0] == letter
    )


PUNCTUATION, SYMBOLS = re.escape(category("P")), re.escape(category("S"))


def t2t_tokens(line: str) -> list[str]:
    """compute_bleu.py, bleu_tokenize: marks apart but within numbers, symbols apart."""
    line = re.sub(rf"([^\d])([{PUNCTUATION}])", r"\1 \2 ", line.lower())
    line = re.sub(rf"([{PUNCTUATION}])([^\d])", r" \1 \2", line)
    return re.sub(f"([{SYMBOLS}])", r" \1 ", line).split()


def t2t_bleu(texts: list[str], references: list[str]) -> float:
    """metrics.py, compute_bleu: four orders, halved shares where an order has no match, brevity
    penalty.
    """
    pairs = [
        (t2t_tokens(text), t2t_tokens(reference))
        for text, reference in zip(texts, references, strict=True)
    ]
    logs, smooth = 0.0, 1.0
    for order in range(1, 5):
        grams = [
            [
                Counter(tuple(side[i : i + order]) for i in range(len(side) - order + 1))
                for side in pair
            ]
            for pair in pairs
        ]
        matches, possible = sum((a & b).total() for a, b in grams), sum(a.total() for a, _ in grams)
        smooth = smooth if matches else smooth * 2
        logs += math.log(matches / possible if matches else 1 / (smooth * possible)) / 4
    ratio = sum(len(a) for a, _ in pairs) / sum(len(b) for _, b in pairs)
    return math.exp(logs) * (math.exp(1 - 1 / ratio) if ratio < 1 else 1.0)


@pytest.mark.parametrize(
    "texts",
    [
        LINES,
        ["the quick fox it jumps", "over 3,5 lazy dogs", "and \u00f6l \u201cquoted\u201d runs on"],
        ["brown", "lazy 3.5", "on and on and on and on and on and on and on 100\u20ac (really)"],
        ["x y z w v", "a b c d", "fox dogs the on"],
    ],
)
def test_it_is_tensor2tensor_s_bleu(texts: list[str]) -> None:
    """Tokens, smoothing and brevity by the reference's own formula; another BLEU would be another
    target.
    """
    assert compute_bleu(BleuForm.T2T, texts, LINES) == pytest.approx(
        t2t_bleu(texts, LINES), rel=1e-9
    )


@pytest.mark.parametrize("mark", ["m\u00b2.", "\u2163.", "(\u00bd", "3.5", "5.", "\u0663,\u0664"])
def test_marks_beside_numerals_are_cut_as_by_tensor2tensor(mark: str) -> None:
    """To sacrebleu's `intl` all numerals are digits, to tensor2tensor decimal ones alone."""
    texts, references = [f"a room of {mark}"], ["a room of " + " ".join(t2t_tokens(mark))]
    assert compute_bleu(BleuForm.T2T, texts, references) == pytest.approx(
        t2t_bleu(texts, references), rel=1e-9
    )


def test_scoring_imports_no_framework() -> None:
    """The judge runs where no torch is installed."""
    code = (
        "import sys; import workloads.transformer, workloads.transformer.scoring; assert not"
        " {'torch', 'numpy', 'tensorflow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_sampler_gives_the_score(truth: Path) -> None:
    """With smoothing, which a sum of scores could not have."""
    lines = [LINES[0], LINES[2], LINES[1]]
    for given in (answers(*LINES), answers(*lines), answers(LINES[0])):
        check_whole_score(score, sample_transformer_scores, given, truth)
