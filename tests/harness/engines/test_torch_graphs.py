"""The torch engine's CUDA graphs against a recording double of the GPU: what is recorded and when,
how batches are padded, and what happens where nothing can be recorded.
"""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from recording_gpu import RecordingGpu
from torch import nn

from harness.engines import torch as module
from harness.engines.recorded_batches import list_recorded_sizes
from harness.engines.torch import TorchEngine, TorchExecutable
from harness.serving.loadgen.session import EngineRecorder
from suite.engine import Network, Plan
from suite.terms import Precision

# Legend: N pictures, C channels, H height, W width.
MOST, SIDE = 6, 8
POOL = ("create_memory_pool",)


class Small(nn.Module):
    """A convolution and a mean; two outputs that begin with the batch."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 5)
        self.sizes: list[int] = []

    def forward(self, picture_NCHW: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.sizes.append(len(picture_NCHW))
        feature_NC = self.conv(picture_NCHW).relu().mean((2, 3))
        return self.head(feature_NC), feature_NC


class Turned(Small):
    """Its second output begins with something else than the batch."""

    def forward(self, picture_NCHW: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logit_NK, feature_NC = super().forward(picture_NCHW)
        return logit_NK, feature_NC.T


def network(made: nn.Module, **changed: Any) -> Network[torch.Tensor]:
    return replace(
        Network(
            name="small",
            module=made,
            framework="torch",
            inputs=(torch.zeros(1, 3, SIDE, SIDE),),
            input_names=("picture",),
            output_names=("logit", "feature"),
            dimensions=({0: "batch"},),
        ),
        **changed,
    )


def plan(tmp_path: Path, precision: Precision = Precision.FP32, **options: Any) -> Plan[Any]:
    return Plan(
        device="cpu",
        precision=precision,
        threads=1,
        max_batch=MOST,
        cache=tmp_path,
        options={f"engine.{key}": value for key, value in options.items()},
    )


@pytest.fixture
def picture_NCHW() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(MOST, 3, SIDE, SIDE)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16])
def test_padded_batches_have_the_answers_of_whole_ones(
    tmp_path: Path, picture_NCHW: torch.Tensor, precision: Precision
) -> None:
    """A row of padding, or of the batch before, that got into an answer would be a wrong answer
    and no error.
    """
    made = Small()
    eager = TorchEngine().compile(network(copy.deepcopy(made)), plan(tmp_path, precision)).open()
    recorded = TorchExecutable(network(made), plan(tmp_path, precision), RecordingGpu()).open()
    recorded(torch.full_like(picture_NCHW, 1e4))
    for size in (1, 3, 5, MOST, 2):
        expected = eager(picture_NCHW[-size:])
        found = recorded(picture_NCHW[-size:])
        assert [len(each) for each in found] == [size, size]
        for mine, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=2e-6, atol=2e-6)


def test_every_size_is_recorded_when_a_worker_opens_it(
    tmp_path: Path, picture_NCHW: torch.Tensor
) -> None:
    """A recording inside LoadGen's clock would cost a query tens of milliseconds."""
    made = Small()
    gpu = RecordingGpu()
    call = TorchExecutable(network(made), plan(tmp_path), gpu).open()
    assert made.sizes == [6, 6, 4, 4, 2, 2, 1, 1]  # each once eager and once recorded
    assert (gpu.recordings, gpu.calls.count(POOL)) == (4, 1)
    made.sizes.clear()
    for size in (3, 5, 1, MOST):
        call(picture_NCHW[:size])
    assert made.sizes == [4, 6, 1, 6] and gpu.recordings == 4


def test_each_worker_has_graphs_of_its_own(tmp_path: Path) -> None:
    """Graphs that replay at the same time may not share their memory."""
    gpu = RecordingGpu()
    executable = TorchExecutable(network(Small()), plan(tmp_path), gpu)
    first, second = executable.open(), executable.open()
    ones, zeros = torch.ones(2, 3, SIDE, SIDE), torch.zeros(2, 3, SIDE, SIDE)
    kept = first(ones)[0]
    second(zeros)
    assert torch.equal(kept, first(ones)[0])
    assert (gpu.recordings, gpu.calls.count(POOL)) == (8, 2)


@pytest.mark.parametrize(
    "shape", [(MOST + 1, 3, SIDE, SIDE), (2, 3, SIDE + 1, SIDE)], ids=["batch", "side"]
)
def test_shapes_that_were_not_recorded_run_eager(tmp_path: Path, shape: tuple[int, ...]) -> None:
    made = Small()
    call = TorchExecutable(network(made), plan(tmp_path), RecordingGpu()).open()
    pictures = torch.randn(shape)
    expected = TorchEngine().compile(network(Small()), plan(tmp_path)).open()(pictures)
    made.sizes.clear()
    found = call(pictures)
    assert made.sizes == [len(pictures)] and all(map(torch.equal, found, expected))


