"""Cache key and file format of a TensorRT engine: one line that describes its target and options,
then the serialised engine.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from suite.engine import Shape
from suite.errors import MissingError, RequestError
from suite.files.layout import compute_file_sha256
from suite.files.untrusted_files import describe_parse_failure
from suite.terms import Precision

if TYPE_CHECKING:
    from suite.engine import Network, Plan

OPTIMISATION_LEVEL_OPTION: Final = "engine.optimization_level"
WORKSPACE_OPTION: Final = "engine.workspace_mib"
DEFAULT_OPTIMISATION_LEVEL: Final = 3
"""NVIDIA TensorRT, IBuilderConfig.builder_optimization_level: its default, of 0 to 5."""
MAX_OPTIMISATION_LEVEL: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTarget:
    """The only hardware and software that an engine file runs on: NVIDIA TensorRT, Engine
    compatibility.
    """

    tensorrt: str
    """The library's version."""
    device: str
    """The GPU's name; empty for any GPU of that compute capability."""
    capability: str
    library: str = "TensorRT"

    @property
    def suffix(self) -> str:
        """Return the words that name a target without a GPU, as a message adds them."""
        if self.device:
            return ""
        return f" for sm{self.capability.replace('.', '')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRequest:
    """Build request of one engine: the model in its precision, and the build options."""

    network: str
    model_sha256: str
    """Hash of the ONNX file, which holds weights and precisions."""
    precision: str
    profiles: tuple[tuple[tuple[Shape, Shape, Shape], ...], ...]
    """Per profile, per input: minimum, optimum, maximum."""
    inputs: tuple[str, ...]
    level: int
    workspace_mib: int
    """0: all that is available."""
    target: EngineTarget
    weights_sha256: str = ""
    """Hash of the network's weights, of an engine that is built ahead of its checkpoint's
    serving.
    """
    calibration_sha256: str = ""
    """Hash of the calibration's samples and method, likewise."""

    @property
    def key(self) -> str:
        """Return the cache key."""
        return hashlib.sha256(msgspec.json.encode(asdict(self))).hexdigest()

    @property
    def tf32(self) -> bool:
        """Return whether fp32 products may be rounded to TF32."""
        return self.precision == Precision.TF32


def build_engine_request(
    network: Network[Any], plan: Plan[Any], source: Path, target: EngineTarget
) -> EngineRequest:
    """Collect what an engine depends on; RequestError if an option is invalid or the network's
    sizes are unknown.
    """
    level, workspace = (
        parse_integer_option(plan, OPTIMISATION_LEVEL_OPTION, DEFAULT_OPTIMISATION_LEVEL),
        parse_integer_option(plan, WORKSPACE_OPTION, 0),
    )
    if not 0 <= level <= MAX_OPTIMISATION_LEVEL:
        raise RequestError(
            f"{OPTIMISATION_LEVEL_OPTION}={level}: TensorRT has 0 to {MAX_OPTIMISATION_LEVEL}"
        )
    if workspace < 0:
        raise RequestError(f"{WORKSPACE_OPTION}={workspace}: must not be negative")
    return EngineRequest(
        network=network.name,
        model_sha256=compute_file_sha256(source),
        precision=plan.precision.value,
        profiles=build_shape_profiles(network),
        inputs=network.input_names,
        level=level,
        workspace_mib=workspace,
        target=target,
    )


def parse_integer_option(plan: Plan[Any], name: str, default: int) -> int:
    """Read an integer option."""
    return int(str(plan.options.get(name, default)))


def build_shape_profiles(
    network: Network[Any],
) -> tuple[tuple[tuple[Shape, Shape, Shape], ...], ...]:
    """Return the optimisation profiles: one for the smallest shapes, one for the largest, and one
    for all between them.

    A profile of one shape gets kernels chosen for it: SingleStream uses the smallest, Offline the
    largest.
    """
    if not any(network.dimensions):
        fixed = tuple(tuple(example.shape) for example in network.inputs)
        return (tuple((shape, shape, shape) for shape in fixed),)
    if network.shapes is None:
        raise RequestError(
            f"network {network.name}: TensorRT needs its smallest, usual and largest shapes, but"
            " the workload names none"
        )
    least, usual, most = network.shapes.minimum, network.shapes.usual, network.shapes.maximum
    if least != most:
        ranges = [(least, least, least), (most, most, most), (least, usual, most)]
    else:
        ranges = [(most, most, most)]
    return tuple(tuple(zip(*three, strict=True)) for three in ranges)


def select_covering_profile(request: EngineRequest, shapes: tuple[Shape, ...]) -> int:
    """Return the index of the first profile that covers these shapes; RequestError if none does."""
    for number, profile in enumerate(request.profiles):
        if all(
            is_shape_within(shape, least, most)
            for shape, (least, _, most) in zip(shapes, profile, strict=True)
        ):
            return number
    known = ", ".join(f"{list(least)} to {list(most)}" for least, _, most in request.profiles[-1])
    raise RequestError(
        f"network {request.network}: built for {known}, but called with"
        f" {', '.join(str(list(shape)) for shape in shapes)}"
    )


def is_shape_within(shape: Shape, least: Shape, most: Shape) -> bool:
    """Check whether a shape lies between two others."""
    return len(shape) == len(least) and all(
        low <= size <= high for low, size, high in zip(least, shape, most, strict=True)
    )


def write_engine_file(path: Path, request: EngineRequest, plan: bytes) -> None:
    """Write an engine file."""
    path.write_bytes(msgspec.json.encode(asdict(request)) + b"\n" + plan)


def read_engine_file(path: Path, request: EngineRequest) -> bytes:
    """Return the serialised engine from an engine file; MissingError if it was built for something
    else, or is invalid.
    """
    try:
        found, plan = split_engine_file(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise MissingError(
            f"{path}: not an engine file of podium ({describe_parse_failure(error)}); remove it to"
            " build again"
        ) from error
    if found != request:
        raise MissingError(
            f"{path}: was built for {'; '.join(list_engine_differences(found, request))}; remove it"
            " to build again"
        )
    return plan


def split_engine_file(stored: bytes) -> tuple[EngineRequest, bytes]:
    """Split an engine file into what it was built for and the serialised engine; ValueError or
    RecursionError if it is not one.
    """
    head, _, plan = stored.partition(b"\n")
    return msgspec.json.decode(head, type=EngineRequest), plan


def list_engine_differences(found: EngineRequest, request: EngineRequest) -> list[str]:
    """List the differences between two engines."""
    compared = [
        (name, getattr(found.target, name), getattr(request.target, name))
        for name in ("device", "capability", "library", "tensorrt")
    ]
    compared += [
        (name, getattr(found, name), getattr(request, name))
        for name in ("network", "model_sha256", "precision", "profiles", "level", "workspace_mib")
    ]
    return [f"{name} {mine}, here {theirs}" for name, mine, theirs in compared if mine != theirs]
