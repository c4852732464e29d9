"""Reads one answer from the body of a response: a stream of events, or one document.

Field names: OpenAI, API reference, "The chat completion chunk object" and "The completion object";
`reasoning` and `reasoning_content` are those of vLLM and SGLang, `reasoning_details` OpenRouter's,
`thinking` and content in parts Mistral's. A field that podium does not need may have any form.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from harness.serving.network.openai.refusal_text import (
    MAX_SHOWN_LENGTH,
    describe_error_body,
    shorten_text,
)
from harness.serving.network.openai.sse import MAX_EVENT_BYTES, EventParser, EventTooLongError
from suite.loadgen.usage_record import NOT_STATED

STREAM_END: Final = b"[DONE]"
ENDED_REASONS: Final = frozenset({"stop", "eos_token", "stop_sequence"})
"""The model ended its answer; TGI has names of its own."""
CUT_REASON: Final = "length"
ERROR_OBJECT: Final = "error"
TEXT_PART: Final = "text"
ANSWER_PARTS: Final = (TEXT_PART, "output_text")
"""Types of the parts of a content that are the answer; others are reasoning."""
PART_KEYS: Final = ("text", "thinking", "summary", "content")
"""Where parts have their text."""
MAX_PART_DEPTH: Final = 4
MAX_ANSWER_BYTES: Final = 1 << 26
"""House rule: of the body of an answer, a document or a stream."""
MAX_COUNTED_TOKENS: Final = MAX_ANSWER_BYTES
"""A token has a byte or more."""


class BrokenAnswerError(Exception):
    """What a server sent is no answer; the text says why, behind the server's address."""

    joint = " "
    """Between the address and the text."""


class UnfitAnswerError(BrokenAnswerError):
    """An answer that the judge would not take; the text is a sentence of its own."""

    joint = ": "


class AnswerPart(msgspec.Struct):
    """What an event adds to a message, or a whole message."""

    content: str | list[Any] | None = None
    reasoning: Any = None
    reasoning_content: Any = None
    reasoning_details: Any = None
    thinking: Any = None
    tool_calls: Any = None
    refusal: Any = None


class AnswerChoice(msgspec.Struct):
    """One of the answers to a request; podium asks for one."""

    index: int | None = 0
    delta: AnswerPart | None = None
    message: AnswerPart | None = None
    text: str | None = None
    finish_reason: str | None = None
    logprobs: Any = None


class TokenUsage(msgspec.Struct):
    """The server's count."""

    completion_tokens: Any = None
    prompt_tokens: Any = None
    prompt_tokens_details: Any = None
    completion_tokens_details: Any = None


class AnswerDocument(msgspec.Struct):
    """An event of a stream, or a document; an error is in the place of the others."""

    choices: list[AnswerChoice] | None = None
    usage: TokenUsage | None = None
    system_fingerprint: Any = None
    error: Any = None
    object: Any = None
    message: Any = None
    detail: Any = None
    msg: Any = None
    errors: Any = None

    @property
    def is_error(self) -> bool:
        """Whether it reports an error."""
        if self.error or self.object == ERROR_OBJECT:
            return True
        return not self.choices and bool(self.message or self.detail or self.msg or self.errors)


DOCUMENT_DECODER: Final = msgspec.json.Decoder(AnswerDocument)


