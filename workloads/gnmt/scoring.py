"""BLEU from answers and references; imports no deep-learning framework, since the judge runs it.

An answer is its token ids up to the end mark, as little-endian int32. The truth is two files:
`references.txt`, one tokenised sentence
per line in sample order, and `vocabulary.txt`, one token per line in the order of ids. A missing
answer counts as empty; so does one that
is not a sequence of int32; an id outside the vocabulary counts as an unknown word.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from suite.workload import Scores
from workloads.common.text import references
from workloads.common.text.bleu import Form, bleu
from workloads.common.text.token_answers import unpacked

VOCABULARY: Final = "vocabulary.txt"
SPECIAL: Final = (
    "<pad>",
    "<unk>",
    "<s>",
    "<\\s>",
)  # mlcommons/training, rnn_translator, config.py; the last one includes its backslash
PAD, UNKNOWN, START, END = range(4)
JOINT: Final = "@@"  # subword-nmt: marks a piece that the next one continues


def score(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """Compute GNMT inference's BLEU on tokens, 0-1; ValueError if the truth is damaged."""
    right, tokens = references.read(truth), read_vocabulary(truth)
    texts = [
        " ".join(words(unpacked(answers.get(sample, b"")), tokens)) for sample in range(len(right))
    ]
    return {"bleu": bleu(Form.TOKENS, texts, right)}


def words(numbers: Iterable[int], tokens: Sequence[str]) -> list[str]:
    """Convert token ids up to the end mark to pieces, and join them to words."""
    pieces = []
    for number in numbers:
        if number == END:
            break
        pieces.append(tokens[number] if 0 <= number < len(tokens) else SPECIAL[UNKNOWN])
    text = " ".join(pieces)
    return text.replace(f"{JOINT} ", "").removesuffix(JOINT).split()


def read_vocabulary(folder: Path) -> list[str]:
    """Read one token per line; ValueError if the first are not the special tokens, or a token
    repeats.
    """
    tokens = (folder / VOCABULARY).read_bytes().decode("utf-8").split("\n")[:-1]
    if tuple(tokens[: len(SPECIAL)]) != SPECIAL or len(set(tokens)) != len(tokens):
        raise ValueError(
            f"{folder / VOCABULARY}: its tokens do not begin with {' '.join(SPECIAL)}, or one"
            " occurs twice"
        )
    return tokens


def write_vocabulary(folder: Path, tokens: Sequence[str]) -> None:
    """Write the vocabulary in the form that `read_vocabulary` reads."""
    (folder / VOCABULARY).write_bytes("".join(f"{token}\n" for token in tokens).encode())
