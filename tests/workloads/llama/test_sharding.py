"""Sharded training: two gloo ranks that divide a network come to what one rank comes to, resume
bit for bit, and export one set of weights.
"""

import os
import pickle
import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import EntryPoint
from itertools import islice
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import load_file
from testbed import a_run
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.tensor import DTensor

from suite import plugins, registry
from suite.engine import Precision
from suite.errors import RequestError
from suite.rounds import Profile
from suite.workload import Run, ShardedTraining
from workloads.common.optimisation import sharding
from workloads.llama import training as llama_training
from workloads.llama.training import LlamaTraining
from workloads.llama.weights import load_llama_checkpoint

SMALL = {
    "model.layers": 2,
    "model.width": 32,
    "model.heads": 4,
    "model.key_value_heads": 2,
    "model.feed_forward": 48,
    "global_batch_size": 8,
    "opt_learning_rate_warmup_steps": 2,
}
VALIDATION = 17
"""Sequences: with batches of 4, one rank has three batches and the other two."""
NAMED = "workloads.llama:WORKLOAD"


def forget_registered() -> None:
    """Let the registry look again."""
    for each in vars(registry).values():
        if hasattr(each, "cache_clear"):
            each.cache_clear()


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The workload, registered or not."""
    select = plugins.select_entry_points

    def select_with_llama(group: str) -> list[EntryPoint]:
        found = [*select(group)]
        if group == registry.WORKLOAD_GROUP and not any(each.name == "llama" for each in found):
            point = EntryPoint("llama", NAMED, group)
            found.append(point._for(found[0].dist))  # type: ignore[attr-defined]
        return found

    monkeypatch.setattr(plugins, "select_entry_points", select_with_llama)
    monkeypatch.setattr(llama_training, "EVALUATION_BATCH", 4)
    forget_registered()
    yield
    forget_registered()


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Run]:
    """A small network on a few of the generated news."""

    def make(**settings: Any) -> Run:
        run = a_run("llama", None, tmp_path / "cache", SMALL, **settings)
        benchmark = run.round.benchmark("llama")
        row = replace(
            benchmark.training[Profile.SMOKE],
            max_epochs=2,
            train_samples=48,
            eval_samples=VALIDATION,
        )
        few = replace(benchmark, training={Profile.SMOKE: row})
        rounds = {**run.round.benchmarks, "llama": few}
        return replace(run, round=replace(run.round, benchmarks=rounds))

    return make


@dataclass(frozen=True, kw_only=True)
class Course:
    """What a rank saw of a training."""

    losses: list[float]
    loss: float
    """Of the evaluation."""
    own: int
    """Numbers of the weights that the rank held, and of all weights."""
    whole: int


def train_shards(run: Run, folder: Path, *, saved: Path | None = None, first: int = 0) -> Course:
    """Train two epochs, from a saved state at step `first` on; save at step 4 into the folder, and
    export there at the end.
    """
    training = LlamaTraining(run)
    training.prepare_steps()
    training.evaluate()  # a sharded network has gathered weights before its first step
    if saved is not None:
        training.restore(saved)
    losses = []
    for epoch, begun in ((1, first), (2, 0)):
        with closing(training.train_epoch(epoch, begun)) as steps:
            for step, _ in enumerate(steps, begun + 1):
                losses.append(training.loss())
                if (epoch, step) == (1, 4) and saved is None:
                    training.save(folder)
    scores = training.evaluate()
    training.gather_weights()
    if run.rank == 0:
        (folder / "exported").mkdir()
        training.export(folder / "exported")
    weights = list(training._model.parameters())
    own = sum((each.to_local() if isinstance(each, DTensor) else each).numel() for each in weights)
    return Course(
        losses=losses,
        loss=scores["loss"],
        own=own,
        whole=sum(each.numel() for each in weights),
    )


def be_rank(rank: int, work: Callable[..., Course], run: Run, port: int, folder: Path) -> None:
    """Be one of two ranks, as under torchrun."""
    torch.set_num_threads(1)  # a fork lacks the threads that its parent may have had
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    course = work(replace(run, rank=rank, local_rank=rank, world_size=2), folder)
    torch.save(course, folder / f"course-{rank}.pt")
    dist.destroy_process_group()


def run_two_ranks(work: Callable[..., Course], run: Run, folder: Path) -> tuple[Course, Course]:
    """Run the same on two ranks; what one raises is raised here."""
    folder.mkdir()
    import_module("torch._dynamo")  # the first optimizer of each would
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        started: Any = mp.start_processes(
            be_rank, (work, run, port, folder), nprocs=2, join=False, start_method="fork"
        )
    while not started.join():
        pass
    first, second = (torch.load(folder / f"course-{n}.pt", weights_only=False) for n in range(2))
    return first, second


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_llama_checkpoint(folder / "exported").state_dict())


def check_same_course(alone: Course, first: Course, second: Course) -> None:
    """The mean of two ranks' losses is the loss of one that has all sequences."""
    assert len(alone.losses) == 12
    for whole, mine, other in zip(alone.losses, first.losses, second.losses, strict=True):
        assert (mine + other) / 2 == pytest.approx(whole, rel=2e-6)
        assert mine != other
    assert first.loss == second.loss == pytest.approx(alone.loss, rel=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{}, {"train__recompute": True, "gradient_accumulation_steps": 2}]
)
def test_two_sharded_ranks_come_to_what_one_rank_comes_to(
    make_run: Callable[..., Run], tmp_path: Path, settings: dict[str, Any]
) -> None:
    """Losses, clipped steps, uneven evaluations and weights, to the rounding of fp32; each rank
    holds half of the weights.
    """
    (tmp_path / "alone").mkdir()
    alone = train_shards(make_run(), tmp_path / "alone")
    run = make_run(train__shard=True, **settings)
    first, second = run_two_ranks(train_shards, run, tmp_path / "both")
    check_same_course(alone, first, second)
    one, both = read_weights(tmp_path / "alone"), read_weights(tmp_path / "both")
    assert list(one) == list(both)
    for name, weight in one.items():
        assert torch.allclose(weight, both[name], rtol=1e-4, atol=2e-6), name
    assert alone.own == alone.whole == first.whole
    assert first.own + second.own == first.whole
    assert 0.45 < first.own / first.whole < 0.55


