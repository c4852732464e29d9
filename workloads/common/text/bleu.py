"""BLEU on the 0-1 scale, by sacrebleu, in the three forms of MLPerf's translation benchmarks;
imports no deep-learning framework.

Papineni et al. 2002. A score's signature states its form and is in every log.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from sacrebleu.metrics.bleu import BLEU

    from workloads.common.score_samplers import SumSampler

SACREBLEU_SCALE: Final = 100.0  # sacrebleu's scale
MAX_NGRAM_ORDER: Final = 4  # Papineni et al. 2002, section 2.3
BLEU_METRIC: Final = "bleu"
# compute_bleu.py, UnicodeRegex
T2T_SPACING_RULES: Final = (
    (r"([^\d])(\p{P})", r"\1 \2 "),
    (r"(\p{P})([^\d])", r" \1 \2"),
    (r"(\p{S})", r" \1 "),
)


class BleuForm(StrEnum):
    """How a text is tokenised, and whether case counts."""

    SACREBLEU = "sacrebleu"
    """GNMT training: `sacrebleu -lc --tokenize intl` (mlcommons/training, rnn_translator,
    README).
    """
    T2T = "t2t"
    """Transformer training: tensor2tensor's uncased BLEU (compute_bleu.py): smoothed and tokenised
    as above, except next to a numeral that is not a decimal digit: `m².` at the end of a line is
    one token to `intl` and two to tensor2tensor.
    """
    TOKENS = "tokens"
    """GNMT inference v0.5: already tokenised texts, no smoothing (process_accuracy.py,
    RunningBLEUScorer).
    """


def compute_bleu(form: BleuForm, answers: Sequence[str], references: Sequence[str]) -> float:
    """Score answers against one reference each, 0-1; ValueError if their numbers differ, or there
    are none.
    """
    if len(answers) != len(references) or not answers:
        raise ValueError(f"{len(answers)} answers for {len(references)} references")
    sides = space_both_sides(form, answers, references)
    return float(_build_bleu_metric(form).corpus_score(sides[0], sides[1:]).score) / SACREBLEU_SCALE


def space_both_sides(
    form: BleuForm, answers: Sequence[str], references: Sequence[str]
) -> list[list[str]]:
    """Return answers and references as the metric takes them."""
    if form is not BleuForm.T2T:
        return [list(answers), list(references)]
    return [[insert_t2t_spaces(text) for text in side] for side in (answers, references)]


def build_bleu_sampler(
    form: BleuForm, answers: Sequence[str], references: Sequence[str]
) -> "SumSampler":
    """Return BLEU over any choice of sentences: it follows from sums of their counts of n-grams and
    words.
    """
    import numpy as np

    from workloads.common.score_samplers import SumSampler

    metric = _build_bleu_metric(form)
    sides = space_both_sides(form, answers, references)
    counted = [
        metric.corpus_score([answer], [[reference]])
        for answer, reference in zip(*sides, strict=True)
    ]
    statistic_SF = np.array(
        [[*each.counts, *each.totals, each.sys_len, each.ref_len] for each in counted],
        dtype=np.float64,
    )

    def compute_from_sums(
        sum_RF: "npt.NDArray[np.float64]", _: int
    ) -> "Mapping[str, npt.NDArray[Any]]":
        scores = [
            metric.compute_bleu(
                correct=row[:MAX_NGRAM_ORDER],
                total=row[MAX_NGRAM_ORDER : 2 * MAX_NGRAM_ORDER],
                sys_len=row[-2],
                ref_len=row[-1],
                smooth_method=metric.smooth_method,
                smooth_value=metric.smooth_value,
                effective_order=metric.effective_order,
                max_ngram_order=MAX_NGRAM_ORDER,
            ).score
            for row in sum_RF.astype(np.int64).tolist()
        ]
        return {BLEU_METRIC: np.array(scores) / SACREBLEU_SCALE}

    return SumSampler(statistic_SF, compute_from_sums)


def format_bleu_signature(form: BleuForm) -> str:
    """Return sacrebleu's signature of a score in this form."""
    metric = _build_bleu_metric(form)
    metric.corpus_score(["a"], [["a"]])  # the number of references is known only after scoring
    return f"bleu|form:{form}|{metric.get_signature()}"


def _build_bleu_metric(form: BleuForm) -> "BLEU":
    """Create the metric; imported on use, since this import would double the judge's start-up
    time.
    """
    from sacrebleu.metrics.bleu import BLEU

    if form is BleuForm.TOKENS:
        return BLEU(tokenize="none", smooth_method="none", force=True)
    if form is BleuForm.SACREBLEU:
        # force: no warning about tokenised periods
        return BLEU(lowercase=True, tokenize="intl", smooth_method="exp", force=True)
    metric = BLEU(lowercase=True, tokenize="none", smooth_method="exp", force=True)
    metric.tokenizer_signature = "t2t"  # `t2t_words` has tokenised the texts
    return metric


def insert_t2t_spaces(text: str) -> str:
    """Put spaces around symbols, and around punctuation without a decimal digit on one side;
    compute_bleu.py, bleu_tokenize.
    """
    import regex  # type: ignore[import-untyped]  # its types are in a separate package

    text = text.lower()
    for pattern, replacement in T2T_SPACING_RULES:
        text = regex.sub(pattern, replacement, text)
    return text
