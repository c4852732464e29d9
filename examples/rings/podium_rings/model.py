"""A network with one hidden layer, and its saved weights."""

import json
from pathlib import Path
from typing import Final

from safetensors.torch import load_file, save_file
from torch import nn

from podium_rings.data import CLASSES
from suite.errors import RequestError

NAME: Final = "rings"
WEIGHTS: Final = "model.safetensors"
DESCRIPTION: Final = "model.json"


def build(width: int) -> nn.Sequential:
    """Build the network: two coordinates in, one logit per ring out."""
    return nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, CLASSES))


def save(module: nn.Module, width: int, folder: Path) -> None:
    """Write the weights and their description."""
    save_file(
        {name: tensor.contiguous() for name, tensor in module.state_dict().items()},
        folder / WEIGHTS,
    )
    (folder / DESCRIPTION).write_text(json.dumps({"workload": NAME, "width": width}) + "\n")


def load(folder: Path) -> nn.Module:
    """Read saved weights; RequestError if they belong to another workload."""
    try:
        description = json.loads((folder / DESCRIPTION).read_bytes())
        if description["workload"] != NAME:
            raise RequestError(
                f"{folder} is a checkpoint of {description['workload']}, not of {NAME}"
            )
        module = build(int(description["width"]))
        module.load_state_dict(load_file(folder / WEIGHTS))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise RequestError(f"{folder} is not a checkpoint of {NAME}: {error}") from error
    return module
