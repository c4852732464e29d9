"""Measures the CPU time of an answer of 18 events by `podium serve --api openai`, without a model:
16 tokens, the numbers of tokens and the end, each token in a send of its own.

The generator does nothing but wait 1 ms for each step, as for a device. The same 18 events are sent
by aiohttp, on which podium's server stands, and by a bare ASGI callable under uvicorn where it is
installed: they know their answers beforehand, read no prompt and apply no template. One client
process reads all answers over loopback, with so many requests in flight; the sides
alternate.

Usage: python benchmarks/openai_server.py [--pairs N] [--answers N] [--in-flight N] [--format json]
"""

import argparse
import asyncio
import importlib.util
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
import psutil
from common.figures import hardware
from common.tiny import add_tiny_option, choose_size

from harness.serving.network.access import ServerCredentials
from harness.serving.network.openai.server.answer_events import (
    STREAM_END,
    AnswerHead,
    EventWriter,
    build_usage,
)
from harness.serving.network.openai.server.openai_server import (
    OpenAiServer,
    ServedModel,
)
from harness.serving.network.openai.server.request_fields import PromptLimits
from harness.serving.network.openai.server.served_text import GENERATION_CONFIG_FILE, ServedText
from harness.serving.network.openai.server.token_service import FinishReason, TokenService
from harness.serving.network.openai.server_pool import create_event_loop
from harness.serving.network.wire import Endpoint
from suite.files.tokenizer_files import TOKENIZER_CONFIG_FILE, TOKENIZER_FILE
from suite.units import MS_PER_S
from workloads.llama.news import generate_document
from workloads.llama.vocabulary import END_ID, format_tokenizer, list_tokens

TOKENS: Final = 16
STEP_S: Final = 0.001
SLOTS: Final = 64
MODEL: Final = "llama"
GOAL_MS: Final = 0.30
ALTERNATIVES: Final = ("uvicorn", "aiohttp")
TEMPLATE: Final = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
FIRST_WORD: Final = 4
"""Of the tokenizer's tokens: the first that is text."""


class WaitingGenerator:
    """Gives every slot the words of the vocabulary, one after the other, at the pace of a device;
    answers end where they are cut.
    """

    slots = SLOTS
    vocabulary_size = len(list_tokens())
    max_sequence_tokens = 1024
    max_new_tokens = TOKENS

    def __init__(self) -> None:
        self.live: dict[int, int] = {}

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
        """Take a prompt."""
        self.live[slot] = FIRST_WORD

    def step(self) -> Sequence[tuple[int, int, bool]]:
        """Give each slot its next word."""
        time.sleep(STEP_S)
        for slot in self.live:
            self.live[slot] += 1
        return [(slot, token, False) for slot, token in self.live.items()]

    def release(self, slot: int) -> None:
        """Free a slot."""
        del self.live[slot]


def write_checkpoint_files(folder: Path) -> None:
    """Write what a server reads of a checkpoint beside its weights."""
    (folder / TOKENIZER_FILE).write_text(format_tokenizer())
    (folder / TOKENIZER_CONFIG_FILE).write_text(json.dumps({"chat_template": TEMPLATE}))
    (folder / GENERATION_CONFIG_FILE).write_text(json.dumps({"eos_token_id": END_ID}))


def serve_podium() -> None:
    """Serve the generator until a signal arrives."""
    with TemporaryDirectory() as folder:
        write_checkpoint_files(Path(folder))
        text = ServedText(Path(folder))
    service = TokenService(WaitingGenerator, text.ends)
    generator = service.start_service()
    server = OpenAiServer(Endpoint(tls=False, host="127.0.0.1", port=0), ServerCredentials())
    port = server.start_server()
    server.serve_model(
        ServedModel(
            limits=PromptLimits(
                model=MODEL,
                vocabulary_size=generator.vocabulary_size,
                max_sequence_tokens=generator.max_sequence_tokens,
                max_new_tokens=generator.max_new_tokens,
                has_log_probabilities=False,
            ),
            text=text,
            service=service,
            most_calls=4096,
            facts=b"{}",
        )
    )
    print(f"PORT {port}", flush=True)
    signal.sigwait({signal.SIGTERM})


