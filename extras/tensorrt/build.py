"""Builds a TensorRT engine from an ONNX file and caches it; calls follow NVIDIA TensorRT's Python
API, 10.x and 11.x, which TensorRT for RTX shares.

Networks are strongly typed: the file defines each operator's precision, and the builder chooses
kernels, not formats.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from extras.tensorrt import plan
from extras.tensorrt.library import TensorRTLibrary, set_build_target
from extras.tensorrt.plan import EngineRequest
from suite.errors import MissingError
from suite.files.cache import fill_cache_entry, lock_cache_entry
from suite.files.layout import replace_atomically
from suite.units import MIB

MAX_TENSORRT_MESSAGE_LENGTH: Final = 300
"""Characters of TensorRT's message that an error quotes."""


MYELIN_REFUSAL: Final = re.compile(
    r"Myelin \(\[[^\]]*\] (?P<reason>.*?)(?:\. In \w+ at \S+)?\)?$", re.DOTALL
)
"""The builder's message around its reason, which names the layer."""
MEMORY_NOTE: Final = re.compile(r"Total (?P<what>Activation|Weights) Memory: (?P<bytes>\d+) bytes")
"""What a builder logs of the memory that an engine takes on its GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltEngine:
    """A serialised engine, and what building it showed."""

    content: bytes
    layers: int
    """Layers of the parsed network, before the builder fuses them."""
    weights_bytes: int | None
    """Memory on the GPU; None if the builder did not log it, likewise below."""
    activation_bytes: int | None
    build_s: float


def build_error_logger(trt: Any) -> Any:
    """Make a logger that keeps errors, since TensorRT returns None or False and logs why, and what
    the builder says about memory.
    """

    class ErrorLogger(trt.ILogger):  # type: ignore[misc]  # untyped
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.errors: list[str] = []
            self.memory_bytes: dict[str, int] = {}

        def log(self, severity: Any, msg: str) -> None:
            """Record errors and memory."""
            if severity in (trt.ILogger.Severity.ERROR, trt.ILogger.Severity.INTERNAL_ERROR):
                self.errors.append(msg)
            elif found := MEMORY_NOTE.search(msg):
                self.memory_bytes[found["what"]] = int(found["bytes"])

    return ErrorLogger()


def format_last_errors(log: Any) -> str:
    """Return the last errors in one line, without the places in TensorRT's source."""
    reasons = dict.fromkeys(map(strip_source_place, log.errors[-3:]))
    return (
        " ".join("; ".join(reasons).split())[:MAX_TENSORRT_MESSAGE_LENGTH] or "it does not say why"
    )


def strip_source_place(message: str) -> str:
    """Return the reason in a message of TensorRT's compiler; any other message as it is."""
    found = MYELIN_REFUSAL.search(message)
    return found["reason"] if found else message


def load_tensorrt_engine(
    library: TensorRTLibrary,
    log: Any,
    runtime: Any,
    source: Path,
    request: EngineRequest,
    cache: Path,
) -> Any:
    """Return the engine, its file cached if possible; MissingError if it cannot be built or does
    not run here.

    An engine must not outlive its runtime.
    """
    path = cache / "tensorrt" / f"{request.key}.engine"
    with fill_cache_entry(path) as partial:
        if partial is not None:
            built = build_serialised_engine(library, log, source, request, path.parent)
            plan.write_engine_file(partial, request, built.content)
    engine = runtime.deserialize_cuda_engine(plan.read_engine_file(path, request))
    if engine is None:
        raise MissingError(
            f"{path}: {library.title} cannot load it on {request.target.device}:"
            f" {format_last_errors(log)}; remove it to build again"
        )
    return engine


def build_serialised_engine(
    library: TensorRTLibrary,
    log: Any,
    source: Path,
    request: EngineRequest,
    timings_folder: Path | None = None,
) -> BuiltEngine:
    """Parse and build; MissingError names the layer that the target lacks. `timings_folder`: where
    TensorRT keeps what it measured on this GPU.
    """
    trt, start_s = library.module, time.monotonic()
    builder = trt.Builder(log)
    # the only kind in 11.x, which ignores the flag
    definition = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parse_onnx_network(library, log, definition, source, request)
    config = build_engine_config(library, builder, definition, request)
    timings = open_timing_cache(library, config, request, timings_folder)
    made = builder.build_serialized_network(definition, config)
    if made is None:
        raise MissingError(
            f"network {request.network}: {library.title} cannot build it in"
            f" {request.precision}{request.target.suffix}: {format_last_errors(log)}"
        )
    if timings:
        path, cache = timings
        with lock_cache_entry(path), replace_atomically(path) as partial:
            partial.write_bytes(memoryview(cache.serialize()))
    return BuiltEngine(
        content=bytes(memoryview(made)),
        layers=definition.num_layers,
        weights_bytes=log.memory_bytes.get("Weights"),
        activation_bytes=log.memory_bytes.get("Activation"),
        build_s=time.monotonic() - start_s,
    )


def open_timing_cache(
    library: TensorRTLibrary, config: Any, request: EngineRequest, folder: Path | None
) -> tuple[Path, Any] | None:
    """Attach the timings of earlier builds, and return their file with them; None where nothing is
    measured, because the builder needs no GPU.
    """
    if library.kind.builds_ahead or folder is None:
        return None
    name = hashlib.sha256(msgspec.json.encode(request.target)).hexdigest()
    path = folder / f"timing-{name}.cache"
    return path, attach_timing_cache(config, path)


def parse_onnx_network(
    library: TensorRTLibrary, log: Any, definition: Any, source: Path, request: EngineRequest
) -> None:
    """Read the ONNX file into a network; MissingError names an operator that TensorRT does not
    support.
    """
    parser = library.module.OnnxParser(definition, log)
    if not parser.parse_from_file(str(source)):
        parser_errors = "; ".join(
            f"{error.node_operator()} {error.node_name()}: {error.desc()}"
            for error in map(parser.get_error, range(parser.num_errors))
        )
        raise MissingError(
            f"network {request.network}: {library.title} cannot read it:"
            f" {(parser_errors or format_last_errors(log))[:MAX_TENSORRT_MESSAGE_LENGTH]}"
        )
    for one in map(definition.get_input, range(definition.num_inputs)):
        if one.is_shape_tensor:
            raise MissingError(
                f"network {request.network}: its input {one.name} determines shapes, which this"
                " engine does not support"
            )


def build_engine_config(
    library: TensorRTLibrary, builder: Any, definition: Any, request: EngineRequest
) -> Any:
    """Build the configuration: the target, TF32 only if requested, the optimisation profiles, the
    limits.
    """
    trt, config = library.module, builder.create_builder_config()
    set_build_target(library, config, request.target.capability)
    config.builder_optimization_level = request.level
    # set unless cleared
    (config.set_flag if request.tf32 else config.clear_flag)(trt.BuilderFlag.TF32)
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
