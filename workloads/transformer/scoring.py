"""BLEU from subtokens and references; imports no framework, since the judge runs it.

An answer is its subtokens as little-endian int32, including the end mark. The truth is two files:
`references.txt`, one sentence per line in sample order, and `vocabulary.txt`, one quoted subtoken
per line in the order of ids.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suite.workload import Scores
from workloads.common.text import references
from workloads.common.text.bleu import BLEU_METRIC, BleuForm, build_bleu_sampler, compute_bleu
from workloads.common.text.token_answers import unpack_token_ids
from workloads.transformer import subwords

if TYPE_CHECKING:
    from workloads.common.score_samplers import SumSampler

TRUTH_VOCABULARY_FILE: Final = "vocabulary.txt"


def score(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """Compute tensor2tensor's uncased BLEU, 0-1; a missing or malformed answer counts as an empty
    translation.
    """
    return {BLEU_METRIC: compute_bleu(BleuForm.T2T, *decode_answers(answers, truth))}


def sample_transformer_scores(answers: Mapping[int, bytes], truth: Path) -> "SumSampler":
    """Return BLEU over any choice of sentences."""
    return build_bleu_sampler(BleuForm.T2T, *decode_answers(answers, truth))


def decode_answers(
    answers: Mapping[int, bytes], truth: Path
) -> tuple[Sequence[str], Sequence[str]]:
    """Return the translations, and their references."""
    words = subwords.read_subtoken_vocabulary(truth / TRUTH_VOCABULARY_FILE)
    reference_texts = references.read_references(truth)
    texts = [
        words.decode_ids(unpack_token_ids(answers.get(sample, b"")))
        for sample in range(len(reference_texts))
    ]
    return texts, reference_texts


def write_transformer_truth(
    truth: Path, reference_texts: Sequence[str], words: subwords.SubtokenVocabulary
) -> None:
    """Write the truth in the form that `score` reads."""
    references.write_references(truth, reference_texts)
    words.write_vocabulary(truth / TRUTH_VOCABULARY_FILE)
