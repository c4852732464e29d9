"""Compares tokens/s of podium's training of `llama` with transformers' `LlamaForCausalLM` and fused
AdamW, of the same sizes and batches; then two ranks that divide the network (`train.shard`) with
one rank that holds all of it, per core.

Our side is the workload's own `train_epoch` with its data, schedule and clipping; the other side
has its tokens in memory, one rate, and the same clipping. Both are compiled with `--compile`, ours
layer by layer, theirs whole. In the second comparison each rank has one thread, and exchanges
weights and gradients through gloo; once with `--batch` sequences on each rank and once with eight
times as many, since the exchange and its bookkeeping take as long for few sequences as for many.
Both ranks need a core of their own, so on a busy machine the ratio says little; the note "Against
copies" is that to two ranks that train alone at the same time, which share the machine as the two
do.

Each side runs in processes of its own, in turns. `--device cuda --precision bf16 --compile` is the
same on a GPU, without the second comparison; it has not been run there.
"""

import argparse
import multiprocessing
import socket
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count, cycle, islice
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from common.figures import compare, show
from common.tiny import add_tiny_option, choose_size

from harness.request import build_reading_options, resolve_request
from harness.training import seeds
from suite.terms import Precision, Profile
from workloads.common.optimisation import mixed_precision
from workloads.llama.vocabulary import list_tokens

SEED = 1
WARM_UP_STEPS = choose_size(3, 1)
LARGER_BATCH = 8
"""Times the batch, where ranks are compared with more work for each exchange."""
SIZES = {"layers": 3, "width": 128, "heads": 4, "key_value_heads": 2, "feed_forward": 256}
"""Those of profile smoke."""


def build_run(given: argparse.Namespace, folder: Path, rank: int, ranks: int) -> Any:
    """Build the run of one rank, and the workload that takes it."""
    chosen = {
        **{f"model.{name}": getattr(given, name) for name in SIZES},
        "max_sequence_length": given.length,
        "global_batch_size": given.batch * ranks,
        "train.shard": str(ranks > 1).lower(),
        "train.compile": str(given.compile).lower(),
    }
    options = build_reading_options(
        Profile.SMOKE, None, folder, assignments=tuple(f"{k}={v}" for k, v in chosen.items())
    )
    request = resolve_request(
        replace(options, device=given.device, threads=given.threads), "llama", local_rank=rank
    )
    run = request.build_run(SEED, Precision(given.precision), rank, rank, ranks)
    return request.workload, run


def iterate_our_steps(given: argparse.Namespace, rank: int, ranks: int) -> Iterator[int]:
    """Yield the sequences of each step of the workload, over all ranks."""
    with TemporaryDirectory() as folder:
        workload, run = build_run(given, Path(folder), rank, ranks)
        seeds.seed_generators(SEED, rank, "torch")
        training = workload.build_training(run)
        for epochs in cycle(training.blocks()):
            for epoch in epochs:
                yield from training.train_epoch(epoch)


