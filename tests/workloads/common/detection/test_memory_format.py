"""Which memory format a detector trains in, and that it trains to the same in both."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from testbed import SETTINGS, a_run

from suite import registry
from workloads.common.detection import memory_format


@pytest.mark.parametrize(
    ("device", "capability", "side_px", "wanted"),
    [
        ("cpu", "AVX2", 1200, torch.contiguous_format),
        ("cpu", "AVX2", 300, torch.channels_last),
        ("cpu", "AVX512", 1200, torch.channels_last),
        ("cpu", "DEFAULT", 1200, torch.channels_last),
        ("cuda:0", "AVX2", 1200, torch.channels_last),
    ],
)
def test_large_pictures_are_contiguous_where_channels_last_is_slow(
    device: str, capability: str, side_px: int, wanted: torch.memory_format, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert memory_format.for_training(torch.device(device), side_px) is wanted


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["maskrcnn", "ssd"])
def test_a_step_comes_to_the_same_in_both(workload: str, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same sums in another order; pictures and weights are in the format that was chosen, or convolutions would be in channels-last yet."""
    losses = {}
    for wanted in (torch.channels_last, torch.contiguous_format):
        monkeypatch.setattr(memory_format, "for_training", lambda device, side_px, wanted=wanted: wanted)
        training: Any = registry.workload(workload).training(a_run(workload, None, small / "cache", SETTINGS[workload]))
        seen = list[bool]()
        convolution = next(each for each in training._model.modules() if isinstance(each, torch.nn.Conv2d))
        convolution.register_forward_hook(
            lambda _, shown, made, seen=seen, wanted=wanted: seen.append(all(t.is_contiguous(memory_format=wanted) for t in (*shown, made)))
        )
        torch.manual_seed(1)  # Mask R-CNN draws candidates
        with closing(training.train_epoch(1)) as steps:
            next(steps)
        losses[wanted] = training.loss()
        assert seen and all(seen)
    assert losses[torch.channels_last] == pytest.approx(losses[torch.contiguous_format], rel=1e-3)
