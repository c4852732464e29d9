"""Which memory format a detector trains in, and that a step comes to the same in both."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from testbed import SETTINGS, a_run

from suite import registry
from suite.terms import Precision
from workloads.common.detection import memory_format

LARGE: dict[str, Any] = {"device": "cpu", "precision": Precision.FP32, "world_size": 1}


@pytest.mark.parametrize(
    ("change", "capability", "side_px", "wanted"),
    [
        ({}, "AVX2", 1200, torch.contiguous_format),
        ({}, "AVX2", 300, torch.channels_last),
        ({}, "AVX512", 1200, torch.channels_last),
        ({}, "DEFAULT", 1200, torch.channels_last),
        ({"precision": Precision.BF16}, "AVX2", 1200, torch.channels_last),
        ({"device": "cuda:0"}, "AVX2", 1200, torch.channels_last),
        ({"world_size": 2}, "AVX2", 1200, torch.channels_last),
    ],
)
def test_large_pictures_are_contiguous_where_channels_last_is_slow(
    change: dict[str, Any],
    capability: str,
    side_px: int,
    wanted: torch.memory_format,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ranks on different processors would each choose for themselves, and PyTorch refuses to join
    them.
    """
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    run = replace(a_run("ssd", None, tmp_path, SETTINGS["ssd"]), **LARGE | change)
    assert memory_format.choose_training_memory_format(run, side_px) is wanted


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["maskrcnn", "ssd"])
def test_a_step_comes_to_the_same_in_both(
    workload: str, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same sums in another order. Pictures and weights are both in the chosen format, or
    PyTorch would compute in channels-last.
    """
    gradients = {}
    for wanted in (torch.channels_last, torch.contiguous_format):
        monkeypatch.setattr(
            memory_format,
            "choose_training_memory_format",
            lambda run, side_px, wanted=wanted: wanted,
        )
        training: Any = registry.load_workload(workload).build_training(
            a_run(workload, None, small / "cache", SETTINGS[workload])
        )
        convolutions = [
            each
            for each in training._model.modules()
            if isinstance(each, torch.nn.Conv2d) and each.weight.requires_grad
        ]
        assert all(each.weight.is_contiguous(memory_format=wanted) for each in convolutions)
        seen = list[bool]()
        hook = next(
            each for each in training._model.modules() if isinstance(each, torch.nn.Conv2d)
        ).register_forward_hook
        hook(
            lambda _, shown, made, seen=seen, wanted=wanted: seen.append(
                all(each.is_contiguous(memory_format=wanted) for each in (*shown, made))
            )
        )
        torch.manual_seed(1)  # Mask R-CNN draws candidates
        with closing(training.train_epoch(1)) as steps:
            next(steps)
        assert seen and all(seen)
        gradients[wanted] = torch.cat(
            [each.weight.grad.flatten() for each in convolutions]
        )  # zero in a head that no box belongs to
    first, second = gradients.values()
    assert (first - second).norm() <= 0.1 * first.norm() and first.norm() > 0
