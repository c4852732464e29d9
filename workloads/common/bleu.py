"""BLEU on the 0-1 scale, by sacrebleu, in the three forms that MLPerf's translation benchmarks have; no deep-learning framework.

Papineni et al. 2002. Which form a score has is said by its signature, which stands in every log.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

PERCENT: Final = 100.0  # sacrebleu's scale


class Form(StrEnum):
    """How a text is cut into tokens and whether case counts."""

    SACREBLEU = "sacrebleu"
    """GNMT training: `sacrebleu -lc --tokenize intl` (mlcommons/training, rnn_translator, README)."""
    T2T = "t2t"
    """Transformer training: tensor2tensor's uncased BLEU (compute_bleu.py): the same tokens and the same smoothing as the one above."""
    TOKENS = "tokens"
    """GNMT inference v0.5: texts that are tokens already, no smoothing (process_accuracy.py, RunningBLEUScorer)."""


def bleu(form: Form, answers: Sequence[str], references: Sequence[str]) -> float:
    """Score answers against one reference each, 0-1; ValueError where there are not as many of both, or none."""
    if len(answers) != len(references) or not answers:
        raise ValueError(f"{len(answers)} answers for {len(references)} references")
    return float(_metric(form).corpus_score(list(answers), [list(references)]).score) / PERCENT


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
    return BLEU(lowercase=True, tokenize="intl", smooth_method="exp", force=True)  # force: no advice on how sentences end
