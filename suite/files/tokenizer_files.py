"""Parses `tokenizer.json`, the file of Hugging Face's library tokenizers, which is imported on use.

A file may come from anybody: whatever the library raises of it is a sentence.
"""

from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from suite.errors import MissingError, RequestError
from suite.process.installation import format_install_command

TOKENIZER_FILE: Final = "tokenizer.json"
TOKENIZER_CONFIG_FILE: Final = "tokenizer_config.json"
MAX_TOKENIZER_BYTES: Final = 64 << 20
"""Size limit of a checkpoint's `tokenizer.json`; Llama 3.1's has 9 MB."""


def import_tokenizers(source: str, extra: str) -> Any:
    """Import the library; MissingError, which names the extra to install, without it."""
    try:
        import tokenizers
        import tokenizers.decoders
    except ImportError as error:
        raise MissingError(
            f"{source}: tokenizers is not installed: {format_install_command(extra)}"
        ) from error
    return tokenizers


def parse_tokenizer_file(content: bytes, source: str, extra: str) -> Any:
    """Parse a tokenizer, which then neither cuts nor pads texts.

    RequestError if it is none, MissingError without the library; `source` names the file in both.
    """
    library = import_tokenizers(source, extra)
    if content.startswith(BOM_UTF8):
        raise RequestError(f"{source}: begins with a byte order mark: save it as UTF-8 without one")
    with convert_tokenizer_errors(source):
        tokenizer = library.Tokenizer.from_buffer(content)
        tokenizer.no_truncation()
        tokenizer.no_padding()
    return tokenizer


@contextmanager
def convert_tokenizer_errors(source: str) -> Iterator[None]:
    """Convert what parsing and using a tokenizer raises into RequestError. The library's panics are
    no Exceptions, and its errors nothing more specific; both may come as late as a text that the
    tokenizer does not know.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        said = " ".join(str(error).split())
        raise RequestError(f"{source}: no usable tokenizer.json: {said}") from None
