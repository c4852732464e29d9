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

from harness.engines.cache import held
from harness.engines.tensorrt import plan
from harness.engines.tensorrt.plan import Wish
from suite.errors import MissingError
from suite.files.layout import written

MIB: Final = 1 << 20
LONGEST: Final = 300
"""Characters of TensorRT's message that an error quotes."""


def make_log(trt: Any) -> Any:
    """Make a logger that keeps errors: TensorRT returns None or False, and logs why."""

    class Log(trt.ILogger):  # type: ignore[misc]  # untyped
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.errors: list[str] = []

        def log(self, severity: Any, msg: str) -> None:
            """Keep errors."""
            if severity in (trt.ILogger.Severity.ERROR, trt.ILogger.Severity.INTERNAL_ERROR):
                self.errors.append(msg)

    return Log()


def why(log: Any) -> str:
    """Return the last errors in one line."""
    return " ".join("; ".join(log.errors[-3:]).split())[:LONGEST] or "it does not say why"


def built(trt: Any, log: Any, runtime: Any, source: Path, wished: Wish, cache: Path) -> Any:
    """Return the engine, its file cached if possible; MissingError if it cannot be built or does
    not run here.

    An engine must not outlive its runtime.
    """
    path = cache / "tensorrt" / f"{wished.key}.engine"
    with held(path):
        if not path.exists():
            made = build(trt, log, source, wished, path.parent)
            with written(path) as partial:
                plan.write(partial, wished, made)
    engine = runtime.deserialize_cuda_engine(plan.read(path, wished))
    if engine is None:
        raise MissingError(
            f"{path}: TensorRT {wished.target.tensorrt} cannot load it on {wished.target.device}:"
            f" {why(log)}; remove it to build again"
        )
    return engine


def build(trt: Any, log: Any, source: Path, wished: Wish, folder: Path) -> bytes:
    """Parse and build; return the serialised engine."""
    builder = trt.Builder(log)
    definition = builder.create_network(
        1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    )  # the only kind in 11.x, which ignores the flag
    parse(trt, log, definition, source, wished)
    config = configured(trt, builder, definition, wished)
    timings = (
        folder / f"timing-{hashlib.sha256(msgspec.json.encode(wished.target)).hexdigest()}.cache"
    )
    cache = timed(config, timings)
    made = builder.build_serialized_network(definition, config)
    if made is None:
        raise MissingError(
            f"network {wished.network}: TensorRT {wished.target.tensorrt} cannot build it in"
            f" {wished.precision}: {why(log)}"
        )
    with written(timings) as partial:
        partial.write_bytes(memoryview(cache.serialize()))
    return bytes(memoryview(made))


def parse(trt: Any, log: Any, definition: Any, source: Path, wished: Wish) -> None:
    """Read the ONNX file into a network; MissingError names an operator that TensorRT does not
    support.
    """
    parser = trt.OnnxParser(definition, log)
    if not parser.parse_from_file(str(source)):
        told = "; ".join(
            f"{error.node_operator()} {error.node_name()}: {error.desc()}"
            for error in map(parser.get_error, range(parser.num_errors))
        )
        raise MissingError(
            f"network {wished.network}: TensorRT {wished.target.tensorrt} cannot read it:"
            f" {(told or why(log))[:LONGEST]}"
        )
    for one in map(definition.get_input, range(definition.num_inputs)):
        if one.is_shape_tensor:
            raise MissingError(
                f"network {wished.network}: its input {one.name} determines shapes, which this"
                " engine does not support"
            )


def configured(trt: Any, builder: Any, definition: Any, wished: Wish) -> Any:
    """Build the configuration: TF32 only if requested, the optimisation profiles, the limits."""
    config = builder.create_builder_config()
    config.builder_optimization_level = wished.level
    (config.set_flag if wished.tf32 else config.clear_flag)(
        trt.BuilderFlag.TF32
    )  # set unless cleared
    if wished.workspace_mib:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, wished.workspace_mib * MIB)
    taken = [definition.get_input(place).name for place in range(definition.num_inputs)]
    for shapes in wished.profiles:
        profile = builder.create_optimization_profile()
        for name, three in zip(wished.inputs, shapes, strict=True):
            if name in taken:  # an exporter drops inputs that no output depends on
                profile.set_shape(name, *three)
        if config.add_optimization_profile(profile) < 0:
            raise MissingError(
                f"network {wished.network}: TensorRT rejects the profile {told(shapes)}"
            )
    return config


def told(shapes: Sequence[Sequence[Sequence[int]]]) -> str:
    """Describe a profile."""
    return ", ".join(
        f"{list(least)} to {list(most)}" if least != most else f"{list(most)}"
        for least, _, most in shapes
    )


def timed(config: Any, path: Path) -> Any:
    """Attach the timings of earlier builds on this GPU with this TensorRT; a cache that does not
    fit is replaced.
    """
    for kept in (path.read_bytes() if path.exists() else b"", b""):
        cache = config.create_timing_cache(kept)
        if cache is not None and config.set_timing_cache(cache, False):
            return cache
    raise MissingError("TensorRT rejects even an empty timing cache")
