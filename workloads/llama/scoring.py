"""ROUGE and the length of generated summaries; imports no framework, since the judge runs it.

An answer is its token ids as little-endian int32, its end token included. The truth is
`references.txt`, one summary per line in sample order.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

from suite.errors import MissingError
from suite.workload import Scores
from workloads.common.text.references import read_references
from workloads.common.text.token_answers import unpack_token_ids
from workloads.llama.vocabulary import END_ID, decode_tokens, list_tokens

ROUGE_METRICS: Final = ("rouge1", "rouge2", "rougeL", "rougeLsum")
"""Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries"; names of rouge-score."""
LENGTH_METRIC: Final = "gen_len"
"""Characters of all generated texts; mlcommons/inference, language/llama3.1-8b, evaluation.py."""
UNENDED_METRIC: Final = "unended"
"""Answers without an end token: generation was cut at its limit."""


def score_answers(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """Compute ROUGE-1, -2, -L and -Lsum, 0-1 each, the generated length in characters, and the
    number of answers that were cut; a missing or malformed answer counts as an empty text.

    MissingError if rouge-score is not installed; ValueError or OSError without references.
    """
    references = read_references(truth)
    generated = [unpack_token_ids(answers.get(sample, b"")) for sample in range(len(references))]
    texts = [decode_answer(ids) for ids in generated]
    return {
        **compute_rouge(texts, references),
        LENGTH_METRIC: float(sum(map(len, texts))),
        UNENDED_METRIC: float(sum(END_ID not in ids for ids in generated)),
    }


def decode_answer(ids: Sequence[int]) -> str:
    """Return the text before the end token; "" if a token is in no vocabulary."""
    known = range(len(list_tokens()))
    if any(number not in known for number in ids):
        return ""
    return decode_tokens(ids[: ids.index(END_ID)] if END_ID in ids else ids)


def compute_rouge(texts: Sequence[str], references: Sequence[str]) -> Scores:
    """Return the mean F-measures of texts against one reference each, 0-1; words are stemmed, and a
    sentence of -Lsum is a line.
    """
    scorer = build_rouge_scorer()
    scores = [
        scorer.score(reference, text) for text, reference in zip(texts, references, strict=True)
    ]
    return {
        metric: sum(each[metric].fmeasure for each in scores) / len(scores)
        for metric in ROUGE_METRICS
    }


def build_rouge_scorer() -> Any:
    """Create rouge-score's scorer, as the reference uses it; MissingError without the package.

    It is imported on use, since it imports NumPy and NLTK.
    """
    try:
        scorer_class = resolve_name("rouge_score.rouge_scorer:RougeScorer")
    except ImportError as error:
        raise MissingError(
            f"llama: ROUGE needs the package rouge-score ({error}): pip install rouge-score"
        ) from error
    return scorer_class(list(ROUGE_METRICS), use_stemmer=True)
