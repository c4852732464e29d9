"""`podium serve llama --api openai`: the command from its start to its end, with the answers that
the workload gives in this process.
"""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from podium_fakes.drive import options
from podium_fakes.kept import keep_checkpoint
from podium_fakes.llama import keep_llama_checkpoint
from podium_fakes.remote import Served, served, serving
from podium_fakes.token_server import EchoServer, RawClient, format_request

from harness.serving.network.openai.server.command import require_generating_inference
from harness.serving.network.openai.server.served_text import ServedText
from harness.serving.network.openai.server.token_service import TokenService
from harness.serving.network.wire import SERVER_DESCRIPTION_DECODER
from harness.serving.setup import set_up_serving
from suite.errors import RequestError
from suite.workload import GeneratingInference, Inference

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("aiohttp", reason="the extra `openai` is not installed")

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
SAMPLES = 24


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A checkpoint in a results folder."""
    place = tmp_path_factory.mktemp("llama")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PODIUM_CACHE", str(place / "cache"))
        yield keep_llama_checkpoint(place / "results")


@pytest.fixture(scope="module")
def server(checkpoint: Path) -> Iterator[Served]:
    """The command, ready."""
    results = checkpoint.parents[2]
    more = ("--api", "openai", "--queue", "64")
    with served(results, *more, workload="llama", framework="torch") as ready:
        yield ready


def connect(served_at: Served) -> RawClient:
    """Open a connection to the command."""
    assert (match := re.fullmatch(r"http://127\.0\.0\.1:(\d+)", served_at.url))
    return EchoServer(None, None, None, int(match[1])).connect()  # type: ignore[arg-type]


def answer_in_process(results: Path) -> tuple[Inference, list[list[int]]]:
    """Answer the first samples as LoadGen's process does."""
    chosen = options(results, framework="torch", engine="torch")
    inference, _ = set_up_serving("llama", chosen, None).system.open_inference()
    inference.load(range(SAMPLES))
    answers = inference.open(0, 32)(range(SAMPLES))
    return inference, [numpy.frombuffer(answer, "<i4").tolist() for answer in answers]


@pytest.mark.slow
@pytest.mark.parametrize("is_chat", [True, False])
def test_answers_are_those_in_process(checkpoint: Path, server: Served, is_chat: bool):
    """All at once, token by token: the same text, and as many tokens."""
    from workloads.llama.serving_set import generate_serving_documents

    inference, wanted = answer_in_process(checkpoint.parents[2])
    text = ServedText(checkpoint)
    clients = [connect(server) for _ in range(SAMPLES)]
    assert isinstance(inference, GeneratingInference)
    for sample, client in enumerate(clients):
        article = generate_serving_documents(SAMPLES)[sample].article
        asked: dict[str, Any] = (
            {"messages": [{"role": "user", "content": article}]}
            if is_chat
            else {"prompt": list(inference.prompt(sample))}
        )
        asked |= {"model": "llama", "max_tokens": 24, "temperature": 0, "stream": True}
        asked |= {"stream_options": {"include_usage": True}}
        client.send(format_request(CHAT if is_chat else TEXT, asked))
    for client, ids in zip(clients, wanted, strict=True):
        *events, usage, _ = client.read_response().events
        choices = [event["choices"][0] for event in events]
        parts = [
            choice["delta"].get("content", "") if is_chat else choice["text"] for choice in choices
        ]
        assert "".join(parts) == text.tokenizer.decode(ids)
        assert usage["usage"]["completion_tokens"] == len(ids)
        ended = "stop" if ids[-1] in text.ends else "length"
        assert choices[-1]["finish_reason"] == ended
        client.close()


@pytest.mark.slow
def test_the_facts_are_those_of_the_checkpoint(checkpoint: Path, server: Served):
    client = connect(server)
    client.send(format_request("/podium/facts"))
    facts = SERVER_DESCRIPTION_DECODER.decode(client.read_response().body)
    client.close()
    assert facts.checkpoint_sha256 == json.loads((checkpoint / "record.json").read_text())["sha256"]
    assert (facts.workload, facts.engine, facts.precision) == ("llama", "torch", "fp32")
    assert facts.software.startswith("aiohttp ") and facts.settings["batching.max_batch"] == 32


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(checkpoint: Path, number: signal.Signals):
    """Exit code 0, and one sentence."""
    with served(
        checkpoint.parents[2], "--api", "openai", workload="llama", framework="torch"
    ) as ready:
        client = connect(ready)
        asked = {"model": "llama", "prompt": "Anna", "max_tokens": 2}
        client.send(format_request(TEXT, asked))
        assert client.read_response().status == 200
        ready.process.send_signal(number)
        assert ready.process.wait(timeout=30) == 0
        assert client.is_closed()
        client.close()
        told = ready.logs[0].read_text().splitlines()[-1]
        assert told == f"podium: llama: interrupted by {number.name}; 1 prompts were answered"


def run_command(results: Path, *more: str, workload: str = "fake") -> tuple[int, str]:
    """Run the command, which ends by itself; return its exit code and its last line."""
    framework = "torch" if workload == "llama" else "fake"
    words = [*serving(results, workload, framework), "--listen", "127.0.0.1:0", *more]
    done = subprocess.run(
        [sys.executable, "-m", "harness", *words], capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_checkpoint_without_a_tokenizer_is_refused(tmp_path: Path):
    keep_checkpoint(tmp_path / "results")
    code, told = run_command(tmp_path / "results", "--api", "openai")
    assert code == 2 and "no readable tokenizer.json" in told


def test_what_does_not_generate_or_tells_no_limits_is_refused():
    """No answer in one piece is passed off as a stream."""
    with pytest.raises(RequestError, match="fake: its Inference does not generate token by token"):
        require_generating_inference(object(), "fake")  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="object does not tell its limits"):
        TokenService(object, ()).start_service()  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(
    "more, told",
    [
        (("--api", "openai", "--server", "triton"), "--server triton: it speaks only gRPC"),
        (("--queue", "5"), "--queue: only with --api openai"),
        (("--api", "rest"), "'rest' is not one of"),
    ],
)
def test_options_that_contradict_are_refused(tmp_path: Path, more: tuple[str, ...], told: str):
    code, said = run_command(tmp_path / "results", *more)
    assert code == 2 and told in said


@pytest.mark.slow
@pytest.mark.parametrize("module", ["aiohttp", "tokenizers"])
def test_without_the_extra_one_sentence_names_it(tmp_path: Path, module: str):
    program = (
        f"import sys; sys.modules[{module!r}] = None; sys.argv[0] = 'podium';"
        "from suite.cli import main; main()"
    )
    words = [*serving(tmp_path), "--listen", "127.0.0.1:0", "--api", "openai"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 3
    assert f"{module} is not installed: pip install" in done.stderr and "[openai]" in done.stderr
