"""BLEU in three forms, held against formulas written out by hand."""

import math
import re
from collections import Counter

import pytest

from workloads.common.text.bleu import BleuForm, compute_bleu, format_bleu_signature

ANSWERS = [
    'The cat sat on the mat, "she" said.',
    "It costs 3,500.50 dollars (or so).",
    "A b c d e f",
]
REFERENCES = [
    'the cat sat on a mat, "she" said!',
    "It cost 3,500.50 dollars (or less).",
    "a b c x e f g h",
]


def grams(words: list[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[start:] for start in range(order)), strict=False))


def by_hand(answers: list[list[str]], references: list[list[str]], *, smooth: bool) -> float:
    """Papineni et al. 2002, section 2.3; with tensor2tensor's smoothing of orders without a
    match.
    """
    product, halving = 0.0, 1.0
    for order in range(1, 5):
        pairs = [
            (grams(answer, order), grams(reference, order))
            for answer, reference in zip(answers, references, strict=True)
        ]
        matches, possible = (
            sum(sum(part.values()) for part in parts)
            for parts in ([a & r for a, r in pairs], [a for a, _ in pairs])
        )
        if not matches and not smooth:
            return 0.0
        halving *= 1 if matches else 2
        product += math.log((matches or 1 / halving) / possible) / 4
    ratio = sum(map(len, answers)) / sum(map(len, references))
    return math.exp(product + min(0.0, 1 - 1 / ratio))


def t2t_tokens(text: str) -> list[str]:
    """compute_bleu.py, bleu_tokenize, for texts whose only marks are these: marks stand apart
    unless digits are on both sides.
    """
    text = re.sub(r"([^\d])([.,!\"()])", r"\1 \2 ", text.lower())
    return re.sub(r"([.,!\"()])([^\d])", r" \1 \2", text).split()


@pytest.mark.parametrize("form", [BleuForm.SACREBLEU, BleuForm.T2T])
def test_training_s_forms_are_uncased_and_cut_marks_off(form: BleuForm) -> None:
    """Both benchmarks' references cut tokens in the same way."""
    expected = by_hand(
        [t2t_tokens(text) for text in ANSWERS],
        [t2t_tokens(text) for text in REFERENCES],
        smooth=True,
    )
    assert compute_bleu(form, ANSWERS, REFERENCES) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("form", [BleuForm.SACREBLEU, BleuForm.T2T])
def test_orders_without_a_match_are_smoothed(form: BleuForm) -> None:
    answer, reference = "one two three six seven", "one two three four five"
    assert (
        compute_bleu(form, [answer], [reference])
        == pytest.approx(by_hand([answer.split()], [reference.split()], smooth=True), rel=1e-9)
        != 0
    )


def test_tokens_are_taken_as_they_are() -> None:
    """Inference: case counts, marks stick, and an order without a match is 0."""
    cut = [text.split() for text in ANSWERS], [text.split() for text in REFERENCES]
    assert compute_bleu(BleuForm.TOKENS, ANSWERS, REFERENCES) == pytest.approx(
        by_hand(*cut, smooth=False), rel=1e-9
    )
    assert compute_bleu(BleuForm.TOKENS, ["a b c x d e"], ["a b c y d e"]) == 0.0
    assert compute_bleu(BleuForm.TOKENS, ["a b c d e"], ["A b c d e"]) < 1.0


@pytest.mark.parametrize("form", list(BleuForm))
def test_the_scale_is_0_to_1(form: BleuForm) -> None:
    """v0.7 logs have it so; a score of 24 would pass every target."""
    assert compute_bleu(form, REFERENCES, REFERENCES) == pytest.approx(1.0)
    assert compute_bleu(form, ["x y z v"], ["a b c d"]) < 0.2


@pytest.mark.parametrize(("answers", "references"), [([], []), (["a"], ["a", "b"])])
def test_answers_and_references_must_match(answers: list[str], references: list[str]) -> None:
    """Scoring some of the sentences would be another benchmark."""
    with pytest.raises(ValueError, match="references"):
        compute_bleu(BleuForm.TOKENS, answers, references)


@pytest.mark.parametrize(
    ("form", "parts"),
    [
        (BleuForm.SACREBLEU, "case:lc|eff:no|tok:intl|smooth:exp"),
        (BleuForm.TOKENS, "case:mixed|eff:no|tok:none|smooth:none"),
    ],
)
def test_signatures_say_how(form: BleuForm, parts: str) -> None:
    """A number without its signature compares with nothing."""
    assert format_bleu_signature(form).startswith(f"bleu|form:{form}|nrefs:1|{parts}|version:")
