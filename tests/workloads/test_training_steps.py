"""What the training steps of several workloads have in common: how they use their device."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from testbed import SETTINGS, a_run, shallow
from torch._dynamo.utils import counters

from suite import registry
from suite.engine import Precision
from suite.errors import MissingError
from suite.measurement.data_waiting import DATA_WAITING
from suite.workload import Run
from workloads.common.inputs.device_copies import CudaCopyStream, DirectCopies
from workloads.common.optimisation import step as step_module
from workloads.common.optimisation.graph_recording import WARM_UP_RUNS, open_graph_recorder

Build = Callable[..., Any]


class RecordingStream(DirectCopies):
    """Copies at once, and as many batches ahead as a GPU's stream."""

    batches_ahead = CudaCopyStream.batches_ahead  # type: ignore[misc]


@pytest.fixture
def build_training(small: Path) -> Build:
    """Build the training of a workload on a few embedded samples; ResNet-50 with few layers."""

    def build(workload: str, **asked: Any) -> Any:
        run: Run = a_run(workload, None, small / "cache", SETTINGS[workload], **asked)
        with shallow():
            return registry.load_workload(workload).build_training(run)

    return build


@pytest.mark.slow
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("workload", ["resnet50", "ssd"])
def test_convolutions_are_searched_while_pictures_of_one_size_are_trained_on(
    build_training: Build, monkeypatch: pytest.MonkeyPatch, workload: str, before: bool
) -> None:
    """Not in evaluations, whose last batch is another; and an epoch that ends early leaves the flag
    as it was.
    """
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", before)
    training, during = build_training(workload), list[bool]()
    compute_loss = training._compute_batch_loss

    def watch(batch: Any) -> torch.Tensor:
        during.append(torch.backends.cudnn.benchmark)
        found: torch.Tensor = compute_loss(batch)
        return found

    monkeypatch.setattr(training, "_compute_batch_loss", watch)
    with closing(training.train_epoch(1)) as steps:
        next(steps)
    assert during and all(during)
    assert torch.backends.cudnn.benchmark is before


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["resnet50", "ssd", "maskrcnn", "gnmt"])
def test_a_batch_that_was_read_ahead_was_not_taken(
    build_training: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, workload: str
) -> None:
    """A run that is saved with a batch on its way to the device goes on with that batch: the same
    weights as without a pause, and as without a stream.
    """
    plain = build_training(workload)
    torch.manual_seed(1)  # Mask R-CNN samples anchors at random
    losses = [(samples, plain.loss()) for samples in plain.train_epoch(1)]
    monkeypatch.setattr(step_module, "open_copy_stream", lambda _: RecordingStream())
    first, second = build_training(workload), build_training(workload)
    torch.manual_seed(1)
    with closing(first.train_epoch(1)) as steps:
        found = [(next(steps), first.loss())]
        first.save(tmp_path)
    second.restore(tmp_path)
    found += [(samples, second.loss()) for samples in second.train_epoch(1, first_step=1)]
    assert found == losses
    assert len(losses) > 1
    wanted = dict(plain._stepper.model.named_parameters())
    for name, value in second._stepper.model.named_parameters():
        assert torch.equal(value, wanted[name]), name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more workers than cores
@pytest.mark.parametrize("workload", ["ssd", "gnmt"])
def test_weights_do_not_hang_on_the_number_of_loaders(build_training: Build, workload: str) -> None:
    """`data.workers = auto` is the machine's. ResNet-50's own test says so of it."""
    trained = []
    for workers in (1, 2, 4):
        training = build_training(workload, data__workers=workers)
        with closing(training.train_epoch(1)) as steps:
            losses = [training.loss() for _ in islice(steps, 2)]
        trained.append((losses, copy_state(training)))
    (wanted, weights), *others = trained
    for losses, found in others:
        assert losses == wanted
        check_equal_state(weights, found)


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["gnmt", "llama", "transformer"])
def test_a_text_s_batches_are_waited_for_too(
    build_training: Build, monkeypatch: pytest.MonkeyPatch, workload: str
) -> None:
    """Whether processes or the thread that trains put them together."""
    training, waits = build_training(workload), list[float]()
    monkeypatch.setattr(DATA_WAITING, "waited_s", 0.0)
    with closing(training.train_epoch(1)) as steps:
        waits += (DATA_WAITING.waited_s for _ in islice(steps, 2))
    assert 0.0 < waits[0] < waits[1]


