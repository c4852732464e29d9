"""Connections to the server of OpenAI's API: clients that are slow, that send too much, or that go
away.
"""

import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="the extra `openai` is not installed")

from podium_fakes.token_server import (
    EchoServer,
    chat_fields,
    format_request,
    serve_echo,
    wait_until,
)

from harness.serving.network.openai.server import http_connection, openai_server
from harness.serving.network.openai.server.http_connection import (
    MAX_BODY_BYTES,
    MAX_FIELD_BYTES,
    MAX_FIELDS,
)

CHAT = "/v1/chat/completions"
HEALTH = format_request("/health")
LONG_STREAM = chat_fields("x" * 500, stream=True)


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EchoServer]:
    """One server for most tests."""
    with serve_echo(tmp_path_factory.mktemp("echo")) as ready:
        yield ready


def contents(body: bytes) -> str:
    """Join the texts of a stream."""
    return "".join(part.split(b'"', 1)[0].decode() for part in body.split(b'"content":"')[1:])


def test_requests_that_are_sent_ahead_are_answered_in_order(echo: EchoServer):
    """More than the server keeps at once; streams between documents."""
    client, count = echo.connect(), 60
    ahead = [format_request(CHAT, chat_fields(f"t{n}", stream=n % 2 == 0)) for n in range(count)]
    client.send(b"".join(ahead))
    for number in range(count):
        response = client.read_response()
        text = (
            contents(response.body)
            if number % 2 == 0
            else response.document["choices"][0]["message"]["content"]
        )
        assert text == f"t{number}"
    client.send(HEALTH)
    assert client.read_response().status == 200


def test_a_client_that_waits_for_a_word_gets_it(echo: EchoServer):
    """curl does with large bodies."""
    request = format_request(CHAT, chat_fields("one"), Expect="100-continue")
    head, _, body = request.partition(b"\r\n\r\n")
    client = echo.connect()
    client.send(head + b"\r\n\r\n")
    assert client.read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.send(body)
    assert client.read_response().status == 200


def test_old_clients_get_a_stream_without_chunks(echo: EchoServer):
    client = echo.connect()
    request = format_request(CHAT, chat_fields("one", stream=True), Connection="keep-alive")
    client.send(request.replace(b"HTTP/1.1", b"HTTP/1.0"))
    response = client.read_response()
    assert "transfer-encoding" not in response.head
    assert contents(response.body) == "one" and response.body.endswith(b"data: [DONE]\n\n")


def test_a_connection_closes_where_the_client_asks_for_it(echo: EchoServer):
    client = echo.connect()
    client.send(format_request(CHAT, chat_fields("one", stream=True), Connection="close"))
    response = client.read_response()
    assert response.events[-1] == "[DONE]" and "connection: close" in response.head
    assert client.is_closed()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"NONSENSE /health HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 2 * MAX_FIELDS + b"\r\n",
    ],
)
def test_what_is_no_http_is_refused_and_the_connection_closed(
    echo: EchoServer, garbage: bytes, capfd: pytest.CaptureFixture[str]
):
    """In the API's form; nothing is told on the terminal."""
    client = echo.connect()
    client.send(garbage)
    response = client.read_response()
    assert response.status == 400 and "connection: close" in response.head
    assert response.message.startswith("no HTTP request: ") and "\n" not in response.message
    assert client.is_closed()
    assert capfd.readouterr() == ("", "")


