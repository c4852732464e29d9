"""What counts the tokens of texts before they are sent: the tokenizer that the user names, else the
server, if it has a route for it.

Routes: vLLM and SGLang, POST /tokenize with `model` and `prompt`; llama.cpp, the same with
`content`. Both answer with `tokens`.
"""

import hashlib
from pathlib import Path
from typing import Final

import msgspec

from harness.serving.network.access import ClientCredentials
from harness.serving.network.openai.answer_tokens import CLIENT_EXTRA, read_tokenizer_file
from harness.serving.network.openai.server_checks import OK_STATUS, request_page
from harness.serving.network.wire import Endpoint
from harness.serving.prompts.made_texts import WORDS, TokenCounter
from suite.errors import RequestError
from suite.files.tokenizer_files import parse_tokenizer_file

TOKENIZE_ROUTE: Final = "/tokenize"
SERVER_COUNTER: Final = "the server's"
SERVER_WORDS: Final = 64
"""Each costs two requests."""


class CountedText(msgspec.Struct):
    """The answer of /tokenize."""

    tokens: list[int]


COUNTED_TEXT_DECODER: Final = msgspec.json.Decoder(CountedText)


def open_token_counter(
    path: Path | None, endpoint: Endpoint, access: ClientCredentials, model: str
) -> TokenCounter:
    """Return what counts tokens; RequestError if nothing does."""
    if path is not None:
        return open_own_tokenizer(path)
    if count_on_server(endpoint, access, model, "the") is None:
        raise RequestError(
            f"--prompts: texts of a given size need a tokenizer, and {endpoint.url} has no"
            f" {TOKENIZE_ROUTE}: name the model's tokenizer.json with --tokenizer"
        )
    return TokenCounter(
        count=lambda text: require_server_count(endpoint, access, model, text),
        name=SERVER_COUNTER,
        words=WORDS[:SERVER_WORDS],
    )


def open_own_tokenizer(path: Path) -> TokenCounter:
    """Return the counter of a tokenizer's file."""
    content = read_tokenizer_file(path)
    tokenizer = parse_tokenizer_file(content, str(path), CLIENT_EXTRA)
    return TokenCounter(
        count=lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids),
        name=hashlib.sha256(content).hexdigest(),
    )


def require_server_count(
    endpoint: Endpoint, access: ClientCredentials, model: str, text: str
) -> int:
    """Return the server's count of a text; RequestError if it gives none now."""
    found = count_on_server(endpoint, access, model, text)
    if found is None:
        raise RequestError(f"{endpoint.url} counted a text, and another one not")
    return found


def count_on_server(
    endpoint: Endpoint, access: ClientCredentials, model: str, text: str
) -> int | None:
    """Ask a server to count a text's tokens; None if it has no such route."""
    fields = {"model": model, "prompt": text, "content": text, "add_special_tokens": False}
    headers = {"Content-Type": "application/json", **dict(access.metadata)}
    reply = request_page(endpoint, access, headers, TOKENIZE_ROUTE, msgspec.json.encode(fields))
    if reply.status != OK_STATUS:
        return None
    try:
        return len(COUNTED_TEXT_DECODER.decode(reply.body).tokens)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
