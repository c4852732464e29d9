"""Answers in progress: how the tokens of a call are sent on the connection that asked for them."""

from abc import ABC, abstractmethod
from http import HTTPStatus

from harness.serving.network.openai.server.answer_events import (
    STREAM_END,
    AnswerHead,
    EventWriter,
    build_usage,
    write_answer_document,
    write_error_event,
)
from harness.serving.network.openai.server.http_connection import HttpConnection
from harness.serving.network.openai.server.request_fields import (
    ApiError,
    CompletionRequest,
    build_field_error,
)
from harness.serving.network.openai.server.served_text import TextStream
from harness.serving.network.openai.server.token_service import FinishReason, TokenEvent
from suite.errors import RequestError


class TokenAnswer(ABC):
    """An answer in progress."""

    def __init__(
        self,
        connection: HttpConnection,
        head: AnswerHead,
        request: CompletionRequest,
        text: TextStream,
    ) -> None:
        self.connection, self.head, self.request, self.text = connection, head, request, text

    def add_event(self, event: TokenEvent) -> None:
        """Take a token, or why there is none."""
        if event.problem is not None:
            self.send_problem(convert_to_api_error(event.problem))
            return
        text = self.text.add_token(event.token)
        if event.finish is None:
            self.add_text(text)
        else:
            usage = build_usage(len(self.request.prompt), event.call.count)
            self.finish_answer(text + self.text.finish_text(), event.finish, usage)

    @abstractmethod
    def add_text(self, text: str) -> None:
        """Take the text of a token, "" if it has none of its own."""

    @abstractmethod
    def finish_answer(self, text: str, finish: FinishReason, usage: dict[str, int]) -> None:
        """Take the last text, and send the end of the answer."""

    @abstractmethod
    def send_problem(self, error: ApiError) -> None:
        """Send why the answer does not end."""


class StreamedAnswer(TokenAnswer):
    """An answer with an event for each token that has text. The first one is sent with the
    response's head: whoever sees an event sees text.
    """

    def __init__(
        self,
        connection: HttpConnection,
        head: AnswerHead,
        request: CompletionRequest,
        text: TextStream,
    ) -> None:
        super().__init__(connection, head, request, text)
        self.events = EventWriter(head)
        self.is_begun = False

    def add_text(self, text: str) -> None:
        """Send an event."""
        if text:
            self.send_events(self.events.write_text(text, None), is_last=False)

    def finish_answer(self, text: str, finish: FinishReason, usage: dict[str, int]) -> None:
        """Send the last event, the numbers of tokens if they were asked for, and the end."""
        last = self.events.write_text(text, finish)
        told = self.events.write_usage(usage) if self.request.has_usage else b""
        self.send_events(last + told + STREAM_END, is_last=True)

    def send_problem(self, error: ApiError) -> None:
        """Send an error: as an event where the stream has begun, which then has no end."""
        if self.is_begun:
            self.connection.break_stream(write_error_event(error))
        else:
            self.connection.send_error(error)

    def send_events(self, events: bytes, *, is_last: bool) -> None:
        """Send events, behind the response's head if they are the first."""
        head = b"" if self.is_begun else self.connection.begin_stream()
        self.is_begun = True
        self.connection.send_pieces(head, events, is_last=is_last)


class WholeAnswer(TokenAnswer):
    """An answer in one document."""

    def __init__(
        self,
        connection: HttpConnection,
        head: AnswerHead,
        request: CompletionRequest,
        text: TextStream,
    ) -> None:
        super().__init__(connection, head, request, text)
        self.parts: list[str] = []

    def add_text(self, text: str) -> None:
        """Keep the text."""
        self.parts.append(text)

    def finish_answer(self, text: str, finish: FinishReason, usage: dict[str, int]) -> None:
        """Send the document."""
        whole = "".join((*self.parts, text))
        self.connection.send_response(
            HTTPStatus.OK, write_answer_document(self.head, whole, finish, usage)
        )

    def send_problem(self, error: ApiError) -> None:
        """Send the error."""
        self.connection.send_error(error)


def convert_to_api_error(problem: Exception) -> ApiError:
    """Return the API's error for a call without an answer."""
    if isinstance(problem, RequestError):
        return build_field_error(str(problem))
    sentence = f"{type(problem).__name__}: {' '.join(str(problem).split())}"
    return ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "generation_failed", sentence)