def test_a_network_of_fixed_shapes_is_recorded_as_it_is(tmp_path: Path) -> None:
    made = Small()
    whole = network(made, inputs=(torch.zeros(5, 3, SIDE, SIDE),), dimensions=())
    TorchExecutable(whole, plan(tmp_path), RecordingGpu()).open()
    assert made.sizes == [5, 5]


@pytest.mark.parametrize(
    "changed",
    [
        {"dimensions": ({0: "batch", 2: "height"},)},
        {"dimensions": ({0: "regions"},)},
        {"state": {"feature": "picture"}},
    ],
    ids=["further dimension", "rows of another kind", "state"],
)
def test_networks_whose_shapes_are_open_are_not_recorded(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    """There would be a graph for each size of a picture, or buffers for each cache."""
    gpu = RecordingGpu()
    executable = TorchExecutable(network(Small(), **changed), plan(tmp_path), gpu)
    executable.open()
    assert executable.describe()["cuda_graphs"] is False and not gpu.recordings


@pytest.mark.parametrize(
    ("most", "sizes"), [(1, (1,)), (6, (1, 2, 4, 6)), (8, (1, 2, 4, 8)), (9, (1, 2, 4, 8, 9))]
)
def test_sizes_are_powers_of_two_and_the_largest(most: int, sizes: tuple[int, ...]) -> None:
    assert list_recorded_sizes(network(Small()), most) == sizes


@pytest.mark.parametrize(
    ("made", "gpu", "words"),
    [
        (
            Small(),
            RecordingGpu(most=0),
            "operation not permitted",
        ),
        (
            Small(),
            RecordingGpu(most=2, error=torch.OutOfMemoryError("CUDA out of memory.")),
            "CUDA out of memory.",
        ),
        (Turned(), RecordingGpu(), "an output does not begin with the batch"),
    ],
)
def test_what_cannot_be_recorded_runs_eager_and_is_said(
    tmp_path: Path,
    picture_NCHW: torch.Tensor,
    capsys: pytest.CaptureFixture[str],
    made: Small,
    gpu: RecordingGpu,
    words: str,
) -> None:
    """Before any clock, in one sentence, with the answers that eager has; nothing is lost."""
    expected = TorchEngine().compile(network(copy.deepcopy(made)), plan(tmp_path)).open()
    executable = TorchExecutable(network(made), plan(tmp_path), gpu)
    call = executable.open()
    said = capsys.readouterr()
    assert said.err == (
        f"engine torch: network small could not be recorded as CUDA graphs ({words}); it runs"
        " eager\n"
    )
    assert not said.out
    assert all(map(torch.equal, call(picture_NCHW[:3]), expected(picture_NCHW[:3])))
    assert executable.describe()["cuda_graphs"] is False
    executable.open()
    assert not capsys.readouterr().err  # a second worker does not try again


def test_graphs_can_be_left_out(tmp_path: Path) -> None:
    made = Small()
    executable = TorchExecutable(network(made), plan(tmp_path, cuda_graphs=False), RecordingGpu())
    executable.open()
    assert not made.sizes and executable.describe()["cuda_graphs"] is False
    assert "engine.cuda_graphs" in TorchEngine.options


def test_a_cpu_has_no_graphs(tmp_path: Path) -> None:
    made = Small()
    executable = TorchEngine().compile(network(made), plan(tmp_path, cuda_graphs=True))
    executable.open()
    assert not made.sizes and executable.describe()["cuda_graphs"] is False


def test_a_gpu_is_asked_for_its_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device of the plan records; whichever is current might be another one."""
    asked: list[str] = []
    monkeypatch.setattr(module, "CudaDevice", asked.append)
    monkeypatch.setattr(
        module, "TorchExecutable", lambda network, plan, gpu: asked.append(plan.device)
    )
    TorchEngine().compile(network(Small()), replace(plan(tmp_path), device="cuda:3"))
    assert asked == ["cuda:3", "cuda:3"]


class RefusedEngine(TorchEngine):
    """The engine on a device that refuses to record."""

    def compile(self, network: Network[torch.Tensor], plan: Plan[torch.Tensor]) -> TorchExecutable:
        return TorchExecutable(network, plan, RecordingGpu(most=0))


def test_the_record_says_what_ran_and_not_what_was_meant_to(tmp_path: Path) -> None:
    """A recording fails when a worker opens the network, after it was built."""
    recorder = EngineRecorder(RefusedEngine())
    executable = recorder.compile(network(Small()), plan(tmp_path))
    assert recorder.built["small"]["cuda_graphs"] is True
    executable.open()
    assert recorder.built["small"]["cuda_graphs"] is False
