"""A recording double of TensorRT's Python API, and of what TensorRT for RTX adds to it: the calls
that the engine makes, with what the documentation demands of each.

A built engine is its ONNX file: a context reads and writes at the addresses that it was told, and
ONNX Runtime does the work between.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from recording_gpu import RecordingGpu

__version__ = "11.4.0.106"
calls: list[tuple[Any, ...]] = []
"""Of all objects, in order: name and arguments."""
trouble: dict[str, str] = {}
"""What is to go wrong: the name of a call -> what TensorRT tells its log."""


def forget() -> None:
    """Begin a test anew."""
    calls.clear()
    trouble.clear()


def goes_wrong(log: ILogger, name: str) -> bool:
    if name in trouble:
        log.log(ILogger.Severity.ERROR, trouble[name])
    return name in trouble


class ILogger:
    """Is told what went wrong; a class of the engine takes it up."""

    class Severity(Enum):
        """How bad it is."""

        INTERNAL_ERROR, ERROR, WARNING, INFO, VERBOSE = range(5)

    def log(self, severity: Any, msg: str) -> None:
        raise NotImplementedError


class NetworkDefinitionCreationFlag(IntEnum):
    """How a network is made."""

    STRONGLY_TYPED = 0


class BuilderFlag(IntEnum):
    """What a builder may do."""

    TF32 = 5


class MemoryPoolType(IntEnum):
    """What memory is for."""

    WORKSPACE = 0


class ComputeCapability(IntEnum):
    """What TensorRT for RTX builds for."""

    NONE, CURRENT, SM75, SM89 = 0, -1, 75, 89


class DynamicShapesKernelSpecializationStrategy(Enum):
    """When kernels for the very shapes are compiled."""

    LAZY, EAGER, NONE = range(3)


class DataType(Enum):
    """Types of tensors."""

    FLOAT, HALF, BF16, INT8, INT32, INT64, BOOL, UINT8 = range(8)


OF_ONNX = {
    1: DataType.FLOAT,
    7: DataType.INT64,
    6: DataType.INT32,
    9: DataType.BOOL,
    10: DataType.HALF,
}
ARRAYS = {
    DataType.FLOAT: np.float32,
    DataType.INT64: np.int64,
    DataType.INT32: np.int32,
    DataType.BOOL: np.bool_,
    DataType.HALF: np.float16,
}


class Tensor:
    """An input or an output."""

    def __init__(self, value: Any) -> None:
        self.name, self.is_shape_tensor = value.name, trouble.get("is_shape_tensor") == value.name
        self.type = OF_ONNX[value.type.tensor_type.elem_type]


class INetworkDefinition:
    """A parsed network."""

    model: Any
    content: bytes

    @property
    def num_layers(self) -> int:
        return len(self.model.graph.node)

    @property
    def num_inputs(self) -> int:
        return len(self.model.graph.input)

    def get_input(self, index: int) -> Tensor:
        return Tensor(self.model.graph.input[index])


class ParserError:
    """Why a file cannot be read."""

    def __init__(self, text: str) -> None:
        self.text = text

    def desc(self) -> str:
        return self.text

    def node_name(self) -> str:
        return "node_7"

    def node_operator(self) -> str:
        return "Mystery"


class OnnxParser:
    """Reads ONNX files."""

    def __init__(self, network: INetworkDefinition, logger: ILogger) -> None:
        self.network, self.logger = network, logger
        self.num_errors = int("parse_from_file" in trouble)

    def parse_from_file(self, model: str) -> bool:
        import onnx

        calls.append(("parse_from_file", model))
        self.network.model = onnx.load(model)
        self.network.content = Path(model).read_bytes()
        return not goes_wrong(self.logger, "parse_from_file")

    def get_error(self, index: int) -> ParserError:
        return ParserError(trouble["parse_from_file"])


class IOptimizationProfile:
    """Shapes to prepare for."""

    def __init__(self) -> None:
        self.shapes: dict[str, tuple[Any, Any, Any]] = {}

    def set_shape(
        self, input: str, min: Sequence[int], opt: Sequence[int], max: Sequence[int]
    ) -> None:
        if not all(low <= usual <= high for low, usual, high in zip(min, opt, max, strict=True)):
            raise ValueError("min <= opt <= max")
        self.shapes[input] = (tuple(min), tuple(opt), tuple(max))


class ITimingCache:
    """Timings of earlier builds."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def serialize(self) -> bytes:
        return self.content + b"t"


class IBuilderConfig:
    """How to build."""

    def __init__(self) -> None:
        self.builder_optimization_level = 3
        self.profiles: list[IOptimizationProfile] = []
        self.cache: ITimingCache | None = None
        self.num_compute_capabilities = 0

    def set_compute_capability(self, compute_capability: ComputeCapability, index: int) -> bool:
        calls.append(("set_compute_capability", compute_capability, index))
        return index < self.num_compute_capabilities

    def set_flag(self, flag: BuilderFlag) -> None:
        calls.append(("set_flag", flag))

    def clear_flag(self, flag: BuilderFlag) -> None:
        calls.append(("clear_flag", flag))

    def set_memory_pool_limit(self, pool: MemoryPoolType, pool_size: int) -> None:
        calls.append(("set_memory_pool_limit", pool, pool_size))

    def add_optimization_profile(self, profile: IOptimizationProfile) -> int:
        self.profiles.append(profile)
        return -1 if "add_optimization_profile" in trouble else len(self.profiles) - 1

    def create_timing_cache(self, serialized_timing_cache: bytes) -> ITimingCache:
        calls.append(("create_timing_cache", serialized_timing_cache))
        return ITimingCache(serialized_timing_cache)

    def set_timing_cache(self, cache: ITimingCache, ignore_mismatch: bool) -> bool:
        self.cache = cache
        return not (cache.content and "set_timing_cache" in trouble)


