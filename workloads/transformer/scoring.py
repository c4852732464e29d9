"""BLEU from subtokens and references; imports no framework, since the judge runs it.

An answer is its subtokens as little-endian int32, including the end mark. The truth is two files:
`references.txt`, one sentence per line
in sample order, and `vocabulary.txt`, one quoted subtoken per line in the order of ids.
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
    """Compute tensor2tensor's uncased BLEU, 0-1; a missing or malformed answer counts as an empty
    translation.
    """
    words, right = subwords.read(truth / VOCABULARY), references.read(truth)
    texts = [words.decode(unpacked(answers.get(sample, b""))) for sample in range(len(right))]
    return {"bleu": bleu(Form.T2T, texts, right)}


def write_truth(truth: Path, right: Sequence[str], words: subwords.Subwords) -> None:
    """Write the truth in the form that `score` reads."""
    references.write(truth, right)
    words.write(truth / VOCABULARY)
