"""Saved weights, with what the network is built from."""

import json
from pathlib import Path
from typing import Final

from safetensors.torch import load_file, save_file
from torch import nn

from podium_rings import model
from suite.errors import RequestError

NAME: Final = "rings"
WEIGHTS: Final = "model.safetensors"
DESCRIPTION: Final = "model.json"


def save(module: nn.Module, folder: Path, **built: int | list[int]) -> None:
    """Write the weights, and the arguments that the network was built with."""
    save_file(
        {name: tensor.contiguous() for name, tensor in module.state_dict().items()},
        folder / WEIGHTS,
    )
    (folder / DESCRIPTION).write_text(json.dumps({"workload": NAME, "built": built}) + "\n")


def load(folder: Path) -> nn.Module:
    """Read saved weights; RequestError if they belong to another workload."""
    try:
        description = json.loads((folder / DESCRIPTION).read_bytes())
        if description["workload"] != NAME:
            raise RequestError(
                f"{folder} is a checkpoint of {description['workload']}, not of {NAME}"
            )
        module = model.build(**description["built"])
        module.load_state_dict(load_file(folder / WEIGHTS))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise RequestError(f"{folder} is not a checkpoint of {NAME}: {error}") from error
    return module.eval()
