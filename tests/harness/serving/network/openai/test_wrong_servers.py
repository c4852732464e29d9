"""Servers that serve something else than the checkpoint are told apart from an honest one by the
log-probabilities of their own answers, each by its own name.
"""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("aiohttp", reason="the extra `openai` is not installed")

import torch
from podium_fakes.llama import keep_llama_checkpoint
from podium_fakes.llama_server import LONGEST_ANSWER, serve_network

from harness.serving.loadgen.query_times import build_said_table
from harness.serving.network.openai.answer_checks import build_said_answer
from harness.serving.network.openai.answer_reader import AnswerReader, ReadAnswer
from harness.serving.network.openai.answer_tokens import AnswerTokenizer
from suite.loadgen.logprob_record import select_common_rows
from suite.measurement.logprob_causes import (
    MOST_ROUNDING,
    OTHER_FORMAT,
    OTHER_POSITIONS,
    OTHER_PROMPT,
    OTHER_WEIGHTS,
    LogprobDifferences,
    compare_said_tokens,
)
from suite.terms import Precision
from workloads.llama.forcing import (
    LLAMA_3_1_SCALING,
    copy_rounded,
    force_answers,
    reshape_positions,
    select_forced_answers,
)
from workloads.llama.model import LlamaNetwork
from workloads.llama.serving_set import generate_serving_documents
from workloads.llama.vocabulary import END_ID, encode_prompt
from workloads.llama.weights import load_llama_checkpoint

SAMPLES = 24
DEVIATION = 0.3
"""Of the random weights of the checkpoint (podium_fakes.llama)."""


def keep_network(network: LlamaNetwork) -> LlamaNetwork:
    """The checkpoint's own."""
    return network


def round_to_fp16(network: LlamaNetwork) -> LlamaNetwork:
    """Weights of fp16, computed with in fp32."""
    return copy_rounded(network, torch.float16, torch.float32)


def draw_other_weights(network: LlamaNetwork) -> LlamaNetwork:
    """Weights of another seed."""
    torch.manual_seed(4)
    return LlamaNetwork(network.shape, DEVIATION).eval()


def scale_positions(network: LlamaNetwork) -> LlamaNetwork:
    """Positions as Llama 3.1 stretches them, which the checkpoint does not."""
    return reshape_positions(network, replace(network.shape, rope_scaling=LLAMA_3_1_SCALING))


def drop_first_token(template: str) -> str:
    """A template that forgets the token that begins every text."""
    assert "bos_token" in template
    return template.replace("bos_token", "''")


@dataclass(frozen=True)
class Case:
    """A server, and what is found of it."""

    change: Callable[[LlamaNetwork], LlamaNetwork]
    dtype: Any
    stated: str
    finding: str
    evidence: str
    number_format: str = ""
    change_template: Callable[[str], str] = str


CASES = {
    "honest bf16": Case(keep_network, torch.bfloat16, "bf16", "", "bf16", Precision.BF16),
    "honest fp32": Case(keep_network, torch.float32, "fp32", "", "bf16's", Precision.FP32),
    "other seed": Case(draw_other_weights, torch.bfloat16, "bf16", OTHER_WEIGHTS, "0% of"),
    "fp16 called bf16": Case(
        round_to_fp16, torch.float32, "bf16", OTHER_FORMAT, "rounded to fp16", Precision.FP16
    ),
    "fp16 called fp32": Case(
        round_to_fp16, torch.float32, "fp32", OTHER_FORMAT, "rounded to fp16", Precision.FP16
    ),
    "other rotary scaling": Case(
        scale_positions, torch.bfloat16, "bf16", OTHER_POSITIONS, "Llama 3.1's scaling"
    ),
    "wrong template": Case(
        keep_network,
        torch.bfloat16,
        "bf16",
        OTHER_PROMPT,
        "counts other prompt tokens",
        change_template=drop_first_token,
    ),
}


def ask_articles(url: str) -> dict[int, ReadAnswer]:
    """Ask for summaries as the client asks, and read them as it reads."""

    def ask(sample: int) -> ReadAnswer:
        article = generate_serving_documents(SAMPLES)[sample].article
        asked = {
            "model": "llama",
            "messages": [{"role": "user", "content": article}],
            "max_tokens": LONGEST_ANSWER,
            "stream": True,
            "stream_options": {"include_usage": True},
            "logprobs": True,
        }
        body = json.dumps(asked).encode()
        head = {"Content-Type": "application/json"}
        reader = AnswerReader(True)
        with urlopen(Request(f"{url}/v1/chat/completions", body, head)) as response:
            reader.read_piece(response.read())
        reader.finish_reading()
        return reader.answer

    with ThreadPoolExecutor(SAMPLES) as pool:
        return dict(enumerate(pool.map(ask, range(SAMPLES))))


def compare_case(case: Case, folder: Path) -> LogprobDifferences:
    """Serve, ask, and force the answers in PyTorch."""
    torch.set_num_threads(1)
    results, served = folder / "results", folder / "served"
    checkpoint = keep_llama_checkpoint(results)
    shutil.copytree(checkpoint, served)
    config = json.loads((served / "tokenizer_config.json").read_text())
    config["chat_template"] = case.change_template(config["chat_template"])
    (served / "tokenizer_config.json").write_text(json.dumps(config))
    network = case.change(load_llama_checkpoint(checkpoint))
    with serve_network(network, served, case.dtype) as url:
        answers = ask_articles(url)
    tokenizer = AnswerTokenizer(served, END_ID, (END_ID,))
    logged = {
        sample: tokenizer.encode_answer(each.text, each.ended) for sample, each in answers.items()
    }
    told = {
        sample: build_said_answer(tokenizer, each, logged[sample])
        for sample, each in answers.items()
    }
    said = build_said_table({sample: each for sample, each in told.items() if each is not None})
    prompts = [encode_prompt(each) for each in generate_serving_documents(SAMPLES)]
    packed = {sample: tokens.tobytes() for sample, tokens in logged.items()}
    forced = select_forced_answers(prompts, packed, network.shape)
    reference = force_answers(load_llama_checkpoint(checkpoint), forced)
    assert len(said) > LONGEST_ANSWER * SAMPLES / 2  # of others, the text lacks a special token
    found = compare_said_tokens(*select_common_rows(said, reference), case.stated)
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_each_server_is_named(name: str, tmp_path: Path):
    """From its own answers, token by token."""
    case = CASES[name]
    found = compare_case(case, tmp_path)
    assert (found.finding, found.number_format) == (case.finding, case.number_format), found
    assert case.evidence in found.evidence
    assert found.mean < found.p99 < found.largest
    if not case.finding:
        assert found.times_bf16 is not None and found.times_bf16 < MOST_ROUNDING
