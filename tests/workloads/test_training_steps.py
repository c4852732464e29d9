"""What the training steps of several workloads have in common: how they use their device."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from testbed import SETTINGS, a_run, shallow

from suite import registry
from suite.workload import Run
from workloads.common.inputs.device_copies import CudaCopyStream, DirectCopies
from workloads.common.optimisation import step as step_module

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
