"""Measures the client of the OpenAI-compatible API: LoadGen in front of a scripted server that
streams 16 tokens at once, each as an event of its own, over loopback.

CPU: of LoadGen's process, per answer, connections and all. Rate: Offline, streamed. Server: whether
LoadGen finds the rate that was asked for VALID. TTFT added: the median of SingleStream, which
podium infer refuses over a network; the scripted server answers at once. Start: from the command to
the first request at the server, and to LoadGen's first query. Beside it: other clients with the
same answers, as far as installed, and published load generators, as far as PODIUM_GUIDELLM,
PODIUM_AIPERF and PODIUM_VLLM name them. Of those, CPU is what a run of more answers takes beyond
one of fewer, by all of the program's processes: their starts are left out.

Usage: python benchmarks/openai.py [--answers N] [--rate QPS] [--results FOLDER] [--format json]
`--results`: a results folder with a checkpoint of llama; without it, the start is not measured.
"""

import argparse
import asyncio
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from common.figures import hardware
from common.load_generators import PROGRAMS, Load, build_command, find_program
from common.tiny import add_tiny_option, choose_size

from harness.children.process import Abort, run_in_child
from harness.serving.harness_ceiling import build_null_schedule, build_null_system
from harness.serving.loadgen.session import LoadGenJob
from harness.serving.network.access import ClientCredentials
from harness.serving.network.openai.loadgen_bridge import run_loadgen_over_http
from harness.serving.network.openai.prompt_requests import PromptApi, RequestStyle
from harness.serving.network.openai.prompt_system import PromptServers, PromptSystem
from harness.serving.network.openai.server_pool import create_event_loop
from harness.serving.network.wire import Endpoint, ServerDescription
from suite.loadgen.detail_log import DetailLog, read_detail_log
from suite.loadgen.scenario import Scenario
from suite.units import NS_PER_MS
from suite.workload import ChatMessage
from workloads.llama.vocabulary import END_ID, SPECIAL_TOKENS, format_tokenizer, list_tokens

MODEL: Final = "llama"
EVENTS: Final = 16
"""Of tokens; those of the count and of the end come behind them."""
SAMPLES: Final = choose_size(512, 32)
IN_FLIGHT: Final = 64
BOUND_NS: Final = 200_000_000
TOKEN_BOUND_NS: Final = 10_000_000
"""Bounds of llama's Server at smoke."""
STREAM_MS: Final = choose_size(3000, 200)
SERVER_S: Final = choose_size(10.0, 0.5)
GOALS: Final = {
    "client_cpu_ms": 0.25,
    "offline_answers_per_s": 2000.0,
    "ttft_added_p50_ms": 0.5,
    "start_s": 3.0,
}
HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
WORDS: Final = list_tokens()[len(SPECIAL_TOKENS) :]


def chunk(event: bytes) -> bytes:
    """Frame an event as a chunk of a body."""
    data = b"data: %b\n\n" % event
    return b"%x\r\n%b\r\n" % (len(data), data)


def script(number: int) -> list[bytes]:
    """Write the answer of a request: other words than the one before it had."""
    written = [HEAD]
    for place in range(EVENTS):
        word = WORDS[(number * 7 + place * 31) % len(WORDS)]
        reason = "length" if place == EVENTS - 1 else None
        event = {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion.chunk",
            "created": 1_790_000_000,
            "model": MODEL,
            "choices": [
                {
                    "index": 0,
                    "delta": {"content": f" {word}" if place else word},
                    "logprobs": None,
                    "finish_reason": reason,
                }
            ],
        }
        written.append(chunk(json.dumps(event, separators=(",", ":")).encode()))
    usage = {"prompt_tokens": 64, "completion_tokens": EVENTS, "total_tokens": 64 + EVENTS}
    told = {"id": f"chatcmpl-{number}", "model": MODEL, "choices": [], "usage": usage}
    written.append(chunk(json.dumps(told, separators=(",", ":")).encode()))
    written.append(chunk(b"[DONE]") + b"0\r\n\r\n")
    return [written[0] + written[1], *written[2:]]


SCRIPTS: Final = choose_size(4096, 64)
"""Different answers, before they come again."""


