"""BLEU from answers and references; imports no deep-learning framework, since the judge runs it.

An answer is its token ids up to the end mark, as little-endian int32. The truth is two files:
`references.txt`, one tokenised sentence per line in sample order, and `vocabulary.txt`, one token
per line in the order of ids. A missing answer counts as empty; so does one that is not a sequence
of int32; an id outside the vocabulary counts as an unknown word.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suite.workload import Scores
from workloads.common.text import references
from workloads.common.text.bleu import BLEU_METRIC, BleuForm, build_bleu_sampler, compute_bleu
from workloads.common.text.token_answers import unpack_token_ids

if TYPE_CHECKING:
    from workloads.common.score_samplers import SumSampler

GNMT_VOCABULARY_FILE: Final = "vocabulary.txt"
# mlcommons/training, rnn_translator, config.py; the last one includes its backslash
GNMT_SPECIAL_TOKENS: Final = (
    "<pad>",
    "<unk>",
    "<s>",
    "<\\s>",
)
GNMT_PAD_ID, GNMT_UNKNOWN_ID, GNMT_START_ID, GNMT_END_ID = range(4)
SUBWORD_JOINT: Final = "@@"  # subword-nmt: marks a piece that the next one continues


def score(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """Compute GNMT inference's BLEU on tokens, 0-1; ValueError if the truth is damaged."""
    return {BLEU_METRIC: compute_bleu(BleuForm.TOKENS, *decode_gnmt_answers(answers, truth))}


def sample_gnmt_scores(answers: Mapping[int, bytes], truth: Path) -> "SumSampler":
    """Return BLEU over any choice of sentences."""
    return build_bleu_sampler(BleuForm.TOKENS, *decode_gnmt_answers(answers, truth))


def decode_gnmt_answers(
    answers: Mapping[int, bytes], truth: Path
) -> tuple[Sequence[str], Sequence[str]]:
    """Return the translations, and their references."""
    reference_texts, tokens = references.read_references(truth), read_gnmt_vocabulary(truth)
    texts = [
        " ".join(decode_gnmt_words(unpack_token_ids(answers.get(sample, b"")), tokens))
        for sample in range(len(reference_texts))
    ]
    return texts, reference_texts


def decode_gnmt_words(numbers: Iterable[int], tokens: Sequence[str]) -> list[str]:
    """Convert token ids up to the end mark to pieces, and join them to words."""
    pieces = []
    for number in numbers:
        if number == GNMT_END_ID:
            break
        pieces.append(
            tokens[number] if 0 <= number < len(tokens) else GNMT_SPECIAL_TOKENS[GNMT_UNKNOWN_ID]
        )
    text = " ".join(pieces)
    return text.replace(f"{SUBWORD_JOINT} ", "").removesuffix(SUBWORD_JOINT).split()


def read_gnmt_vocabulary(folder: Path) -> list[str]:
    """Read one token per line; ValueError if the first are not the special tokens, or a token
    repeats.
    """
    tokens = (folder / GNMT_VOCABULARY_FILE).read_bytes().decode("utf-8").split("\n")[:-1]
    if tuple(tokens[: len(GNMT_SPECIAL_TOKENS)]) != GNMT_SPECIAL_TOKENS or len(set(tokens)) != len(
        tokens
    ):
        raise ValueError(
            f"{folder / GNMT_VOCABULARY_FILE}: its tokens do not begin with"
            f" {' '.join(GNMT_SPECIAL_TOKENS)}, or one occurs twice"
        )
    return tokens


def write_gnmt_vocabulary(folder: Path, tokens: Sequence[str]) -> None:
    """Write the vocabulary in the form that `read_gnmt_vocabulary` reads."""
    (folder / GNMT_VOCABULARY_FILE).write_bytes("".join(f"{token}\n" for token in tokens).encode())