@dataclass(slots=True)
class ReadAnswer:
    """An answer as far as it was read."""

    content: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    """Reasoning: it has tokens, and is no part of what was asked for."""
    pieces: int = 0
    """What came that tokens made: events with content, reasoning or calls of tools."""
    arrivals_ns: list[int] = field(default_factory=list)
    """When pieces came that tokens made (monotonic ns)."""
    content_reads: int = 0
    """Reads of the connection that brought such a piece."""
    finish_reason: str = ""
    counted: int = 0
    """Tokens by the server's count; 0 if it sent none."""
    reasoning: int = 0
    """Tokens of reasoning by the server's count, whether or not it sends them."""
    prompt_tokens: int = NOT_STATED
    cached_tokens: int = NOT_STATED
    """Tokens of the prompt, and how many of them were in a cache, by the server's count."""
    complete: bool = False
    refusal: list[str] = field(default_factory=list)
    """What the model says in the place of an answer."""
    misplaced: str = ""
    """Where the answer may be instead, as the end of a sentence."""
    calls_tools: bool = False
    log_probabilities: list[float] = field(default_factory=list)
    """Of the tokens, as far as they came."""
    likely_texts: list[str] = field(default_factory=list)
    """What those tokens are, each by itself; "" where the server does not say."""
    fingerprint: str = ""
    """`system_fingerprint`: what the server says of the system behind it; "" if it says nothing."""

    @property
    def has_begun(self) -> bool:
        """Something came that a token made."""
        return self.pieces > 0

    @property
    def ended(self) -> bool:
        """The model ended the answer, and nothing cut it."""
        return self.finish_reason in ENDED_REASONS

    @property
    def text(self) -> str:
        """What was asked for."""
        return join_halves("".join(self.content))

    @property
    def begin(self) -> str:
        """What came so far, of a message whose first piece may be reasoning."""
        return join_halves("".join(self.content or self.hidden))

    def add_part(self, part: AnswerPart) -> None:
        """Append what an event adds."""
        content = part.content
        hidden = part.reasoning or part.reasoning_content or part.reasoning_details or part.thinking
        if isinstance(content, list):
            content, thoughts = split_content(content)
            hidden = hidden or thoughts
        if content:
            self.content.append(content)
        if hidden and (thought := collect_text(hidden)):
            self.hidden.append(thought)
        if refusal := collect_text(part.refusal):
            self.refusal.append(refusal)
        self.calls_tools |= bool(part.tool_calls)
        self.pieces += bool(content or hidden or part.tool_calls)

    def add_log_probabilities(self, told: object) -> None:
        """Take what a choice tells of its tokens; NaN for what is no number."""
        if not isinstance(told, dict):
            return
        values, texts = told.get("token_logprobs"), told.get("tokens")
        if isinstance(content := told.get("content"), list):
            each_told = [each if isinstance(each, dict) else {} for each in content]
            values = [each.get("logprob") for each in each_told]
            texts = [each.get("token") for each in each_told]
        if not isinstance(values, list):
            return
        if not isinstance(texts, list) or len(texts) != len(values):
            texts = [""] * len(values)
        self.log_probabilities += map(read_log_probability, values)
        self.likely_texts += (each if isinstance(each, str) else "" for each in texts)

    def add_usage(self, usage: TokenUsage) -> None:
        """Take the server's count; BrokenAnswerError if it is none. Null is as good as absent."""
        counted = usage.completion_tokens
        if counted is not None:
            self.counted = read_count("completion_tokens", counted)
        details = usage.completion_tokens_details
        thought = details.get("reasoning_tokens") if isinstance(details, dict) else None
        if thought is not None:
            self.reasoning = read_count("completion_tokens_details.reasoning_tokens", thought)
        self.prompt_tokens = find_count(usage.prompt_tokens, self.prompt_tokens)
        details = usage.prompt_tokens_details
        if isinstance(details, dict):
            self.cached_tokens = find_count(details.get("cached_tokens"), self.cached_tokens)

    def add_fingerprint(self, said: object) -> None:
        """Take what the server says of its system, in one line; null is as good as absent."""
        if isinstance(said, str):
            self.fingerprint = shorten_text(said)

    def check_complete(self) -> None:
        """BrokenAnswerError if the answer is not a whole one."""
        if not self.finish_reason:
            raise BrokenAnswerError("ended an answer without a finish_reason")
        if not self.ended and self.finish_reason != CUT_REASON:
            raise BrokenAnswerError(
                f"ended an answer with the finish_reason {shorten_text(self.finish_reason)!r}"
            )
        if not (self.content or self.hidden or self.reasoning):
            raise BrokenAnswerError(self.explain_emptiness())
        if not 0 <= self.counted <= MAX_COUNTED_TOKENS:
            raise BrokenAnswerError(f"counts {self.counted} tokens in an answer")

    def explain_emptiness(self) -> str:
        """Say what came in the place of an answer's text."""
        if self.refusal:
            return f"refused to answer: {shorten_text(''.join(self.refusal))!r}"
        if self.calls_tools:
            return "called a tool in the place of an answer"
        return f"sent an empty answer{self.misplaced}"


