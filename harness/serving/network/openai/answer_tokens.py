"""Tokens of answers that come as text: counted with the checkpoint's own tokenizer."""

import hashlib
from array import array
from collections.abc import Collection
from pathlib import Path
from typing import Final, Protocol

from suite.errors import RequestError
from suite.files.foreign_content import describe_foreign_file
from suite.files.tokenizer_files import (
    MAX_TOKENIZER_BYTES,
    TOKENIZER_FILE,
    parse_tokenizer_file,
)
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.loadgen.token_record import TOKEN_BYTES

CLIENT_EXTRA: Final = "openai"
REPLACEMENT: Final = "\ufffd"
"""Stands for bytes that are no whole character (Unicode 16.0, section 23.8)."""


class AnswerCounter(Protocol):
    """Turns answers into what LoadGen's log has of them, and counts their tokens."""

    @property
    def sha256(self) -> str:
        """Return the hash of the tokenizer's file; empty if none counts."""

    @property
    def recounts(self) -> bool:
        """Return whether it counts; otherwise the server's `usage` is all there is."""

    def encode_answer(self, text: str, ended: bool) -> "array[int]":
        """Return what the log has of a whole text: token ids, or the text itself."""

    def find_end_text(self, tokens: "array[int]", ended: bool) -> str:
        """Return the name of an end token that an answer's text has; "" if it has none."""

    def encode_begin(self, text: str) -> "array[int]":
        """Return the ids of the begin of an answer; empty if they are not known."""

    def may_name_token(self, token: int, text: str) -> bool:
        """Return whether a server may call a token so: by its text, or its name in the vocabulary.
        Servers write spaces and parts of characters in different ways.
        """


class UncountedAnswers:
    """Answers whose tokens nobody but the server counts: the log has their texts, in UTF-8, filled
    up to whole numbers with spaces.
    """

    sha256 = ""
    recounts = False

    def encode_answer(self, text: str, ended: bool) -> "array[int]":
        """Return a text's bytes."""
        content = text.encode("utf-8", "replace")
        return array("i", content + b" " * (-len(content) % TOKEN_BYTES))

    def find_end_text(self, tokens: "array[int]", ended: bool) -> str:
        """Return "": which tokens end answers is not known."""
        return ""

    def encode_begin(self, text: str) -> "array[int]":
        """Return nothing."""
        return array("i")

    def may_name_token(self, token: int, text: str) -> bool:
        """Return False: tokens are not known."""
        return False


class AnswerTokenizer:
    """Turns the text of an answer into the token ids that LoadGen's log has.

    Args:
        path: a `tokenizer.json`. RequestError if it is none; MissingError if the package for
            tokenizers is not installed.
        end_token: of answers that the model ended itself; negative: it is not known.
        ends: all tokens that end an answer, as the judge knows them.
    """

    recounts = True

    def __init__(self, path: Path, end_token: int, ends: Collection[int]) -> None:
        self.sha256, self.end_token, self.ends = "", end_token, frozenset(ends)
        content = read_tokenizer_file(path)
        self.sha256 = hashlib.sha256(content).hexdigest()
        tokenizer = parse_tokenizer_file(content, str(path), CLIENT_EXTRA)
        self._encode, self._name_token = tokenizer.encode, tokenizer.id_to_token
        self._decode = tokenizer.decode

    def encode_answer(self, text: str, ended: bool) -> "array[int]":
        """Return the ids of a whole text, with the end token if the model ended the answer."""
        ids = array("i", self._encode(text, add_special_tokens=False).ids)
        if ended and self.end_token >= 0:
            ids.append(self.end_token)
        return ids

    def find_end_text(self, tokens: "array[int]", ended: bool) -> str:
        """Return the name of an end token that an answer's text has; "" if it has none. `ended`:
        the last token is none of the text.
        """
        if self.ends.isdisjoint(tokens):
            return ""
        text = tokens[:-1] if ended else tokens
        return next((str(self._name_token(token)) for token in text if token in self.ends), "")

    def encode_begin(self, text: str) -> "array[int]":
        """Return the ids of the begin of an answer; empty if that is less than a token."""
        return array("i", self._encode(text, add_special_tokens=False).ids)

    def may_name_token(self, token: int, text: str) -> bool:
        """Return whether a server may call a token so, as of AnswerCounter."""
        own: str = self._decode([token], skip_special_tokens=False)
        is_part = REPLACEMENT in own  # of a character
        return is_part or text.strip() == own.strip() or text == self._name_token(token)


def open_answer_counter(path: Path | None, end_token: int, ends: Collection[int]) -> AnswerCounter:
    """Return the tokenizer in a file, or what leaves counting to the servers."""
    return UncountedAnswers() if path is None else AnswerTokenizer(path, end_token, ends)


def read_tokenizer_file(path: Path) -> bytes:
    """Read a tokenizer's file; RequestError if there is none."""
    if said := describe_foreign_file(path, TOKENIZER_FILE):
        raise RequestError(f"the tokenizer (endpoint.tokenizer): {path} {said}")
    if (path / TOKENIZER_FILE).is_file():
        path /= TOKENIZER_FILE
    try:
        return read_untrusted_file(path, bytes, MAX_TOKENIZER_BYTES)
    except UnreadableError as error:
        raise RequestError(
            f"no tokenizer: {path}: {error.reason}; answers come as text, and their tokens are"
            " counted with it: name the checkpoint's tokenizer.json with --set endpoint.tokenizer"
        ) from error
