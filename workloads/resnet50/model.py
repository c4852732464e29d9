"""torchvision's ResNet-50, which is v1.5: the stride of a down-sampling bottleneck lies in its 3x3 convolution."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from torch import nn

from workloads.common import weights
from workloads.common.vision_ops import torchvision

NAME: Final = "resnet50"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What has to be known to serve exported weights."""

    workload: str
    classes: tuple[str, ...]
    picture_size: int


def build(classes: int, *, zero_init: bool = False) -> nn.Module:
    """Make the network; `zero_init` starts each residual branch at 0 (Goyal et al. 2017, section 5.1)."""
    return cast(nn.Module, torchvision.models.resnet50(num_classes=classes, zero_init_residual=zero_init))


def parameter_groups(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Tell the weights of layers from biases and batch-norm parameters, which are not decayed."""
    parameters = list(model.parameters())
    return [p for p in parameters if p.ndim > 1], [p for p in parameters if p.ndim <= 1]


def describe(folder: Path) -> Description:
    """Read the description of exported weights; RequestError where they are not this workload's."""
    return weights.describe(folder, Description, NAME)


def load(folder: Path) -> tuple[nn.Module, Description]:
    """Rebuild an exported network, ready to evaluate."""
    description = describe(folder)
    return weights.fill(build(len(description.classes)), folder, NAME), description
