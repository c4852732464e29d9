"""The policy and value network: a residual network with two heads.

He et al. 2015, arXiv:1512.03385; Silver et al. 2017, doi:10.1038/nature24270; mlcommons/training
v0.6 and v0.7, reinforcement/tensorflow/minigo,
dual_net.py. The value is that of who moves; the reference's is black's.
"""

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from suite.errors import RequestError
from workloads.common import weights
from workloads.minigo.go.board import MOST_SIDE
from workloads.minigo.go.features import SEEN

# Legend: N positions, F planes, H rows, W columns, C filters, A actions (points, then the pass).
NAME: Final = "minigo"
MOMENTUM: Final = 0.05  # dual_net.py: batch-norm's decay 0.95
EPSILON: Final = 1e-5  # dual_net.py
POLICY_MAPS: Final = 2  # dual_net.py: policy head's 1x1 convolution
VALUE_MAPS: Final = 1  # dual_net.py: value head's
MOST_FILTERS, MOST_BLOCKS = 1024, 64  # what a description may ask for before memory is taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What has to be known to play or to serve exported weights."""

    workload: str
    board: int
    planes: int
    filters: int
    blocks: int
    hidden: int


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, filters: int) -> None:
        super().__init__()
        self.first, self.first_norm = convolution(filters, filters), norm(filters)
        self.second, self.second_norm = convolution(filters, filters), norm(filters)

    def forward(self, map_NCHW: torch.Tensor) -> torch.Tensor:
        """Give a map of the same shape."""
        inner_NCHW = torch.relu(self.first_norm(self.first(map_NCHW)))
        return torch.relu(map_NCHW + self.second_norm(self.second(inner_NCHW)))


class MiniGo(nn.Module):
    """A tower of blocks, a policy head and a value head."""

    def __init__(self, description: Description) -> None:
        super().__init__()
        self.description = description
        filters, points = description.filters, description.board**2
        self.stem, self.stem_norm = convolution(description.planes, filters), norm(filters)
        self.tower = nn.Sequential(*(Block(filters) for _ in range(description.blocks)))
        self.policy, self.policy_norm = (
            nn.Conv2d(filters, POLICY_MAPS, 1, bias=False),
            norm(POLICY_MAPS, affine=False),
        )
        self.policy_out = nn.Linear(POLICY_MAPS * points, points + 1)
        self.value, self.value_norm = (
            nn.Conv2d(filters, VALUE_MAPS, 1, bias=False),
            norm(VALUE_MAPS, affine=False),
        )
        self.value_hidden = nn.Linear(VALUE_MAPS * points, description.hidden)
        self.value_out = nn.Linear(description.hidden, 1)

    def forward(self, plane_NFHW: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Give logit_NA of the actions, and value_N, -1 to 1 for who moves."""
        map_NCHW = self.tower(torch.relu(self.stem_norm(self.stem(plane_NFHW))))
        policy_NC = torch.relu(self.policy_norm(self.policy(map_NCHW))).flatten(1)
        value_NC = torch.relu(self.value_norm(self.value(map_NCHW))).flatten(1)
        value_N1 = torch.tanh(self.value_out(torch.relu(self.value_hidden(value_NC))))
        return self.policy_out(policy_NC), value_N1.flatten()


def convolution(inputs: int, outputs: int) -> nn.Conv2d:
    """Make a 3x3 convolution that keeps the board's size."""
    return nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)


def norm(channels: int, *, affine: bool = True) -> nn.BatchNorm2d:
    """Make a batch-norm as the reference has it."""
    return nn.BatchNorm2d(channels, eps=EPSILON, momentum=MOMENTUM, affine=affine)


def parameter_groups(network: MiniGo) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Tell kernels and batch-norm scales, which are decayed, from all else; dual_net.py: l2 on what
    is neither beta nor bias.
    """
    named = dict(network.named_parameters())
    plain = {name for name in named if name.endswith("bias")}
    return [parameter for name, parameter in named.items() if name not in plain], [
        named[name] for name in sorted(plain)
    ]


def fused(network: MiniGo) -> nn.Module:
    """Copy a network for evaluation, each batch-norm within its convolution: a third more positions
    a second on a CPU.
    """
    made = copy.deepcopy(network).eval()
    for module in made.modules():
        for name in [
            name.removesuffix("_norm") for name in module._modules if name.endswith("_norm")
        ]:
            setattr(
                module,
                name,
                fuse_conv_bn_eval(getattr(module, name), getattr(module, f"{name}_norm")),
            )
            setattr(module, f"{name}_norm", nn.Identity())
    return made.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]  # not in the stubs


def describe(folder: Path) -> Description:
    """Read the description of exported weights; RequestError where they are not this workload's, or
    of a network that nobody plays.
    """
    found = weights.describe(folder, Description, NAME)
    sizes = (
        2 <= found.board <= MOST_SIDE,
        found.planes in SEEN,
        0 < found.filters <= MOST_FILTERS,
        0 <= found.blocks <= MOST_BLOCKS,
    )
    if not all(sizes) or not 0 < found.hidden <= MOST_FILTERS:
        raise RequestError(
            f"checkpoint {folder}: {weights.DESCRIPTION} describes no network of {NAME}: {found}"
        )
    return found


def load(folder: Path, board: int | None = None) -> MiniGo:
    """Rebuild an exported network, ready to evaluate; RequestError where it is another board's."""
    description = describe(folder)
    if board not in (None, description.board):
        raise RequestError(
            f"checkpoint {folder}: it is for a board of {description.board} x {description.board},"
            f" not {board} x {board}"
        )
    return weights.filled(lambda: MiniGo(description), folder, NAME)
