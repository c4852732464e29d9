"""BLEU from subtokens and references; no framework, since the judge runs it.

An answer is its subtokens, int32, little-endian, the end mark last. Truth is two files: `references.txt`, one sentence a line in the order
of the samples, and `vocabulary.txt`, one quoted subtoken a line by its number.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from suite.workload import Scores
from workloads.common.text import references
from workloads.common.text.bleu import Form, bleu
from workloads.common.text.token_answers import unpacked
from workloads.transformer import subwords

VOCABULARY: Final = "vocabulary.txt"


def score(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """Uncased BLEU of tensor2tensor, 0-1; a missing or misshapen answer is an empty translation."""
    words, right = subwords.read(truth / VOCABULARY), references.read(truth)
    texts = [words.decode(unpacked(answers.get(sample, b""))) for sample in range(len(right))]
    return {"bleu": bleu(Form.T2T, texts, right)}


def write_truth(truth: Path, right: Sequence[str], words: subwords.Subwords) -> None:
    """Write what `score` reads."""
    references.write(truth, right)
    words.write(truth / VOCABULARY)
