"""A prompt of megabytes delays nobody else, and costs no memory to speak of."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="the extra `openai` is not installed")

from podium_fakes.token_server import (
    CONTEXT,
    EchoServer,
    chat_fields,
    format_request,
    serve_echo,
    text_fields,
    wait_until,
)

from harness.serving.network.openai.server.openai_server import MAX_LOOP_BODY_BYTES
from harness.serving.network.openai.server.request_fields import MIN_LONGEST_TOKEN

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
MOST_CHARACTERS = CONTEXT * MIN_LONGEST_TOKEN
LARGE = "a b " * (MAX_LOOP_BODY_BYTES // 4)
"""A prompt that is not refused for its length alone; of too many tokens."""


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[EchoServer]:
    with serve_echo(tmp_path) as ready:
        yield ready


class Encoding:
    """Counts texts that are turned into tokens; waits before those that are large."""

    def __init__(self, echo: EchoServer, monkeypatch: pytest.MonkeyPatch) -> None:
        assert echo.server.model is not None
        self.text = echo.server.model.text
        self.encode = self.text.encode_one
        self.begun, self.gate = list[int](), threading.Event()
        monkeypatch.setattr(self.text, "encode_one", self.encode_counted)

    def encode_counted(self, text: str, **options: Any) -> list[int]:
        self.begun.append(len(text))
        if len(text) > MAX_LOOP_BODY_BYTES // 2:
            assert self.gate.wait(20)
        return self.encode(text, **options)


@pytest.mark.parametrize(
    "path, fields",
    [
        (TEXT, text_fields("a b " * 950_000)),
        (TEXT, text_fields(["a" * 3_900_000])),
        (CHAT, chat_fields("\u00e4" * 600_000)),
        (CHAT, {"model": "echo", "messages": [{"role": "user", "content": "ab"}] * 90_000}),
        (TEXT, text_fields("a" * (MOST_CHARACTERS + 1))),
    ],
    ids=["text", "list", "chat", "messages", "one too many"],
)
def test_a_text_that_cannot_fit_is_refused_before_its_tokens_are_made(
    echo: EchoServer, monkeypatch: pytest.MonkeyPatch, path: str, fields: dict[str, Any]
) -> None:
    """3.8 MB of them took 25 s and 1.4 GB."""
    encoding = Encoding(echo, monkeypatch)
    response = echo.ask(path, fields)
    assert response.status == 400 and "characters; this server takes up to" in response.message
    assert encoding.begun == []
    assert len(echo.server.open_calls) == echo.server.room.body_bytes == 0


def test_others_are_answered_while_tokens_of_a_large_prompt_are_made(
    echo: EchoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them waited: tokens were made on the event loop."""
    encoding = Encoding(echo, monkeypatch)
    first = echo.connect()
    first.send(format_request(CHAT, chat_fields(LARGE)))
    wait_until(lambda: encoding.begun == [len(LARGE)])
    assert echo.ask("/health").status == 200
    assert echo.ask(CHAT, chat_fields("one")).status == 200
    assert len(echo.server.open_calls) == 1 and echo.server.room.body_bytes > len(LARGE)
    encoding.gate.set()
    response = first.read_response()
    assert response.status == 400 and "this server takes up to 2,047" in response.message
    assert len(echo.server.open_calls) == echo.server.room.body_bytes == 0


@pytest.mark.parametrize("number", [1, 3])
def test_a_client_that_goes_away_frees_its_place(
    echo: EchoServer, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Also of those that still wait for the thread."""
    encoding = Encoding(echo, monkeypatch)
    clients = [echo.connect() for _ in range(number)]
    for client in clients:
        client.send(format_request(CHAT, chat_fields(LARGE)))
    wait_until(lambda: len(encoding.begun) == 1 and len(echo.server.open_calls) == number)
    for client in clients:
        client.close()
    wait_until(lambda: len(echo.server.open_calls) == 0)
    encoding.gate.set()
    wait_until(lambda: echo.server.room.body_bytes == 0)
    assert echo.ask(CHAT, chat_fields("one")).status == 200
    assert echo.generator.admitted == [[*b"one"]] and len(encoding.begun) == 2


def test_a_large_request_with_a_short_prompt_is_answered(echo: EchoServer) -> None:
    """White space between fields is no prompt, and fields of a large one are read like any."""
    fields = text_fields([*b"one"]) | {"stream": True, "user": "x" * 2 * MAX_LOOP_BODY_BYTES}
    response = echo.ask(TEXT, fields)
    assert response.status == 200 and response.events[-1] == "[DONE]"
    assert echo.ask(TEXT, fields | {"temperature": 7}).status == 400