class ScriptedServer(asyncio.Protocol):
    """Answers every request with its script, an event at a time."""

    asked = 0
    scripts: tuple[list[bytes], ...] = ()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        import httptools

        self.loop, self.parser = loop, httptools.HttpRequestParser(self)
        self.route, self.transport = b"", None

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop sending."""
        self.transport = None

    def data_received(self, data: bytes) -> None:
        """Parse."""
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        """Keep the route."""
        self.route = url

    def on_message_complete(self) -> None:
        """Answer."""
        if self.parser.get_method() == b"GET":
            self.answer_question()
            return
        if not ScriptedServer.asked:
            print(f"first request at {time.time():.6f}", flush=True)
        ScriptedServer.asked += 1
        self.send(iter(self.scripts[ScriptedServer.asked % SCRIPTS]))

    def answer_question(self) -> None:
        """Name the model; nothing else is known here."""
        known = self.route in (b"/v1/models", b"/health")
        body = json.dumps({"object": "list", "data": [{"id": MODEL}]} if known else {}).encode()
        status = b"200 OK" if known else b"404 Not Found"
        head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self.transport.write(head % (status, len(body)) + body)

    def send(self, pieces: Iterator[bytes]) -> None:
        """Send one piece now, and the next one in the loop's next turn."""
        piece = next(pieces, None)
        if piece is not None and self.transport is not None:
            self.transport.write(piece)
            self.loop.call_soon(self.send, pieces)


def serve() -> None:
    """Serve until killed."""
    ScriptedServer.scripts = tuple(script(number) for number in range(SCRIPTS))
    loop = create_event_loop()
    server = loop.run_until_complete(
        loop.create_server(lambda: ScriptedServer(loop), "127.0.0.1", 0, backlog=2048)
    )
    print(f"port {server.sockets[0].getsockname()[1]}", flush=True)
    loop.run_forever()


@contextmanager
def started() -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Start a scripted server; yield its port."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline().split()[1]), process
    finally:
        process.kill()
        process.wait()


class Prompts:
    """Prompts of 64 words (suite's PromptSource)."""

    sample_count = performance_sample_count = SAMPLES
    max_new_tokens, end_token = EVENTS, END_ID

    def tokenize_prompt(self, sample: int) -> Sequence[int]:
        """Return 64 times the same word."""
        return [sample % len(WORDS) + len(SPECIAL_TOKENS)] * 64

    def build_messages(self, sample: int) -> Sequence[ChatMessage]:
        """Return the same as a message."""
        return [ChatMessage(role="user", content=" ".join([WORDS[sample % len(WORDS)]] * 64))]

    def write_truth(self, folder: Path) -> None:
        """Write nothing: nothing is scored."""


class Asking:
    """A workload that has prompts alone."""

    name = MODEL

    def build_prompts(self, *_: Any) -> Prompts:
        """Build the prompts."""
        return Prompts()


def description() -> ServerDescription:
    """Describe the scripted server."""
    texts = dict.fromkeys(
        ("round", "profile", "checkpoint_sha256", "engine_package", "node", "software", "version"),
        "none",
    )
    return ServerDescription(
        workload=MODEL,
        engine=MODEL,
        precision="fp32",
        framework="none",
        device="cpu",
        threads=1,
        settings={},
        system=MODEL,
        description={},
        machine="",
        server="scripted",
        **texts,
    )


