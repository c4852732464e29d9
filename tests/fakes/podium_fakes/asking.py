"""Asks servers through the client's pool of connections, and keeps what came."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.serving.network.access import ClientCredentials
from harness.serving.network.openai.answer_reader import ReadAnswer
from harness.serving.network.openai.prompt_requests import PromptApi, RequestStyle
from harness.serving.network.openai.server_pool import (
    AnswerTimeout,
    SentRequest,
    ServerPool,
    create_event_loop,
)
from harness.serving.network.wire import parse_endpoint
from podium_fakes.scripted import Behaviour, scripted

BODY = b'{"model": "llama"}'
SOON_S = 20.0
QUIET_SOON = AnswerTimeout(SOON_S, per_answer=False)


@dataclass
class Heard:
    """What came of some requests."""

    answers: dict[int, ReadAnswer] = field(default_factory=dict)
    firsts: dict[int, int] = field(default_factory=dict)
    first_texts: dict[int, str] = field(default_factory=dict)
    failure: Exception | None = None
    wanted: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def handle_first_token(self, request: SentRequest, answer: ReadAnswer, now_ns: int) -> None:
        assert request.sample not in self.firsts
        self.firsts[request.sample] = now_ns
        self.first_texts[request.sample] = answer.begin

    def handle_answer(self, request: SentRequest, answer: ReadAnswer) -> None:
        assert request.sample not in self.answers
        self.answers[request.sample] = answer
        if len(self.answers) >= self.wanted:
            self.over.set()

    def handle_failure(self, error: Exception) -> None:
        assert self.failure is None
        self.failure = error
        self.over.set()

    @property
    def texts(self) -> list[str]:
        return [self.answers[place].text for place in sorted(self.answers)]


def ask(
    *urls: str,
    count: int = 1,
    in_flight: int = 4,
    streamed: bool = True,
    timeout: AnswerTimeout = QUIET_SOON,
    turns: int = 1,
    between: Callable[[], None] = lambda: None,
    **more: Any,
) -> Heard:
    """Ask prompts all at once, or in several turns; return what came."""
    loop, heard = create_event_loop(), Heard()
    style = RequestStyle(
        api=PromptApi.CHAT, model="llama", streamed=streamed, headers={"X-A": "b"}, **more
    )
    pool = ServerPool(
        loop,
        [parse_endpoint(url) for url in urls],
        style,
        ClientCredentials(),
        in_flight,
        timeout,
        heard,
    )
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(pool.open_connections(), loop).result(SOON_S)
        for turn in range(turns):
            heard.over.clear()
            heard.wanted += count
            first = turn * count
            requests = [SentRequest(n, n, 0, BODY) for n in range(first, first + count)]
            loop.call_soon_threadsafe(pool.submit_requests, requests)
            assert heard.over.wait(SOON_S)
            between()
    finally:
        asyncio.run_coroutine_threadsafe(pool.close_connections(), loop).result(SOON_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(SOON_S)
        loop.close()
    return heard


def heard_of(behave: Behaviour, **facts: object) -> tuple[Heard, list[str], int]:
    """Ask one server; return what came, the prompts in its log, and its connections."""
    with scripted(behave) as server:
        heard = ask(server.url, **facts)  # type: ignore[arg-type]
        return heard, server.prompts, server.connections
