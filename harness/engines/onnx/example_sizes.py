"""The sizes of an example's dynamic dimensions: what an exporter is shown, what its file is
compared at, and what follows them inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import torch

    from suite.engine import Network

    Tensors = tuple[torch.Tensor, ...]

MIN_DYNAMIC_SIZE: Final = 2
"""Minimum size of a dynamic dimension shown to the exporter: torch.export treats a size of 1 as a
constant.
"""
COMPARISON_SIZE_FACTOR: Final = 2
"""Factor of every dynamic dimension in the second comparison; relations between dimensions still
hold.
"""


def build_export_inputs(network: Network[torch.Tensor]) -> Tensors:
    """Return the inputs that an exporter is shown."""
    sizes = collect_dynamic_sizes(network, network.inputs)
    if min(sizes.values(), default=MIN_DYNAMIC_SIZE) < MIN_DYNAMIC_SIZE:
        sizes = multiply_sizes(sizes, MIN_DYNAMIC_SIZE)
    return resize_example_inputs(network, sizes)


def collect_dynamic_sizes(
    network: Network[torch.Tensor], inputs: Sequence[torch.Tensor]
) -> dict[str, int]:
    """Return the size of each dynamic dimension in a tuple of inputs."""
    return {
        name: tensor.shape[axis]
        for tensor, axes in zip(inputs, network.dimensions, strict=False)
        for axis, name in axes.items()
    }


def resize_example_inputs(network: Network[torch.Tensor], sizes: Mapping[str, int]) -> Tensors:
    """Return the example inputs with other sizes of their dynamic dimensions, by repeating their
    content.
    """
    import torch

    found = list(network.inputs)
    for index, axes in enumerate(network.dimensions):
        for axis, name in axes.items():
            old = found[index].shape[axis]
            found[index] = (
                found[index]
                .index_select(axis, torch.arange(sizes[name], device=found[index].device) % old)
                .contiguous()
            )
    return tuple(found)


def multiply_sizes(sizes: Mapping[str, int], factor: int) -> dict[str, int]:
    """Multiply every size."""
    return {name: size * factor for name, size in sizes.items()}


def choose_larger_sizes(
    network: Network[torch.Tensor], known: Mapping[str, int]
) -> list[dict[str, int]]:
    """Return sizes for a second comparison: twice those of the example, or the network's maximum if
    that is less; [] if nothing changes.
    """
    twice = multiply_sizes(known, COMPARISON_SIZE_FACTOR)
    if network.shapes is None:
        return [twice] if twice else []
    limits = [
        (axes, shape)
        for axes, shape in zip(network.dimensions, network.shapes.maximum, strict=False)
    ]
    most = {name: shape[axis] for axes, shape in limits for axis, name in axes.items()}
    if all(twice[name] <= most[name] for name in twice):
        chosen = twice
    else:
        chosen = most
    return [chosen] if chosen != known else []


def has_dynamic_recurrent_length(network: Network[torch.Tensor], module: torch.nn.Module) -> bool:
    """Check whether the length that a recurrent layer goes through follows a dynamic size; without
    such layers nothing is run.
    """
    import torch

    layers = [layer for layer in module.modules() if isinstance(layer, torch.nn.RNNBase)]
    if not layers:
        return False
    known = collect_dynamic_sizes(network, network.inputs)
    observed_lengths = [
        collect_recurrent_lengths(module, layers, resize_example_inputs(network, sizes))
        for sizes in (known, *choose_larger_sizes(network, known))
    ]
    return any(lengths != observed_lengths[0] for lengths in observed_lengths)


def collect_recurrent_lengths(
    module: torch.nn.Module, layers: Sequence[torch.nn.RNNBase], inputs: Tensors
) -> list[int]:
    """Return the length that each of the recurrent layers goes through."""
    import torch

    lengths: list[int] = []

    def note_length(layer: Any, arguments: tuple[Any, ...]) -> None:
        if isinstance(arguments[0], torch.Tensor):  # packed sentences have no one length
            lengths.append(arguments[0].shape[-2 if layer.batch_first else 0])

    with ExitStack() as hooks, torch.no_grad(), suppress(Exception):  # an exporter says what fails
        for layer in layers:
            hooks.callback(layer.register_forward_pre_hook(note_length).remove)
        module(*(tensor.cpu().clone() for tensor in inputs))  # a module may write into its inputs
    return lengths
