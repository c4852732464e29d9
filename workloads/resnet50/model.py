"""torchvision's ResNet-50, which is v1.5: the stride of a down-sampling bottleneck lies in its 3x3 convolution."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, cast

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from suite.errors import RequestError
from workloads.common.vision_ops import torchvision

WEIGHTS: Final = "model.safetensors"
DESCRIPTION: Final = "model.json"
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


def export(model: nn.Module, description: Description, folder: Path) -> None:
    """Write weights and description."""
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    save_file(weights, folder / WEIGHTS)
    (folder / DESCRIPTION).write_text(json.dumps(asdict(description), indent=2, sort_keys=True) + "\n", "utf-8")


def describe(folder: Path) -> Description:
    """Read the description of exported weights; RequestError where they are not this workload's."""
    path = folder / DESCRIPTION
    try:
        table = json.loads(path.read_text("utf-8"))
        found = Description(workload=table["workload"], classes=tuple(table["classes"]), picture_size=int(table["picture_size"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError(f"checkpoint {folder}: no readable {DESCRIPTION} of {NAME} ({error})") from error
    if found.workload != NAME:
        raise RequestError(f"checkpoint {folder}: it is of workload {found.workload}, not {NAME}")
    return found


def load(folder: Path) -> tuple[nn.Module, Description]:
    """Rebuild an exported network, ready to evaluate."""
    description = describe(folder)
    model = build(len(description.classes))
    try:
        model.load_state_dict(load_file(folder / WEIGHTS))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise RequestError(f"checkpoint {folder}: {WEIGHTS} does not fit {NAME} ({str(error).splitlines()[0]})") from error
    return model.eval(), description
