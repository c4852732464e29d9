"""The cache key and file format of a TensorRT engine: one line that says what it was built for, then TensorRT's own bytes."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from suite.engine import Shape
from suite.errors import MissingError, RequestError
from suite.files.layout import file_sha256
from suite.files.untrusted_files import complaint
from suite.terms import Precision

if TYPE_CHECKING:
    from suite.engine import Network, Plan

GRAPHS: Final = "engine.cuda_graphs"
LEVEL: Final = "engine.optimization_level"
WORKSPACE: Final = "engine.workspace_mib"
USUAL_LEVEL: Final = 3
"""NVIDIA TensorRT, IBuilderConfig.builder_optimization_level: its own choice, of 0 to 5."""
MOST_LEVEL: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What an engine file runs on, and on nothing else: NVIDIA TensorRT, Engine compatibility."""

    tensorrt: str
    device: str
    capability: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One engine: the model in its number format, and how it is to be built."""

    network: str
    model_sha256: str
    """Of the ONNX file, which holds weights and number formats."""
    precision: str
    profiles: tuple[tuple[tuple[Shape, Shape, Shape], ...], ...]
    """Per profile, per input: minimum, usual, maximum."""
    inputs: tuple[str, ...]
    level: int
    workspace_mib: int
    """0: all that there is."""
    target: Target

    @property
    def key(self) -> str:
        """Name the file."""
        return hashlib.sha256(msgspec.json.encode(asdict(self))).hexdigest()

    @property
    def tf32(self) -> bool:
        """Tell whether products of fp32 may be rounded to TF32."""
        return self.precision == Precision.TF32


def wish(network: Network[Any], plan: Plan[Any], source: Path, target: Target) -> Wish:
    """Gather what decides an engine; RequestError where an option makes no sense or the network's sizes are not known."""
    level, workspace = whole(plan, LEVEL, USUAL_LEVEL), whole(plan, WORKSPACE, 0)
    if not 0 <= level <= MOST_LEVEL:
        raise RequestError(f"{LEVEL}={level}: TensorRT has 0 to {MOST_LEVEL}")
    if workspace < 0:
        raise RequestError(f"{WORKSPACE}={workspace}: must not be negative")
    return Wish(
        network=network.name,
        model_sha256=file_sha256(source),
        precision=plan.precision.value,
        profiles=profiles(network),
        inputs=network.input_names,
        level=level,
        workspace_mib=workspace,
        target=target,
    )


def whole(plan: Plan[Any], name: str, usual: int) -> int:
    """Read an option that is a whole number."""
    return int(str(plan.options.get(name, usual)))


def profiles(network: Network[Any]) -> tuple[tuple[tuple[Shape, Shape, Shape], ...], ...]:
    """Give the optimisation profiles: the smallest shapes and the largest each for themselves, and one for all between them.

    A profile of one shape gets kernels chosen for it: SingleStream asks for the smallest, Offline for the largest.
    """
    if not any(network.dimensions):
        fixed = tuple(tuple(example.shape) for example in network.inputs)
        return (tuple((shape, shape, shape) for shape in fixed),)
    if network.shapes is None:
        raise RequestError(f"network {network.name}: TensorRT needs its smallest, usual and largest shapes, but the workload names none")
    least, usual, most = network.shapes.minimum, network.shapes.usual, network.shapes.maximum
    ranges = [(least, least, least), (most, most, most), (least, usual, most)] if least != most else [(most, most, most)]
    return tuple(tuple(zip(*three, strict=True)) for three in ranges)


def fitting(wished: Wish, shapes: tuple[Shape, ...]) -> int:
    """Give the number of the first profile that holds these shapes; RequestError where none does."""
    for number, profile in enumerate(wished.profiles):
        if all(inside(shape, least, most) for shape, (least, _, most) in zip(shapes, profile, strict=True)):
            return number
    known = ", ".join(f"{list(least)} to {list(most)}" for least, _, most in wished.profiles[-1])
    raise RequestError(f"network {wished.network}: built for {known}, but called with {', '.join(str(list(shape)) for shape in shapes)}")


def inside(shape: Shape, least: Shape, most: Shape) -> bool:
    """Tell whether a shape lies between two others."""
    return len(shape) == len(least) and all(low <= size <= high for low, size, high in zip(least, shape, most, strict=True))


def write(path: Path, wished: Wish, plan: bytes) -> None:
    """Write an engine file."""
    path.write_bytes(msgspec.json.encode(asdict(wished)) + b"\n" + plan)


def read(path: Path, wished: Wish) -> bytes:
    """Give TensorRT's bytes of an engine file; MissingError where it was built for something else, or is none."""
    head, _, plan = path.read_bytes().partition(b"\n")
    try:
        found = msgspec.json.decode(head, type=Wish)
    except (ValueError, RecursionError) as error:
        raise MissingError(f"{path}: not an engine file of podium ({complaint(error)}); remove it to build again") from error
    if found != wished:
        raise MissingError(f"{path}: was built for {'; '.join(differences(found, wished))}; remove it to build again")
    return plan


def differences(found: Wish, wished: Wish) -> list[str]:
    """Say in what two engines differ."""
    told = [(name, getattr(found.target, name), getattr(wished.target, name)) for name in ("device", "capability", "tensorrt")]
    told += [(name, getattr(found, name), getattr(wished, name)) for name in ("network", "model_sha256", "precision", "profiles", "level", "workspace_mib")]
    return [f"{name} {mine}, here {theirs}" for name, mine, theirs in told if mine != theirs]


