"""BLEU from answers and truth; the judge runs it, so it imports no framework.

An answer is the numbers of its words, and the file of labels has those of the translations: their
BLEU is that of the words.
"""

from array import array
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final

from suite.workload import Scores

END, UNKNOWN = 0, 1
"""Numbers that stand for no word of the vocabulary."""
TRUTH: Final = "labels.txt"
NUMBER: Final = "i"
"""int32."""


def encode_answer(words: Sequence[int]) -> bytes:
    """Return a translation up to its end as the accuracy log stores it."""
    return array(NUMBER, takewhile(lambda word: word != END, words)).tobytes()


def format_label(words: Sequence[int]) -> str:
    """Return a translation up to its end as the file of labels has it."""
    return " ".join(map(str, takewhile(lambda word: word != END, words)))


def score(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """Score the answers of an accuracy run against the file of labels."""
    return compare(answers, (truth / TRUTH).read_text("ascii").splitlines())


def compare(answers: Mapping[int, bytes], labels: Sequence[str]) -> Scores:
    """Return BLEU, from 0 to 1; a missing or malformed answer counts as empty."""
    import sacrebleu

    texts = [decode_answer(answers.get(sample, b"")) for sample in range(len(labels))]
    found = sacrebleu.corpus_bleu(texts, [list(labels)], tokenize="none", force=True)
    return {"bleu": min(found.score / 100, 1.0)}  # rounding may exceed it


def decode_answer(answer: bytes) -> str:
    """Return an answer as the file of labels has it; empty for one that is malformed."""
    words = array(NUMBER)
    if len(answer) % words.itemsize:
        return ""
    words.frombytes(answer)
    return format_label(words)
