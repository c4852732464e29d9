"""One worker's calls of an ONNX Runtime session: torch tensors bound in place, results in reused
buffers.

A reused binding costs half as much as a fresh one. Each output has at most two buffers: the one
that a caller passes back as the next call's input (a key/value cache) is read while the other is
written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from suite.errors import MissingError

if TYPE_CHECKING:
    import torch

    from suite.engine import Network, Shape

    Tensors = tuple[torch.Tensor, ...]

TORCH_TYPES: Final = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(int64)": "int64",
    "tensor(int32)": "int32",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(bool)": "bool",
    "tensor(bfloat16)": "bfloat16",
    "tensor(int16)": "int16",
    "tensor(uint16)": "uint16",
    "tensor(uint32)": "uint32",
    "tensor(uint64)": "uint64",
}
"""ONNX Runtime's type name -> the name in torch."""
BFLOAT16: Final = "bfloat16"
BFLOAT16_NUMBER: Final = 16
"""onnx's TensorProto.BFLOAT16, which numpy has no type for."""


class BoundCall:
    """Callable with the network's inputs; its results are valid until the next call."""

    def __init__(self, session: Any, network: Network[torch.Tensor], device: str) -> None:
        self.session, self.device = session, device
        self.binding = session.io_binding()
        graph = {one.name: one for one in session.get_inputs()}
        dimensions = network.dimensions or tuple({} for _ in network.inputs)
        self.inputs = [
            InputSlot(graph.get(name), dict(axes))
            for name, axes in zip(network.input_names, dimensions, strict=True)
        ]
        declared = {one.name: one for one in session.get_outputs()}
        self.outputs = [OutputSlot(declared[name], device) for name in network.output_names]

    def __call__(self, *inputs: torch.Tensor) -> Tensors:
        """Run the network."""
        placed = [tensor.to(self.device).contiguous() for tensor in inputs]
        sizes: dict[str, int] = {}
        for slot, tensor in zip(self.inputs, placed, strict=True):
            sizes |= {name: tensor.shape[axis] for axis, name in slot.axes.items()}
            slot.bind_tensor(self.binding, tensor, self.device)
        read = {tensor.untyped_storage().data_ptr() for tensor in placed}
        bound_outputs = [slot.bind_buffer(self.binding, sizes, read) for slot in self.outputs]
        wait_for_device_stream(self.device)
        self.session.run_with_iobinding(self.binding)
        return tuple(
            self.fetch_output(place) if tensor is None else tensor
            for place, tensor in enumerate(bound_outputs)
        )

    def fetch_output(self, index: int) -> torch.Tensor:
        """Return an output whose shape is known only after the run."""
        from torch.utils.dlpack import from_dlpack

        return from_dlpack(self.binding.get_outputs()[index])


class InputSlot:
    """One input, and the tensor bound to it."""

    def __init__(self, declared: Any | None, axes: Mapping[int, str]) -> None:
        import torch

        self.name: str | None = declared.name if declared else None
        self.type = get_torch_name(declared.type) if declared else None
        self.dtype: torch.dtype | None = getattr(torch, self.type) if self.type else None
        self.axes = axes
        self.bound: tuple[int, Shape] = (0, ())

    def bind_tensor(self, binding: Any, tensor: torch.Tensor, device: str) -> None:
        """Bind a tensor, unless it is bound already; an input that the graph does not use has no
        slot.
        """
        if self.name is None:
            return
        if tensor.dtype is not self.dtype:  # its bytes would be reinterpreted
            found = str(tensor.dtype).removeprefix("torch.")
            raise MissingError(
                f"engine onnxruntime: the network's {self.name} is {self.type}, but the input is"
                f" {found}"
            )
        where = (tensor.data_ptr(), tuple(tensor.shape))
        if where == self.bound:
            return
        kind, number = parse_binding_device(device)
        binding.bind_input(self.name, kind, number, get_element_type(self.type), where[1], where[0])
        self.bound = where


class OutputSlot:
    """One output and its buffers."""

    def __init__(self, declared: Any, device: str) -> None:
        self.name, self.device = declared.name, device
        self.type, self.shape = get_torch_name(declared.type), declared.shape
        self.buffers: list[torch.Tensor] = []
        self.bound: tuple[int, Shape] | None = None

    def bind_buffer(
        self, binding: Any, sizes: Mapping[str, int], read: set[int]
    ) -> torch.Tensor | None:
        """Bind a buffer that this call does not read, and return it; None if the shape is unknown
        before the run.
        """
        kind, number = parse_binding_device(self.device)
        shape = resolve_declared_shape(self.shape, sizes)
        if shape is None:
            binding.bind_output(self.name, kind, number)
            return None
        tensor = self.reserve_buffer(shape, read)
        where = (tensor.data_ptr(), shape)
        if where != self.bound:
            binding.bind_output(
                self.name, kind, number, get_element_type(self.type), shape, where[0]
            )
            self.bound = where
        return tensor

    def reserve_buffer(self, shape: Shape, read: set[int]) -> torch.Tensor:
        """Return a buffer of that shape; reallocate one that is too small."""
        import torch

        free = next(
            (
                place
                for place, buffer in enumerate(self.buffers)
                if buffer.untyped_storage().data_ptr() not in read
            ),
            None,
        )
        count = 1
        for size in shape:
            count *= size
        if free is None or self.buffers[free].numel() < count:
            made = torch.empty(max(count, 1), dtype=getattr(torch, self.type), device=self.device)
            free = len(self.buffers) if free is None else free
            self.buffers[free : free + 1] = [made]
        return self.buffers[free][:count].view(shape)


def wait_for_device_stream(device: str) -> None:
    """Wait for the caller's work on a GPU: ONNX Runtime uses its own stream there, which waits for
    no other.
    """
    if device.startswith("cuda"):
        import torch

        torch.cuda.current_stream(device).synchronize()


def get_torch_name(name: str) -> str:
    """Return torch's name of an ONNX Runtime type name; MissingError for what is no tensor of
    numbers.
    """
    if name not in TORCH_TYPES:
        raise MissingError(f"engine onnxruntime: {name} is no tensor of numbers that torch has")
    return TORCH_TYPES[name]


def get_element_type(name: str | None) -> Any:
    """Return what a binding takes for a type: numpy's, or onnx's number of what numpy lacks."""
    import numpy as np

    if name == BFLOAT16:
        return BFLOAT16_NUMBER
    return np.dtype(name)


def parse_binding_device(device: str) -> tuple[str, int]:
    """Return type and index of a device."""
    kind, _, number = device.partition(":")
    return kind, int(number or 0)


def resolve_declared_shape(
    shape: Sequence[int | str | None], sizes: Mapping[str, int]
) -> Shape | None:
    """Substitute sizes for the names in a declared shape; None if one is unknown."""
    found = [sizes.get(size) if isinstance(size, str) else size for size in shape]
    if None in found:
        return None
    return tuple(size for size in found if size is not None)
