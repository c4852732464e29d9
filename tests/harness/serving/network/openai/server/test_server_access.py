"""Who may use the server of OpenAI's API, how many at once, and how it ends."""

import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="the extra `openai` is not installed")

from podium_fakes.certificates import Certificates
from podium_fakes.token_server import (
    WAIT_S,
    RawClient,
    chat_fields,
    format_request,
    serve_echo,
    wait_until,
)

from harness.serving.network.access import ServerCredentials
from harness.serving.network.openai.server import http_connection
from harness.serving.network.openai.server import openai_server as server_module
from harness.serving.network.openai.server.http_connection import (
    MAX_BODY_BYTES,
    MAX_CONNECTIONS,
)
from harness.serving.network.openai.server.openai_server import OpenAiServer, limit_connections
from harness.serving.network.wire import Endpoint
from suite.errors import RequestError

CHAT = "/v1/chat/completions"


@pytest.mark.parametrize("path", [CHAT, "/v1/models", "/health", "/podium/facts", "/other"])
def test_without_the_token_nothing_is_told(tmp_path: Path, path: str):
    fields = chat_fields("one") if path == CHAT else None
    with serve_echo(tmp_path, guard=ServerCredentials(token="secret")) as echo:
        for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}):
            response = echo.ask(path, fields, **given)
            assert response.status == 401 and "www-authenticate: bearer" in response.head
            assert response.document["error"]["code"] == "invalid_api_key"
        assert echo.generator.admitted == []
        allowed = echo.ask(path, fields, Authorization="Bearer secret")
        assert allowed.status == (404 if path == "/other" else 200)


@pytest.mark.parametrize("scheme", ["bearer ", "BEARER ", "Bearer  "])
def test_the_scheme_is_read_as_http_has_it(tmp_path: Path, scheme: str):
    """Its case is free (RFC 9110, 11.1); the token's is not."""
    with serve_echo(tmp_path, guard=ServerCredentials(token="secret")) as echo:
        assert echo.ask("/health", Authorization=f"{scheme}secret").status == 200
        assert echo.ask("/health", Authorization=f"{scheme}SECRET").status == 401
        assert echo.ask("/health", Authorization="Basic secret").status == 401


def ask_without_body(client: RawClient, path: str, **headers: str) -> int:
    """Send the head of a request whose body never comes, and return the answer's status."""
    head, _, _ = format_request(path, b"x" * MAX_BODY_BYTES, **headers).partition(b"\r\n\r\n")
    client.send(head + b"\r\n\r\n")
    response = client.read_response()
    assert "connection: close" in response.head and client.is_closed()
    return response.status


def test_a_request_without_the_token_is_refused_before_its_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """And so is one to an unknown route; a large body is nothing to tell strangers about."""
    monkeypatch.setattr(http_connection, "LINGER_S", 0.05)
    with serve_echo(tmp_path, guard=ServerCredentials(token="secret")) as echo:
        for more in ({}, {"Expect": "100-continue"}):
            assert ask_without_body(echo.connect(), CHAT, **more) == 401
        assert ask_without_body(echo.connect(), "/other", Authorization="Bearer secret") == 404
        client = echo.connect()
        client.send(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 9{'0' * 9}".encode())
        client.send(b"\r\n\r\n")
        assert client.read_response().status == 401
        assert echo.server.room.body_bytes == 0


def test_a_full_queue_refuses_before_the_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http_connection, "LINGER_S", 0.05)
    gate = threading.Semaphore(0)
    with serve_echo(tmp_path, slots=1, queue=0, gate=gate) as echo:
        echo.connect().send(format_request(CHAT, chat_fields("one")))
        wait_until(lambda: len(echo.server.open_calls) == 1)
        assert ask_without_body(echo.connect(), CHAT) == 503


@pytest.mark.slow
def test_tls_with_a_token(tmp_path: Path, certificates: Certificates):
    guard = ServerCredentials(
        certificate=certificates.certificate.read_bytes(),
        key=certificates.key.read_bytes(),
        token="secret",
    )
    with serve_echo(tmp_path, guard=guard, trusted=certificates.authority) as echo:
        fields = chat_fields("one", stream=True)
        response = echo.ask(CHAT, fields, Authorization="Bearer secret")
        assert response.events[-1] == "[DONE]" and len(response.events) == 5
        assert echo.ask(CHAT, fields).status == 401
        echo.trusted = certificates.stranger
        with pytest.raises(ssl.SSLCertVerificationError):
            echo.connect()
        echo.trusted = None
        plain = echo.connect()
        plain.send(format_request("/health"))
        assert plain.is_closed()


