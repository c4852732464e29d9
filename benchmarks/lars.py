"""Measures the time of one LARS step over ResNet-50's weights, against the same formula layer by
layer.

python benchmarks/lars.py [--device cuda] [--repeats 7] [--format json]
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from common.tiny import add_tiny_option, choose_size

from workloads.common.detection.torchvision_import import torchvision
from workloads.common.optimisation.lars import LARS_ETA, Lars

RATE, MOMENTUM, DECAY = 0.1, 0.9, 2e-4
STEPS = choose_size(10, 1)


def weights(device: str) -> list[torch.nn.Parameter]:
    """Build the network's weights, with gradients."""
    torch.manual_seed(1)
    found = list(
        getattr(torchvision.models, choose_size("resnet50", "squeezenet1_1"))()
        .to(device)
        .parameters()
    )
    for weight in found:
        weight.grad = torch.randn_like(weight)
    return found


@torch.no_grad()
def by_layer(layers: list[torch.nn.Parameter], momenta: list[torch.Tensor]) -> None:
    """The published update, one layer after another."""
    for weight, momentum in zip(layers, momenta, strict=True):
        gradient = weight.grad
        assert gradient is not None
        w, g = weight.norm(), gradient.norm()
        ratio = torch.where((w > 0) & (g > 0), LARS_ETA * w / (g + DECAY * w), torch.ones_like(w))
        momentum.mul_(MOMENTUM).sub_(gradient.add(weight, alpha=DECAY).mul_(ratio), alpha=RATE)
        weight.add_(momentum)


def seconds(step: Callable[[], Any], device: str) -> float:
    """Time one of several steps."""
    if device != "cpu":
        torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(STEPS):
        step()
    if device != "cpu":
        torch.cuda.synchronize()
    return (time.perf_counter() - begun) / STEPS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    add_tiny_option(parser)
    parser.add_argument("--repeats", type=int, default=choose_size(7, 1))
    parser.add_argument("--format", choices=["text", "json"], default="text")
    asked = parser.parse_args()
    ours, others = weights(asked.device), weights(asked.device)
    optimizer = Lars(ours, lr=RATE, momentum=MOMENTUM, weight_decay=DECAY)
    momenta = [torch.zeros_like(weight) for weight in others]
    optimizer.step()
    by_layer(others, momenta)
    if not all(
        torch.allclose(mine, other, rtol=1e-5, atol=1e-7)
        for mine, other in zip(ours, others, strict=True)
    ):
        raise SystemExit("the two compute different weights, so there is nothing to compare")
    times = [
        (
            seconds(optimizer.step, asked.device),
            seconds(lambda: by_layer(others, momenta), asked.device),
        )
        for _ in range(asked.repeats)
    ]
    here, layered = (statistics.median(column) for column in zip(*times, strict=True))
    found = {
        "device": asked.device,
        "n": asked.repeats,
        "ms": 1e3 * here,
        "ms_by_layer": 1e3 * layered,
        "ratio": layered / here,
    }
    told = (
        f"LARS, ResNet-50, {asked.device}: {1e3 * here:.2f} ms a step, layer by layer"
        f" {1e3 * layered:.2f} ms, ratio {layered / here:.2f}, n {asked.repeats}"
    )
    print(json.dumps(found) if asked.format == "json" else told)


if __name__ == "__main__":
    main()
