"""Builds a TensorRT engine from an ONNX file and caches it; calls follow NVIDIA TensorRT's Python
API, 10.x and 11.x.

Networks are strongly typed: the file defines each operator's precision, and the builder chooses
kernels, not formats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.engines.tensorrt import plan
from harness.engines.tensorrt.plan import EngineRequest
from suite.errors import MissingError
from suite.files.cache import fill_cache_entry
from suite.files.layout import replace_atomically
from suite.units import MIB

MAX_TENSORRT_MESSAGE_LENGTH: Final = 300
"""Characters of TensorRT's message that an error quotes."""


def build_error_logger(trt: Any) -> Any:
    """Make a logger that keeps errors: TensorRT returns None or False, and logs why."""

    class ErrorLogger(trt.ILogger):  # type: ignore[misc]  # untyped
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.errors: list[str] = []

        def log(self, severity: Any, msg: str) -> None:
            """Record errors."""
            if severity in (trt.ILogger.Severity.ERROR, trt.ILogger.Severity.INTERNAL_ERROR):
                self.errors.append(msg)

    return ErrorLogger()


def format_last_errors(log: Any) -> str:
    """Return the last errors in one line."""
    return (
        " ".join("; ".join(log.errors[-3:]).split())[:MAX_TENSORRT_MESSAGE_LENGTH]
        or "it does not say why"
    )


def load_tensorrt_engine(
    trt: Any, log: Any, runtime: Any, source: Path, request: EngineRequest, cache: Path
) -> Any:
    """Return the engine, its file cached if possible; MissingError if it cannot be built or does
    not run here.

    An engine must not outlive its runtime.
    """
    path = cache / "tensorrt" / f"{request.key}.engine"
    with fill_cache_entry(path) as partial:
        if partial is not None:
            made = build_serialised_engine(trt, log, source, request, path.parent)
            plan.write_engine_file(partial, request, made)
    engine = runtime.deserialize_cuda_engine(plan.read_engine_file(path, request))
    if engine is None:
        raise MissingError(
            f"{path}: TensorRT {request.target.tensorrt} cannot load it on {request.target.device}:"
            f" {format_last_errors(log)}; remove it to build again"
        )
    return engine


def build_serialised_engine(
    trt: Any, log: Any, source: Path, request: EngineRequest, folder: Path
) -> bytes:
    """Parse and build; return the serialised engine."""
    builder = trt.Builder(log)
    definition = builder.create_network(
        1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    )  # the only kind in 11.x, which ignores the flag
    parse_onnx_network(trt, log, definition, source, request)
    config = build_engine_config(trt, builder, definition, request)
    timings = (
        folder / f"timing-{hashlib.sha256(msgspec.json.encode(request.target)).hexdigest()}.cache"
    )
    cache = attach_timing_cache(config, timings)
    made = builder.build_serialized_network(definition, config)
    if made is None:
        raise MissingError(
            f"network {request.network}: TensorRT {request.target.tensorrt} cannot build it in"
            f" {request.precision}: {format_last_errors(log)}"
        )
    with replace_atomically(timings) as partial:
        partial.write_bytes(memoryview(cache.serialize()))
    return bytes(memoryview(made))


def parse_onnx_network(
    trt: Any, log: Any, definition: Any, source: Path, request: EngineRequest
) -> None:
    """Read the ONNX file into a network; MissingError names an operator that TensorRT does not
    support.
    """
    parser = trt.OnnxParser(definition, log)
    if not parser.parse_from_file(str(source)):
        parser_errors = "; ".join(
            f"{error.node_operator()} {error.node_name()}: {error.desc()}"
            for error in map(parser.get_error, range(parser.num_errors))
        )
        raise MissingError(
            f"network {request.network}: TensorRT {request.target.tensorrt} cannot read it:"
            f" {(parser_errors or format_last_errors(log))[:MAX_TENSORRT_MESSAGE_LENGTH]}"
        )
    for one in map(definition.get_input, range(definition.num_inputs)):
        if one.is_shape_tensor:
            raise MissingError(
                f"network {request.network}: its input {one.name} determines shapes, which this"
                " engine does not support"
            )


def build_engine_config(trt: Any, builder: Any, definition: Any, request: EngineRequest) -> Any:
    """Build the configuration: TF32 only if requested, the optimisation profiles, the limits."""
    config = builder.create_builder_config()
    config.builder_optimization_level = request.level
    (config.set_flag if request.tf32 else config.clear_flag)(
        trt.BuilderFlag.TF32
    )  # set unless cleared
    if request.workspace_mib:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, request.workspace_mib * MIB)
    used_names = [definition.get_input(place).name for place in range(definition.num_inputs)]
    for shapes in request.profiles:
        profile = builder.create_optimization_profile()
        for name, three in zip(request.inputs, shapes, strict=True):
            if name in used_names:  # an exporter drops inputs that no output depends on
                profile.set_shape(name, *three)
        if config.add_optimization_profile(profile) < 0:
            raise MissingError(
                f"network {request.network}: TensorRT rejects the profile"
                f" {format_shape_profile(shapes)}"
            )
    return config


def format_shape_profile(shapes: Sequence[Sequence[Sequence[int]]]) -> str:
    """Describe a profile."""
    return ", ".join(
        f"{list(least)} to {list(most)}" if least != most else f"{list(most)}"
        for least, _, most in shapes
    )


def attach_timing_cache(config: Any, path: Path) -> Any:
    """Attach the timings of earlier builds on this GPU with this TensorRT; a cache that does not
    fit is replaced.
    """
    for stored_timings in (path.read_bytes() if path.exists() else b"", b""):
        cache = config.create_timing_cache(stored_timings)
        if cache is not None and config.set_timing_cache(cache, False):
            return cache
    raise MissingError("TensorRT rejects even an empty timing cache")
