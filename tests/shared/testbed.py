"""What the tests of all workloads share: runs on a folder of their own, an engine that does
nothing, a training in one or two ranks.
"""

import os
import socket
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from harness.machine.system_description import has_bf16_instructions
from harness.request import settle_data_workers
from suite import registry
from suite.engine import Call, Executable, Network, Plan, Precision
from suite.rounds import Profile
from suite.rounds.settings import resolve_settings
from suite.workload import Run

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "resnet50": {"global_batch_size": 4, "model_bn_span": 4, "data.workers": 0},
    "ssd": {"global_batch_size": 4, "model_bn_span": 4, "data.workers": 0},
    "maskrcnn": {
        "global_batch_size": 4,
        "data.micro_batch": 2,
        "rpn.candidates_train": 40,
        "rpn.candidates_test": 20,
        "data.workers": 0,
    },
    "gnmt": {
        "model.layers": 3,
        "model.width": 16,
        "global_batch_size": 8,
        "data.merges": 10,
        "data.workers": 0,
    },
    "llama": {
        "model.layers": 1,
        "model.width": 16,
        "model.heads": 2,
        "model.key_value_heads": 1,
        "model.feed_forward": 32,
        "global_batch_size": 8,
    },
    "minigo": {
        "min_selfplay_games_per_generation": 8,
        "selfplay.games_per_group": 4,
        "num_readouts": 4,
        "game.move_limit": 12,
        "eval_games": 8,
        "eval.games_per_group": 4,
        "eval.readouts": 4,
        "eval.opponent_readouts": 4,
        "training.examples_per_generation": 40,
        "train_batch_size": 16,
        "model.filters": 4,
        "model.blocks": 1,
        "model.hidden": 8,
        "data.workers": 0,
    },
    "transformer": {
        "model.layers": 1,
        "model.width": 16,
        "model.filter": 32,
        "model.heads": 2,
        "data.vocabulary": 200,
        "global_batch_size": 200,
    },
}
"""Workload -> what makes it small; a test says that none is missing."""
GENERATING = {"llama"}
"""Workloads that answer token by token, without an engine's calls: samples are token ids on the
host, and payloads are texts, by OpenAI's API.
"""
Around: TypeAlias = Callable[[], AbstractContextManager[None]]
"""What a network is built within."""


def a_run(
    workload: str,
    data: Path | None,
    cache: Path,
    chosen: Mapping[str, Any],
    *,
    seed: int = 7,
    profile: Profile = Profile.SMOKE,
    precision: Precision = Precision.FP32,
    serving: bool = False,
    **settings: Any,
) -> Run:
    """Ask for a run on the CPU; settings by keyword with `__` for a dot go before the chosen
    ones.
    """
    round = registry.load_round()
    asked = {**chosen, **{key.replace("__", "."): value for key, value in settings.items()}}
    return Run(
        round=round,
        profile=profile,
        seed=seed,
        data=data,
        cache=cache,
        framework="torch",
        input="default",
        device="cpu",
        precision=precision,
        threads=1,
        settings=settle_data_workers(
            resolve_settings(round, workload, profile, asked, serving=serving)
        )[0],
    )


def narrow(**options: Any) -> Any:
    """Build a narrower network of ResNet-50's kinds of layers, one block a stage and two in the
    last: a sixth of the weights.
    """
    from workloads.common.detection.torchvision_import import torchvision

    return torchvision.models.resnet.ResNet(
        torchvision.models.resnet.Bottleneck, [1, 1, 1, 2], width_per_group=16, **options
    )


@contextmanager
def shallow() -> Iterator[None]:
    """Have ResNet-50 built as that network."""
    from workloads.resnet50 import model

    def build(classes: int, *, zero_init: bool = False) -> Any:
        return narrow(num_classes=classes, zero_init_residual=zero_init)

    with mock.patch.object(model, "build_resnet50", build):
        yield


def quickest_format() -> Precision:
    """Return bf16 where the processor multiplies it itself: what only has to run at full size takes
    half the time and memory then.
    """
    return Precision.BF16 if has_bf16_instructions() else Precision.FP32


class Plain:
    """One network run as it is; remembers the shapes that it was given."""

    def __init__(self, network: Network[Any]) -> None:
        self.network, self.shapes = network, list[tuple[tuple[int, ...], ...]]()

    def open(self) -> Call[Any]:
        return self

    def describe(self) -> dict[str, Any]:
        return {}

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        assert all(one.is_contiguous() for one in inputs)
        self.shapes.append(tuple(tuple(tensor.shape) for tensor in inputs))
        with torch.inference_mode():
            found = self.network.module(*inputs)
        return found if isinstance(found, tuple) else (found,)