def far(port: int, tokenizer: Path) -> PromptSystem:
    """Build LoadGen's side."""
    base = build_null_system(Path(os.environ.get("PODIUM_CACHE", "/tmp")), 1)
    servers = PromptServers(
        endpoints=(Endpoint(tls=False, host="127.0.0.1", port=port, scheme="http"),),
        access=ClientCredentials(),
        style=RequestStyle(api=PromptApi.CHAT, model=MODEL, streamed=True, headers={}),
        streamed=True,
        tokenizer=tokenizer,
        in_flight=IN_FLIGHT,
        timeout_ms=None,
        description=description(),
        ends=frozenset({END_ID}),
    )
    return PromptSystem(
        workload=Asking(),
        engine=base.engine,
        run=base.run,
        checkpoint=base.checkpoint,
        batching=base.batching,
        driver=run_loadgen_over_http,
        servers=servers,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a run cost LoadGen's process."""

    cpu_s: float
    answers: int


def spend(job: LoadGenJob, abort: Abort) -> Spent:
    """Do one LoadGen run, and count its process's CPU time."""
    before = time.process_time()
    outcome = run_loadgen_over_http(job, abort)
    return Spent(cpu_s=time.process_time() - before, answers=outcome.samples)


def run(system: PromptSystem, scenario: Scenario, **changes: Any) -> tuple[DetailLog, Spent]:
    """Do one LoadGen run with llama's bounds."""
    schedule = replace(
        build_null_schedule(scenario),
        token_latencies=True,
        first_token_ns=BOUND_NS if scenario is Scenario.SERVER else None,
        per_token_ns=TOKEN_BOUND_NS if scenario is Scenario.SERVER else None,
        percentile=90.0,
        **changes,
    )
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        spent = run_in_child(
            spend, LoadGenJob(system=system, schedule=schedule, folder=Path(folder))
        )
        return read_detail_log(Path(folder)), spent


def measure_podium(port: int, answers: int, rate: float, tokenizer: Path) -> dict[str, Any]:
    """Measure podium's client."""
    system = far(port, tokenizer)
    run(system, Scenario.OFFLINE, min_queries=SAMPLES, min_duration_ms=0)  # warm
    offline, spent = run(system, Scenario.OFFLINE, min_queries=answers, min_duration_ms=0)
    seconds = {"min_queries": 100, "min_duration_ms": int(1000 * SERVER_S)}
    server, served = run(system, Scenario.SERVER, rate=rate, **seconds)
    calm, _ = run(system, Scenario.SINGLE_STREAM, min_queries=100, min_duration_ms=STREAM_MS)
    first = "result_first_token_{}_percentile_latency_ns"
    return {
        "client_cpu_ms": 1000 * spent.cpu_s / spent.answers,
        "offline_answers_per_s": offline.require_number("result_samples_per_second"),
        "server_asked_per_s": rate,
        "server_verdict": server.values.get("result_validity"),
        "server_completed_per_s": server.require_number("result_completed_samples_per_sec"),
        "server_cpu_ms": 1000 * served.cpu_s / served.answers,
        "server_ttft_p50_ms": server.require_number(first.format("50.00")) / NS_PER_MS,
        "server_ttft_p99_ms": server.require_number(first.format("99.00")) / NS_PER_MS,
        "ttft_added_p50_ms": calm.require_number(first.format("50.00")) / NS_PER_MS,
    }


def write_tokenizer_folder(folder: Path) -> Path:
    """Write the tokenizer as transformers reads it; return the folder."""
    model = folder / "model"
    model.mkdir()
    (model / "tokenizer.json").write_text(format_tokenizer())
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": SPECIAL_TOKENS[END_ID]}
    (model / "tokenizer_config.json").write_text(json.dumps(config))
    return model


def measure_start(results: Path) -> dict[str, float]:
    """Time the command until it has asked the server, and until LoadGen has."""
    with started() as (port, process), TemporaryDirectory(prefix="podium-benchmark-") as folder:
        place = Path(folder) / "results"
        subprocess.run(["cp", "-r", str(results), str(place)], check=True)
        began = time.time()
        settings = ("server.target_qps=200", "loadgen.min_duration_ms=100")
        words = [sys.executable, "-m", "podium", "infer", MODEL, "--results", str(place)]
        words += ["--endpoint", f"http://127.0.0.1:{port}", "--scenario", "server"]
        words += ["--mode", "performance"]
        subprocess.run(
            [*words, *(word for each in settings for word in ("--set", each))],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        assert process.stdout is not None
        first = float(process.stdout.readline().split()[-1])
        details = sorted(place.glob("**/performance/run_1/mlperf_log_detail.txt"))
        found = {"first_request_s": first - began}
        if details:
            found["start_s"] = read_power_begin_s(details[0].read_text()) - began
        return found


def read_power_begin_s(log: str) -> float:
    """Return when LoadGen issued its first query, by the wall clock (UTC)."""
    from datetime import UTC, datetime

    text = re.search(r'"power_begin", "value": "([^"]+)"', log)
    assert text is not None
    return datetime.strptime(text[1], "%m-%d-%Y %H:%M:%S.%f").replace(tzinfo=UTC).timestamp()


# What the other clients do: the same requests, as many at once, every event decoded.

BODY: Final = {
    "model": MODEL,
    "messages": [{"role": "user", "content": " ".join([WORDS[0]] * 64)}],
    "max_tokens": EVENTS,
    "temperature": 0,
    "stream": True,
    "stream_options": {"include_usage": True},
}


async def ask_with_httpx(module: Any, port: int, ask: Callable[[], bool]) -> None:
    """Ask with httpx, or its successor."""
    limits = module.Limits(max_connections=IN_FLIGHT, max_keepalive_connections=IN_FLIGHT)
    async with module.AsyncClient(limits=limits, timeout=60.0) as client:

        async def work() -> None:
            while ask():
                url = f"http://127.0.0.1:{port}/v1/chat/completions"
                async with client.stream("POST", url, json=BODY) as response:
                    async for line in response.aiter_lines():
                        if line.startswith("data: ") and line != "data: [DONE]":
                            json.loads(line[6:])

        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))


async def ask_with_aiohttp(module: Any, port: int, ask: Callable[[], bool]) -> None:
    """Ask with aiohttp."""
    connector = module.TCPConnector(limit=IN_FLIGHT)
    async with module.ClientSession(connector=connector) as client:

        async def work() -> None:
            while ask():
                url = f"http://127.0.0.1:{port}/v1/chat/completions"
                async with client.post(url, json=BODY) as response:
                    async for line in response.content:
                        if line.startswith(b"data: ") and line != b"data: [DONE]\n":
                            json.loads(line[6:])

        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))