@pytest.mark.slow
def test_sharded_weights_are_exported_as_whole_ones(
    make_run: Callable[..., Run], tmp_path: Path
) -> None:
    """The same files, names, shapes and types, and no trace of the shards."""
    (tmp_path / "alone").mkdir()
    train_shards(make_run(), tmp_path / "alone")
    run_two_ranks(train_shards, make_run(train__shard=True), tmp_path / "both")
    folders = [tmp_path / name / "exported" for name in ("alone", "both")]
    one, both = (sorted(path.name for path in folder.iterdir()) for folder in folders)
    assert one == both
    for name in one:
        if not name.endswith(".safetensors"):
            assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    whole, gathered = (load_file(folder / "model.safetensors") for folder in folders)
    described = [
        {name: (weight.shape, weight.dtype) for name, weight in each.items()}
        for each in (whole, gathered)
    ]
    assert described[0] == described[1]


@pytest.mark.slow
def test_shards_resume_bit_for_bit_on_as_many_ranks_alone(
    make_run: Callable[..., Run], tmp_path: Path
) -> None:
    """Each rank wrote its half; new ranks take it; one rank refuses it in a sentence."""
    run, saved = make_run(train__shard=True), tmp_path / "whole"
    whole = run_two_ranks(train_shards, run, saved)
    parts = [path.stat().st_size for path in sorted((saved / "shards").glob("*.distcp"))]
    assert len(parts) == 2 and max(parts) < 1.5 * min(parts)

    def resume(run: Run, folder: Path) -> Course:
        return train_shards(run, folder, saved=saved, first=4)

    again = run_two_ranks(resume, run, tmp_path / "again")
    for before, after in zip(whole, again, strict=True):
        assert before.losses[4:] == after.losses and before.loss == after.loss
    one, other = read_weights(saved), read_weights(tmp_path / "again")
    assert all(torch.equal(one[name], other[name]) for name in one)
    with pytest.raises(RequestError, match="saved by 2 ranks and cannot be resumed by 1$"):
        LlamaTraining(run).restore(saved)


