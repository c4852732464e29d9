"""Reads one answer from the body of a response: a stream of events, or one document.

Field names: OpenAI, API reference, "The chat completion chunk object" and "The completion object";
`reasoning` and `reasoning_content` are those of vLLM and SGLang.
"""

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from harness.serving.network.openai.sse import MAX_EVENT_BYTES, EventParser, EventTooLongError

STREAM_END: Final = b"[DONE]"
ENDED_REASONS: Final = frozenset({"stop", "eos_token", "stop_sequence"})
"""The model ended its answer; TGI has names of its own."""
CUT_REASON: Final = "length"
MAX_ANSWER_BYTES: Final = 1 << 26
"""House rule: of the body of an answer, a document or a stream."""
MAX_COUNTED_TOKENS: Final = MAX_ANSWER_BYTES
"""A token has a byte or more."""
MAX_SHOWN_LENGTH: Final = 200


class BrokenAnswerError(Exception):
    """What a server sent is no answer; the text says why, behind the server's address."""


class AnswerPart(msgspec.Struct):
    """What an event adds to a message, or a whole message."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[Any] | None = None


class AnswerChoice(msgspec.Struct):
    """One of the answers to a request; podium asks for one."""

    delta: AnswerPart | None = None
    message: AnswerPart | None = None
    text: str | None = None
    finish_reason: str | None = None


class TokenUsage(msgspec.Struct):
    """The server's count."""

    completion_tokens: int = 0


class AnswerDocument(msgspec.Struct):
    """An event of a stream, or a document; `error` is in the place of the others."""

    choices: list[AnswerChoice] = []
    usage: TokenUsage | None = None
    error: Any = None
    object: str = ""
    message: str = ""


DOCUMENT_DECODER: Final = msgspec.json.Decoder(AnswerDocument)


@dataclass(slots=True)
class ReadAnswer:
    """An answer as far as it was read."""

    content: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    """Reasoning: it has tokens, and is no part of what was asked for."""
    pieces: int = 0
    """What came that tokens made: events with content, reasoning or calls of tools."""
    content_reads: int = 0
    """Reads of the connection that brought such a piece."""
    finish_reason: str = ""
    counted: int = 0
    """Tokens by the server's count; 0 if it sent none."""
    complete: bool = False

    @property
    def has_begun(self) -> bool:
        """Something came that a token made."""
        return self.pieces > 0

    @property
    def ended(self) -> bool:
        """The model ended the answer, and nothing cut it."""
        return self.finish_reason in ENDED_REASONS

    def add_part(self, part: AnswerPart) -> None:
        """Append what an event adds."""
        reasoning = part.reasoning or part.reasoning_content
        if part.content:
            self.content.append(part.content)
        if reasoning:
            self.hidden.append(reasoning)
        self.pieces += bool(part.content or reasoning or part.tool_calls)

    def check_complete(self) -> None:
        """BrokenAnswerError if the answer is not a whole one."""
        if not self.finish_reason:
            raise BrokenAnswerError("ended an answer without a finish_reason")
        if not self.ended and self.finish_reason != CUT_REASON:
            raise BrokenAnswerError(
                f"ended an answer with the finish_reason {shorten_text(self.finish_reason)!r}"
            )
        if not any(self.content):
            raise BrokenAnswerError("sent an empty answer")
        if not 0 <= self.counted <= MAX_COUNTED_TOKENS:
            raise BrokenAnswerError(f"counts {self.counted} tokens in an answer")


class AnswerReader:
    """Reads the body of one response."""

    __slots__ = ("answer", "events", "size", "streamed", "_document")

    def __init__(self, streamed: bool) -> None:
        self.streamed, self.answer = streamed, ReadAnswer()
        self.events = EventParser()
        self.size = 0
        self._document: list[bytes] = []

    def read_piece(self, body: bytes) -> bool:
        """Read a piece; return whether it brought something that a token made: comments, empty
        events and parts of a document do not. BrokenAnswerError for what is no part of an answer.
        """
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
        answer = self.answer
        if answer.complete:
            return
        if event == STREAM_END:
            answer.check_complete()
            answer.complete = True
            return
        document = decode_document(event)
        if document.usage is not None:
            answer.counted = document.usage.completion_tokens
        for choice in document.choices:
            if choice.delta is not None:
                answer.add_part(choice.delta)
            if choice.text:
                answer.add_part(AnswerPart(content=choice.text))
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
            if not answer.finish_reason:
                raise BrokenAnswerError("cut a stream before its end")
            answer.check_complete()
            answer.complete = True

    def read_document(self, body: bytes) -> None:
        """Read an answer that is not streamed."""
        document, answer = decode_document(body), self.answer
        if len(document.choices) != 1:
            raise BrokenAnswerError(f"sent {len(document.choices)} answers to one prompt")
        (choice,) = document.choices
        answer.add_part(AnswerPart(content=choice.text))
        answer.add_part(choice.message or AnswerPart())
        answer.finish_reason = choice.finish_reason or ""
        answer.counted = document.usage.completion_tokens if document.usage else 0
        answer.check_complete()
        answer.complete = True


def decode_document(data: bytes) -> AnswerDocument:
    """Decode JSON; BrokenAnswerError if it is none, or if it reports an error."""
    try:
        document = DOCUMENT_DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        shown = shorten_text(data.decode("utf-8", "replace"))
        raise BrokenAnswerError(f"sent what is no answer of this API: {shown!r}") from error
    if document.error is not None or document.object == "error":
        raise BrokenAnswerError(f"sent an error: {describe_error_document(document)}")
    return document


def describe_error_document(document: AnswerDocument) -> str:
    """Return what an error says, in one line."""
    error = document.error
    found = error.get("message") if isinstance(error, dict) else error
    return shorten_text(f"{found or document.message or error}")


def shorten_text(text: str) -> str:
    """Return a text in one printable line of limited length."""
    line = " ".join("".join(part if part.isprintable() else " " for part in text).split())
    return line if len(line) <= MAX_SHOWN_LENGTH else f"{line[:MAX_SHOWN_LENGTH]}..."


def describe_refusal(body: bytes) -> str:
    """Return what the body of a refused request says, behind ": "; "" if it says nothing."""
    text = body.decode("utf-8", "replace")
    try:
        document = DOCUMENT_DECODER.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return f": {shorten_text(text)}" if text.strip() else ""
    return f": {describe_error_document(document)}"
