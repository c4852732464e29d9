"""One worker's calls of a TensorRT engine: its own stream, and for each shape a CUDA graph with its
own execution context.

A graph is valid only for the state of its context (NVIDIA TensorRT, Best practices, CUDA graphs: a
context for each graph). It reads and writes the addresses that it was recorded with, so inputs are
copied into persistent buffers. A network with state (a key/value cache) is not recorded: it has a
context per profile, its tensors are bound in place, and each output has two buffers, one read while
the other is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from extras.tensorrt.build import format_last_errors
from extras.tensorrt.plan import EngineRequest, select_covering_profile
from suite.errors import MissingError

if TYPE_CHECKING:
    import torch

    from extras.tensorrt.library import ContextMaker
    from harness.engines.gpu_device import GpuDevice
    from suite.engine import Network, Shape

    Tensors = tuple[torch.Tensor, ...]

TORCH_TYPE_NAMES: Final = {
    "FLOAT": "float32",
    "HALF": "float16",
    "BF16": "bfloat16",
    "INT8": "int8",
    "UINT8": "uint8",
    "INT32": "int32",
    "INT64": "int64",
    "BOOL": "bool",
}
"""tensorrt.DataType -> its name in PyTorch."""
UNKNOWN_SIZE: Final = -1
"""A size unknown to TensorRT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedEngine:
    """An engine that the workers share."""

    engine: Any
    contexts: ContextMaker
    log: Any
    request: EngineRequest
    device: GpuDevice
    network: Network[Any]
    graphs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedGraph:
    """The recorded work of one set of shapes, and the buffers that it reads and writes."""

    inputs: Tensors
    outputs: Tensors
    context: Any
    """Kept alive: the graph depends on it."""
    run: Callable[[], None]


class TensorRTCall:
    """Callable with the network's inputs; its results are valid until the next call."""

    def __init__(self, built: SharedEngine) -> None:
        self.built, self.device = built, built.device
        self.stream = self.device.create_stream()
        self.contexts: dict[int, Any] = {}
        self.recorded: dict[tuple[Shape, ...], RecordedGraph] = {}
        self.buffers: dict[tuple[str, Shape], list[torch.Tensor]] = {}
        engine = built.engine
        self.known = {engine.get_tensor_name(place) for place in range(engine.num_io_tensors)}
        self.types = {
            name: TORCH_TYPE_NAMES[engine.get_tensor_dtype(name).name] for name in self.known
        }

    def __call__(self, *inputs: torch.Tensor) -> Tensors:
        """Run the network."""
        shapes = tuple(tuple(tensor.shape) for tensor in inputs)
        with self.device.enter_stream(self.stream):
            placed = tuple(map(self.device.place_tensor, inputs))
            if self.built.graphs:
                return self.replay_graph(shapes, placed)
            return self.run_in_place(shapes, placed)

    def run_in_place(self, shapes: tuple[Shape, ...], placed: Tensors) -> Tensors:
        """Run on tensors in place."""
        number = select_covering_profile(self.built.request, shapes)
        is_first = number not in self.contexts
        if is_first:
            self.contexts[number] = self.create_context(number)
        context = self.contexts[number]
        outputs = self.bind_tensors(context, placed)
        self.enqueue_work(context)
        if is_first:
            self.built.contexts.save()
        return outputs

    def replay_graph(self, shapes: tuple[Shape, ...], placed: Tensors) -> Tensors:
        """Copy into the buffers of these shapes, and replay the recorded work."""
        found = self.recorded.get(shapes)
        if found is None:
            found = self.recorded[shapes] = self.record_graph(shapes, placed)
        for buffer, tensor in zip(found.inputs, placed, strict=True):
            buffer.copy_(tensor, non_blocking=True)
        found.run()
        return found.outputs

    def record_graph(self, shapes: tuple[Shape, ...], placed: Tensors) -> RecordedGraph:
        """Run once, since a context's first run does work that cannot be recorded; then record."""
        context = self.create_context(select_covering_profile(self.built.request, shapes))
        input_buffers = tuple(tensor.clone() for tensor in placed)
        outputs = self.bind_tensors(context, input_buffers)
        self.enqueue_work(context)
        self.built.contexts.save()
        run = self.device.record_graph(self.stream, lambda: self.enqueue_work(context))
        return RecordedGraph(inputs=input_buffers, outputs=outputs, context=context, run=run)

    def create_context(self, number: int) -> Any:
        """Create a context for a profile."""
        context = self.built.contexts.create()
        if context is None:
            raise RuntimeError(
                f"TensorRT cannot create an execution context: {format_last_errors(self.built.log)}"
            )
        if not context.set_optimization_profile_async(
            number, self.device.get_stream_handle(self.stream)
        ):
            raise MissingError(
                f"network {self.built.request.network}: TensorRT rejects profile {number}:"
                f" {format_last_errors(self.built.log)}"
            )
        return context

    def bind_tensors(self, context: Any, inputs: Tensors) -> Tensors:
        """Set shapes and addresses; return the output tensors."""
        network = self.built.network
        for name, tensor in zip(network.input_names, inputs, strict=True):
            if name not in self.known:  # an exporter drops inputs that no output depends on
                continue
            self.check_input_type(name, tensor)
            self.check_accepted(
                context.set_input_shape(name, tuple(tensor.shape)),
                f"the shape {list(tensor.shape)} of {name}",
            )
            self.check_accepted(
                context.set_tensor_address(name, tensor.data_ptr()), f"the address of {name}"
            )
        read = {tensor.untyped_storage().data_ptr() for tensor in inputs}
        outputs = tuple(self.reserve_output(context, name, read) for name in network.output_names)
        for name, tensor in zip(network.output_names, outputs, strict=True):
            self.check_accepted(
                context.set_tensor_address(name, tensor.data_ptr()), f"the address of {name}"
            )
        return outputs

    def check_input_type(self, name: str, tensor: torch.Tensor) -> None:
        """Refuse a tensor of another type: TensorRT would reinterpret its bytes."""
        found = str(tensor.dtype).removeprefix("torch.")
        if found != self.types[name]:
            raise MissingError(
                f"network {self.built.request.network}: the engine's {name} is {self.types[name]},"
                f" but the input is {found}"
            )

    def reserve_output(self, context: Any, name: str, read: set[int]) -> torch.Tensor:
        """Return an output tensor: without graphs a reused buffer that this call does not read,
        with graphs one for this graph alone.
        """
        shape = tuple(context.get_tensor_shape(name))
        if UNKNOWN_SIZE in shape:
            raise MissingError(
                f"network {self.built.request.network}: the size of its output {name} depends on"
                " the data, which this engine does not support"
            )
        if self.built.graphs:
            return self.device.allocate_tensor(shape, self.types[name])
        reusable = self.buffers.setdefault((name, shape), [])
        free = next(
            (tensor for tensor in reusable if tensor.untyped_storage().data_ptr() not in read), None
        )
        if free is None:
            free = self.device.allocate_tensor(shape, self.types[name])
            reusable.append(free)
        return free

    def enqueue_work(self, context: Any) -> None:
        """Enqueue the work."""
        self.check_accepted(
            context.execute_async_v3(self.device.get_stream_handle(self.stream)), "the work"
        )

    def check_accepted(self, done: bool, what: str) -> None:
        """Raise an error on False; TensorRT's message distinguishes out of memory from other
        failures.
        """
        if not done:
            raise RuntimeError(f"TensorRT rejects {what}: {format_last_errors(self.built.log)}")