SLOW_RATES: Mapping[str, Mapping[str, Any]] = {
    "resnet50": {
        "opt_name": "sgd",
        "sgd_opt_base_learning_rate": 1e-6,
        "model__zero_init": True,
        "global_batch_size": 12,
        "model_bn_span": 6,
    },
    "ssd": {"opt_base_learning_rate": 1e-5},
}
"""Rates at which a difference of rounding does not grow from step to step."""


def train_epochs(training: Any, epochs: int) -> list[float]:
    """Return the loss of each step."""
    return [training.loss() for epoch in range(1, epochs + 1) for _ in training.train_epoch(epoch)]


def copy_state(training: Any) -> dict[str, torch.Tensor]:
    """Return what preparing must not change."""
    model: torch.nn.Module = training._stepper.model
    state = {name: value.clone() for name, value in model.state_dict().items()}
    return {**state, "generator": torch.get_rng_state()}


def check_equal_state(
    first: Mapping[str, torch.Tensor], second: Mapping[str, torch.Tensor]
) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def collect_gradients(training: Any) -> dict[str, torch.Tensor]:
    named = training._stepper.model.named_parameters()
    return {name: value.grad.clone() for name, value in named if value.grad is not None}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # PyTorch's compiler warns of itself
@pytest.mark.parametrize("workload", ["resnet50", "ssd"])
def test_compiled_steps_are_the_same_but_for_rounding(build_training: Build, workload: str) -> None:
    """Compiled in one piece, before the clock: neither an epoch's last micro-batch nor an
    evaluation compiles anything within it.
    """
    torch._dynamo.reset()
    counters.clear()
    plain, compiled = (
        build_training(workload, **SLOW_RATES[workload], train__compile=asked)
        for asked in (False, True)
    )
    assert plain.prepare_steps() == []
    before = copy_state(compiled)
    (done,) = compiled.prepare_steps()
    assert (done.setting, done.problem) == ("train.compile", "")
    assert done.seconds > 0.1
    check_equal_state(before, copy_state(compiled))
    assert not collect_gradients(compiled)
    losses = []
    for training in (plain, compiled):
        with closing(training.train_epoch(3)) as steps:
            next(steps)
        losses.append([training.loss()])
    wanted, found = collect_gradients(plain), collect_gradients(compiled)
    assert wanted.keys() == found.keys()
    largest = max(float(value.abs().max()) for value in wanted.values())
    for name, value in wanted.items():
        assert float((value - found[name]).abs().max()) <= 1e-2 * largest, name
    compiled.evaluate()
    assert train_epochs(compiled, 2) == pytest.approx(train_epochs(plain, 2), rel=1e-5)
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert not counters["graph_break"]
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["resnet50", "ssd"])
def test_a_compilation_that_fails_leaves_the_steps_as_they_were(
    build_training: Build, monkeypatch: pytest.MonkeyPatch, workload: str
) -> None:
    """One line says why, and the losses are those without the setting, to the bit."""

    def fail_compilation(function: Any, **options: Any) -> Any:
        def fail(*inputs: torch.Tensor) -> torch.Tensor:
            function(*inputs)  # batch-norm has seen them then
            raise RuntimeError("\nno C++ compiler was found\nand much more")

        return fail

    wanted = train_epochs(build_training(workload), 1)
    monkeypatch.setattr(torch, "compile", fail_compilation)
    training = build_training(workload, train__compile=True)
    before = copy_state(training)
    (done,) = training.prepare_steps()
    assert done.problem == "RuntimeError: no C++ compiler was found"
    check_equal_state(before, copy_state(training))
    assert train_epochs(training, 1) == wanted


