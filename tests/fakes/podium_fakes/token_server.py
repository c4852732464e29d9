"""A server of OpenAI's API in front of a generator that echoes its prompts byte by byte, at the
test's pace; and raw sockets to talk to it.
"""

import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from harness.serving.network.access import ServerCredentials
from harness.serving.network.openai.server.openai_server import OpenAiServer, ServedModel
from harness.serving.network.openai.server.request_fields import PromptLimits
from harness.serving.network.openai.server.served_text import ServedText
from harness.serving.network.openai.server.token_service import TokenService
from harness.serving.network.wire import Endpoint
from suite.errors import RequestError

ECHO = "echo"
END = 256
CONTEXT = 2048
LONGEST = 1000
WAIT_S = 20.0
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
FAILING, REFUSED = [*b"ail", END], [*b"refuse"]
"""What is left of an answer when a step fails; and a prompt that the generator does not take."""


def write_echo_checkpoint(folder: Path, template: str | None = TEMPLATE) -> Path:
    """Write a tokenizer with a token for each byte, and one that ends answers."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE(vocab=number_bytes() | {"<end>": END}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<end>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": template, "eos_token": "<end>"})
    )
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [END]}))
    return folder


def number_bytes() -> dict[str, int]:
    """Number the letters that stand for bytes, so that a token is its byte. Source: GPT-2,
    encoder.py, bytes_to_unicode.
    """
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {
        chr(256 + place): byte for place, byte in enumerate(others)
    }


class EchoGenerator:
    """Answers a prompt with its own tokens, then the end; where ends are ignored, again and again.
    `gate`: a step needs one permit; None: steps come at once.
    """

    vocabulary_size, max_sequence_tokens, max_new_tokens = END + 1, CONTEXT, LONGEST

    def __init__(self, slots: int, gate: threading.Semaphore | None) -> None:
        self.slots, self.gate = slots, gate
        self.live: dict[int, list[int]] = {}
        self.admitted = list[list[int]]()
        self.released = list[int]()
        self.steps = 0
        self.last = list[int]()
        """Tokens of the last step."""

    def warm_up(self) -> None:
        """Nothing to do."""

    def admit(
        self,
        slot: int,
        prompt: Sequence[int],
        max_new_tokens: int | None = None,
        *,
        ignores_ends: bool = False,
    ) -> None:
        assert slot not in self.live, "a slot in use"
        if prompt == REFUSED:
            raise RequestError("echo: not this prompt")
        repeats = CONTEXT if ignores_ends else 1
        self.live[slot] = [*prompt, END] * repeats
        self.admitted.append(list(prompt))

    def step(self) -> Sequence[tuple[int, int, bool]]:
        if self.gate is not None:
            self.gate.acquire()
        self.steps += 1
        if any(left == FAILING for left in self.live.values()):
            raise ValueError("a broken\nstep")
        self.last = [left[0] for left in self.live.values()]
        return [
            (slot, left[0], left.pop(0) == END and not left) for slot, left in self.live.items()
        ]

    def compute_log_probabilities(self) -> Sequence[float]:
        """Token 5 of a step is as likely as exp(-5/4)."""
        return [-token / 4 for token in self.last]

    def release(self, slot: int) -> None:
        del self.live[slot]
        self.released.append(slot)


@dataclass
class EchoServer:
    """A server that is ready, and what is behind it."""

    server: OpenAiServer
    generator: EchoGenerator
    service: TokenService
    port: int
    trusted: Path | None = None
    opened: list[socket.socket] = field(default_factory=list)

    def connect(self, receive_buffer: int = 0) -> "RawClient":
        """Open a connection."""
        plain = socket.socket()
        self.opened.append(plain)
        if receive_buffer:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.settimeout(WAIT_S)
        plain.connect(("127.0.0.1", self.port))
        if self.trusted is not None:
            context = ssl.create_default_context(cafile=str(self.trusted))
            plain = context.wrap_socket(plain, server_hostname="127.0.0.1")
            self.opened.append(plain)
        return RawClient(plain)

    def ask(self, path: str, fields: Any = None, **headers: str) -> "RawResponse":
        """Send one request on a connection of its own, and read the response."""
        client = self.connect()
        client.send(format_request(path, fields, **headers))
        response = client.read_response()
        client.close()
        return response


@contextmanager
def serve_echo(
    folder: Path,
    *,
    slots: int = 4,
    queue: int = 8,
    gate: threading.Semaphore | None = None,
    guard: ServerCredentials | None = None,
    trusted: Path | None = None,
    ready: bool = True,
) -> Iterator[EchoServer]:
    """Serve an echo."""
    text = ServedText(write_echo_checkpoint(folder))
    generator = EchoGenerator(slots, gate)
    service = TokenService(lambda: generator, text.ends)
    service.start_service()
    tls = guard is not None and guard.certificate is not None
    server = OpenAiServer(Endpoint(tls=tls, host="127.0.0.1", port=0), guard or ServerCredentials())
    echo = EchoServer(server, generator, service, server.start_server(), trusted)
    if ready:
        server.serve_model(
            ServedModel(
                limits=PromptLimits(
                    model=ECHO,
                    vocabulary_size=generator.vocabulary_size,
                    max_sequence_tokens=generator.max_sequence_tokens,
                    max_new_tokens=generator.max_new_tokens,
                    has_log_probabilities=True,
                ),
                text=text,
                service=service,
                most_calls=slots + queue,
                facts=b'{"workload":"echo"}',
            )
        )
    try:
        yield echo
    finally:
        for each in echo.opened:
            each.close()
        if gate is not None:
            gate.release(1_000_000)
        server.stop_server()
        service.stop_service()


@dataclass
class RawResponse:
    """A response as it was read."""

    status: int
    head: str
    body: bytes
    chunks: list[bytes]
    """Of a chunked body; empty for another."""

    @property
    def document(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def message(self) -> str:
        """The message of an error."""
        return str(self.document["error"]["message"])

    @property
    def events(self) -> list[Any]:
        """The events of a stream, and the text of its end."""
        texts = [each.removeprefix("data: ") for each in self.body.decode().split("\n\n") if each]
        return [each if each == "[DONE]" else json.loads(each) for each in texts]


class RawClient:
    """A socket that speaks HTTP."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket, self.buffer = connection, b""

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self.socket.sendall(data)

    def read_until(self, mark: bytes) -> bytes:
        """Read up to a mark, which is included."""
        while mark not in self.buffer:
            data = self.socket.recv(65536)
            assert data, f"the connection ended before {mark!r}: {self.buffer!r}"
            self.buffer += data
        found, _, self.buffer = self.buffer.partition(mark)
        return found + mark

    def read_exactly(self, size: int) -> bytes:
        """Read so many bytes."""
        while len(self.buffer) < size:
            data = self.socket.recv(65536)
            assert data, "the connection ended inside a body"
            self.buffer += data
        found, self.buffer = self.buffer[:size], self.buffer[size:]
        return found

    def read_head(self) -> tuple[int, str]:
        """Read a response's head."""
        head = self.read_until(b"\r\n\r\n").decode()
        match = re.match(r"HTTP/1\.[01] (\d{3}) ", head)
        assert match, head
        return int(match[1]), head.lower()

    def read_response(self) -> RawResponse:
        """Read a response to its end."""
        status, head = self.read_head()
        if match := re.search(r"content-length: (\d+)\r\n", head):
            return RawResponse(status, head, self.read_exactly(int(match[1])), [])
        if "transfer-encoding: chunked" not in head:
            return RawResponse(status, head, self.read_rest(), [])
        chunks = list(iter(self.read_chunk, b""))
        return RawResponse(status, head, b"".join(chunks), chunks)

    def read_chunk(self) -> bytes:
        """Read a chunk; empty: the last one."""
        size = int(self.read_until(b"\r\n"), 16)
        data = self.read_exactly(size)
        assert self.read_exactly(2) == b"\r\n"
        return data

    def read_rest(self) -> bytes:
        """Read until the server closes."""
        while data := self.socket.recv(65536):
            self.buffer += data
        found, self.buffer = self.buffer, b""
        return found

    def is_closed(self) -> bool:
        """Return whether the server has closed the connection, after waiting for it."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        """Go away."""
        with closing(self.socket):
            pass


def format_request(path: str, fields: Any = None, **headers: str) -> bytes:
    """Write a request: a POST if there are fields, as JSON or as the bytes that they are."""
    body = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{'GET' if fields is None else 'POST'} {path} HTTP/1.1", "Host: test"]
    lines += [f"{name}: {value}" for name, value in given.items()]
    if fields is None:
        return ("\r\n".join(lines) + "\r\n\r\n").encode()
    return ("\r\n".join([*lines, f"Content-Length: {len(body)}"]) + "\r\n\r\n").encode() + body


def chat_fields(text: str, **more: Any) -> dict[str, Any]:
    """Ask for a chat's answer."""
    return {"model": ECHO, "messages": [{"role": "user", "content": text}]} | more


def text_fields(prompt: Any, **more: Any) -> dict[str, Any]:
    """Ask for a text's continuation."""
    return {"model": ECHO, "prompt": prompt} | more


def wait_until(is_done: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    end = time.monotonic() + WAIT_S
    while not is_done():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)
