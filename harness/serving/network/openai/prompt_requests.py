"""Requests as bytes, built before the clock: one for each sample.

Field names: OpenAI, API reference, "Chat" and "Completions". Requests have no fields but those that
every server of the API knows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from harness.serving.network.openai.api_names import CHAT_ROUTE, COMPLETIONS_ROUTE
from harness.serving.network.wire import ROUTE_PREFIX, Endpoint
from suite import __version__
from suite.workload import PromptSource

MAX_TOKENS_FIELD: Final = "max_tokens"
LIKELIHOOD_FIELD: Final = "logprobs"
NEW_MAX_TOKENS_FIELD: Final = "max_completion_tokens"
"""OpenAI's own name of it since 2024."""
LINE_END: Final = "\r\n"
encode_body: Final = msgspec.json.Encoder().encode


class PromptApi(StrEnum):
    """The two routes that answer prompts."""

    CHAT = "chat"
    COMPLETIONS = "completions"


@runtime_checkable
class OwnRequests(Protocol):
    """What a PromptSource adds whose samples decide more of their requests than the prompt."""

    def build_fields(self, sample: int, api: PromptApi) -> Mapping[str, Any]:
        """Return the prompt, and all fields that no style of requests has."""

    def limit_answer(self, sample: int) -> int:
        """Return the tokens after which an answer is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStyle:
    """What all requests of a run have."""

    api: PromptApi
    model: str
    streamed: bool
    headers: Mapping[str, str]
    """Beside those of every request; values may be secret."""
    asks_usage: bool = True
    """Streams are asked for the server's count of tokens."""
    max_tokens_field: str = MAX_TOKENS_FIELD
    temperature: float | None = 0
    """None: the field is left out."""
    greedy_alone: bool = False
    """The closed division takes no other temperature than 0."""
    asks_log_probabilities: bool = False
    """Answers are asked how likely their tokens are."""
    reuses_connections: bool = True
    """Otherwise each request has a connection of its own."""

    def build_route(self, endpoint: Endpoint) -> str:
        """Return the path of the route; a base that ends in /v1 is the whole beginning of it."""
        route = CHAT_ROUTE if self.api is PromptApi.CHAT else COMPLETIONS_ROUTE
        return build_route_path(endpoint, route)

    def build_body(self, source: PromptSource, sample: int) -> bytes:
        """Return a sample's request without its head: greedy unless the user says otherwise, cut at
        the workload's length.
        """
        asked: dict[str, Any] = {"model": self.model}
        most_tokens = source.max_new_tokens
        if isinstance(source, OwnRequests):
            asked |= source.build_fields(sample, self.api)
            most_tokens = source.limit_answer(sample)
        elif self.api is PromptApi.CHAT:
            asked["messages"] = [
                {"role": message.role, "content": message.content}
                for message in source.build_messages(sample)
            ]
        else:
            asked["prompt"] = list(source.tokenize_prompt(sample))
        asked |= {self.max_tokens_field: most_tokens, "stream": self.streamed}
        if self.temperature is not None:
            asked["temperature"] = self.temperature
        if self.asks_log_probabilities:
            asked[LIKELIHOOD_FIELD] = True if self.api is PromptApi.CHAT else 1
        if self.streamed and self.asks_usage:
            asked["stream_options"] = {"include_usage": True}
        return encode_body(asked)

    def build_head(self, endpoint: Endpoint) -> bytes:
        """Return the head of an endpoint's requests, up to the body's length."""
        fields = {
            "Host": endpoint.target,
            "User-Agent": f"podium/{__version__}",
            "Accept": "text/event-stream" if self.streamed else "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            **({} if self.reuses_connections else {"Connection": "close"}),
            **self.headers,
        }
        lines = [f"POST {self.build_route(endpoint)} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        return (LINE_END.join(lines) + f"{LINE_END}Content-Length: ").encode("ascii")

    def advise_on_refusal(self, said: str) -> str:
        """Return which setting leaves out or changes the field that a server refuses, behind "; ";
        "" if there is none, or if it is set already.
        """
        if self.streamed and self.asks_usage and "stream_options" in said:
            return "; --set endpoint.usage=false leaves it out"
        if self.max_tokens_field == MAX_TOKENS_FIELD and NEW_MAX_TOKENS_FIELD in said:
            return f"; --set endpoint.max_tokens_field={NEW_MAX_TOKENS_FIELD} asks so"
        if self.greedy_alone and "temperature" in said:
            return "; the closed division asks for greedy decoding, which is temperature 0"
        if self.temperature == 0 and "temperature" in said:
            return "; --set endpoint.temperature=absent leaves it out, 0.001 is nearly greedy"
        return ""


def build_route_path(endpoint: Endpoint, route: str) -> str:
    """Return a route's path on a server, whether or not the server's base ends in /v1."""
    base = endpoint.base
    return base.removesuffix(ROUTE_PREFIX) + route if base.endswith(ROUTE_PREFIX) else base + route


def join_request(head: bytes, body: bytes) -> bytes:
    """Return a whole request."""
    return b"%b%d\r\n\r\n%b" % (head, len(body), body)
