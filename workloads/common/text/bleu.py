"""BLEU on the 0-1 scale, by sacrebleu, in the three forms that MLPerf's translation benchmarks have; no deep-learning framework.

Papineni et al. 2002. Which form a score has is said by its signature, which stands in every log.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

PERCENT: Final = 100.0  # sacrebleu's scale
T2T_CUTS: Final = ((r"([^\d])(\p{P})", r"\1 \2 "), (r"(\p{P})([^\d])", r" \1 \2"), (r"(\p{S})", r" \1 "))  # compute_bleu.py, UnicodeRegex


class Form(StrEnum):
    """How a text is cut into tokens and whether case counts."""

    SACREBLEU = "sacrebleu"
    """GNMT training: `sacrebleu -lc --tokenize intl` (mlcommons/training, rnn_translator, README)."""
    T2T = "t2t"
    """Transformer training: tensor2tensor's uncased BLEU (compute_bleu.py): smoothed as the one above, and cut like it but beside a numeral
    that is no decimal digit: `m².` at the end of a line is one token to `intl` and two to tensor2tensor."""
    TOKENS = "tokens"
    """GNMT inference v0.5: texts that are tokens already, no smoothing (process_accuracy.py, RunningBLEUScorer)."""


def bleu(form: Form, answers: Sequence[str], references: Sequence[str]) -> float:
    """Score answers against one reference each, 0-1; ValueError if there are not as many of both, or none."""
    if len(answers) != len(references) or not answers:
        raise ValueError(f"{len(answers)} answers for {len(references)} references")
    sides = [[t2t_words(text) for text in side] if form is Form.T2T else list(side) for side in (answers, references)]
    return float(_metric(form).corpus_score(sides[0], sides[1:]).score) / PERCENT


def signature(form: Form) -> str:
    """Say how a score of this form comes about, as sacrebleu says it."""
    metric = _metric(form)
    metric.corpus_score(["a"], [["a"]])  # the number of references is known after a score
    return f"bleu|form:{form}|{metric.get_signature()}"


def _metric(form: Form) -> "BLEU":
    """Make the metric; imported when used, since half of the judge's starting time would be this import."""
    from sacrebleu.metrics.bleu import BLEU

    if form is Form.TOKENS:
        return BLEU(tokenize="none", smooth_method="none", force=True)
    if form is Form.SACREBLEU:
        return BLEU(lowercase=True, tokenize="intl", smooth_method="exp", force=True)  # force: no advice on how sentences end
    metric = BLEU(lowercase=True, tokenize="none", smooth_method="exp", force=True)
    metric.tokenizer_signature = "t2t"  # `t2t_words` has cut the texts before
    return metric


def t2t_words(text: str) -> str:
    """Put spaces around symbols, and around marks that have no decimal digit on one side; compute_bleu.py, bleu_tokenize."""
    import regex  # type: ignore[import-untyped]  # its types are a package of their own

    text = text.lower()
    for found, apart in T2T_CUTS:
        text = regex.sub(found, apart, text)
    return text
