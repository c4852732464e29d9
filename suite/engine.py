"""The inference-engine interface, implemented by torch and ONNX Runtime (harness/engines/),
TensorRT and TensorFlow (extras/).

Tensors at the seam are the network's own framework's, contiguous (the torch engine also takes
pictures in channels-last memory); `suite` stays free of frameworks, so they are a type variable.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from suite.rounds import HyperValue
from suite.terms import Precision as Precision

T = TypeVar("T")
Shape: TypeAlias = tuple[int, ...]
ONNX_FRAMEWORK: Final = "onnx"
"""Framework of a network that is an ONNX file already: its module is the file's path, and the
tensors at the seam are PyTorch's.
"""
RANGE: Final = "range."
"""Prefix of the keys under which an executable reports the calibrated range of a tensor: (lowest,
highest).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeProfile:
    """Shapes that an engine prepares for, one per input: minimum, typical, maximum."""

    minimum: tuple[Shape, ...]
    usual: tuple[Shape, ...]
    maximum: tuple[Shape, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Network(Generic[T]):
    """One network to compile; a workload may have several, which its Predictor combines."""

    name: str
    module: Any
    """The framework's own object: torch.nn.Module, tf.Module; the path of an ONNX file."""
    framework: str
    inputs: tuple[T, ...]
    """Example inputs."""
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    dimensions: tuple[Mapping[int, str], ...] = ()
    """Per input: axis -> name of a dynamic dimension; equal names mean equal sizes across inputs.
    """
    shapes: ShapeProfile | None = None
    state: Mapping[str, str] = field(default_factory=dict)
    """Output name -> name of the input that receives it in the next step (a key/value cache)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration(Generic[T]):
    """Calibration inputs of this network for static quantisation, with their provenance."""

    inputs: Sequence[tuple[T, ...]]
    """One entry per sample, created on access."""
    list_name: str
    listed: tuple[str, ...]
    """Every name in the calibration list."""
    samples: tuple[str, ...]
    """The names from the list that `inputs` holds."""
    sha256: tuple[str, ...]
    """SHA-256 of each sample's file."""
    touched: tuple[str, ...]
    """Samples that are also in the accuracy set, by position or by content."""
    method: str
    """min-max, entropy or percentile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Generic[T]):
    """How to run a network."""

    device: str
    precision: Precision
    threads: int
    max_batch: int
    cache: Path
    options: Mapping[str, HyperValue] = field(default_factory=dict)
    """The settings that start with `engine.`, under their full names: engine.compile."""
    calibration: Calibration[T] | None = None


class Call(Protocol[T]):
    """One worker thread's handle to an executable; results are valid until its next call."""

    def __call__(self, *inputs: T) -> tuple[T, ...]:
        """Run the network."""


@runtime_checkable
class RecordingCall(Call[T], Protocol[T]):
    """What a Call adds that can record its work on tensors that stay where they are, so that the
    host launches it at once: CUDA graphs.
    """

    def record_work(self, *inputs: T) -> Callable[[], tuple[T, ...]] | None:
        """Record the work on these tensors, before any clock. What is returned repeats it on what
        they hold then, with the same output tensors each time; None if it cannot be recorded,
        which the engine says.
        """


def list_recorded_batch_sizes(most: int) -> tuple[int, ...]:
    """Return the batch sizes that are recorded for batches up to the largest, ascending: the powers
    of two, and the largest itself. Another batch is padded to the next of them.
    """
    powers = (1 << exponent for exponent in range(most.bit_length()))
    return tuple(sorted({*powers, most}))


class Executable(Protocol[T]):
    """Weights and plan of a compiled network, shared by the workers."""

    def open(self) -> Call[T]:
        """Create one worker's context, bindings and buffers."""

    def describe(self) -> Mapping[str, HyperValue]:
        """Describe what was built; written to the measurements file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingTask:
    """What an engine is about to serve."""

    workload: str
    checkpoint_sha256: str
    precision: Precision
    devices: Sequence[str]
    options: Mapping[str, HyperValue]
    """All settings; the engine's own start with `engine.`."""


@runtime_checkable
class TaskCheckingEngine(Protocol):
    """What an Engine adds that can tell before any clock whether it can serve a task: whether files
    that were built ahead of time are of this workload, and for these GPUs.
    """

    def check_serving_task(self, task: ServingTask) -> None:
        """Refuse a task: RequestError for another workload, checkpoint or precision, MissingError
        for another GPU or version of a library.
        """


class Engine(Protocol[T]):
    """An inference engine. Registered as an entry point of the group `podium.engines`."""

    name: ClassVar[str]
    accepts: ClassVar[frozenset[str]]
    """Frameworks whose networks it accepts: "torch", "tensorflow", "onnx" (files)."""

    def missing(self, device: str, precision: Precision) -> str | None:
        """Return what this machine lacks to run it, or None; imports no framework."""

    def compile(self, network: Network[T], plan: Plan[T]) -> Executable[T]:
        """Compile the network for the plan; MissingError if that is impossible here."""


class OptionalEngineParts(Protocol):
    """What an Engine may have, too."""

    options: ClassVar[frozenset[str]]
    """The settings `engine.*` that it accepts; others are rejected. Without it, all are passed."""

    trial: Callable[[str, Precision], None]
    """Method of (device, precision) that runs something tiny, or raises: `podium doctor` compiles a
    workload's networks only for a framework's own engine.
    """

    @property
    def caution(self) -> str:
        """Return a caveat about its results; empty if there is none."""
