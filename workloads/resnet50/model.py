"""torchvision's ResNet-50, which is v1.5: the stride of a down-sampling bottleneck is in its 3x3
convolution.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from torch import nn

from workloads.common import weights
from workloads.common.detection.torchvision_import import torchvision

# T: mlcommons/training.
RESNET50_NAME: Final = "resnet50"
REFERENCE_START: Final = "reference"
"""The choice of model.start that uses the reference's distributions."""
TRUNCATION_DEVIATIONS: Final = 2.0  # tensorflow, truncated_normal: standard deviations
# of the standard normal truncated at two; tensorflow, init_ops.py, VarianceScaling
TRUNCATED_NORMAL_DEVIATION: Final = 0.87962566103423978
CLASSIFIER_INIT_DEVIATION: Final = (
    0.01  # T, image_classification, resnet_model.py: random_normal_initializer(stddev=.01)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResNet50Description:
    """What a server needs to know about exported weights."""

    workload: str
    classes: tuple[str, ...]
    picture_size: int


def build_resnet50(classes: int, *, zero_init: bool = False) -> nn.Module:
    """Build the network; `zero_init` starts each residual branch at 0 (Goyal et al. 2017, section
    5.1).
    """
    return cast(
        nn.Module, torchvision.models.resnet50(num_classes=classes, zero_init_residual=zero_init)
    )


def init_resnet50_as_reference(network: nn.Module) -> None:
    """Initialise the weights that torchvision initialises differently: T, image_classification,
    resnet_model.py.

    Convolutions: a normal truncated at two standard deviations, of variance 1 / fan-in. Classifier:
    a normal, with bias 0.
    """
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            deviation = layer.weight[0].numel() ** -0.5 / TRUNCATED_NORMAL_DEVIATION
            nn.init.trunc_normal_(
                layer.weight,
                std=deviation,
                a=-TRUNCATION_DEVIATIONS * deviation,
                b=TRUNCATION_DEVIATIONS * deviation,
            )
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=CLASSIFIER_INIT_DEVIATION)
            nn.init.zeros_(layer.bias)


def split_resnet50_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Separate layer weights from biases and batch-norm parameters, which have no weight decay."""
    parameters = list(model.parameters())
    return [p for p in parameters if p.ndim > 1], [p for p in parameters if p.ndim <= 1]


def read_resnet50_description(folder: Path) -> ResNet50Description:
    """Read the description of exported weights; RequestError if they belong to another workload."""
    return weights.read_weights_description(folder, ResNet50Description, RESNET50_NAME)


def load_resnet50_checkpoint(folder: Path) -> tuple[nn.Module, ResNet50Description]:
    """Rebuild an exported network in evaluation mode."""
    description = read_resnet50_description(folder)
    return weights.build_exported_network(
        lambda: build_resnet50(len(description.classes)), folder, RESNET50_NAME
    ), description