def test_one_rank_has_nothing_to_divide(make_run: Callable[..., Run], tmp_path: Path) -> None:
    """A job file with the setting runs on one device, too."""
    training = LlamaTraining(make_run(train__shard=True))
    assert isinstance(training, ShardedTraining)
    assert not any(isinstance(each, DTensor) for each in training._model.parameters())
    training.gather_weights()
    training.export(tmp_path)
    assert load_llama_checkpoint(tmp_path).shape.layers == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # PyTorch's compiler warns of itself
def test_compiled_layers_are_built_before_the_data_and_give_the_same_losses(
    make_run: Callable[..., Run], tmp_path: Path
) -> None:
    """With activations computed again; fused kernels round differently, no more."""
    courses = []
    for name, settings in (("plain", {}), ("compiled", {"train__compile": True})):
        (tmp_path / name).mkdir()
        run = make_run(train__recompute=True, **settings)
        courses.append(train_shards(run, tmp_path / name))
    assert courses[0].losses == pytest.approx(courses[1].losses, rel=1e-5)
    assert courses[0].loss == pytest.approx(courses[1].loss, rel=1e-5)
    assert list(read_weights(tmp_path / "plain")) == list(read_weights(tmp_path / "compiled"))
    training = LlamaTraining(make_run(train__compile=True))
    (done,) = training.prepare_steps()
    assert (done.setting, done.problem) == ("train.compile", "")
    assert "_sequences" not in vars(training)  # its data are opened inside the clock
    assert all(each.grad is None for each in training._model.parameters())
    with closing(training.train_epoch(1)) as steps:
        assert [*islice(steps, 1)] == [8]


@pytest.mark.parametrize("sharded", [False, True])
def test_layers_that_cannot_be_compiled_run_as_they_are(
    make_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, sharded: bool
) -> None:
    """Where each rank has the whole network: with parts of it no rank can do otherwise than the
    rest.
    """

    def fail_compilation(*_: Any, **options: Any) -> Any:
        def fail(*inputs: Any) -> Any:
            raise RuntimeError("no C++ compiler")

        return fail

    monkeypatch.setattr(torch, "compile", fail_compilation)
    training = LlamaTraining(make_run(train__compile=True))
    monkeypatch.setattr(training, "_sharded", sharded)
    if sharded:
        with pytest.raises(RequestError, match="^train.compile: RuntimeError: no C[+][+] compiler"):
            training.prepare_steps()
        return
    (done,) = training.prepare_steps()
    assert done.problem == "RuntimeError: no C++ compiler"
    with closing(training.train_epoch(1)) as steps:
        assert [*islice(steps, 1)] == [8]


@pytest.mark.parametrize(
    ("precision", "settings", "message"),
    [
        (Precision.FP16, {}, "train.shard: precision fp16 is not supported"),
        (Precision.FP32, {"train__gradient_format": "fp16"}, "with train.shard it is fp32"),
        (Precision.FP32, {"train__bucket_mib": 5}, "train.bucket_mib: with train.shard"),
    ],
)
def test_what_shards_do_otherwise_is_refused(
    make_run: Callable[..., Run], precision: Precision, settings: dict[str, Any], message: str
) -> None:
    run = make_run(train__shard=True, precision=precision, **settings)
    with pytest.raises(RequestError, match=message):
        LlamaTraining(replace(run, world_size=2))


class Attack:
    """An object that runs a command when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_an_index_of_shards_executes_nothing(tmp_path: Path) -> None:
    """PyTorch's reader unpickles whatever it finds."""
    folder = tmp_path / "shards"
    folder.mkdir()
    network = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(network.parameters())
    member = (getattr, (Precision.FP32, "__class__"))
    contents = [
        pickle.dumps(Attack(tmp_path / "made")),
        pickle.dumps(type("Reduced", (), {"__reduce__": lambda _: member})()),
        pickle.dumps({"no": "index"}),
        b"",
    ]
    for content in contents:
        (folder / ".metadata").write_bytes(content)
        with pytest.raises(RequestError, match="the checkpoint is unreadable"):
            sharding.restore_shards(network, optimizer, tmp_path)
    assert not (tmp_path / "made").exists()


def test_the_error_of_the_rank_that_failed_is_raised() -> None:
    """CheckpointException is no Exception: a full disk would have ended the run as a crash."""
    full = OSError(28, "No space left on device")
    failures = cast(Any, {1: (full, None)})
    with pytest.raises(OSError, match="No space left"), sharding.raise_checkpoint_causes():
        raise CheckpointException("write", failures)