class AnswerReader:
    """Reads the body of one response."""

    __slots__ = ("answer", "begin", "events", "has_events", "size", "streamed", "_document")

    def __init__(self, streamed: bool) -> None:
        self.streamed, self.answer = streamed, ReadAnswer()
        self.events = EventParser()
        self.has_events = False
        self.begin = b""
        """Of the body: shown if it is no stream."""
        self.size = 0
        self._document: list[bytes] = []

    def read_piece(self, body: bytes) -> bool:
        """Read a piece; return whether it brought something that a token made: comments, empty
        events and parts of a document do not. BrokenAnswerError for what is no part of an answer.
        """
        if not self.size:
            self.begin = body[:MAX_SHOWN_LENGTH]
        self.size += len(body)
        if self.size > MAX_ANSWER_BYTES:
            raise BrokenAnswerError(f"sent more than {MAX_ANSWER_BYTES:,} bytes for one answer")
        if not self.streamed:
            self._document.append(body)
            return False
        pieces = self.answer.pieces
        try:
            events = self.events.feed_piece(body)
        except EventTooLongError as error:
            raise BrokenAnswerError(
                f"sent more than {MAX_EVENT_BYTES:,} bytes in one event"
            ) from error
        for event in events:
            self.read_event(event)
        return self.answer.pieces > pieces

    def read_event(self, event: bytes) -> None:
        """Read one event."""
        answer, self.has_events = self.answer, True
        if answer.complete:
            return
        if event == STREAM_END:
            answer.check_complete()
            answer.complete = True
            return
        document = decode_document(event)
        if document.usage is not None:
            answer.add_usage(document.usage)
        if document.system_fingerprint and not answer.fingerprint:
            answer.add_fingerprint(document.system_fingerprint)
        for choice in document.choices or ():
            if choice.index:
                raise BrokenAnswerError(
                    f"sent several answers to one prompt: a choice of index {choice.index}"
                )
            if choice.delta is not None:
                answer.add_part(choice.delta)
            elif choice.message is not None:
                answer.misplaced = ": its events have `message`, where `delta` is wanted"
            if choice.text:
                answer.add_part(AnswerPart(content=choice.text))
            if choice.logprobs:
                answer.add_log_probabilities(choice.logprobs)
            if choice.finish_reason:
                answer.finish_reason = choice.finish_reason

    def finish_reading(self) -> None:
        """Note the body's end; BrokenAnswerError if the answer is not complete.

        A stream ends with `[DONE]`. Servers that do not send it (transformers serve 5.24) end with
        their response's last chunk, behind the event with the finish_reason.
        """
        answer = self.answer
        if not self.streamed:
            self.read_document(b"".join(self._document))
        elif not answer.complete:
            if not self.has_events:
                shown = shorten_text(self.begin.decode("utf-8", "replace"))
                raise BrokenAnswerError(f"sent no stream of events, but {shown!r}")
            if not answer.finish_reason:
                raise BrokenAnswerError("cut a stream before its end")
            answer.check_complete()
            answer.complete = True

    def read_document(self, body: bytes) -> None:
        """Read an answer that is not streamed."""
        document, answer = decode_document(body), self.answer
        choices = document.choices or ()
        if len(choices) != 1:
            raise BrokenAnswerError(f"sent {len(choices)} answers to one prompt")
        (choice,) = choices
        answer.add_part(AnswerPart(content=choice.text))
        answer.add_part(choice.message or AnswerPart())
        if choice.message is None and choice.delta is not None:
            answer.misplaced = ": it has `delta`, where `message` is wanted"
        answer.add_log_probabilities(choice.logprobs)
        answer.finish_reason = choice.finish_reason or ""
        answer.add_fingerprint(document.system_fingerprint)
        if document.usage is not None:
            answer.add_usage(document.usage)
        answer.check_complete()
        answer.complete = True


