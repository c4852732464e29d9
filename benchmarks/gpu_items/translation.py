"""The Transformer's and GNMT's training, and an encoder-decoder of transformers."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import torch
from gpu_shared.workbench import Workbench

from gpu_items.runs import (
    ResidentBatches,
    build_run,
    iterate_steps,
    tell_resident_steps,
    tell_steps,
)
from workloads.common.detection import torchvision_import
from workloads.common.text.encoded import EncodedSentences
from workloads.gnmt.data import GNMTPairs, collate_gnmt_pairs
from workloads.gnmt.training import GNMTTraining
from workloads.transformer.data import TransformerPairs
from workloads.transformer.training import TransformerTraining

UNIT: Final = "target tokens/s"
PLANNED_STEPS: Final = 64
LOWEST_TOKEN: Final = 4
"""Below it are marks."""


def draw_sentences(count: int, length: int, vocabulary: int, seed: int) -> list[Any]:
    """Draw sentences of one length."""
    rng = np.random.default_rng(seed)
    return list(rng.integers(LOWEST_TOKEN, vocabulary, (count, length), dtype=np.int32))


def build_transformer(bench: Workbench, tokens: int) -> TransformerTraining:
    """Build a training on pairs of one length, in steps of one micro-batch; batches are built in
    the timed thread, as in a run.
    """
    sizes = bench.sizes
    sentences = PLANNED_STEPS * max(1, tokens // sizes.sentence)
    settings = {
        "global_batch_size": tokens,
        "data.micro_tokens": tokens,
        "model.layers": sizes.layers,
        "model.width": sizes.width,
        "model.filter": sizes.filter,
        "model.heads": sizes.heads,
    }
    found = {
        "vocabulary": sizes.vocabulary,
        "vocabulary_sha256": "",
        "train": sentences,
        "test": 1,
        "corpus_samples": sentences,
    }
    training = TransformerTraining(build_run(bench, "transformer", settings, found))
    sources, targets = (
        draw_sentences(sentences, sizes.sentence, sizes.vocabulary, seed) for seed in (1, 2)
    )
    pairs = TransformerPairs(sources=sources, targets=targets, corpus=sentences)
    vars(training)["_data"] = SimpleNamespace(train=pairs)
    return training


def measure_transformer(bench: Workbench) -> None:
    """Measure steps of each number of tokens."""
    for tokens in bench.sizes.token_batches:
        bench.attempt(
            f"{tokens} tokens",
            lambda name, tokens=tokens: tell_resident_steps(  # type: ignore[misc]
                bench, name, build_transformer(bench, tokens), UNIT
            ),
        )


def measure_transformers(bench: Workbench) -> None:
    """Measure Marian's network in transformers, of the same size."""
    tell_peer_steps(bench, lambda network: network)


def measure_transformers_compiled(bench: Workbench) -> None:
    """Measure the same, compiled."""
    tell_peer_steps(bench, torch.compile)


def tell_peer_steps(bench: Workbench, change: Callable[[Any], Any]) -> None:
    """Measure the peer with each number of tokens."""
    for tokens in bench.sizes.token_batches:
        if not bench.lacks_package("transformers", f"{tokens} tokens"):
            bench.attempt(
                f"{tokens} tokens",
                lambda name, tokens=tokens: tell_steps(  # type: ignore[misc]
                    bench, name, take_peer_steps(bench, tokens, change), UNIT
                ),
            )


def take_peer_steps(bench: Workbench, tokens: int, change: Callable[[Any], Any]) -> Iterator[int]:
    """Take steps with bf16 autocast and fused AdamW on sentences of one length, on the device."""
    assert torchvision_import.torchvision  # transformers imports it, and it may not load alone
    from transformers import MarianConfig, MarianMTModel

    sizes = bench.sizes
    parts = {"layers": sizes.layers, "ffn_dim": sizes.filter, "attention_heads": sizes.heads}
    sides = {
        f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in parts.items()
    }
    config = MarianConfig(
        vocab_size=sizes.vocabulary,
        d_model=sizes.width,
        activation_function="relu",
        max_position_embeddings=512,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        forced_eos_token_id=None,
        **sides,
    )
    network = MarianMTModel(config).to(bench.device).train()
    run = change(network)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
    source_NS, target_NT = (
        torch.randint(
            LOWEST_TOKEN,
            sizes.vocabulary,
            (max(1, tokens // sizes.sentence), sizes.sentence),
            device=bench.device,
        )
        for _ in range(2)
    )
    mask_NS = torch.ones_like(source_NS)
    autocast: Any = torch.autocast("cuda", torch.bfloat16) if bench.on_gpu else nullcontext()
    while True:
        with autocast:
            loss = run(input_ids=source_NS, attention_mask=mask_NS, labels=target_NT).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield target_NT.numel()


def build_gnmt(bench: Workbench, pairs: int, length: int) -> GNMTTraining:
    """Build a training on resident batches of pairs of one length."""
    sizes = bench.sizes
    sentences = PLANNED_STEPS * pairs
    settings = {
        "global_batch_size": pairs,
        "data.micro_batch": sizes.pair_micro_batch,
        "max_sequence_length": length,
        "model.width": sizes.recurrent_width,
        "model.layers": sizes.recurrent_layers,
    }
    found = {
        "vocabulary": sizes.recurrent_vocabulary,
        "train": sentences,
        "test": 1,
        "corpus_samples": sentences,
    }
    training = GNMTTraining(build_run(bench, "gnmt", settings, found))
    drawn = draw_sentences(pairs, length, sizes.recurrent_vocabulary, 1)
    every = np.arange(sentences) % pairs
    encoded = EncodedSentences.merge_sentences(drawn)
    vars(training)["_training_pairs"] = GNMTPairs(
        sources=encoded, targets=encoded, chosen=every, translation=every
    )
    micro = [(each, each, 1.0) for each in drawn[: sizes.pair_micro_batch]]
    vars(training)["_loader"] = ResidentBatches(collate_gnmt_pairs(micro), bench.device)
    return training


def measure_gnmt(bench: Workbench) -> None:
    """Measure steps of each size."""
    for pairs, length in bench.sizes.pair_batches:
        bench.attempt(
            f"{pairs} x {length}",
            lambda name, pairs=pairs, length=length: tell_gnmt_steps(  # type: ignore[misc]
                bench, name, pairs, length
            ),
        )


def tell_gnmt_steps(bench: Workbench, name: str, pairs: int, length: int) -> None:
    """Count the tokens that are predicted: all of a target but the first."""
    training = build_gnmt(bench, pairs, length)
    steps = (sentences * (length - 1) for sentences in iterate_steps(training))
    tell_steps(bench, name, steps, UNIT)
