"""A tiny network with random weights, its tokenizer, and transformers to compare with."""

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from workloads.common.detection import torchvision_import
from workloads.llama.checkpoint import LlamaTokens
from workloads.llama.model import LlamaNetwork
from workloads.llama.shape import LlamaShape, RopeScaling
from workloads.llama.weights import export_llama_checkpoint

BEGIN, END, OTHER_END = 0, 1, 2
SHAPE = LlamaShape(
    layers=3,
    width=48,
    heads=6,
    key_value_heads=2,
    feed_forward=80,
    vocabulary=64,
    context=96,
    rope_theta=500_000.0,
    rope_scaling=RopeScaling(factor=8.0, low=1.0, high=4.0, old_context=32),
)
TEMPLATE = "{{ bos_token }}{% for each in messages %}{{ each['content'] }}{% endfor %}"


def build_network(shape: LlamaShape = SHAPE) -> LlamaNetwork:
    """Weights large enough that logits differ clearly."""
    torch.manual_seed(5)
    return LlamaNetwork(shape, 0.25).eval()


def write_tokenizer(words: int = SHAPE.vocabulary) -> bytes:
    """One token for each word, as the library writes it."""
    names = ["<begin>", "<end>", "<stop>", *(f"w{number}" for number in range(3, words))]
    added = [
        {
            "id": number,
            "content": names[number],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number in (BEGIN, END, OTHER_END)
    ]
    model = {
        "type": "WordLevel",
        "vocab": {name: number for number, name in enumerate(names)},
        "unk_token": "<stop>",
    }
    document: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": model,
    }
    return json.dumps(document).encode()


def build_tokens(words: int = SHAPE.vocabulary) -> LlamaTokens:
    """Two tokens end an answer, as in Llama 3.1."""
    return LlamaTokens(
        tokenizer=write_tokenizer(words),
        begin=BEGIN,
        ends=(END, OTHER_END),
        chat_template=TEMPLATE,
    )


def write_indexed_tokens(
    prefix: Path,
    texts: Sequence[Sequence[int]],
    *,
    code: int = 4,
    marks: Sequence[int] | None = None,
) -> Path:
    """Write Megatron's files of a corpus byte by byte; one text is one document unless `marks` say
    otherwise.
    """
    form, width = {4: ("i", 4), 8: ("H", 2)}[code]
    if marks is None:
        marks = range(len(texts) + 1)
    lengths = [len(text) for text in texts]
    pointers = [width * sum(lengths[:number]) for number in range(len(texts))]
    content = b"MMIDIDX\x00\x00" + struct.pack("<Q", 1) + struct.pack("<B", code)
    content += struct.pack("<Q", len(texts)) + struct.pack("<Q", len(marks))
    content += struct.pack(f"<{len(texts)}i", *lengths)
    content += struct.pack(f"<{len(texts)}q", *pointers)
    content += struct.pack(f"<{len(marks)}q", *marks)
    prefix.with_name(f"{prefix.name}.idx").write_bytes(content)
    tokens = [token for text in texts for token in text]
    prefix.with_name(f"{prefix.name}.bin").write_bytes(
        struct.pack(f"<{len(tokens)}{form}", *tokens)
    )
    return prefix


@pytest.fixture
def network() -> LlamaNetwork:
    """The tiny network."""
    return build_network()


@pytest.fixture
def exported(network: LlamaNetwork, tmp_path: Path) -> Path:
    """Its checkpoint."""
    folder = tmp_path / "exported"
    folder.mkdir()
    export_llama_checkpoint(network.state_dict(), SHAPE, build_tokens(), folder)
    return folder


@pytest.fixture
def sharded(network: LlamaNetwork, tmp_path: Path) -> Path:
    """The same in shards of 20 kB."""
    folder = tmp_path / "sharded"
    folder.mkdir()
    export_llama_checkpoint(network.state_dict(), SHAPE, build_tokens(), folder, 20_000)
    return folder


@pytest.fixture(scope="session")
def transformers() -> ModuleType:
    """The reference; skips where it is not installed."""
    assert torchvision_import.torchvision  # transformers imports it, and it may not load alone
    return pytest.importorskip("transformers", reason="transformers (extra test) is not installed")
