"""Count the tokens of texts, by the tokenizer that the user names."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from suite.errors import RequestError
from suite.files.tokenizer_files import convert_tokenizer_errors, parse_tokenizer_file
from suite.files.untrusted_files import UnreadableError, read_untrusted_text

TOKENIZER_EXTRA: Final = "tokenizer"
MAX_TOKENIZER_BYTES: Final = 1 << 28
"""A vocabulary of 200,000 tokens with its merges takes tens of MB."""

TokenCounter = Callable[[Sequence[str]], list[int]]
"""Counts the tokens of texts."""


def load_token_counter(path: Path) -> TokenCounter:
    """Load a tokenizer.json; RequestError if it is none, MissingError if the library is not
    installed.
    """
    source = f"--tokenizer {path}"
    try:
        content = read_untrusted_text(path, limit=MAX_TOKENIZER_BYTES)
    except UnreadableError as error:
        raise RequestError(f"{source}: {error.reason}") from None
    tokenizer = parse_tokenizer_file(content.encode(), source, TOKENIZER_EXTRA)

    def count_tokens(texts: Sequence[str]) -> list[int]:
        """Count the tokens of texts, without those that mark beginning and end."""
        with convert_tokenizer_errors(source):
            encoded = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(each.ids) for each in encoded]

    return count_tokens
