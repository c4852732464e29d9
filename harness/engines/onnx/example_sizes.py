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

LEAST_SIZE: Final = 2
"""Minimum size of a dynamic dimension shown to the exporter: torch.export treats a size of 1 as a
constant.
"""
LARGER: Final = 2
"""Factor of every dynamic dimension in the second comparison; relations between dimensions still
hold.
"""


def shown(network: Network[torch.Tensor]) -> Tensors:
    """Return the inputs that an exporter is shown."""
    known = sizes_of(network, network.inputs)
    return resized(
        network,
        times(known, 1 if min(known.values(), default=LEAST_SIZE) >= LEAST_SIZE else LEAST_SIZE),
    )


def sizes_of(network: Network[torch.Tensor], inputs: Sequence[torch.Tensor]) -> dict[str, int]:
    """Return the size of each dynamic dimension in a tuple of inputs."""
    return {
        name: tensor.shape[axis]
        for tensor, axes in zip(inputs, network.dimensions, strict=False)
        for axis, name in axes.items()
    }


def resized(network: Network[torch.Tensor], sizes: Mapping[str, int]) -> Tensors:
    """Return the example inputs with other sizes of their dynamic dimensions, by repeating their
    content.
    """
    import torch

    found = list(network.inputs)
    for place, axes in enumerate(network.dimensions):
        for axis, name in axes.items():
            old = found[place].shape[axis]
            found[place] = (
                found[place]
                .index_select(axis, torch.arange(sizes[name], device=found[place].device) % old)
                .contiguous()
            )
    return tuple(found)


def times(sizes: Mapping[str, int], factor: int) -> dict[str, int]:
    """Multiply every size."""
    return {name: size * factor for name, size in sizes.items()}


def larger(network: Network[torch.Tensor], known: Mapping[str, int]) -> list[dict[str, int]]:
    """Return sizes for a second comparison: twice those of the example, or the network's maximum if
    that is less; [] if nothing changes.
    """
    twice = times(known, LARGER)
    if network.shapes is None:
        return [twice] if twice else []
    limits = [
        (axes, shape)
        for axes, shape in zip(network.dimensions, network.shapes.maximum, strict=False)
    ]
    most = {name: shape[axis] for axes, shape in limits for axis, name in axes.items()}
    chosen = twice if all(twice[name] <= most[name] for name in twice) else most
    return [chosen] if chosen != known else []


def follows_a_size(network: Network[torch.Tensor], module: torch.nn.Module) -> bool:
    """Check whether the length that a recurrent layer goes through follows a dynamic size; without
    such layers nothing is run.
    """
    import torch

    layers = [layer for layer in module.modules() if isinstance(layer, torch.nn.RNNBase)]
    if not layers:
        return False
    known = sizes_of(network, network.inputs)
    seen = [
        recurrent_lengths(module, layers, resized(network, sizes))
        for sizes in (known, *larger(network, known))
    ]
    return any(lengths != seen[0] for lengths in seen)


def recurrent_lengths(
    module: torch.nn.Module, layers: Sequence[torch.nn.RNNBase], inputs: Tensors
) -> list[int]:
    """Return the length that each of the recurrent layers goes through."""
    import torch

    lengths: list[int] = []

    def note(layer: Any, given: tuple[Any, ...]) -> None:
        if isinstance(given[0], torch.Tensor):  # packed sentences have no one length
            lengths.append(given[0].shape[-2 if layer.batch_first else 0])

    with ExitStack() as hooks, torch.no_grad(), suppress(Exception):  # an exporter says what fails
        for layer in layers:
            hooks.callback(layer.register_forward_pre_hook(note).remove)
        module(*(tensor.cpu().clone() for tensor in inputs))  # a module may write into its inputs
    return lengths
