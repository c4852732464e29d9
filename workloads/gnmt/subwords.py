"""Converts sentences to token ids and back: Moses tokenisation, joint byte-pair encoding, and the vocabulary.

Sennrich, Haddow, Birch 2016, arXiv:1508.07909, by subword-nmt, whose rules of breaking ties decide which pieces there are.
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
from suite.files.untrusted_files import UnreadableError, read_text
from workloads.common.text.encoded import Tokens
from workloads.gnmt.scoring import END, SPECIAL, START, UNKNOWN, read_vocabulary, words, write_vocabulary

CODES: Final = "bpe.codes"


class Moses:
    """Moses' tokeniser and detokeniser of one language, with its escapes, as the reference calls them."""

    def __init__(self, language: str) -> None:
        self._cut, self._join = MosesTokenizer(lang=language), MosesDetokenizer(lang=language)

    def cut(self, sentence: str) -> str:
        """Put spaces between a sentence's words and marks."""
        return str(self._cut.tokenize(sentence, return_str=True))

    def join(self, words: Sequence[str]) -> str:
        """Write words and marks as a sentence."""
        return str(self._join.detokenize(list(words)))


def merging(codes: str) -> BPE:
    """Read merges; ValueError if they are none, at which subword-nmt prints what is wrong and ends the process."""
    complaint = io.StringIO()
    try:
        with redirect_stderr(complaint):
            return BPE(io.StringIO(codes))
    except SystemExit as error:
        raise ValueError(" ".join(complaint.getvalue().split())) from error


class Subwords:
    """Merges and vocabulary of one run; encodes tokenised sentences."""

    def __init__(self, codes: str, tokens: Sequence[str]) -> None:
        self.codes, self.tokens = codes, tuple(tokens)
        self._numbers = {token: number for number, token in enumerate(self.tokens)}
        self._bpe = merging(codes)

    @classmethod
    def learn(cls, sentences: Sequence[str], merges: int) -> "Subwords":
        """Learn merges over all sentences of both languages, then count the pieces that they are cut into."""
        text = io.StringIO()
        with redirect_stderr(io.StringIO()):  # a progress bar, and the news that no pair stands twice
            learn_bpe(sentences, text, merges)
        bpe = BPE(io.StringIO(text.getvalue()))
        counted = Counter(piece for sentence in sentences for piece in bpe.segment_tokens(sentence.split(" ")))
        return cls(text.getvalue(), [*SPECIAL, *(piece for piece, _ in counted.most_common())])

    @classmethod
    def read(cls, folder: Path) -> "Subwords":
        """Read what `write` wrote; RequestError if it is damaged."""
        try:
            return cls(read_text(folder / CODES), read_vocabulary(folder))
        except (UnreadableError, OSError, ValueError) as error:
            raise RequestError(f"{folder}: no readable vocabulary ({error})") from error

    def write(self, folder: Path) -> None:
        """Save merges and vocabulary."""
        (folder / CODES).write_text(self.codes, "utf-8")
        write_vocabulary(folder, self.tokens)

    @cached_property
    def sha256(self) -> str:
        """Tell this vocabulary from others."""
        return hashlib.sha256("\n".join((self.codes, *self.tokens)).encode()).hexdigest()

    def encode(self, sentence: str) -> Tokens:
        """Number the pieces of a tokenised sentence, between its start and its end; pieces that the vocabulary lacks are unknown."""
        pieces = self._bpe.segment_tokens(sentence.split(" "))
        return np.array([START, *(self._numbers.get(piece, UNKNOWN) for piece in pieces), END], dtype=np.int32)

    def decode(self, numbers: Iterable[int]) -> list[str]:
        """Return the words and marks that token numbers spell."""
        return words(numbers, self.tokens)
