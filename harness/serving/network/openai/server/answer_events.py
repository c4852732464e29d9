"""Answers as the API writes them: JSON documents, and streams of server-sent events.

Field names: OpenAI, API reference, "Chat" and "Completions". Streams are put together from prepared
parts, since an answer has an event for each token.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import msgspec

from harness.serving.network.openai.server.request_fields import ApiError
from harness.serving.network.openai.server.token_service import FinishReason

encode_json: Final = msgspec.json.Encoder().encode
STREAM_END: Final = b"data: [DONE]\n\n"
EVENT_START: Final = b"data: "
EVENT_END: Final = b"\n\n"
CHAT_OPENING: Final = b'{"role":"assistant","content":'
"""Of the first event of an answer: role and first text belong together."""
CHAT_TEXT: Final = b'{"content":'
CHAT_NOTHING: Final = b"{}"
NO_TEXT: Final = b'""'
UNFINISHED: Final = b"null"
ERROR_TYPES: Final = {401: "authentication_error", 404: "not_found_error"}
CLIENT_ERROR: Final = "invalid_request_error"
SERVER_ERROR: Final = "server_error"
FIRST_SERVER_STATUS: Final = 500


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """What all events of an answer have."""

    number: str
    """The answer's id, without the prefix of its kind."""
    model: str
    is_chat: bool

    def build_document(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        """Return a document of a kind, as the API names kinds."""
        return {
            "id": f"{'chatcmpl' if self.is_chat else 'cmpl'}-{self.number}",
            "object": kind,
            "created": int(time.time()),
            "model": self.model,
            "system_fingerprint": None,
            "choices": choices,
        }


class EventWriter:
    """Writes the events of one streamed answer."""

    def __init__(self, head: AnswerHead) -> None:
        kind = "chat.completion.chunk" if head.is_chat else "text_completion"
        document = head.build_document(kind, [])
        prefix = EVENT_START + encode_json(document).removesuffix(b"]}")
        self.usage_prefix = prefix + b'],"usage":'
        self.is_chat, self.is_open = head.is_chat, False
        self.text_prefix = prefix + (
            b'{"index":0,"delta":' if head.is_chat else b'{"index":0,"text":'
        )

    def write_text(
        self,
        text: str,
        finish: FinishReason | None,
        usage: dict[str, int] | None = None,
        likelihoods: bytes = b"null",
    ) -> bytes:
        """Return the event of a token's text; the first one has the role, too. `usage`: the numbers
        of tokens so far. `likelihoods`: of the tokens since the last event.
        """
        content = encode_json(text)
        if self.is_chat:
            content = self.wrap_chat_text(content)
        self.is_open = True
        reason = UNFINISHED if finish is None else b'"' + finish.encode() + b'"'
        return b"".join(
            (
                self.text_prefix,
                content,
                b',"logprobs":',
                likelihoods,
                b',"finish_reason":',
                reason,
                b"}]}" if usage is None else b'}],"usage":' + encode_json(usage) + b"}",
                EVENT_END,
            )
        )

    def wrap_chat_text(self, content: bytes) -> bytes:
        """Return the difference that an event makes to a chat's message."""
        if not self.is_open:
            return CHAT_OPENING + content + b"}"
        return CHAT_TEXT + content + b"}" if content != NO_TEXT else CHAT_NOTHING

    def write_usage(self, usage: dict[str, int]) -> bytes:
        """Return the event with the numbers of tokens."""
        return self.usage_prefix + encode_json(usage) + b"}" + EVENT_END


def build_usage(prompt_tokens: int, tokens: int) -> dict[str, int]:
    """Return the numbers of tokens: an answer's count includes the token that ends it."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": tokens,
        "total_tokens": prompt_tokens + tokens,
    }


@dataclass(frozen=True, slots=True)
class TokenLikelihood:
    """How likely a token of an answer was."""

    text: str
    log_probability: float


def build_likelihoods(
    tokens: Sequence[TokenLikelihood], is_chat: bool
) -> dict[str, list[Any]] | None:
    """Return the log-probabilities of tokens in the API's form; None if there are none."""
    if not tokens:
        return None
    if is_chat:
        return {
            "content": [
                {
                    "token": each.text,
                    "logprob": each.log_probability,
                    "bytes": list(each.text.encode("utf-8", "replace")),
                    "top_logprobs": [],
                }
                for each in tokens
            ]
        }
    return {
        "tokens": [each.text for each in tokens],
        "token_logprobs": [each.log_probability for each in tokens],
        "top_logprobs": [{each.text: each.log_probability} for each in tokens],
        "text_offset": list(accumulate((len(each.text) for each in tokens[:-1]), initial=0)),
    }


def write_answer_document(
    head: AnswerHead,
    text: str,
    finish: FinishReason,
    usage: dict[str, int],
    likelihoods: dict[str, list[Any]] | None = None,
) -> bytes:
    """Return a whole answer."""
    if head.is_chat:
        said: dict[str, Any] = {"message": {"role": "assistant", "content": text, "refusal": None}}
    else:
        said = {"text": text}
    kind = "chat.completion" if head.is_chat else "text_completion"
    choice = (
        {"index": 0}
        | said
        | {
            "logprobs": likelihoods,
            "finish_reason": finish.value,
        }
    )
    return encode_json(head.build_document(kind, [choice]) | {"usage": usage})


def write_error_document(error: ApiError) -> bytes:
    """Return an error as the API writes it."""
    kind = SERVER_ERROR if error.status >= FIRST_SERVER_STATUS else CLIENT_ERROR
    return encode_json(
        {
            "error": {
                "message": error.message,
                "type": ERROR_TYPES.get(error.status, kind),
                "param": None,
                "code": error.code,
            }
        }
    )


def write_error_event(error: ApiError) -> bytes:
    """Return an error as the last event of a stream that has begun."""
    return EVENT_START + write_error_document(error) + EVENT_END


def write_model_list(model: str, started: int) -> bytes:
    """Return the list of served models, which has one."""
    return encode_json({"object": "list", "data": [describe_model(model, started)]})


def write_model(model: str, started: int) -> bytes:
    """Return a served model's entry by itself."""
    return encode_json(describe_model(model, started))


def describe_model(model: str, started: int) -> dict[str, str | int]:
    """Return the entry of a served model."""
    return {"id": model, "object": "model", "created": started, "owned_by": "podium"}
