"""Counts the memory of the translation workloads' `full` training steps, and times the
Transformer's epoch plan, each before and after: whole shares of a batch with all intermediate
tensors kept, and plans of Python objects, against what the workloads do.

Memory is counted on fake tensors, without the memory and without a GPU: all tensors that exist at
once in forward and backward pass in bf16, and the optimizer's state. Attention and recurrent layers
are counted in their CPU form. It needs some seconds.

python benchmarks/translation.py [--pairs 4500000] [--format json]
"""

import argparse
import json
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final
from unittest import mock

import numpy as np
import torch
from common.figures import hardware
from common.tiny import add_tiny_option, choose_size
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from suite import registry
from suite.rounds import Profile
from suite.rounds.settings import DATA_WORKERS_SETTING, resolve_settings
from workloads.common.inputs import batches
from workloads.common.optimisation import recomputation
from workloads.common.text import bucketing
from workloads.gnmt import model as gnmt_model
from workloads.gnmt.recipe import GNMTRecipe
from workloads.transformer import data
from workloads.transformer.model import TransformerNetwork
from workloads.transformer.recipe import (
    BUCKET_GROWTH_FACTOR,
    SHORTEST_BUCKET_TOKENS,
    TransformerRecipe,
)
from workloads.transformer.training import compute_state_loss

GB: Final = 1e9
ADAM_BYTES_PER_WEIGHT: Final = 8  # two fp32 moments
TRANSFORMER_VOCABULARY, GNMT_VOCABULARY = 33_708, 32_320
"""Of the reference's files."""


