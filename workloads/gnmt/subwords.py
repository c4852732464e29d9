"""Converts sentences to token ids and back: Moses tokenisation, joint byte-pair encoding, and the
vocabulary.

Sennrich, Haddow, Birch 2016, arXiv:1508.07909, by subword-nmt, whose tie-breaking determines the
pieces.
"""

import hashlib
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from sacremoses import MosesDetokenizer, MosesTokenizer
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from suite.errors import RequestError
from suite.files.untrusted_files import UnreadableError, read_untrusted_text
from workloads.common.text.encoded import Tokens
from workloads.gnmt.scoring import (
    GNMT_END_ID,
    GNMT_SPECIAL_TOKENS,
    GNMT_START_ID,
    GNMT_UNKNOWN_ID,
    decode_gnmt_words,
    read_gnmt_vocabulary,
    write_gnmt_vocabulary,
)

BPE_CODES_FILE: Final = "bpe.codes"


class MosesSplitter:
    """Moses' tokeniser and detokeniser for one language, with escaping, called as in the
    reference.
    """

    def __init__(self, language: str) -> None:
        self._cut, self._join = MosesTokenizer(lang=language), MosesDetokenizer(lang=language)

    def split_sentence(self, sentence: str) -> str:
        """Tokenise a sentence."""
        return str(self._cut.tokenize(sentence, return_str=True))

    def join_words(self, words: Sequence[str]) -> str:
        """Detokenise words and marks to a sentence."""
        return str(self._join.detokenize(list(words)))


def parse_bpe_merges(codes: str) -> BPE:
    """Parse merges; ValueError if they are invalid, where subword-nmt would print an error and end
    the process.
    """
    error_output = io.StringIO()
    try:
        with redirect_stderr(error_output):
            return BPE(io.StringIO(codes))
    except SystemExit as error:
        raise ValueError(" ".join(error_output.getvalue().split())) from error


class GNMTSubwords:
    """The merges and vocabulary of one run; encodes tokenised sentences."""

    def __init__(self, codes: str, tokens: Sequence[str]) -> None:
        self.codes, self.tokens = codes, tuple(tokens)
        self._numbers = {token: number for number, token in enumerate(self.tokens)}
        self._bpe = parse_bpe_merges(codes)

    @classmethod
    def train_on_sentences(cls, sentences: Sequence[str], merges: int) -> "GNMTSubwords":
        """Learn merges from all sentences of both languages, then count the resulting pieces."""
        text = io.StringIO()
        # a progress bar, and a message that no pair is repeated
        with redirect_stderr(io.StringIO()):
            learn_bpe(sentences, text, merges)
        bpe = BPE(io.StringIO(text.getvalue()))
        piece_counts = Counter(
            piece for sentence in sentences for piece in bpe.segment_tokens(sentence.split(" "))
        )
        return cls(
            text.getvalue(),
            [*GNMT_SPECIAL_TOKENS, *(piece for piece, _ in piece_counts.most_common())],
        )

    @classmethod
    def read_subwords(cls, folder: Path) -> "GNMTSubwords":
        """Read the files that `write_subwords` wrote; RequestError if they are damaged."""
        try:
            return cls(read_untrusted_text(folder / BPE_CODES_FILE), read_gnmt_vocabulary(folder))
        except (UnreadableError, OSError, ValueError) as error:
            raise RequestError(f"{folder}: no readable vocabulary ({error})") from error

    def write_subwords(self, folder: Path) -> None:
        """Save merges and vocabulary."""
        (folder / BPE_CODES_FILE).write_text(self.codes, "utf-8")
        write_gnmt_vocabulary(folder, self.tokens)

    @cached_property
    def sha256(self) -> str:
        """The hash that identifies this vocabulary."""
        return hashlib.sha256("\n".join((self.codes, *self.tokens)).encode()).hexdigest()

    def encode_sentence(self, sentence: str) -> Tokens:
        """Encode a tokenised sentence as ids of its pieces, with start and end marks; pieces
        outside the vocabulary are unknown.
        """
        pieces = self._bpe.segment_tokens(sentence.split(" "))
        return np.array(
            [
                GNMT_START_ID,
                *(self._numbers.get(piece, GNMT_UNKNOWN_ID) for piece in pieces),
                GNMT_END_ID,
            ],
            dtype=np.int32,
        )

    def decode_words(self, numbers: Iterable[int]) -> list[str]:
        """Decode token ids to words and marks."""
        return decode_gnmt_words(numbers, self.tokens)
