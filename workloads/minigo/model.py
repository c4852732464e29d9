"""The policy and value network: a residual network with two heads.

He et al. 2015, arXiv:1512.03385; Silver et al. 2017, doi:10.1038/nature24270; mlcommons/training
v0.6 and v0.7, reinforcement/tensorflow/minigo, dual_net.py. The value is from the mover's point of
view; the reference's is from black's.
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
from workloads.minigo.go.board import MAX_BOARD_SIDE
from workloads.minigo.go.features import SHOWN_POSITIONS_BY_PLANES

# Legend: N positions, F planes, H rows, W columns, C filters, A actions (points, then the pass).
MINIGO_NAME: Final = "minigo"
MINIGO_BATCH_NORM_MOMENTUM: Final = 0.05  # dual_net.py: batch-norm's decay 0.95
MINIGO_BATCH_NORM_EPSILON: Final = 1e-5  # dual_net.py
POLICY_HEAD_CHANNELS: Final = 2  # dual_net.py: policy head's 1x1 convolution
VALUE_HEAD_CHANNELS: Final = 1  # dual_net.py: value head's
# limits that a description is checked against before memory is allocated
MAX_DESCRIBED_FILTERS, MAX_DESCRIBED_BLOCKS = (
    1024,
    64,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniGoDescription:
    """Everything needed to play with exported weights or to serve them."""

    workload: str
    board: int
    planes: int
    filters: int
    blocks: int
    hidden: int


class MiniGoResidualBlock(nn.Module):
    """Two convolutions with a shortcut."""

    def __init__(self, filters: int) -> None:
        super().__init__()
        self.first, self.first_norm = (
            build_minigo_convolution(filters, filters),
            build_minigo_batch_norm(filters),
        )
        self.second, self.second_norm = (
            build_minigo_convolution(filters, filters),
            build_minigo_batch_norm(filters),
        )

    def forward(self, map_NCHW: torch.Tensor) -> torch.Tensor:
        """Return a map of the same shape."""
        inner_NCHW = torch.relu(self.first_norm(self.first(map_NCHW)))
        return torch.relu(map_NCHW + self.second_norm(self.second(inner_NCHW)))


class MiniGoNetwork(nn.Module):
    """A tower of blocks, a policy head and a value head."""

    def __init__(self, description: MiniGoDescription) -> None:
        super().__init__()
        self.description = description
        filters, points = description.filters, description.board**2
        self.stem, self.stem_norm = (
            build_minigo_convolution(description.planes, filters),
            build_minigo_batch_norm(filters),
        )
        self.tower = nn.Sequential(
            *(MiniGoResidualBlock(filters) for _ in range(description.blocks))
        )
        self.policy, self.policy_norm = (
            nn.Conv2d(filters, POLICY_HEAD_CHANNELS, 1, bias=False),
            build_minigo_batch_norm(POLICY_HEAD_CHANNELS, affine=False),
        )
        self.policy_out = nn.Linear(POLICY_HEAD_CHANNELS * points, points + 1)
        self.value, self.value_norm = (
            nn.Conv2d(filters, VALUE_HEAD_CHANNELS, 1, bias=False),
            build_minigo_batch_norm(VALUE_HEAD_CHANNELS, affine=False),
        )
        self.value_hidden = nn.Linear(VALUE_HEAD_CHANNELS * points, description.hidden)
        self.value_out = nn.Linear(description.hidden, 1)

    def forward(self, plane_NFHW: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logit_NA of the actions, and value_N, -1 to 1 for the mover."""
        map_NCHW = self.tower(torch.relu(self.stem_norm(self.stem(plane_NFHW))))
        policy_NC = torch.relu(self.policy_norm(self.policy(map_NCHW))).flatten(1)
        value_NC = torch.relu(self.value_norm(self.value(map_NCHW))).flatten(1)
        value_N1 = torch.tanh(self.value_out(torch.relu(self.value_hidden(value_NC))))
        return self.policy_out(policy_NC), value_N1.flatten()


def build_minigo_convolution(inputs: int, outputs: int) -> nn.Conv2d:
    """Build a 3x3 convolution that keeps the board's size."""
    return nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)


def build_minigo_batch_norm(channels: int, *, affine: bool = True) -> nn.BatchNorm2d:
    """Build a batch-norm with the reference's parameters."""
    return nn.BatchNorm2d(
        channels, eps=MINIGO_BATCH_NORM_EPSILON, momentum=MINIGO_BATCH_NORM_MOMENTUM, affine=affine
    )


def split_minigo_parameters(
    network: MiniGoNetwork,
) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Separate kernels and batch-norm scales, which have weight decay, from all other parameters;
    dual_net.py: l2 on everything except beta and bias.
    """
    named = dict(network.named_parameters())
    undecayed = {name for name in named if name.endswith("bias")}
    return [parameter for name, parameter in named.items() if name not in undecayed], [
        named[name] for name in sorted(undecayed)
    ]


def build_fused_network(network: MiniGoNetwork) -> nn.Module:
    """Copy a network for evaluation, with each batch-norm folded into its convolution: a third more
    positions per second on a CPU.
    """
    copied = copy.deepcopy(network).eval()
    for module in copied.modules():
        for name in [
            name.removesuffix("_norm") for name in module._modules if name.endswith("_norm")
        ]:
            setattr(
                module,
                name,
                fuse_conv_bn_eval(getattr(module, name), getattr(module, f"{name}_norm")),
            )
            setattr(module, f"{name}_norm", nn.Identity())
    # not in the stubs
    return copied.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def read_minigo_description(folder: Path) -> MiniGoDescription:
    """Read the description of exported weights; RequestError if they belong to another workload, or
    to an unsupported network.
    """
    found = weights.read_weights_description(folder, MiniGoDescription, MINIGO_NAME)
    valid_sizes = (
        2 <= found.board <= MAX_BOARD_SIDE,
        found.planes in SHOWN_POSITIONS_BY_PLANES,
        0 < found.filters <= MAX_DESCRIBED_FILTERS,
        0 <= found.blocks <= MAX_DESCRIBED_BLOCKS,
    )
    if not all(valid_sizes) or not 0 < found.hidden <= MAX_DESCRIBED_FILTERS:
        raise RequestError(
            f"checkpoint {folder}: {weights.DESCRIPTION_FILE} does not describe a network of "
            f"{MINIGO_NAME}: {found}"
        )
    return found


def load_minigo_checkpoint(folder: Path, board: int | None = None) -> MiniGoNetwork:
    """Rebuild an exported network in evaluation mode; RequestError if it is for another board."""
    description = read_minigo_description(folder)
    if board not in (None, description.board):
        raise RequestError(
            f"checkpoint {folder}: it is for a board of {description.board} x {description.board},"
            f" not {board} x {board}"
        )
    return weights.build_exported_network(lambda: MiniGoNetwork(description), folder, MINIGO_NAME)