def test_a_body_that_is_too_large_is_refused_unread(echo: EchoServer):
    """At once, by its own word: nobody waits for a gigabyte."""
    client = echo.connect()
    client.send(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n".encode())
    response = client.read_response()
    assert response.status == 413 and "more than 4,194,304 bytes" in response.message
    assert client.is_closed()


def test_chunks_without_end_are_refused_when_they_are_too_many(echo: EchoServer):
    """The client still reads why, although it sends on; the server keeps none of it."""
    client = echo.connect()
    client.send(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    for _ in range(MAX_BODY_BYTES // 0x10000 + 20):
        client.send(piece)
    assert client.read_response().status == 413
    assert client.is_closed()


@pytest.mark.parametrize("opening", [b"GET /health HTTP/1.1\r\nX: ", b"GET /"])
def test_a_head_without_end_is_refused(echo: EchoServer, opening: bytes):
    client = echo.connect()
    client.send(opening + b"y" * 2 * MAX_FIELD_BYTES)
    response = client.read_response()
    assert response.status == 431 and response.document["error"]["code"] == "invalid_request"


def test_a_request_that_does_not_arrive_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Neither its head nor its body; the connection may have served before."""
    monkeypatch.setattr(http_connection, "REQUEST_TIMEOUT_S", 0.05)
    monkeypatch.setattr(http_connection, "LINGER_S", 0.05)
    monkeypatch.setattr(openai_server, "SWEEP_S", 0.05)
    with serve_echo(tmp_path) as echo:
        for part in (b"GET /hea", format_request(CHAT, chat_fields("one"))[:-1]):
            client = echo.connect()
            client.send(HEALTH)
            assert client.read_response().status == 200
            client.send(part)
            response = client.read_response()
            assert response.status == 408 and "did not arrive" in response.message
            assert client.is_closed()
        assert echo.server.room.body_bytes == 0


def test_a_request_that_arrives_too_slowly_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each byte comes in time, and the whole does not."""
    monkeypatch.setattr(http_connection, "REQUEST_TIMEOUT_S", 0.3)
    monkeypatch.setattr(openai_server, "SWEEP_S", 0.05)
    with serve_echo(tmp_path) as echo:
        client = echo.connect()
        client.send(b"GET /health HTTP/1.1\r\nX: ")
        sent = 0
        while not select.select([client.socket], [], [], 0.01)[0]:
            client.send(b"y")
            sent += 1
            assert sent < 1000
        assert sent > 1
        assert client.read_response().status == 408


def test_silent_connections_are_closed_and_busy_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(http_connection, "IDLE_TIMEOUT_S", 0.2)
    gate = threading.Semaphore(0)
    with serve_echo(tmp_path, gate=gate) as echo:
        busy, silent = echo.connect(), echo.connect()
        busy.send(format_request(CHAT, chat_fields("one", stream=True)))
        assert silent.is_closed()
        time.sleep(0.5)
        gate.release(1000)
        assert busy.read_response().events[-1] == "[DONE]"
        assert busy.is_closed()


def test_beyond_the_limit_connections_are_refused(tmp_path: Path):
    with serve_echo(tmp_path) as echo:
        echo.server.room.most_connections = 2
        first, _ = echo.connect(), echo.connect()
        wait_until(lambda: len(echo.server.room.connections) == 2)
        refused = echo.connect()
        response = refused.read_response()
        assert response.status == 503 and "2 connections are open" in response.message
        assert refused.is_closed()
        first.close()
        wait_until(lambda: len(echo.server.room.connections) == 1)
        assert echo.ask("/health").status == 200


def test_what_is_sent_ahead_is_not_read_without_end(tmp_path: Path):
    """It waits at the client while an answer is in progress; afterwards all is answered."""
    gate, sent = threading.Semaphore(0), threading.Event()
    with serve_echo(tmp_path, gate=gate) as echo:
        client = echo.connect()
        client.send(format_request(CHAT, chat_fields("one")))
        wait_until(lambda: len(echo.generator.live) == 1)
        ahead = format_request(CHAT, chat_fields("two") | {"user": "x" * (MAX_BODY_BYTES - 200)})
        sender = threading.Thread(target=lambda: (client.send(ahead * 5), sent.set()))
        sender.start()
        assert not sent.wait(0.5)
        assert echo.server.room.body_bytes == 0 and len(echo.server.open_calls) == 1
        gate.release(1000)
        assert [client.read_response().status for _ in range(6)] == [200] * 6
        sender.join()
        assert echo.server.room.body_bytes == 0


def test_all_bodies_together_are_bounded(echo: EchoServer, monkeypatch: pytest.MonkeyPatch):
    """Where others fill the room, a body is refused; when they go away, there is room again."""
    monkeypatch.setattr(http_connection, "MAX_BODIES_BYTES", 10_000)
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n".encode()
    one, two = echo.connect(), echo.connect()
    one.send(head + b"x" * 8000)
    wait_until(lambda: echo.server.room.body_bytes == 8000)
    two.send(head + b"x" * 8000)
    response = two.read_response()
    assert response.status == 503 and "more than 10,000 bytes" in response.message
    one.close()
    wait_until(lambda: echo.server.room.body_bytes == 0)
    assert echo.ask(CHAT, chat_fields("one")).status == 200


@pytest.mark.parametrize("target", ["http://test/health", "HTTP://x:1/health?a=/b", "/health?a"])
def test_a_target_may_be_the_whole_address(echo: EchoServer, target: str):
    """RFC 9112, 3.2.2."""
    assert echo.ask(target).status == 200


@pytest.mark.parametrize("target", ["http://test", "http://test?/health", "health", "*"])
def test_a_target_without_a_known_path_is_no_route(echo: EchoServer, target: str):
    client = echo.connect()
    client.send(HEALTH.replace(b"/health", target.encode()))
    assert client.read_response().status in (400, 404)


def test_an_answer_to_head_has_no_body(echo: EchoServer):
    """Its length is told; the next answer would begin inside it."""
    client = echo.connect()
    for path in (b"/health", b"/v1/models", b"/v1/models/echo", b"/podium/facts"):
        client.send(HEALTH.replace(b"GET /health", b"HEAD " + path) + HEALTH)
        status, head = client.read_head()
        assert status == 200 and "content-length: " in head
        assert client.read_response().document == {"status": "ok"}
    client.send(HEALTH.replace(b"GET", b"PUT"))
    status, head = client.read_head()
    assert status == 405 and "allow: get, head" in head


def leave_by_close(client: socket.socket) -> None:
    client.close()


def leave_by_reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def leave_by_end(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("leave", [leave_by_close, leave_by_reset, leave_by_end])
@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_client_that_goes_away_frees_its_slot_within_one_step(
    tmp_path: Path, leave: object, is_streamed: bool
):
    """Another one gets it, and what still waits of those who left is never answered."""
    gate = threading.Semaphore(0)
    with serve_echo(tmp_path, slots=1, gate=gate) as echo:
        gone, waiting, other = (echo.connect() for _ in range(3))
        gone.send(format_request(CHAT, chat_fields("gone", stream=is_streamed)))
        wait_until(lambda: len(echo.generator.live) == 1)
        waiting.send(format_request(CHAT, chat_fields("waiting", stream=is_streamed)))
        wait_until(lambda: len(echo.server.open_calls) == 2)
        other.send(format_request(CHAT, chat_fields("other")))
        gate.release()
        wait_until(lambda: echo.generator.steps == 1)
        for client in (gone, waiting):
            leave(client.socket)  # type: ignore[operator]
        wait_until(lambda: len(echo.server.open_calls) == 1)
        gate.release()  # the step that has begun
        wait_until(lambda: len(echo.generator.admitted) == 2)
        assert echo.generator.steps == 2
        gate.release(100)
        document = other.read_response().document
        assert document["choices"][0]["message"]["content"] == "other"
        assert echo.generator.admitted == [[*b"gone"], [*b"other"]]
        assert len(echo.server.open_calls) == 0


def test_a_client_with_requests_ahead_that_goes_away_leaves_nothing(tmp_path: Path):
    gate = threading.Semaphore(0)
    with serve_echo(tmp_path, slots=1, gate=gate) as echo:
        client = echo.connect()
        client.send(format_request(CHAT, LONG_STREAM) * 5)
        wait_until(lambda: len(echo.generator.live) == 1)
        client.close()
        wait_until(lambda: len(echo.server.open_calls) == 0)
        gate.release(3)
        wait_until(lambda: not echo.generator.live and not echo.service.waiting)
        assert len(echo.generator.admitted) == 1


def test_a_client_that_does_not_read_delays_nobody_and_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What it does not read is bounded, and so is the time."""
    monkeypatch.setattr(http_connection, "STALLED_TIMEOUT_S", 0.3)
    monkeypatch.setattr(openai_server, "SWEEP_S", 0.05)
    with serve_echo(tmp_path) as echo:
        slow = echo.connect(receive_buffer=4096)
        slow.send(format_request(CHAT, chat_fields("x" * 900, stream=True)) * 16)
        for _ in range(20):
            assert echo.ask(CHAT, chat_fields("one")).status == 200
        wait_until(lambda: len(echo.server.room.connections) == 0)
        assert len(echo.generator.admitted) < 36
        with pytest.raises((AssertionError, ConnectionError)):
            for _ in range(16):
                slow.read_response()


def test_a_slow_reader_gets_everything(echo: EchoServer):
    client = echo.connect(receive_buffer=4096)
    client.send(format_request(CHAT, chat_fields("y" * 800, stream=True)) * 3)
    for _ in range(3):
        response = client.read_response()
        assert contents(response.body) == "y" * 800
        assert len(response.events) == 802
