"""Two gloo processes against one that accumulates over the same splits."""

import os
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from suite.workload import Run
from workloads.resnet50.training import ResNet50Training

pytestmark = pytest.mark.slow
MakeRun = Callable[..., Run]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def train(run: Run, folder: Path) -> dict[str, object]:
    """Train an epoch and the first step of the next, saving between; evaluate; take everything down."""
    training = ResNet50Training(run)
    samples = list(training.train_epoch(1))
    training.save(folder)
    if run.world_size > 1:
        dist.barrier()  # the harness waits for all ranks before it calls a checkpoint whole
    training.restore(folder)
    samples += list(training.train_epoch(2, first_step=1))
    parameters = {name: p.detach().clone() for name, p in training._model.named_parameters()}
    before = {name: b.clone() for name, b in training._model.named_buffers()}
    score = training.evaluate()
    after = {name: b.clone() for name, b in training._model.named_buffers()}
    return {"samples": samples, "parameters": parameters, "before": before, "after": after, "score": score}


def work(rank: int, run: Run, port: int, folder: Path) -> None:
    """One rank."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.save(train(replace(run, rank=rank, local_rank=rank, world_size=2), folder), folder / f"result-{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module", autouse=True)
def importable() -> None:
    """The children import this file by its name."""
    sys.path.insert(0, str(Path(__file__).parent))


@pytest.mark.parametrize(("batch", "span", "tolerance"), [(12, 6, 0.0), (16, 4, 1e-4)])
def test_two_ranks_are_one_that_accumulates(make_run: MakeRun, tmp_path: Path, batch: int, span: int, tolerance: float) -> None:
    """Same parameters and global batches, statistics averaged, scores agreed on.

    With one micro-batch on each rank the sums have one order only, and the parameters are equal to the last bit; with
    two, and an uneven last batch, they differ by rounding.
    """
    run = make_run(global_batch_size=batch, model_bn_span=span, model__zero_init=True)
    sys.modules.setdefault("test_ranks", sys.modules[__name__])
    work.__module__ = "test_ranks"
    mp.spawn(work, args=(run, free_port(), tmp_path), nprocs=2)
    first, second = (torch.load(tmp_path / f"result-{rank}.pt", weights_only=True) for rank in range(2))
    alone = train(run, tmp_path)
    assert first["samples"] == second["samples"] == alone["samples"]
    assert sum(first["samples"]) == 24 + 24 - batch
    for name, parameter in alone["parameters"].items():  # type: ignore[attr-defined]
        assert torch.equal(first["parameters"][name], second["parameters"][name])
        assert torch.allclose(first["parameters"][name], parameter, rtol=tolerance, atol=tolerance), name
    for name, buffer in first["after"].items():
        assert torch.equal(buffer, second["after"][name])
        if buffer.is_floating_point():
            mean = (first["before"][name] + second["before"][name]) / 2
            assert torch.allclose(buffer, mean, rtol=1e-5, atol=1e-7), name
    assert first["score"] == second["score"]