def iterate_their_steps(given: argparse.Namespace, _: int, __: int) -> Iterator[int]:
    """Yield the sequences of each step of what a tutorial would write."""
    from workloads.common.detection import torchvision_import

    assert torchvision_import.torchvision  # transformers imports it, and it may not load alone
    from transformers import LlamaConfig, LlamaForCausalLM

    if given.threads:
        torch.set_num_threads(given.threads)
    torch.manual_seed(SEED)
    mixed_precision.prepare_training_precision(given.device, Precision(given.precision))
    config = LlamaConfig(
        vocab_size=len(list_tokens()),
        hidden_size=given.width,
        intermediate_size=given.feed_forward,
        num_hidden_layers=given.layers,
        num_attention_heads=given.heads,
        num_key_value_heads=given.key_value_heads,
        max_position_embeddings=max(128, given.length),
        use_cache=False,
    )
    model: Any = LlamaForCausalLM(config).to(given.device).train()
    network = torch.compile(model) if given.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)
    token_NBT = torch.randint(
        config.vocab_size, (16, given.batch, given.length + 1), device=given.device
    )
    for number in count():
        token_BT = token_NBT[number % len(token_NBT)]
        optimizer.zero_grad()
        with mixed_precision.build_autocast(given.device, Precision(given.precision)):
            logit_BTV = network(input_ids=token_BT[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(
            logit_BTV.flatten(0, 1).float(), token_BT[:, 1:].flatten()
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield len(token_BT)


Steps = Callable[[argparse.Namespace, int, int], Iterator[int]]


def work_as_rank(
    steps: Steps, given: argparse.Namespace, rank: int, ranks: int, port: int, pipe: Connection
) -> None:
    """Take the requested number of steps; reply with this rank's tokens/s."""
    if ranks > 1:
        torch.distributed.init_process_group(
            "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks
        )
    taken = steps(given, rank, ranks)
    while asked := pipe.recv():
        began = time.perf_counter()
        tokens = given.length * sum(islice(taken, asked)) / ranks
        if given.device != "cpu":
            torch.cuda.synchronize()
        pipe.send(tokens / (time.perf_counter() - began))
    if ranks > 1:
        torch.distributed.destroy_process_group()


class Side:
    """One side in processes of its own: the ranks of one training, and copies of it that run at the
    same time.
    """

    def __init__(
        self, steps: Steps, given: argparse.Namespace, ranks: int = 1, copies: int = 1
    ) -> None:
        context = multiprocessing.get_context("spawn")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        self.pipes, self.processes = [], []
        for rank in [*range(ranks)] * copies:
            pipe, far = context.Pipe()
            process = context.Process(
                target=work_as_rank,
                args=(steps, given, rank, ranks, port, far),
                daemon=True,  # it ends with a script that fails
            )
            process.start()
            far.close()
            self.pipes.append(pipe)
            self.processes.append(process)

    def measure_rate(self, steps: int) -> float:
        """Return the tokens/s of a process over so many steps, their mean."""
        for pipe in self.pipes:
            pipe.send(steps)
        return statistics.mean(float(pipe.recv()) for pipe in self.pipes)

    def end_processes(self) -> None:
        """End the processes."""
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            pipe.send(0)
            process.join()


def measure_in_turns(sides: Sequence[Side], given: argparse.Namespace) -> list[list[float]]:
    """Warm all sides up, then measure them in turn; end them, and return the rates of each."""
    for side in sides:
        side.measure_rate(WARM_UP_STEPS)
    rates = [[side.measure_rate(given.steps) for side in sides] for _ in range(given.pairs)]
    for side in sides:
        side.end_processes()
    return [list(column) for column in zip(*rates, strict=True)]


def describe(given: argparse.Namespace, threads: str) -> dict[str, object]:
    """Say what was measured."""
    sizes = f"{given.layers} layers, width {given.width}, feed-forward {given.feed_forward}"
    return {
        "Network": f"{sizes}, {given.precision}{', compiled' if given.compile else ''}",
        "Batch": f"{given.batch} sequences of {given.length} tokens on each rank",
        "Threads": threads,
    }


def compare_with_transformers(given: argparse.Namespace) -> None:
    """Print our tokens/s against theirs."""
    ours, theirs = measure_in_turns(
        [Side(iterate_our_steps, given), Side(iterate_their_steps, given)], given
    )
    title = "training llama: ours against transformers' LlamaForCausalLM; 1.0 is the aim"
    notes = describe(given, str(given.threads or torch.get_num_threads()))
    show(title, compare(ours, theirs, "tokens/s"), given.form, notes)


def compare_ranks(given: argparse.Namespace, batch: int) -> None:
    """Print the tokens/s of each of two sharded ranks against those of one rank."""
    single = argparse.Namespace(**{**vars(given), "threads": 1, "batch": batch})
    both, alone, beside = measure_in_turns(
        [
            Side(iterate_our_steps, single, ranks=2),
            Side(iterate_our_steps, single),
            Side(iterate_our_steps, single, copies=choose_size(2, 1)),
        ],
        single,
    )
    notes = describe(single, "1 for each rank") | {
        "Against copies": round(compare(both, beside, "tokens/s").ratio, 4)
    }
    title = "two sharded ranks against one rank, tokens/s per core; 0.9 is the aim"
    show(title, compare(both, alone, "tokens/s"), single.form, notes)


def read() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", choices=["text", "json"], default="text", dest="form")
    parser.add_argument(
        "--pairs", type=int, default=choose_size(9, 1), help="pairs of measurements"
    )
    add_tiny_option(parser)
    parser.add_argument(
        "--steps", type=int, default=choose_size(10, 1), help="optimizer steps per measurement"
    )
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0: all cores")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--compile", action="store_true", help="compile both networks")
    parser.add_argument(
        "--batch", type=int, default=choose_size(16, 2), help="sequences of a step on each rank"
    )
    parser.add_argument("--length", type=int, default=64, help="tokens of a sequence")
    for name, value in SIZES.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    return parser.parse_args()


def main() -> None:
    given = read()
    compare_with_transformers(given)
    if given.device == "cpu":
        for batch in choose_size((given.batch, LARGER_BATCH * given.batch), (given.batch,)):
            compare_ranks(given, batch)


if __name__ == "__main__":
    main()