def decode_document(data: bytes) -> AnswerDocument:
    """Decode JSON; BrokenAnswerError if it is none, or if it reports an error."""
    try:
        document = DOCUMENT_DECODER.decode(data)
    except msgspec.ValidationError as error:
        raise build_form_error(data, error) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        document = decode_loosely(data, error)
    if document.is_error:
        raise BrokenAnswerError(f"sent an error: {describe_error_body(data)}")
    return document


def decode_loosely(data: bytes, strict_error: Exception) -> AnswerDocument:
    """Decode what some servers send for JSON: NaN, infinities, and halves of a letter that comes in
    two events; BrokenAnswerError otherwise.
    """
    if len(data) > MAX_EVENT_BYTES:  # Python's objects have many times its size
        raise build_form_error(data[:MAX_EVENT_BYTES], strict_error) from strict_error
    try:
        return msgspec.convert(json.loads(data), AnswerDocument)
    except msgspec.ValidationError as error:
        raise build_form_error(data, error) from error
    except (ValueError, RecursionError) as error:
        raise build_form_error(data, strict_error) from error


def build_form_error(data: bytes, error: Exception) -> BrokenAnswerError:
    """Build the error of what is no answer: its begin, and what the decoder says of it."""
    shown = shorten_text(data.decode("utf-8", "replace"))
    return BrokenAnswerError(
        f"sent what is no answer of this API ({shorten_text(str(error))}): {shown!r}"
    )


def read_count(name: str, value: object) -> int:
    """Read a count of tokens, which some servers write as 7.0; BrokenAnswerError for another."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        shown = shorten_text(json.dumps(value))
        raise BrokenAnswerError(f"sent what is no answer of this API (usage.{name} is {shown})")
    return value


def read_log_probability(value: object) -> float:
    """Read the logarithm of a probability; NaN for another value, which has no effect."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    return float(value)


def find_count(value: object, known: int) -> int:
    """Read a count of tokens that no result needs; `known` for what is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return known
    return value if 0 <= value <= MAX_COUNTED_TOKENS else known


def split_content(parts: Sequence[Any]) -> tuple[str, list[Any]]:
    """Split a content that comes in parts: the answer's text, and the parts that are reasoning."""
    texts = [each for each in parts if not isinstance(each, dict) or is_text_part(each)]
    others = [each for each in parts if isinstance(each, dict) and not is_text_part(each)]
    return collect_text(texts), others


def is_text_part(part: Mapping[str, Any]) -> bool:
    """Return whether a part of a content is of the answer."""
    return part.get("type", TEXT_PART) in ANSWER_PARTS


def collect_text(value: Any, depth: int = 0) -> str:
    """Return the text of a message's part, which may be a list of parts or have fields; "" without
    any.
    """
    if isinstance(value, str):
        return value
    if depth >= MAX_PART_DEPTH:
        return ""
    if isinstance(value, list):
        return "".join(collect_text(each, depth + 1) for each in value)
    if isinstance(value, dict):
        found = (collect_text(value.get(key), depth + 1) for key in PART_KEYS)
        return next(filter(None, found), "")
    return ""


def join_halves(text: str) -> str:
    """Return a text whose letters beyond the first 65,536 may have come in halves, as whole
    letters; half a letter becomes U+FFFD.
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