async def ask_with_openai(module: Any, port: int, ask: Callable[[], bool]) -> None:
    """Ask with OpenAI's own client."""
    client = module.AsyncOpenAI(
        base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0
    )

    async def work() -> None:
        while ask():
            async for _ in await client.chat.completions.create(**BODY):
                pass

    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))


OTHERS: Final = {
    "httpx": ask_with_httpx,
    "httpx2": ask_with_httpx,
    "aiohttp": ask_with_aiohttp,
    "openai": ask_with_openai,
}


def ask_with_other(name: str, port: int, answers: int) -> None:
    """Ask so often with another client; print what it cost."""
    import importlib

    module = importlib.import_module(name)
    left = iter(range(answers))
    before, began = time.process_time(), time.monotonic()
    loop = create_event_loop()
    loop.run_until_complete(OTHERS[name](module, port, lambda: next(left, None) is not None))
    told = {
        "client_cpu_ms": 1000 * (time.process_time() - before) / answers,
        "offline_answers_per_s": answers / (time.monotonic() - began),
    }
    print(json.dumps(told))


def measure_others(port: int, answers: int) -> dict[str, dict[str, float]]:
    """Measure the other clients that are installed, each in a process that does not take this file
    for the package `openai`.
    """
    here = str(Path(__file__).resolve().parent)
    paths = [path for path in sys.path if path and str(Path(path).resolve()) != here]
    found = {}
    for name in OTHERS:
        spec = find_spec(name)
        if spec is None or spec.origin == str(Path(__file__).resolve()):
            continue
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, here])}
        done = subprocess.run(
            [sys.executable, "-P", __file__, "--other", name, "--port", str(port)]
            + ["--answers", str(answers)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found[name] = json.loads(done.stdout)
    return found


FEWER_ANSWERS: Final = 200
MORE_ANSWERS: Final = 6200
"""Of two runs of a program, which differ by what the others cost."""


def measure_programs(port: int, tokenizer: Path) -> dict[str, dict[str, float]]:
    """Measure the load generators that the environment names."""
    found = {}
    for name in PROGRAMS:
        if find_program(name) is None:
            continue
        fewer, more = (
            measure_program_cpu_s(name, port, tokenizer, answers)
            for answers in (FEWER_ANSWERS, MORE_ANSWERS)
        )
        answers = MORE_ANSWERS - FEWER_ANSWERS
        found[name] = {"client_cpu_ms": 1000 * (more - fewer) / answers}
    return found


def measure_program_cpu_s(name: str, port: int, tokenizer: Path, answers: int) -> float:
    """Run a load generator; return the CPU time of all its processes."""
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        load = Load(
            url=f"http://127.0.0.1:{port}",
            model=MODEL,
            tokenizer=tokenizer,
            requests=answers,
            in_flight=IN_FLIGHT,
            tokens=EVENTS,
        )
        command, _ = build_command(name, load, Path(folder))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description="what a client of OpenAI's API costs")
    parser.add_argument("--answers", type=int, default=choose_size(20_000, 100))
    add_tiny_option(parser)
    parser.add_argument("--rate", type=float, default=choose_size(1000.0, 100.0))
    parser.add_argument("--results", type=Path)
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--other", choices=list(OTHERS), help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve()
        return
    if asked.other:
        ask_with_other(asked.other, asked.port, asked.answers)
        return
    with started() as (port, _), TemporaryDirectory(prefix="podium-benchmark-") as folder:
        tokenizer = Path(folder) / "tokenizer.json"
        tokenizer.write_text(format_tokenizer())
        ours = measure_podium(port, asked.answers, asked.rate, tokenizer)
        others = measure_others(port, min(asked.answers, 2000))
        others |= measure_programs(port, write_tokenizer_folder(Path(folder)))
    start = measure_start(asked.results) if asked.results else {}
    for each in others.values():
        each["client_cpu_of_podium"] = each["client_cpu_ms"] / ours["client_cpu_ms"]
    told = {
        "podium": ours | start,
        **others,
        "goals": GOALS,
        "answers": asked.answers,
        "load": os.getloadavg()[0],
        "hardware": hardware(),
    }
    if asked.format == "json":
        print(json.dumps(told))
        return
    for client in ("podium", *others):
        for name, value in told[client].items():
            goal = f"   goal {GOALS[name]:g}" if client == "podium" and name in GOALS else ""
            shown = f"{value:,.3f}" if isinstance(value, float) else value
            print(f"{client:<18}{name:<26}{shown:>12}{goal}")
    print(f"n=1; load {told['load']:.1f}; {told['hardware']}")


if __name__ == "__main__":
    main()
