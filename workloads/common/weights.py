"""Exported weights of torch modules: `model.safetensors` under canonical names, with their description."""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from suite.errors import RequestError
from workloads.common import weights_description
from workloads.common.weights_description import DESCRIPTION, WEIGHTS, Described, describe

__all__ = ["DESCRIPTION", "WEIGHTS", "Described", "describe", "export", "fill"]


def export(model: nn.Module, description: Described, folder: Path) -> None:
    """Write weights and their description."""
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    save_file(weights, folder / WEIGHTS)
    weights_description.write(description, folder)


def fill(model: nn.Module, folder: Path, name: str) -> nn.Module:
    """Load exported weights into a network in evaluation mode; RequestError if they do not fit."""
    try:
        model.load_state_dict(load_file(folder / WEIGHTS))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise RequestError(f"checkpoint {folder}: {WEIGHTS} does not fit {name} ({str(error).splitlines()[0]})") from error
    return model.eval()
