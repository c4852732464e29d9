"""Batch-norm folded into convolutions: the same answers as the network itself, and untouched where
that would not be so.
"""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from harness.engines.batch_norm_folding import fold_batch_norms
from workloads.minigo.model import MiniGoDescription, MiniGoNetwork
from workloads.resnet50.model import build_resnet50
from workloads.ssd.model import build_ssd

ROUNDING = 1e-5
"""Of the largest value, in fp32: that of the convolutions themselves."""
MINIGO = MiniGoDescription(workload="minigo", board=9, planes=17, filters=16, blocks=2, hidden=16)


class Branched(nn.Module):
    """A convolution that the shortcut reads, too."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        read = self.convolution(values)
        result: torch.Tensor = self.norm(read) + read
        return result


class Shared(nn.Module):
    """A convolution with two batch-norm layers, as heads of several maps have."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 3, 1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(3), nn.BatchNorm2d(3)])

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        for norm in self.norms:
            values = norm(self.convolution(values))
        return values


class Deciding(nn.Module):
    """What it calls depends on its data."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        read: torch.Tensor = self.convolution(values)
        return self.norm(read) if float(values.sum()) > 0 else read


class Reading(nn.Module):
    """It reads a convolution's weights beside calling it."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.norm(self.convolution(values)) + self.convolution.weight.sum()
        return result


class Counting(nn.Module):
    """Batch-norm without statistics of its own: it normalises each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 1)
        self.norm = nn.BatchNorm2d(4, track_running_stats=False)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.norm(self.convolution(values))
        return result


def count_norms(module: nn.Module) -> int:
    """Count the batch-norm layers."""
    return sum(isinstance(part, nn.BatchNorm2d) for part in module.modules())


def train_norms(module: nn.Module) -> nn.Module:
    """Give batch-norm layers statistics and weights as training leaves them."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            assert part.running_mean is not None and part.running_var is not None
            part.running_mean.uniform_(-1, 1)
            part.running_var.uniform_(0.5, 2)
            if part.affine:
                part.weight.data.uniform_(0.5, 1.5)
                part.bias.data.uniform_(-0.5, 0.5)
    return module.eval()


def measure_difference(module: nn.Module, folded: nn.Module, values: torch.Tensor) -> float:
    """Return the largest difference of an output, as a part of its largest value."""
    with torch.inference_mode():
        pairs = [
            (result,) if isinstance(result, torch.Tensor) else result
            for result in (module(values), folded(values))
        ]
    return max(
        float((one - other).abs().max() / one.abs().max())
        for one, other in zip(*pairs, strict=True)
    )


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (lambda: build_resnet50(12), (2, 3, 32, 32)),
        (lambda: build_ssd("300", 81), (1, 3, 300, 300)),
        (lambda: MiniGoNetwork(MINIGO), (2, 17, 9, 9)),
    ],
    ids=["resnet50", "ssd", "minigo"],
)
def test_networks_of_workloads_answer_as_before(
    network: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    torch.manual_seed(1)
    made = train_norms(network()).to(memory_format=torch.channels_last)
    folded = copy.deepcopy(made)
    assert fold_batch_norms(folded) == count_norms(made) > 0
    assert count_norms(folded) == 0
    values = torch.randn(shape).to(memory_format=torch.channels_last)
    assert measure_difference(made, folded, values) < ROUNDING


@pytest.mark.parametrize("kind", [Branched, Shared, Deciding, Reading, Counting])
def test_what_cannot_be_folded_stays_as_it_is(kind: type[nn.Module]) -> None:
    torch.manual_seed(1)
    made = kind().eval()
    for part in made.modules():
        if isinstance(part, nn.BatchNorm2d) and part.running_mean is not None:
            part.running_mean.fill_(0.5)
    folded = copy.deepcopy(made)
    assert fold_batch_norms(folded) == 0
    values = torch.randn(2, 3, 5, 5)
    with torch.inference_mode():
        assert torch.equal(made(values), folded(values))


def test_a_convolution_without_bias_and_a_norm_without_weights_fold() -> None:
    torch.manual_seed(1)
    made = train_norms(
        nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4, affine=False), nn.ReLU())
    )
    folded = copy.deepcopy(made)
    assert fold_batch_norms(folded) == 1
    assert measure_difference(made, folded, torch.randn(2, 3, 9, 9)) < ROUNDING
