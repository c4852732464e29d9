"""BLEU from answers and references; no deep-learning framework, since the judge runs it.

An answer is its token numbers, int32, little-endian, up to the end mark. Truth is two files: `references.txt`, one tokenised sentence a
line in the order of the samples, and `vocabulary.txt`, one token a line by its number. A missing answer is an empty one; so is one that
is no row of int32; a number that the vocabulary lacks counts as an unknown word.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from suite.workload import Scores
from workloads.common.text import references
from workloads.common.text.bleu import Form, bleu
from workloads.common.text.token_answers import unpacked

VOCABULARY: Final = "vocabulary.txt"
SPECIAL: Final = ("<pad>", "<unk>", "<s>", "<\\s>")  # mlcommons/training, rnn_translator, config.py; the last with its backslash
PAD, UNKNOWN, START, END = range(4)
JOINT: Final = "@@"  # subword-nmt: at the end of a piece that the next one continues


def score(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """BLEU on tokens, 0-1, as GNMT's inference has it; ValueError if the truth is damaged."""
    right, tokens = references.read(truth), read_vocabulary(truth)
    texts = [" ".join(words(unpacked(answers.get(sample, b"")), tokens)) for sample in range(len(right))]
    return {"bleu": bleu(Form.TOKENS, texts, right)}


def words(numbers: Iterable[int], tokens: Sequence[str]) -> list[str]:
    """Spell token numbers up to the end mark, and join the pieces of words."""
    pieces = []
    for number in numbers:
        if number == END:
            break
        pieces.append(tokens[number] if 0 <= number < len(tokens) else SPECIAL[UNKNOWN])
    text = " ".join(pieces)
    return text.replace(f"{JOINT} ", "").removesuffix(JOINT).split()


def read_vocabulary(folder: Path) -> list[str]:
    """Read one token a line; ValueError if the first are not the special ones, or where one stands twice."""
    tokens = (folder / VOCABULARY).read_bytes().decode("utf-8").split("\n")[:-1]
    if tuple(tokens[: len(SPECIAL)]) != SPECIAL or len(set(tokens)) != len(tokens):
        raise ValueError(f"{folder / VOCABULARY}: its tokens do not begin with {' '.join(SPECIAL)}, or one occurs twice")
    return tokens


def write_vocabulary(folder: Path, tokens: Sequence[str]) -> None:
    """Write what `read_vocabulary` reads."""
    (folder / VOCABULARY).write_bytes("".join(f"{token}\n" for token in tokens).encode())
