"""What a client asks for: the body of a completion's request, checked field by field.

A field that would change the answer, and that is not supported, is refused, never dropped: the
answer would be another one than was asked for.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import msgspec

JSON_DECODER: Final = msgspec.json.Decoder(dict[str, Any])
NEUTRAL_VALUES: Final[Mapping[str, tuple[Any, ...]]] = {
    "add_generation_prompt": (True,),
    "best_of": (1,),
    "diversity_penalty": (0,),
    "frequency_penalty": (0,),
    "length_penalty": (1,),
    "min_new_tokens": (0,),
    "min_p": (0,),
    "modalities": (["text"],),
    "n": (1,),
    "num_beams": (1,),
    "parallel_tool_calls": (True, False),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "service_tier": ("auto", "default"),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "tool_choice": ("none", "auto"),
    "typical_p": (1,),
}
"""Fields with the values that change nothing; null changes nothing anywhere."""
EMPTY_VALUES: Final[tuple[Any, ...]] = (False, 0, "", [], {})
"""Values that switch any other field off."""
SILENT_FIELDS: Final = frozenset(
    {
        "cache_salt",
        "metadata",
        "prompt_cache_key",
        "request_id",
        "safety_identifier",
        "store",
        "user",
    }
)
"""Fields that never change an answer."""
GREEDY_FIELDS: Final = frozenset({"seed", "top_k", "top_p"})
"""Fields that choose among tokens, of which a greedy answer takes the likeliest anyway."""
READ_FIELDS: Final = frozenset(
    {
        "ignore_eos",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "min_tokens",
        "model",
        "prompt",
        "stream",
        "stream_options",
        "temperature",
    }
)
STREAM_OPTIONS: Final = ("include_usage", "continuous_usage_stats")
"""Of OpenAI, and of vLLM."""
ANSWERED_FIELDS: Final = READ_FIELDS | GREEDY_FIELDS | SILENT_FIELDS
MESSAGE_FIELDS: Final = frozenset({"role", "content", "name"})
MESSAGE_ROLES: Final = ("system", "developer", "user", "assistant")
"""The API's, but for tools, which this server does not have."""