def build_scripted_events() -> list[bytes]:
    """Build the 18 events as podium writes them."""
    writer = EventWriter(AnswerHead("1", MODEL, True))
    words = list_tokens()[FIRST_WORD + 1 :]
    texts = [
        writer.write_text(f" {word}", FinishReason.LENGTH if place == TOKENS - 1 else None)
        for place, word in enumerate(words[:TOKENS])
    ]
    return [*texts, writer.write_usage(build_usage(50, TOKENS)), STREAM_END]


class Ticker:
    """Wakes all answers once per step, as a generator does."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[None]] = []

    async def run(self) -> None:
        """Wake them until the loop ends."""
        while True:
            await asyncio.sleep(STEP_S)
            woken, self.waiting = self.waiting, []
            for future in woken:
                if not future.done():
                    future.set_result(None)

    def wait_step(self) -> "asyncio.Future[None]":
        """Return what the next step wakes."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        return future


async def send_scripted_events(
    events: Sequence[bytes], ticker: Ticker, send: Callable[[bytes], Awaitable[object]]
) -> None:
    """Send an answer's events, one in each step; the last three at once, as podium does."""
    for event in events[: TOKENS - 1]:
        await ticker.wait_step()
        await send(event)
    await ticker.wait_step()
    await send(b"".join(events[TOKENS - 1 :]))


def serve_uvicorn() -> None:
    """Serve the script with a bare ASGI callable."""
    import uvicorn  # type: ignore[import-not-found, unused-ignore]

    events, ticker, tasks = build_scripted_events(), Ticker(), set[Any]()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if not tasks:
            tasks.add(asyncio.ensure_future(ticker.run()))
        while (await receive()).get("more_body"):
            pass
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})

        async def send_body(body: bytes) -> None:
            await send({"type": "http.response.body", "body": body, "more_body": True})

        await send_scripted_events(events, ticker, send_body)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    class AnnouncingServer(uvicorn.Server):  # type: ignore[misc, unused-ignore]
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            print(f"PORT {self.servers[0].sockets[0].getsockname()[1]}", flush=True)

    config = uvicorn.Config(
        application, port=0, loop="uvloop", http="httptools", log_level="error", access_log=False
    )
    AnnouncingServer(config).run()


def serve_aiohttp() -> None:
    """Serve the script with aiohttp."""
    from aiohttp import web

    events, ticker = build_scripted_events(), Ticker()

    async def answer(request: Any) -> Any:
        await request.read()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await send_scripted_events(events, ticker, response.write)
        return response

    async def run_application() -> None:
        application = web.Application()
        application.router.add_post("/v1/chat/completions", answer)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(f"PORT {runner.addresses[0][1]}", flush=True)
        await ticker.run()

    create_event_loop().run_until_complete(run_application())


SERVERS: Final = {"podium": serve_podium, "uvicorn": serve_uvicorn, "aiohttp": serve_aiohttp}


@contextmanager
def run_server(kind: str) -> Iterator[tuple[psutil.Process, int]]:
    """Start a server and end it."""
    words = [sys.executable, str(Path(__file__).resolve()), "--serve", kind]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = next(match for line in process.stdout if (match := re.match(r"PORT (\d+)", line)))
        yield psutil.Process(process.pid), int(found[1])
    finally:
        process.kill()
        process.wait()