@pytest.mark.slow
def test_a_client_behind_tls_that_goes_away_frees_its_slot(
    tmp_path: Path, certificates: Certificates
):
    gate = threading.Semaphore(0)
    guard = ServerCredentials(
        certificate=certificates.certificate.read_bytes(), key=certificates.key.read_bytes()
    )
    with serve_echo(tmp_path, guard=guard, trusted=certificates.authority, gate=gate) as echo:
        client = echo.connect()
        client.send(format_request(CHAT, chat_fields("long", stream=True)))
        wait_until(lambda: len(echo.generator.live) == 1)
        client.close()
        wait_until(lambda: len(echo.server.open_calls) == 0)
        gate.release()
        wait_until(lambda: not echo.generator.live)


@pytest.mark.slow
def test_only_serving_loads_the_library_for_it():
    program = (
        "import harness.commands.serve, harness.serving.network.openai.client_setup, sys;"
        "import harness.serving.network.openai.server.command;"
        "sys.exit('aiohttp' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_certificate_that_is_none_is_told(tmp_path: Path):
    server = OpenAiServer(
        Endpoint(tls=True, host="127.0.0.1", port=0), ServerCredentials(certificate=b"x", key=b"y")
    )
    with pytest.raises(RequestError, match=r"--listen 127\.0\.0\.1:0: "):
        server.start_server()


def test_a_port_in_use_is_told(tmp_path: Path):
    with serve_echo(tmp_path) as echo:
        other = OpenAiServer(
            Endpoint(tls=False, host="127.0.0.1", port=echo.port), ServerCredentials()
        )
        with pytest.raises(RequestError, match="in use"):
            other.start_server()


def test_beyond_the_queue_requests_are_refused(tmp_path: Path):
    """At once, so that a client sees that the server is overloaded; later ones are taken again."""
    gate = threading.Semaphore(0)
    with serve_echo(tmp_path, slots=1, queue=2, gate=gate) as echo:
        clients = [echo.connect() for _ in range(4)]
        for place, client in enumerate(clients[:3]):
            client.send(format_request(CHAT, chat_fields("one")))
            wait_until(lambda place=place: len(echo.server.open_calls) == place + 1)  # type: ignore[misc]
        clients[3].send(format_request(CHAT, chat_fields("one")))
        refused = clients[3].read_response()
        assert refused.status == 503 and "3 answers are in progress or wait" in refused.message
        gate.release(1000)
        assert [client.read_response().status for client in clients[:3]] == [200] * 3
        clients[3].send(format_request(CHAT, chat_fields("one")))
        assert clients[3].read_response().status == 200


@pytest.mark.parametrize(
    "files, connections", [(sys.maxsize, MAX_CONNECTIONS), (1024, 896), (64, 32)]
)
def test_there_are_fewer_connections_where_few_files_may_be_open(files: int, connections: int):
    """An accept that fails would be reported again and again."""
    assert limit_connections(files) == connections


def test_what_the_event_loop_cannot_do_is_told_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    with serve_echo(tmp_path) as echo:
        context = {"message": "accept failed", "exception": OSError(24, "Too many\nopen files")}
        echo.server.loop.call_soon_threadsafe(echo.server.loop.call_exception_handler, context)
        assert echo.ask("/health").status == 200
    assert capfd.readouterr().err == ("a connection failed: [Errno 24] Too many open files\n")


def end_in_background(server: OpenAiServer) -> threading.Thread:
    """Stop a server, which waits for its answers."""
    thread = threading.Thread(target=server.stop_server)
    thread.start()
    return thread


def test_a_server_that_ends_finishes_its_answers_and_takes_no_more(tmp_path: Path):
    gate = threading.Semaphore(0)
    with serve_echo(tmp_path, gate=gate) as echo:
        busy, idle = echo.connect(), echo.connect()
        idle.send(format_request("/health"))
        assert idle.read_response().status == 200
        busy.send(format_request(CHAT, chat_fields("one", stream=True)) * 2)
        wait_until(lambda: len(echo.generator.live) == 1)
        ending = end_in_background(echo.server)
        assert idle.is_closed()
        with pytest.raises(ConnectionRefusedError):
            echo.connect()
        gate.release(1000)
        assert busy.read_response().events[-1] == "[DONE]"
        assert_refused_or_closed(busy)
        ending.join(WAIT_S)
        assert not ending.is_alive() and not echo.server.room.connections
        assert len(echo.generator.admitted) == 1


def assert_refused_or_closed(client: RawClient) -> None:
    """A request that was sent ahead is not answered."""
    rest = client.read_rest()
    assert rest == b"" or rest.startswith(b"HTTP/1.1 503 ")


def test_a_server_that_ends_cuts_answers_that_take_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(server_module, "STOP_GRACE_S", 0.2)
    with serve_echo(tmp_path, gate=threading.Semaphore(0)) as echo:
        busy = echo.connect()
        busy.send(format_request(CHAT, chat_fields("one", stream=True)))
        wait_until(lambda: len(echo.generator.live) == 1)
        ending = end_in_background(echo.server)
        assert busy.is_closed()
        ending.join(WAIT_S)
        assert not ending.is_alive()
