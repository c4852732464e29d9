"""Llama 3.1's tokenizer as a published `tokenizer.json` describes it: its special tokens, and the
text of token ids; needs no library and imports no framework, since the judge reads answers with it.

Grattafiori et al. 2024, arXiv:2407.21783, section 3.2: byte pairs of tiktoken, 128,256 tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from suite.errors import RequestError
from suite.files.tokenizer_files import MAX_TOKENIZER_BYTES, TOKENIZER_FILE
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from workloads.llama.checkpoint import LlamaTokens, parse_tokenizer

BEGIN_OF_TEXT: Final = "<|begin_of_text|>"
ENDS_OF_ANSWERS: Final = ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>")
"""Tokens that end an answer; generation_config.json of meta-llama/Llama-3.1-8B-Instruct. The first
one ends a document, too.
"""
BYTE_LEVEL: Final = "ByteLevel"
REPLACEMENT: Final = "replace"
"""How bytes that are no UTF-8 are decoded, as at a cut answer: by U+FFFD, as `tokenizers` does."""
FIRST_STAND_IN: Final = 256
"""Unicode's number of the character that stands for the first byte without a printable one."""


class DecoderDocument(msgspec.Struct, frozen=True):
    """What is read of a decoder's description."""

    type: str


class SpecialToken(msgspec.Struct, frozen=True):
    """What is read of an added token."""

    id: int
    special: bool = False


class PublishedDocument(msgspec.Struct, frozen=True):
    """What is read of `tokenizer.json` beside its vocabulary."""

    decoder: DecoderDocument | None = None
    added_tokens: tuple[SpecialToken, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTokenizer:
    """A tokenizer whose tokens are bytes."""

    content: bytes
    """Of `tokenizer.json`."""
    table: Mapping[int, str]
    """Id -> its token, in which characters stand for bytes."""
    special: frozenset[int]
    """Tokens without text."""
    begin: int
    """Begins every text."""
    ends: tuple[int, ...]
    """Tokens that end an answer."""

    @property
    def vocabulary(self) -> int:
        """Number of tokens that a network embeds."""
        return max(self.table) + 1

    def decode_ids(self, ids: Sequence[int]) -> str:
        """Return the text of ids without special tokens; "" if one is in no vocabulary."""
        if any(number not in self.table for number in ids):
            return ""
        pieces = "".join(self.table[number] for number in ids if number not in self.special)
        values = get_byte_values()
        known = bytes(values[letter] for letter in pieces if letter in values)
        return known.decode("utf-8", REPLACEMENT)

    def decode_answer(self, ids: Sequence[int]) -> str:
        """Return the text before the first token that ends an answer."""
        places = (place for place, number in enumerate(ids) if number in self.ends)
        return self.decode_ids(ids[: next(places, len(ids))])

    def build_tokens(self, chat_template: str) -> LlamaTokens:
        """Return what an exported checkpoint says about its tokens."""
        return LlamaTokens(
            tokenizer=self.content, begin=self.begin, ends=self.ends, chat_template=chat_template
        )


@cache
def get_byte_values() -> Mapping[str, int]:
    """Return the byte that each character of a token stands for; openai/gpt-2, src/encoder.py,
    bytes_to_unicode: printable characters of Latin-1 stand for themselves, and the other bytes, in
    order, have the characters from U+0100.
    """
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    others = [value for value in range(FIRST_STAND_IN) if value not in set(printable)]
    values = {chr(value): value for value in printable}
    return values | {chr(FIRST_STAND_IN + place): value for place, value in enumerate(others)}


def read_published_tokenizer(folder: Path) -> PublishedTokenizer:
    """Read a folder's `tokenizer.json`; RequestError if there is none, or if it is not of Llama
    3.1's kind.
    """
    path = folder / TOKENIZER_FILE
    try:
        content = read_untrusted_file(path, bytes, MAX_TOKENIZER_BYTES)
    except UnreadableError as error:
        raise RequestError(f"{path}: no readable tokenizer ({error.reason})") from error
    return parse_published_tokenizer(content, str(path))


def parse_published_tokenizer(content: bytes, source: str) -> PublishedTokenizer:
    """Parse the content of a `tokenizer.json`; RequestError, which begins with `source`, if its
    tokens are not bytes, or if it lacks those that begin and end texts.
    """
    table = parse_tokenizer(content, source)
    try:
        document = msgspec.json.decode(content, type=PublishedDocument)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"{source}: no tokenizer with a known decoder ({error})") from error
    if document.decoder is None or document.decoder.type != BYTE_LEVEL:
        raise RequestError(f"{source}: its decoder is not {BYTE_LEVEL}, which Llama 3.1's is")
    numbers = {token: number for number, token in table.items()}
    if BEGIN_OF_TEXT not in numbers or not any(end in numbers for end in ENDS_OF_ANSWERS):
        raise RequestError(
            f"{source}: it lacks {BEGIN_OF_TEXT}, or a token that ends an answer"
            f" ({', '.join(ENDS_OF_ANSWERS)}); it is not Llama 3.1's"
        )
    return PublishedTokenizer(
        content=content,
        table=table,
        special=frozenset(token.id for token in document.added_tokens if token.special),
        begin=numbers[BEGIN_OF_TEXT],
        ends=tuple(numbers[end] for end in ENDS_OF_ANSWERS if end in numbers),
    )