class ApiError(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        status: HTTPStatus,
        code: str,
        message: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`headers`: further fields of the response."""
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers = dict(headers or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """What is to be answered, and how."""

    is_chat: bool
    prompt: Sequence[int]
    """Token ids."""
    max_tokens: int
    ignores_ends: bool
    """Whether the answer goes on behind a token that ends answers."""
    is_streamed: bool
    has_usage: bool
    """Whether the numbers of tokens are told at the end of a stream."""
    has_running_usage: bool
    """Whether each event of a stream tells them as well."""
    has_log_probabilities: bool
    """Whether each token comes with the logarithm of its probability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLimits:
    """What the served model can answer."""

    model: str
    vocabulary_size: int
    max_sequence_tokens: int
    max_new_tokens: int
    has_log_probabilities: bool
    """Whether its generator tells how likely tokens are."""


MIN_LONGEST_TOKEN: Final = 64
"""Characters that a token is assumed to have at least: a word that a vocabulary lacks may be one
token, however long it is.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptEncoders:
    """How text becomes token ids."""

    encode_text: Callable[[str], Sequence[int]]
    render_chat: Callable[[Sequence[Mapping[str, Any]]], str]
    encode_rendered: Callable[[str], Sequence[int]]
    longest_token: int
    """In characters."""


def build_field_error(message: str) -> ApiError:
    """Return the error of a request that cannot be answered as it is."""
    return ApiError(HTTPStatus.BAD_REQUEST, "invalid_value", message)


def parse_completion_request(
    body: bytes, *, is_chat: bool, limits: PromptLimits, encoders: PromptEncoders
) -> CompletionRequest:
    """Read a request's body; ApiError for what is not as it must be."""
    fields = parse_json_object(body)
    require_served_model(fields, limits.model)
    check_other_fields(fields, is_chat)
    check_sampling_fields(fields)
    is_streamed = require_bool(fields, "stream")
    has_usage, has_running_usage = read_stream_options(fields.get("stream_options"), is_streamed)
    asked = read_max_tokens(fields)
    ignores_ends = require_bool(fields, "ignore_eos")
    check_min_tokens(fields, asked or limits.max_new_tokens, ignores_ends)
    has_log_probabilities = read_log_probabilities(fields, is_chat, limits)
    if is_chat:
        prompt = read_chat_prompt(fields.get("messages"), limits, encoders)
    else:
        prompt = read_prompt(fields.get("prompt"), limits, encoders)
    return CompletionRequest(
        is_chat=is_chat,
        prompt=prompt,
        max_tokens=choose_max_tokens(prompt, asked, limits),
        ignores_ends=ignores_ends,
        is_streamed=is_streamed,
        has_usage=has_usage,
        has_running_usage=has_running_usage,
        has_log_probabilities=has_log_probabilities,
    )


def parse_json_object(body: bytes) -> dict[str, Any]:
    """Parse a JSON object; ApiError if it is none, or if a key occurs twice in it."""
    try:
        fields = JSON_DECODER.decode(body)
        if body.count(b":") != count_object_keys(fields):  # a text with a colon, or a key twice
            PAIRS_DECODER.decode(body.decode())
        return fields
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(
            HTTPStatus.BAD_REQUEST, "invalid_json", f"the body is no JSON object: {error}"
        ) from error


def count_object_keys(fields: Mapping[str, Any]) -> int:
    """Count the keys of parsed objects, but for those in lists that begin with something else:
    token ids are not looked at.
    """
    count = len(fields)
    for value in fields.values():
        kind = type(value)
        if kind is dict:
            count += count_object_keys(value)
        elif kind is list and value and type(value[0]) is dict:
            count += sum([count_object_keys(each) for each in value if type(each) is dict])
    return count


def require_distinct_keys(pairs: list[tuple[str, Any]]) -> None:
    """ApiError for an object with a key twice: parsers differ in which of them they take."""
    keys = set[str]()
    for key, _ in pairs:
        if key in keys:
            raise ApiError(
                HTTPStatus.BAD_REQUEST, "invalid_json", f"the body has {key!r:.80} twice"
            )
        keys.add(key)


PAIRS_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=require_distinct_keys, parse_int=str, parse_float=str
)


def require_served_model(fields: Mapping[str, Any], model: str) -> None:
    """ApiError if a request names no model, or another one."""
    asked = fields.get("model")
    if not isinstance(asked, str):
        raise build_field_error(f"model: a name is needed; this server has {model}")
    if asked != model:
        raise ApiError(
            HTTPStatus.NOT_FOUND,
            "model_not_found",
            f"no model {asked!r:.80} here; this server has {model}",
        )


def check_other_fields(fields: Mapping[str, Any], is_chat: bool) -> None:
    """ApiError for a field that would change the answer, and is not supported."""
    other = "prompt" if is_chat else "messages"
    if fields.get(other) is not None:
        raise build_field_error(f"{other}: this is not the route for it")
    own = {"add_special_tokens": (not is_chat,)}  # a template has written them already
    for name, value in fields.items():
        if name in ANSWERED_FIELDS:
            continue
        neutral = own.get(name) or NEUTRAL_VALUES.get(name, EMPTY_VALUES)
        if not is_value_among(value, (None, *neutral)):
            raise ApiError(
                HTTPStatus.BAD_REQUEST,
                "unsupported_parameter",
                f"{name:.80}: {format_value(value)} is not supported, and would change the answer;"
                f" what changes nothing: {format_values(neutral)}",
            )


def is_value_among(value: Any, known: Sequence[Any]) -> bool:
    """Return whether a value is one of these: true is not 1, but 1.0 is."""
    return any(
        value == each and isinstance(value, bool) == isinstance(each, bool) for each in known
    )


