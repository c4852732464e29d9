"""Exported weights of torch modules: `model.safetensors` under canonical names, with their
description.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from torch.overrides import TorchFunctionMode

from suite.errors import RequestError
from workloads.common import weights_description
from workloads.common.weights_description import (
    DESCRIPTION_FILE,
    WEIGHTS_FILE,
    WeightsDescription,
    read_weights_description,
)

__all__ = [
    "DESCRIPTION_FILE",
    "WEIGHTS_FILE",
    "WeightsDescription",
    "SkippedInitialisation",
    "read_weights_description",
    "write_exported_weights",
    "build_exported_network",
]

M = TypeVar("M", bound=nn.Module)

RANDOM_INITIALISERS: Final = (torch.Tensor.normal_, torch.Tensor.uniform_)


def write_exported_weights(model: nn.Module, description: WeightsDescription, folder: Path) -> None:
    """Write weights and their description."""
    weights = {
        name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()
    }
    save_file(weights, folder / WEIGHTS_FILE)
    weights_description.write_weights_description(description, folder)


def build_exported_network(build: Callable[[], M], folder: Path, name: str) -> M:
    """Build a network with exported weights, in evaluation mode, without drawing the values that
    they replace; RequestError if they do not fit.
    """
    with SkippedInitialisation():
        model = build()
    try:
        model.load_state_dict(load_file(folder / WEIGHTS_FILE))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise RequestError(
            f"checkpoint {folder}: {WEIGHTS_FILE} does not fit {name}"
            f" ({str(error).splitlines()[0]})"
        ) from error
    model.eval()
    return model


class SkippedInitialisation(TorchFunctionMode):
    """Within this context, networks are built without drawing initial values, since these would be
    overwritten.

    Buffers that are in no file get their values, unlike with `torch.device("meta")`.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Skip the initialisation of a tensor."""
        given = kwargs or {}
        if getattr(func, "__module__", None) == nn.init.__name__:
            return given["tensor"]
        return args[0] if func in RANDOM_INITIALISERS else func(*args, **given)
