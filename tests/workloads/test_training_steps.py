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

Build = Callable[..., Any]


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