def format_value(value: Any) -> str:
    """Format a value for a message."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else f"{text[:77]}..."


def format_values(values: Sequence[Any]) -> str:
    """Format values that are possible."""
    return " or ".join(format_value(each) for each in values)


def check_sampling_fields(fields: Mapping[str, Any]) -> None:
    """ApiError for a temperature, since the served generators choose the likeliest token, and for
    sampling fields that are no numbers or out of their range.
    """
    temperature = require_number(fields, "temperature")
    if temperature:
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            "unsupported_parameter",
            f"temperature: {temperature} is not supported: this server always chooses the likeliest"
            " token; send 0, or leave it out",
        )
    top_p = require_number(fields, "top_p")
    if top_p is not None and not 0 < top_p <= 1:
        raise build_field_error(f"top_p: {top_p} is not above 0 and up to 1")
    for name in ("top_k", "seed"):
        if not is_integer_or_none(fields.get(name)):
            raise build_field_error(f"{name}: an integer is wanted")
    top_k = fields.get("top_k")
    if top_k is not None and top_k < -1:
        raise build_field_error(f"top_k: {top_k} is below -1")


def is_integer_or_none(value: Any) -> bool:
    """Return whether a value is an integer, or not given."""
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


def require_number(fields: Mapping[str, Any], name: str) -> float | None:
    """Return a field's number, None if it is not given; ApiError for something else."""
    value = fields.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise build_field_error(f"{name}: a number is wanted")
    return value


def require_bool(fields: Mapping[str, Any], name: str) -> bool:
    """Return a field that is true or false, false if it is not given; ApiError for something
    else.
    """
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise build_field_error(f"{name}: true or false is wanted")
    return bool(value)


def read_stream_options(options: Any, is_streamed: bool) -> tuple[bool, bool]:
    """Return whether a stream tells the numbers of tokens at its end, and whether each of its
    events tells them, too; ApiError for an option that is not supported.
    """
    if options is None:
        return False, False
    if not isinstance(options, dict):
        raise build_field_error("stream_options: an object is wanted")
    if not is_streamed:
        raise build_field_error("stream_options: only with stream true")
    for name, value in options.items():
        if name not in STREAM_OPTIONS and not is_value_among(value, (None, *EMPTY_VALUES)):
            raise build_field_error(f"stream_options.{name:.80}: it is not supported")
    has_usage, is_running = (require_bool(options, name) for name in STREAM_OPTIONS)
    return has_usage, has_usage and is_running


def check_min_tokens(fields: Mapping[str, Any], most: int, ignores_ends: bool) -> None:
    """ApiError for a shortest answer that is longer than the longest, or that the server cannot
    promise: it would have to keep the generator from choosing a token that ends answers.
    """
    least = fields.get("min_tokens")
    if not is_integer_or_none(least) or (least or 0) < 0:
        raise build_field_error("min_tokens: an integer from 0 is wanted")
    if not least:
        return
    if least > most:
        raise build_field_error(f"min_tokens: {least} is more than max_tokens, {most}")
    if not ignores_ends:
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            "unsupported_parameter",
            f"min_tokens: {least} is supported with ignore_eos alone",
        )


def read_log_probabilities(fields: Mapping[str, Any], is_chat: bool, limits: PromptLimits) -> bool:
    """Return whether log-probabilities are asked for: true in a chat; 0 or 1, the number of
    likeliest tokens that are told beside the chosen one, of a completion. ApiError for something
    else, or if the generator does not tell them.
    """
    if is_chat:
        is_wanted = require_bool(fields, "logprobs")
    else:
        value = fields.get("logprobs")
        if value is not False and (not is_integer_or_none(value) or value not in (None, 0, 1)):
            raise build_field_error("logprobs: 0 or 1 is wanted; more likely tokens are not told")
        is_wanted = value is not None and value is not False
    if is_wanted and not limits.has_log_probabilities:
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            "unsupported_parameter",
            "logprobs: the generator of this model does not tell how likely its tokens are",
        )
    return is_wanted


def read_max_tokens(fields: Mapping[str, Any]) -> int | None:
    """Return the longest answer that is asked for, None if no limit is."""
    found = {
        name: fields[name]
        for name in ("max_completion_tokens", "max_tokens")
        if fields.get(name) is not None
    }
    if len(set(map(repr, found.values()))) > 1:
        raise build_field_error("max_tokens and max_completion_tokens differ")
    for name, value in found.items():
        if not is_integer_or_none(value) or value < 1:
            raise build_field_error(f"{name}: an integer from 1 is wanted")
        return int(value)
    return None