class Builder:
    """Builds."""

    def __init__(self, logger: ILogger) -> None:
        self.logger = logger

    def create_network(self, flags: int = 0) -> INetworkDefinition:
        calls.append(("create_network", flags))
        return INetworkDefinition()

    def create_builder_config(self) -> IBuilderConfig:
        return IBuilderConfig()

    def create_optimization_profile(self) -> IOptimizationProfile:
        return IOptimizationProfile()

    def build_serialized_network(
        self, network: INetworkDefinition, config: IBuilderConfig
    ) -> bytes | None:
        assert config.cache is not None or config.num_compute_capabilities == 1
        assert {one.name for one in network.model.graph.input} <= set(config.profiles[0].shapes)
        self.logger.log(ILogger.Severity.INFO, "Total Weights Memory: 4096 bytes")
        calls.append(
            (
                "build_serialized_network",
                config.builder_optimization_level,
                tuple(profile.shapes for profile in config.profiles),
            )
        )
        return None if goes_wrong(self.logger, "build_serialized_network") else network.content


class Runtime:
    """Loads engines."""

    def __init__(self, logger: ILogger) -> None:
        self.logger = logger

    def deserialize_cuda_engine(self, serialized_engine: bytes) -> ICudaEngine | None:
        return (
            None
            if goes_wrong(self.logger, "deserialize_cuda_engine")
            else ICudaEngine(serialized_engine, self.logger)
        )


class IRuntimeCache:
    """Kernels that were compiled when engines ran."""

    def __init__(self) -> None:
        self.kernels = b""

    def deserialize(self, blob: bytes) -> bool:
        calls.append(("deserialize", blob))
        if "deserialize" not in trouble:
            self.kernels = blob
        return "deserialize" not in trouble

    def serialize(self) -> bytes:
        return self.kernels


class IRuntimeConfig:
    """How an engine's contexts run."""

    def __init__(self) -> None:
        self.cache = IRuntimeCache()
        self.dynamic_shapes_kernel_specialization_strategy = (
            DynamicShapesKernelSpecializationStrategy.LAZY
        )

    def create_runtime_cache(self) -> IRuntimeCache:
        return IRuntimeCache()

    def set_runtime_cache(self, cache: IRuntimeCache) -> bool:
        self.cache = cache
        return True


class ICudaEngine:
    """An engine."""

    def __init__(self, content: bytes, logger: ILogger) -> None:
        import onnx
        import onnxruntime

        graph = onnx.load_from_string(content).graph
        self.inputs, self.outputs = (
            {one.name: Tensor(one) for one in side} for side in (graph.input, graph.output)
        )
        self.session, self.logger = (
            onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]),
            logger,
        )
        self.num_io_tensors = len(self.inputs) + len(self.outputs)

    def get_tensor_name(self, index: int) -> str:
        return [*self.inputs, *self.outputs][index]

    def get_tensor_dtype(self, name: str) -> DataType:
        return {**self.inputs, **self.outputs}[name].type

    def create_runtime_config(self) -> IRuntimeConfig:
        return IRuntimeConfig()

    def create_execution_context(
        self, runtime_config: IRuntimeConfig | None = None
    ) -> IExecutionContext | None:
        calls.append(("create_execution_context",))
        if runtime_config:
            runtime_config.cache.kernels += b"k"
        return (
            None if goes_wrong(self.logger, "create_execution_context") else IExecutionContext(self)
        )


class IExecutionContext:
    """One worker's state of an engine."""

    def __init__(self, engine: ICudaEngine) -> None:
        self.engine, self.profile = engine, None
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.places: dict[str, int] = {}

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> bool:
        calls.append(("set_optimization_profile_async", profile_index, stream_handle))
        return True

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        assert name in self.engine.inputs
        self.shapes[name] = shape
        return True

    def set_tensor_address(self, name: str, memory: int) -> bool:
        assert name in {**self.engine.inputs, **self.engine.outputs} and memory > 0
        self.places[name] = memory
        return True

    def get_tensor_shape(self, name: str) -> Sequence[int]:
        if "get_tensor_shape" in trouble:
            return (-1,)
        feed = {
            name: np.zeros(shape, ARRAYS[self.engine.inputs[name].type])
            for name, shape in self.shapes.items()
        }
        return tuple(self.engine.session.run([name], feed)[0].shape)

    def execute_async_v3(self, stream_handle: int) -> bool:
        calls.append(("execute_async_v3", stream_handle))
        if goes_wrong(self.engine.logger, "execute_async_v3") or set(self.places) != {
            *self.engine.inputs,
            *self.engine.outputs,
        }:
            return False
        feed = {
            name: seen(self.places[name], self.shapes[name], one.type).copy()
            for name, one in self.engine.inputs.items()
        }
        for name, found in zip(
            self.engine.outputs,
            self.engine.session.run(list(self.engine.outputs), feed),
            strict=True,
        ):
            seen(self.places[name], found.shape, self.engine.outputs[name].type)[...] = found
        return True


def seen(place: int, shape: Sequence[int], kind: DataType) -> Any:
    """See memory as an array."""
    count = int(np.prod(shape)) * np.dtype(ARRAYS[kind]).itemsize
    return np.frombuffer((ctypes.c_byte * count).from_address(place), ARRAYS[kind]).reshape(shape)


class Gpu(RecordingGpu):
    """A device whose records stand among the calls."""

    def __init__(self) -> None:
        super().__init__(calls)