class PeakMemory(TorchDispatchMode):
    """Counts the bytes of all tensors that exist at once."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes, self.peak = 0, 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(found):
            if isinstance(leaf, torch.Tensor):
                self.add(leaf.untyped_storage())
        return found

    def add(self, storage: torch.UntypedStorage) -> None:
        """Count a storage until it is freed."""
        key, size = storage._cdata, storage.nbytes()
        if key in self.known:
            return
        self.known.add(key)
        self.bytes += size
        self.peak = max(self.peak, self.bytes)
        weakref.finalize(storage, self.drop, key, size)

    def drop(self, key: int, size: int) -> None:
        """Forget a storage that was freed."""
        self.known.discard(key)
        self.bytes -= size


def count_step_bytes(
    build: Callable[[], nn.Module], compute_loss: Callable[[nn.Module], torch.Tensor]
) -> int:
    """Count the peak of one micro-batch's forward and backward pass, with weights, gradients and
    Adam's state.
    """
    with FakeTensorMode(), PeakMemory() as memory:
        network = build()
        with torch.autocast("cpu", torch.bfloat16):
            loss = compute_loss(network)
        loss.backward()  # type: ignore[no-untyped-call]
        weights = sum(weight.numel() for weight in network.parameters())
    return memory.peak + ADAM_BYTES_PER_WEIGHT * weights


def count_transformer_bytes(recipe: TransformerRecipe, tokens: int, length: int) -> int:
    """Count a step of so many tokens in sentences of one length."""
    shape = recipe.sizes.build_shape(TRANSFORMER_VOCABULARY)

    def compute_loss(network: nn.Module) -> torch.Tensor:
        assert isinstance(network, TransformerNetwork)
        token_NT = torch.ones(tokens // length, length, dtype=torch.int64)
        every_X = torch.arange(token_NT.numel())
        state_XW = network(token_NT, token_NT, every_X)
        return compute_state_loss(network, state_XW, token_NT.flatten(), recipe.smoothing)

    return count_step_bytes(lambda: TransformerNetwork(shape, recipe.dropout), compute_loss)


def count_gnmt_bytes(recipe: GNMTRecipe, pairs: int, length: int) -> int:
    """Count a step of so many pairs of one length."""

    def compute_loss(network: nn.Module) -> torch.Tensor:
        assert isinstance(network, gnmt_model.GNMTNetwork)
        token_NT = torch.ones(pairs, length, dtype=torch.int64)
        state_NTH = network(token_NT, torch.full((pairs,), length), token_NT)
        return gnmt_model.compute_sentence_losses(
            network, state_NTH, token_NT, recipe.smoothing
        ).sum()

    return count_step_bytes(
        lambda: gnmt_model.GNMTNetwork(
            GNMT_VOCABULARY, recipe.width, recipe.layers, recipe.dropout
        ),
        compute_loss,
    )


@contextmanager
def keep_everything() -> Iterator[None]:
    """Keep all logits and scores, with the attention's bias in fp32, as before."""

    def keep_scores(compute: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> torch.Tensor:
        return compute(*inputs)

    def add_wide_bias(
        attention: gnmt_model.GNMTAttention, memory_NSH: torch.Tensor
    ) -> torch.Tensor:
        key_NSH: torch.Tensor = attention.key(memory_NSH) + attention.bias
        return key_NSH

    with (
        mock.patch.object(recomputation, "LARGEST_KEPT_BYTES", 1 << 62),
        mock.patch.object(recomputation, "recompute_in_backward", keep_scores),
        mock.patch.object(gnmt_model.GNMTAttention, "compute_keys", add_wide_bias),
    ):
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """Peak memory of one step on one GPU, in GB of 1e9 bytes."""

    workload: str
    batch: str
    before: float
    after: float


def count_full_steps() -> list[MemoryRow]:
    """Count the steps of `full`, and of the Transformer's recipe of 81,920 tokens."""
    transformer = TransformerRecipe.build_from_settings(resolve_full_settings("transformer"))
    gnmt = GNMTRecipe.build_from_settings(resolve_full_settings("gnmt"))
    rows = []
    for tokens in (transformer.batch_tokens, 81_920):
        with keep_everything():
            before = count_transformer_bytes(transformer, tokens, 64)
        after = count_transformer_bytes(transformer, min(tokens, transformer.micro_tokens), 64)
        rows.append(build_memory_row("transformer", f"{tokens:,} tokens", before, after))
    for length in (30, gnmt.max_sequence_length):
        with keep_everything():
            before = count_gnmt_bytes(gnmt, gnmt.batch_size, length)
        after = count_gnmt_bytes(gnmt, min(gnmt.batch_size, gnmt.micro_batch), length)
        rows.append(
            build_memory_row("gnmt", f"{gnmt.batch_size:,} pairs of {length}", before, after)
        )
    return rows


def resolve_full_settings(workload: str) -> Any:
    """Return the settings of `full`."""
    return resolve_settings(
        registry.load_round(), workload, Profile.FULL, {DATA_WORKERS_SETTING: 1}
    )


def build_memory_row(workload: str, batch: str, before: int, after: int) -> MemoryRow:
    """Build a row from bytes."""
    return MemoryRow(workload=workload, batch=batch, before=before / GB, after=after / GB)


class InventedPairs(data.TransformerPairs):
    """Pairs that have lengths alone."""


def invent_pairs(count: int, longest: int) -> data.TransformerPairs:
    """Invent pairs whose lengths are spread as those of sentences."""
    rng = np.random.default_rng(1)
    sides = [np.clip(rng.lognormal(3.3, 0.6, count).astype(np.int64), 1, longest) for _ in range(2)]
    pairs = InventedPairs(sources=(), targets=(), corpus=count)
    vars(pairs).update(target_lengths=sides[1], pair_lengths=np.maximum(*sides))
    return pairs


def plan_with_objects(pairs: data.TransformerPairs, recipe: TransformerRecipe) -> list[int]:
    """Plan an epoch as before: all keys of all steps, twice; return the target tokens of each."""
    lengths, targets = pairs.pair_lengths, pairs.target_lengths
    bounds = bucketing.compute_growing_bounds(
        recipe.max_sentence_tokens, SHORTEST_BUCKET_TOKENS, BUCKET_GROWTH_FACTOR
    )

    def plan_steps() -> list[batches.OptimizerStep]:
        shuffled = batches.generate_epoch_order(len(lengths), 1, 1)
        bucket = np.searchsorted(np.asarray(bounds), lengths[shuffled])
        planned = [
            batch
            for number, bound in enumerate(bounds)
            for batch in batches.split_into_global_batches(
                shuffled[bucket == number], max(1, recipe.batch_tokens // bound)
            )
        ]
        order = np.random.default_rng([1, 1, bucketing.BATCH_ORDER_STREAM]).permutation(
            len(planned)
        )
        return list(
            batches.plan_rank_steps([planned[n] for n in order], recipe.batch_tokens, 1, 0, 1)
        )

    plan_steps()
    return [
        int(sum(targets[key.index] for key in step.micro_batches[0] if key.weight))
        for step in plan_steps()
    ]


def plan_with_arrays(pairs: data.TransformerPairs, recipe: TransformerRecipe) -> list[int]:
    """Plan an epoch as the workload does; return the target tokens of each step."""
    return [
        pairs.count_target_tokens(batch_N)
        for batch_N in data.plan_transformer_batches(pairs, recipe, 1, 1)
    ]


def time_plans(count: int) -> tuple[float, float]:
    """Return the seconds of an epoch's plan before and after; both have the same steps."""
    recipe = TransformerRecipe.build_from_settings(resolve_full_settings("transformer"))
    pairs = invent_pairs(count, recipe.max_sentence_tokens)
    times, found = [], []
    for plan in (plan_with_objects, plan_with_arrays):
        begun = time.process_time()
        found.append(plan(pairs, recipe))
        times.append(time.process_time() - begun)
    if found[0] != found[1]:
        raise SystemExit("the two plans differ, so there is nothing to compare")
    return times[0], times[1]


def show_rows(rows: Sequence[MemoryRow], plan_s: tuple[float, float], count: int) -> None:
    """Print both tables."""
    print("peak memory of a step of `full`, counted (bf16, activations, weights, gradients, Adam)")
    for row in rows:
        print(
            f"  {row.workload:<12} {row.batch:<22} before {row.before:7.1f} GB"
            f"   after {row.after:6.1f} GB"
        )
    print(f"epoch plan of {count:,} pairs (CPU time)")
    print(f"  transformer  before {plan_s[0]:.2f} s   after {plan_s[1]:.2f} s   {hardware()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=choose_size(4_500_000, 2_000))
    add_tiny_option(parser)
    parser.add_argument("--format", choices=["text", "json"], default="text", dest="form")
    asked = parser.parse_args()
    rows, plan_s = count_full_steps(), time_plans(asked.pairs)
    if asked.form == "text":
        show_rows(rows, plan_s, asked.pairs)
        return
    print(
        json.dumps(
            {
                "memory_gb": [asdict(row) for row in rows],
                "plan_s": {"before": plan_s[0], "after": plan_s[1], "pairs": asked.pairs},
                "hardware": hardware(),
            }
        )
    )


if __name__ == "__main__":
    main()