def require_messages(messages: Any) -> list[dict[str, str]]:
    """Return messages with their text; ApiError for something else."""
    if not isinstance(messages, list) or not messages:
        raise build_field_error("messages: a list with at least one message is wanted")
    return [require_message(each, f"messages[{place}]") for place, each in enumerate(messages)]


def require_message(message: Any, place: str) -> dict[str, str]:
    """Return a message with its text; ApiError for something else."""
    if not isinstance(message, dict):
        raise build_field_error(f"{place}: an object is wanted")
    if message.get("role") not in MESSAGE_ROLES:
        raise build_field_error(f"{place}.role: one of {', '.join(MESSAGE_ROLES)} is wanted")
    for name, value in message.items():
        if name not in MESSAGE_FIELDS and not is_value_among(value, (None, *EMPTY_VALUES)):
            raise build_field_error(f"{place}.{name:.80}: it is not supported")
    if not isinstance(message.get("name", ""), str | None):
        raise build_field_error(f"{place}.name: a text is wanted")
    named = {"name": message["name"]} if message.get("name") else {}
    text = require_message_text(message.get("content"), place)
    return {"role": message["role"], "content": text} | named


def require_message_text(content: Any, place: str) -> str:
    """Return the text of a message's content: a text, or parts that are text; ApiError for
    something else.
    """
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    texts = [
        part["text"]
        for part in parts
        if isinstance(part, dict)
        and part.get("type") == "text"
        and isinstance(part.get("text"), str)
        and len(part) == len(("type", "text"))
    ]
    if not texts or len(texts) != len(parts):
        raise build_field_error(f"{place}.content: a text, or parts of type text are wanted")
    return "\n".join(texts)


def read_chat_prompt(
    messages: Any, limits: PromptLimits, encoders: PromptEncoders
) -> Sequence[int]:
    """Return the token ids of messages; ApiError for something else."""
    text = encoders.render_chat(require_messages(messages))
    require_prompt_length(text, limits, encoders)
    return encoders.encode_rendered(text)


def require_prompt_length(text: str, limits: PromptLimits, encoders: PromptEncoders) -> None:
    """ApiError for a text that is too long whatever its tokens are: converting megabytes takes
    seconds and gigabytes.
    """
    longest = max(encoders.longest_token, MIN_LONGEST_TOKEN)
    if len(text) > limits.max_sequence_tokens * longest:
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            "context_length_exceeded",
            f"the prompt has {len(text):,} characters; this server takes up to"
            f" {limits.max_sequence_tokens - 1:,} tokens of up to {longest:,} characters",
        )


def read_prompt(prompt: Any, limits: PromptLimits, encoders: PromptEncoders) -> Sequence[int]:
    """Return a prompt's token ids: of a text, of ids, or of a list with one of either; ApiError for
    something else.
    """
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        require_prompt_length(prompt, limits, encoders)
        return encoders.encode_text(prompt)
    if isinstance(prompt, list) and prompt and all(type(each) is int for each in prompt):
        return prompt
    raise build_field_error("prompt: a text, or the token ids of one prompt are wanted")


def choose_max_tokens(prompt: Sequence[int], asked: int | None, limits: PromptLimits) -> int:
    """Return the longest answer to a prompt, which ends where the room behind the prompt does;
    ApiError if there is none.
    """
    if not prompt:
        raise build_field_error("the prompt has no tokens")
    if min(prompt) < 0 or max(prompt) >= limits.vocabulary_size:
        raise build_field_error(
            f"the prompt has tokens outside 0 to {limits.vocabulary_size - 1}, which the model has"
        )
    room = limits.max_sequence_tokens - len(prompt)
    if room < 1:
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            "context_length_exceeded",
            f"the prompt has {len(prompt):,} tokens; this server takes up to"
            f" {limits.max_sequence_tokens - 1:,}",
        )
    return min(room, limits.max_new_tokens if asked is None else asked)