class AnswerReader(asyncio.Protocol):
    """A connection that asks again as soon as it has read the end of an answer."""

    def __init__(self, request: bytes, left: list[int], done: "asyncio.Future[None]") -> None:
        self.request, self.left, self.done = request, left, done
        self.transport: Any = None
        self.tail, self.began = b"", 0.0
        self.reads, self.first_ms = 0, list[float]()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        """Send the next request, if answers are missing."""
        if self.left[0] <= 0:
            return
        self.left[0] -= 1
        self.tail, self.began = b"", time.perf_counter()
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        """Look for the end of the chunked answer."""
        self.reads += 1
        if not self.tail:
            self.first_ms.append((time.perf_counter() - self.began) * MS_PER_S)
        self.tail = (self.tail + data)[-64:]
        if not self.tail.endswith(b"0\r\n\r\n"):
            return
        assert STREAM_END in self.tail, "a stream without its end"
        self.left[1] -= 1
        if self.left[1] == 0:
            self.done.set_result(None)
        self.ask()


def build_request() -> bytes:
    """Build the request of a chat with one message, an article of the generated news."""
    message = {"role": "user", "content": generate_document(1, 1).prompt}
    fields = {
        "model": MODEL,
        "messages": [message],
        "max_tokens": TOKENS,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    body = msgspec.json.encode(fields)
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def read_answers(port: int, answers: int, in_flight: int) -> tuple[float, float, list[float]]:
    """Ask for answers over so many connections; return s, reads per answer, and times to the first
    token in ms.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    left, request = [answers, answers], build_request()
    began = time.perf_counter()
    opened = [
        await loop.create_connection(lambda: AnswerReader(request, left, done), "127.0.0.1", port)
        for _ in range(in_flight)
    ]
    await done
    spent = time.perf_counter() - began
    readers = [reader for _, reader in opened]
    for transport, _ in opened:
        transport.close()
    reads = sum(reader.reads for reader in readers) / answers
    return spent, reads, [ms for reader in readers for ms in reader.first_ms]


def measure_side(kind: str, answers: int, in_flight: int) -> dict[str, float]:
    """Measure one server once, after some answers to warm it."""
    loop = create_event_loop()
    with run_server(kind) as (process, port):
        loop.run_until_complete(read_answers(port, in_flight, in_flight))
        before = sum(process.cpu_times()[:2])
        spent_s, reads, first_ms = loop.run_until_complete(read_answers(port, answers, in_flight))
        cpu_s = sum(process.cpu_times()[:2]) - before
    return {
        "cpu_ms_per_answer": cpu_s / answers * MS_PER_S,
        "answers_per_s": answers / spent_s,
        "reads_per_answer": reads,
        "first_token_p50_ms": statistics.median(first_ms),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="what an answer costs the server")
    parser.add_argument("--pairs", type=int, default=choose_size(3, 1))
    add_tiny_option(parser)
    parser.add_argument("--answers", type=int, default=choose_size(10_000, 128))
    parser.add_argument("--in-flight", type=int, default=SLOTS)
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--serve", choices=list(SERVERS), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        SERVERS[asked.serve]()
        return
    kinds = ["podium", *(kind for kind in ALTERNATIVES if importlib.util.find_spec(kind))]
    rows: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    for _ in range(asked.pairs):
        for kind in kinds:
            rows[kind].append(measure_side(kind, asked.answers, asked.in_flight))
    found = {
        kind: {key: statistics.median(row[key] for row in each) for key in each[0]}
        for kind, each in rows.items()
    }
    told = {
        "sides": found,
        "wanted_cpu_ms": GOAL_MS,
        "in_flight": asked.in_flight,
        "n": asked.pairs,
        "load": os.getloadavg()[0],
        "hardware": hardware(),
    }
    if asked.format == "json":
        print(json.dumps(told))
        return
    for kind, figures in found.items():
        print(f"{kind:<8}" + "".join(f"{key} {value:>9,.3f}   " for key, value in figures.items()))
    print(
        f"wanted: at most {GOAL_MS} CPU ms; {asked.in_flight} in flight; n={asked.pairs};"
        f" load {told['load']:.1f}; {told['hardware']}"
    )


if __name__ == "__main__":
    main()
