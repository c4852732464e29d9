"""A server of the OpenAI-compatible API over raw sockets, which does what a script says: every byte
and every fault is the test's.
"""

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

MODEL = "llama"
WORDS = ("Anna", "Bruno", "Dora", "sells")
OPENING = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
LAST_CHUNK = b"0\r\n\r\n"


@dataclass
class Asked:
    """A request as it came."""

    route: str
    headers: dict[str, str]
    body: dict[str, Any]
    send: Callable[[bytes], None]
    close: Callable[[], None]
    connection: int


Behaviour = Callable[[Asked], None]


@dataclass
class Scripted:
    """A server that is ready."""

    url: str = ""
    requests: list[Asked] = field(default_factory=list)
    """Prompts, in the order of their arrival."""
    questions: list[str] = field(default_factory=list)
    """Routes of GET."""
    pages: dict[str, bytes] = field(default_factory=dict)
    """Whole replies by route, in place of the usual ones."""
    connections: int = 0
    context: ssl.SSLContext | None = None
    """For TLS."""
    idle_s: float | None = None
    """After so long without a request a connection is closed."""
    has_no_delay: bool = False
    """Each piece is sent at once, as servers that stream do; otherwise the kernel may join some."""
    sockets: list[socket.socket] = field(default_factory=list)

    @property
    def prompts(self) -> list[str]:
        """What was asked, as text."""
        return [json.dumps(each.body, sort_keys=True) for each in self.requests]


