"""The client that OpenAI publishes, against `podium serve llama --api openai`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from podium_fakes.drive import options
from podium_fakes.llama import keep_llama_checkpoint
from podium_fakes.remote import Served, served

from harness.serving.network.openai.server.served_text import ServedText
from harness.serving.setup import set_up_serving

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("aiohttp", reason="the extra `openai` is not installed")
openai: Any = pytest.importorskip("openai", reason="OpenAI's package `openai` is not installed")

pytestmark = [pytest.mark.slow]
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
    with served(results, "--api", "openai", workload="llama", framework="torch") as ready:
        yield ready


def answer_in_process(results: Path) -> list[list[int]]:
    """Answer the first samples as LoadGen's process does."""
    chosen = options(results, framework="torch", engine="torch")
    inference, _ = set_up_serving("llama", chosen, None).system.open_inference()
    inference.load(range(SAMPLES))
    answers = inference.open(0, 32)(range(SAMPLES))
    return [numpy.frombuffer(answer, "<i4").tolist() for answer in answers]


def test_the_package_reads_the_answers_in_process(checkpoint: Path, server: Served):
    """Streamed and not: the same text, as many tokens, the same end."""
    from workloads.llama.serving_set import generate_serving_documents

    wanted, text = answer_in_process(checkpoint.parents[2]), ServedText(checkpoint)
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["llama"]
        documents = generate_serving_documents(SAMPLES)
        for document, ids in zip(documents[:SAMPLES], wanted, strict=True):
            asked: dict[str, Any] = {
                "model": "llama",
                "messages": [{"role": "user", "content": document.article}],
                "max_tokens": 24,
                "temperature": 0,
            }
            whole = client.chat.completions.create(**asked)
            asked |= {"stream": True, "stream_options": {"include_usage": True}}
            events = list(client.chat.completions.create(**asked))
            choices = [choice for event in events for choice in event.choices]
            streamed = "".join(choice.delta.content or "" for choice in choices)
            assert streamed == whole.choices[0].message.content == text.tokenizer.decode(ids)
            counts = (whole.usage.completion_tokens, events[-1].usage.completion_tokens)
            assert counts == (len(ids), len(ids))
            ended = "stop" if ids[-1] in text.ends else "length"
            assert (whole.choices[0].finish_reason, choices[-1].finish_reason) == (ended, ended)
