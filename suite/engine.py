"""The inference-engine interface: torch, ONNX Runtime, TensorRT and TensorFlow implement it (harness/engines/).

Tensors at the seam are the network's own framework's, contiguous; `suite` stays free of frameworks, so they are a type variable.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Protocol, TypeAlias, TypeVar

from suite.rounds import HyperValue
from suite.terms import Precision as Precision

T = TypeVar("T")
Shape: TypeAlias = tuple[int, ...]
RANGE: Final = "range."
"""Beginning of the names under which an executable describes the range that calibration gave a tensor: (lowest, highest)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeProfile:
    """The shapes an engine prepares for, one per input: minimum, usual, maximum."""

    minimum: tuple[Shape, ...]
    usual: tuple[Shape, ...]
    maximum: tuple[Shape, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Network(Generic[T]):
    """One network to compile; a workload may have several and composes its Predictor from them."""

    name: str
    module: Any
    """The framework's own object: torch.nn.Module, tf.Module."""
    framework: str
    inputs: tuple[T, ...]
    """Example inputs."""
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    dimensions: tuple[Mapping[int, str], ...] = ()
    """Per input: axis -> name of a dynamic dimension; equal names are equal sizes across inputs."""
    shapes: ShapeProfile | None = None
    state: Mapping[str, str] = field(default_factory=dict)
    """Output name -> name of the input that it is the next value of (a key/value cache)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration(Generic[T]):
    """Inputs of this network for static quantisation, with their provenance."""

    inputs: Sequence[tuple[T, ...]]
    """One entry for each sample, made when it is asked for."""
    list_name: str
    listed: tuple[str, ...]
    """Every name of the list."""
    samples: tuple[str, ...]
    """The names, of those, that `inputs` holds."""
    sha256: tuple[str, ...]
    """Of each sample's file."""
    touched: tuple[str, ...]
    """The samples that are in the accuracy set too, by place or by content."""
    method: str
    """min-max, entropy or percentile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Generic[T]):
    """How a network is to be run."""

    device: str
    precision: Precision
    threads: int
    max_batch: int
    cache: Path
    options: Mapping[str, HyperValue] = field(default_factory=dict)
    """The settings that begin with `engine.`, under their full names: engine.compile."""
    calibration: Calibration[T] | None = None


class Call(Protocol[T]):
    """One worker thread's way into an executable; results belong to the caller until its next call."""

    def __call__(self, *inputs: T) -> tuple[T, ...]:
        """Run the network."""


class Executable(Protocol[T]):
    """Weights and plan, shared by the workers."""

    def open(self) -> Call[T]:
        """Make one worker's context, binding and buffers."""

    def describe(self) -> Mapping[str, HyperValue]:
        """Say what was built; lands in the measurements file."""


class Engine(Protocol[T]):
    """An inference engine. Registered as an entry point of the group `podium.engines`."""

    name: ClassVar[str]
    accepts: ClassVar[frozenset[str]]
    """Frameworks of the networks that it can take: "torch", "tensorflow".

    An engine may say more: `options`, a frozenset of the settings `engine.*` that it takes (a user's others are refused), `caution`, and
    `trial(device, precision)`, a tiny run of its own for `podium doctor`, which compiles a workload's networks for a framework's own engine alone.
    """

    def missing(self, device: str, precision: Precision) -> str | None:
        """Say what this machine lacks for it, or None; imports no framework."""

    def compile(self, network: Network[T], plan: Plan[T]) -> Executable[T]:
        """Build the network for the plan; MissingError if it cannot be."""