class PlainEngine:
    """The least that an engine can be; remembers what it was given."""

    name = "plain"
    accepts = frozenset({"torch"})

    def __init__(self) -> None:
        self.plans, self.made = list[Plan[Any]](), list[Plain]()

    def missing(self, device: str, precision: Precision) -> str | None:
        return None

    def compile(self, network: Network[Any], plan: Plan[Any]) -> Executable[Any]:
        self.plans.append(plan)
        self.made.append(Plain(network))
        return self.made[-1]


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a short training came to, on one rank."""

    samples: list[int]
    losses: list[float]
    parameters: dict[str, torch.Tensor]
    buffers: dict[str, torch.Tensor]
    averaged: dict[str, torch.Tensor]
    """The buffers behind an evaluation, which averages batch-norm statistics over the ranks."""
    scores: Mapping[str, float]


def trained(workload: str, run: Run, folder: Path, around: Around = nullcontext) -> Trained:
    """Train an epoch and all but the first step of the next, saving and restoring between;
    evaluate.
    """
    with around():
        training: Any = registry.load_workload(workload).build_training(run)
    steps = [(samples, training.loss()) for samples in training.train_epoch(1)]
    training.save(folder)
    if run.world_size > 1:
        dist.barrier()  # the harness waits for all ranks before it calls a checkpoint whole
    training.restore(folder)
    steps += [(samples, training.loss()) for samples in training.train_epoch(2, first_step=1)]
    samples, losses = (list(column) for column in zip(*steps, strict=True))
    model: torch.nn.Module = training._stepper.model
    parameters, buffers = copied(model.named_parameters()), copied(model.named_buffers())
    scores = training.evaluate()
    return Trained(
        samples=samples,
        losses=losses,
        parameters=parameters,
        buffers=buffers,
        averaged=copied(model.named_buffers()),
        scores=scores,
    )


def copied(tensors: Iterable[tuple[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors}


class TwoRanks:
    """Two processes that train as under torchrun, one case after another: to start them takes
    longer than a case.

    They are forks, which need not import PyTorch; not beside a GPU, for which autograd keeps
    threads that a fork lacks.
    """

    def __init__(self) -> None:
        import_module("torch._dynamo")  # the first optimizer of each would
        method = "spawn" if torch.cuda.is_available() else "fork"
        context = mp.get_context(method)
        self._asked, self._done = ([context.SimpleQueue() for _ in range(2)] for _ in range(2))
        with warnings.catch_warnings(
            action="ignore", category=DeprecationWarning
        ):  # from Python 3.12 on, of xdist's thread
            self._processes: Any = mp.start_processes(
                _rank, (self._asked, self._done), nprocs=2, join=False, start_method=method
            )

    def __call__(
        self, workload: str, run: Run, folder: Path, around: Around = nullcontext
    ) -> tuple[Trained, Trained]:
        """Train, gradients averaged through gloo; what a rank raises is raised here, and ends
        both.
        """
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        for asked in self._asked:
            asked.put((workload, run, port, folder, around))
        for done in self._done:
            while done.empty():
                assert not self._processes.join(0.05), "the ranks have ended"
            done.get()
        first, second = (
            torch.load(folder / f"result-{rank}.pt", weights_only=False) for rank in range(2)
        )
        return first, second

    def end(self) -> None:
        """Let them go."""
        for asked in self._asked:
            asked.put(None)
        self._processes.join()


def _rank(rank: int, asked: Sequence[Any], done: Sequence[Any]) -> None:
    torch.set_num_threads(1)  # a fork lacks the threads that its parent may have had
    while case := asked[rank].get():
        workload, run, port, folder, around = case
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        dist.init_process_group("gloo", rank=rank, world_size=2)
        torch.save(
            trained(
                workload, replace(run, rank=rank, local_rank=rank, world_size=2), folder, around
            ),
            folder / f"result-{rank}.pt",
        )
        dist.destroy_process_group()
        done[rank].put(True)


def check_ranks(first: Trained, second: Trained, alone: Trained, tolerance: float) -> None:
    """Hold two ranks against one another, to the last bit, and against one that has the whole
    batch.
    """
    assert first.samples == second.samples == alone.samples
    assert first.scores == second.scores
    for name, value in alone.parameters.items():
        assert torch.equal(first.parameters[name], second.parameters[name]), name
        assert torch.allclose(first.parameters[name], value, rtol=tolerance, atol=tolerance), name
    for mine, other, whole in zip(first.losses, second.losses, alone.losses, strict=True):
        assert (mine + other) / 2 == pytest.approx(whole, rel=1e-4)