class RecordingDevice:
    """A double of a GPU that records: it runs work to warm it up, not while it records it, and then
    as often as it is replayed, on the memory that it had then.
    """

    def __init__(self, training: Any) -> None:
        self.training, self.replays = training, 0
        self.places: dict[str, int] = {}

    def find_gradients(self) -> dict[str, int]:
        named = self.training._stepper.model.named_parameters()
        return {name: value.grad.data_ptr() for name, value in named}

    def record_work(self, work: Callable[[], None]) -> Callable[[], None]:
        for _ in range(WARM_UP_RUNS):
            work()
        self.places = self.find_gradients()

        def replay() -> None:
            assert self.find_gradients() == self.places, "a graph adds to memory it does not know"
            self.replays += 1
            work()

        return replay


GRAPH_CASES = [
    ("resnet50", {"global_batch_size": 16, "model_bn_span": 4}, Precision.FP32),
    ("resnet50", {"global_batch_size": 10, "model_bn_span": 5}, Precision.FP32),
    ("ssd", {"global_batch_size": 4, "model_bn_span": 2}, Precision.FP32),
    ("resnet50", {"global_batch_size": 8, "model_bn_span": 4}, Precision.BF16),
]


@pytest.mark.slow
@pytest.mark.parametrize(("workload", "asked", "precision"), GRAPH_CASES)
def test_recorded_steps_are_the_same_to_the_bit(
    build_training: Build,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    workload: str,
    asked: Mapping[str, Any],
    precision: Precision,
) -> None:
    """Whole micro-batches are replayed, whatever part of their step they are; others, evaluations
    and a restored state in between leave the graph valid.
    """
    plain = build_training(workload, **asked, precision=precision)
    wanted = train_epochs(plain, 2)
    training = build_training(workload, **asked, precision=precision, train__graphs=True)
    double = RecordingDevice(training)
    monkeypatch.setattr(step_module, "open_graph_recorder", lambda _: double)
    before = copy_state(training)
    (done,) = training.prepare_steps()
    assert (done.setting, done.problem) == ("train.graphs", "")
    check_equal_state(before, copy_state(training))
    assert not any(value.any() for value in collect_gradients(training).values())
    assert double.replays == 0
    losses = train_epochs(training, 1)
    training.save(tmp_path)
    training.evaluate()
    training.restore(tmp_path)
    losses += [training.loss() for _ in training.train_epoch(2)]
    assert losses == wanted
    check_equal_state(copy_state(plain), copy_state(training))
    planned = [keys for step in training._plan_epoch(1) for keys in step.micro_batches]
    whole = sum(len(keys) == asked["model_bn_span"] for keys in planned)
    assert double.replays == 2 * whole
    assert whole > 0


@pytest.mark.slow
def test_a_step_that_cannot_be_recorded_is_taken_as_it_was(
    build_training: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the failed recording left behind."""

    class BrokenDevice(RecordingDevice):
        def record_work(self, work: Callable[[], None]) -> Callable[[], None]:
            work()
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    wanted = train_epochs(build_training("ssd"), 1)
    training = build_training("ssd", train__graphs=True)
    monkeypatch.setattr(step_module, "open_graph_recorder", lambda _: BrokenDevice(training))
    before = copy_state(training)
    (done,) = training.prepare_steps()
    assert done.problem.startswith("RuntimeError: CUDA error: operation not permitted")
    check_equal_state(before, copy_state(training))
    assert not collect_gradients(training)
    assert train_epochs(training, 1) == wanted


@pytest.mark.slow
def test_a_cpu_says_that_it_records_nothing(build_training: Build) -> None:
    """The setting does no harm there."""
    (done,) = build_training("ssd", train__graphs=True).prepare_steps()
    assert done.problem == "only NVIDIA GPUs replay graphs, and the device is cpu"


def test_one_rank_alone_records(tmp_path: Path) -> None:
    """Ranks exchange gradients in memory of their own."""
    run = a_run("ssd", None, tmp_path, SETTINGS["ssd"])
    with pytest.raises(MissingError, match="one rank alone can be recorded, and there are 2"):
        open_graph_recorder(replace(run, device="cuda", world_size=2))
