"""Answers in progress: what the tokens of a call become on the way to its client."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from http import HTTPStatus

from aiohttp import HttpVersion11, web

from harness.serving.network.openai.server.answer_events import (
    STREAM_END,
    AnswerHead,
    EventWriter,
    TokenLikelihood,
    build_likelihoods,
    build_usage,
    encode_json,
    write_answer_document,
    write_error_event,
)
from harness.serving.network.openai.server.http_connection import STREAM_HEADERS
from harness.serving.network.openai.server.request_fields import (
    ApiError,
    CompletionRequest,
    build_field_error,
)
from harness.serving.network.openai.server.served_text import TextStream
from harness.serving.network.openai.server.token_service import FinishReason, TokenEvent
from suite.errors import RequestError


class TokenAnswer(ABC):
    """An answer in progress, between the event loop and the handler of its request. The handler
    sends the begin and the end. What lies between is sent as it comes, since a change of tasks for
    each token takes longer than sending it.
    """

    def __init__(self, head: AnswerHead, request: CompletionRequest, text: TextStream) -> None:
        self.head, self.request, self.text = head, request, text
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        """There is something to send, or nothing will come."""
        self.ended: asyncio.Future[bytes] = loop.create_future()
        """The last piece; an ApiError where the answer does not end."""
        self.pieces: list[bytes] = []
        """What came before the handler has begun to send."""
        self.likelihoods: list[TokenLikelihood] = []
        """Of tokens that have not been told, where they are asked for."""
        self.send: Callable[[bytes], object] = self.keep_piece

    def add_event(self, event: TokenEvent) -> None:
        """Take a token. Where that fails, this answer ends, and no other one does."""
        if self.ended.done():
            return
        try:
            piece = self.write_event(event)
        except Exception as error:
            self.ended.set_exception(convert_to_api_error(error))
            self.ended.exception()  # noted as read: the handler may be gone
            self.wake_handler()
            return
        if event.finish is not None:
            self.ended.set_result(piece)
            self.wake_handler()
        elif piece:
            self.send(piece)

    def keep_piece(self, piece: bytes) -> None:
        """Keep a piece until the handler begins to send."""
        self.pieces.append(piece)
        self.wake_handler()

    def add_likelihood(self, event: TokenEvent) -> None:
        """Keep how likely a token was, if that is asked for."""
        if event.log_probability is not None and self.request.has_log_probabilities:
            text = self.text.decode_alone(event.token)
            self.likelihoods.append(TokenLikelihood(text, event.log_probability))

    def wake_handler(self) -> None:
        """Let the handler begin, unless it has."""
        if not self.begun.done():
            self.begun.set_result(None)

    @abstractmethod
    def write_event(self, event: TokenEvent) -> bytes:
        """Return what is sent at a token, b"" if nothing is; what raises ends the answer."""


class StreamedAnswer(TokenAnswer):
    """An answer with an event for each token that has text: whoever sees an event sees text. Where
    tokens are asked for whatever they are, each has an event, as in vLLM.
    """

    def __init__(self, head: AnswerHead, request: CompletionRequest, text: TextStream) -> None:
        super().__init__(head, request, text)
        self.events = EventWriter(head)
        self.count = 0
        """Tokens so far: the service may be ahead of what is written."""

    def write_event(self, event: TokenEvent) -> bytes:
        """Return the token's event; the last one with the numbers of tokens, if they were asked
        for, and the end.
        """
        text = self.text.add_token(require_token(event))
        self.count += 1
        self.add_likelihood(event)
        if event.finish is None:
            if not (text or self.request.ignores_ends):
                return b""
            return self.write_text_event(text, None)
        text += self.text.finish_text()
        last = self.write_text_event(text, event.finish)
        if not self.request.has_usage:
            return last + STREAM_END
        usage = build_usage(len(self.request.prompt), self.count)
        return last + self.events.write_usage(usage) + STREAM_END

    def write_text_event(self, text: str, finish: FinishReason | None) -> bytes:
        """Return the event of a text, with what is asked for beside it."""
        if not self.likelihoods:
            return self.events.write_text(text, finish, self.build_running_usage())
        told = build_likelihoods(self.likelihoods, self.head.is_chat)
        self.likelihoods.clear()
        return self.events.write_text(text, finish, self.build_running_usage(), encode_json(told))

    def build_running_usage(self) -> dict[str, int] | None:
        """Return the numbers of tokens so far; None if events do not tell them."""
        if not self.request.has_running_usage:
            return None
        return build_usage(len(self.request.prompt), self.count)


class WholeAnswer(TokenAnswer):
    """An answer in one document."""

    def __init__(self, head: AnswerHead, request: CompletionRequest, text: TextStream) -> None:
        super().__init__(head, request, text)
        self.parts: list[str] = []

    def write_event(self, event: TokenEvent) -> bytes:
        """Keep the token's text; return the document at the last one."""
        self.parts.append(self.text.add_token(require_token(event)))
        self.add_likelihood(event)
        if event.finish is None:
            return b""
        whole = "".join((*self.parts, self.text.finish_text()))
        usage = build_usage(len(self.request.prompt), event.call.count)
        told = build_likelihoods(self.likelihoods, self.head.is_chat)
        return write_answer_document(self.head, whole, event.finish, usage, told)


def require_token(event: TokenEvent) -> int:
    """Return an event's token; what the generator raised if there is none."""
    if event.problem is not None:
        raise event.problem
    return event.token


async def send_stream(request: web.BaseRequest, answer: TokenAnswer) -> web.StreamResponse:
    """Send an answer token by token; its head with the first event. Where it fails, it ends with an
    error, and without an end that a client could take for an answer's.
    """
    await answer.begun
    if not answer.pieces:
        await answer.ended
    response = web.StreamResponse(headers=STREAM_HEADERS)
    is_chunked = request.version >= HttpVersion11
    if not is_chunked:
        response.force_close()  # only the connection's end tells the stream's
    await response.prepare(request)
    answer.send = build_piece_sender(request, is_chunked)
    if answer.pieces:
        answer.send(b"".join(answer.pieces))
    try:
        await response.write_eof(await answer.ended)
    except ApiError as error:
        await response.write(write_error_event(error))
        if request.transport is not None:
            request.transport.close()
    return response


def build_piece_sender(request: web.BaseRequest, is_chunked: bool) -> Callable[[bytes], None]:
    """Return what sends a piece of a response that has begun (RFC 9112, section 7.1)."""
    transport = request.transport
    if transport is None:
        raise ConnectionResetError
    if not is_chunked:
        return transport.write
    return lambda piece: transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))


def convert_to_api_error(problem: Exception) -> ApiError:
    """Return the API's error for a call without an answer."""
    if isinstance(problem, ApiError):
        return problem
    if isinstance(problem, RequestError):
        return build_field_error(str(problem))
    sentence = f"{type(problem).__name__}: {' '.join(str(problem).split())}"
    return ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "generation_failed", sentence)