def chunk(data: bytes) -> bytes:
    """Frame a piece of a body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(document: Any) -> bytes:
    """Write an event."""
    return b"data: " + json.dumps(document, ensure_ascii=False).encode() + b"\n\n"


def delta(content: Any, reason: str | None = None, **more: Any) -> dict[str, Any]:
    """Write what a token adds to a chat."""
    added = {} if content is None else {"content": content}
    choice = {"index": 0, "delta": added | more, "finish_reason": reason}
    return {"id": "1", "object": "chat.completion.chunk", "model": MODEL, "choices": [choice]}


def usage(tokens: int, **more: Any) -> dict[str, Any]:
    """Write a count."""
    return {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": tokens, **more}}


def stream(
    words: Iterable[str] = WORDS, *, reason: str = "stop", counted: int | None = None
) -> list[bytes]:
    """Write the events of a whole answer, one of each word."""
    listed = list(words)
    events = [event(delta(f" {word}" if place else word)) for place, word in enumerate(listed)]
    events.append(event(delta(None, reason)))
    if counted is not None:
        events.append(event(usage(counted)))
    return [*events, b"data: [DONE]\n\n"]


def answering(events: Iterable[bytes], pause_s: float = 0.0) -> Behaviour:
    """Answer every prompt with these events, each a chunk."""
    pieces = [chunk(each) for each in events]

    def answer(asked: Asked) -> None:
        asked.send(OPENING)
        for piece in pieces:
            asked.send(piece)
            time.sleep(pause_s)
        asked.send(LAST_CHUNK)

    return answer


def document(text: str, reason: str = "stop", counted: int | None = None) -> bytes:
    """Write a whole reply that is not streamed."""
    told: dict[str, Any] = {
        "choices": [{"index": 0, "message": {"content": text}, "finish_reason": reason}]
    }
    if counted is not None:
        told["usage"] = {"completion_tokens": counted}
    return reply(200, json.dumps(told).encode())


def reply(status: int, body: bytes, *headers: str, version: str = "1.1") -> bytes:
    """Write a whole reply."""
    lines = [f"HTTP/{version} {status} Reason", f"Content-Length: {len(body)}"]
    lines += ["Content-Type: application/json", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def sending(*pieces: bytes, then: Behaviour | None = None) -> Behaviour:
    """Send these bytes, then do something else."""

    def send(asked: Asked) -> None:
        for piece in pieces:
            asked.send(piece)
        if then is not None:
            then(asked)

    return send


def closing(asked: Asked) -> None:
    """Close the connection."""
    asked.close()


def silent(asked: Asked) -> None:
    """Never answer."""


def usual_pages() -> dict[str, bytes]:
    """Name the model; nothing else is known here."""
    models = json.dumps({"object": "list", "data": [{"id": MODEL}]}).encode()
    return {"/v1/models": reply(200, models)}


def vllm_pages(version: str = "0.32.0") -> dict[str, bytes]:
    """Write the pages by which vLLM 0.32 says what it is: its ModelCard, its version, and the HTTP
    library in the header.
    """
    card = {
        "id": MODEL,
        "object": "model",
        "created": 1_764_460_800,
        "owned_by": "vllm",
        "root": "/models/llama",
        "parent": None,
        "max_model_len": 128,
        "permission": [],
    }
    models = json.dumps({"object": "list", "data": [card]}).encode()
    header = "server: uvicorn"
    return {
        "/v1/models": reply(200, models, header),
        "/version": reply(200, json.dumps({"version": version}).encode(), header),
    }


def vllm_metrics(generated: int, prompt: int, hits: int = 0, **labels: str) -> bytes:
    """Write a page of metrics as vLLM 0.32 does, with the counters that podium reads and some that
    it does not.
    """
    named = ",".join(f'{name}="{value}"' for name, value in {"engine": "0", **labels}.items())
    series = {
        "prefix_cache_queries": (
            "Prefix cache queries, in terms of number of queried tokens.",
            prompt,
        ),
        "prefix_cache_hits": ("Prefix cache hits, in terms of number of cached tokens.", hits),
        "num_preemptions": ("Cumulative number of preemption from the engine.", 3),
        "prompt_tokens": ("Number of prefill tokens processed.", prompt),
        "generation_tokens": ("Number of generation tokens processed.", generated),
        "request_success": ("Count of successfully processed requests.", 1),
    }
    lines = [
        "# HELP vllm:num_requests_running Number of requests in model execution batches.",
        "# TYPE vllm:num_requests_running gauge",
        f"vllm:num_requests_running{{{named}}} 0.0",
    ]
    for name, (told, value) in series.items():
        lines += [
            f"# HELP vllm:{name}_total {told}",
            f"# TYPE vllm:{name}_total counter",
            f"vllm:{name}_total{{{named}}} {value:.1f}",
            f"# TYPE vllm:{name}_created gauge",
            f"vllm:{name}_created{{{named}}} 1.7644608e+09",
        ]
    body = "\n".join([*lines, ""]).encode()
    return reply(200, body, "server: uvicorn")


def fingerprinted(events: Iterable[bytes], fingerprint: object) -> list[bytes]:
    """Put a fingerprint into the last event before the end, where vLLM has it."""
    *others, last, end = events
    document = json.loads(last.removeprefix(b"data: "))
    return [*others, event(document | {"system_fingerprint": fingerprint}), end]


@contextmanager
def scripted(behave: Behaviour, **facts: Any) -> Iterator[Scripted]:
    """Run a server in threads of this process."""
    server = Scripted(pages=usual_pages() | facts.pop("pages", {}), **facts)
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        server.url = f"http{'s' if server.context else ''}://127.0.0.1:{listener.getsockname()[1]}"
        threading.Thread(target=accept, args=(listener, server, behave), daemon=True).start()
        try:
            yield server
        finally:
            for each in server.sockets:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()


def accept(listener: socket.socket, server: Scripted, behave: Behaviour) -> None:
    """Give each connection a thread."""
    with suppress(OSError):  # the test is over, and the listener closed
        while True:
            connection = listener.accept()[0]
            server.sockets.append(connection)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, server.has_no_delay)
            server.connections += 1
            words = (connection, server, behave, server.connections)
            threading.Thread(target=converse, args=words, daemon=True).start()


def converse(connection: socket.socket, server: Scripted, behave: Behaviour, number: int) -> None:
    """Read requests, and answer them as the script says."""
    try:
        connection.settimeout(server.idle_s)
        stream_in = connection.makefile("rb")
    except OSError:  # the script has ended and closed it
        return
    if server.context is not None:
        try:
            connection = server.context.wrap_socket(connection, server_side=True)
        except OSError:  # a client that does not trust it
            return
        server.sockets.append(connection)
        stream_in = connection.makefile("rb")
    with suppress(OSError, ValueError):
        while line := stream_in.readline():
            method, route, _ = line.decode().split()
            headers = {}
            while header := stream_in.readline().strip():
                name, _, value = header.decode().partition(":")
                headers[name.lower()] = value.strip()
            body = stream_in.read(int(headers.get("content-length", 0)))
            if method == "GET":
                server.questions.append(route)
                connection.sendall(server.pages.get(route, reply(404, b"{}")))
                continue
            asked = Asked(
                route,
                headers,
                json.loads(body),
                connection.sendall,
                lambda: connection.shutdown(socket.SHUT_RDWR),
                number,
            )
            server.requests.append(asked)
            behave(asked)
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
