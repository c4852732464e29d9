"""TensorRT's two libraries behind one record: NVIDIA TensorRT for data centres, and TensorRT for
RTX, whose Python API is the same except for what is in this module.

TensorRT builds on the GPU that it builds for, and keeps the timings of its kernels. TensorRT for
RTX builds for a named compute capability on any machine, also without a GPU, and compiles its
kernels when an engine runs (NVIDIA TensorRT for RTX, Ahead-of-time and just-in-time compilation).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from suite.errors import MissingError, RequestError
from suite.files.cache import lock_cache_entry
from suite.files.layout import replace_atomically
from suite.process.installation import format_install_command

Capability = tuple[int, int]
"""A compute capability: major and minor number."""

RTX_CAPABILITIES: Final[Sequence[Capability]] = ((7, 5), (8, 0), (8, 6), (8, 9), (12, 0), (12, 1))
"""tensorrt_rtx.ComputeCapability: what TensorRT for RTX 1.7 builds for."""
MIN_MAJOR_VERSION: Final = 10
"""Major version of TensorRT: the first whose networks are strongly typed in all precisions."""
TARGET_PREFIX: Final = "sm"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRTKind:
    """One of the two libraries, whether or not it is installed."""

    name: str
    extra: str
    modules: tuple[str, ...]
    """Names of its Python module; the first one that is installed is imported."""
    min_major: int
    builds_ahead: bool
    """Whether it builds for a target without that GPU."""
    distributions: tuple[str, ...]

    @property
    def installed_version(self) -> str:
        """Return its version without importing it; "" if no distribution has it."""
        for name in self.distributions:
            with suppress(PackageNotFoundError):
                return version(name)
        return ""


DATACENTRE: Final = TensorRTKind(
    name="TensorRT",
    extra="tensorrt",
    modules=("tensorrt",),
    min_major=MIN_MAJOR_VERSION,
    builds_ahead=False,
    distributions=("tensorrt-cu12-bindings", "tensorrt-cu13-bindings", "tensorrt"),
)
RTX: Final = TensorRTKind(
    name="TensorRT for RTX",
    extra="tensorrt-rtx",
    modules=("tensorrt_rtx", "tensorrt_rtx_bindings"),
    min_major=1,
    builds_ahead=True,
    distributions=("tensorrt-rtx-cu12-bindings", "tensorrt-rtx-cu13-bindings", "tensorrt-rtx"),
)
TENSORRT_KINDS: Final = (DATACENTRE, RTX)
"""In the order of preference: the first one that is installed serves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRTLibrary:
    """A library that is loaded."""

    kind: TensorRTKind
    module: Any

    @property
    def version(self) -> str:
        """Return its version."""
        return str(self.module.__version__)

    @property
    def title(self) -> str:
        """Return its name and version, for messages."""
        return f"{self.kind.name} {self.version}"


def find_installed_kind() -> TensorRTKind | None:
    """Find the library that serves here, without importing it."""
    return next((kind for kind in TENSORRT_KINDS if find_library_module(kind)), None)


def find_library_module(kind: TensorRTKind) -> str | None:
    """Find the name of a library's module; None if it is not installed."""
    return next((name for name in kind.modules if find_spec(name)), None)


def describe_missing_library(kind: TensorRTKind | None = None) -> str:
    """Say how to install a library, or either of them."""
    if kind is None:
        return (
            f"neither tensorrt nor tensorrt_rtx is installed:"
            f" {format_install_command(DATACENTRE.extra)}, or {RTX.extra} for RTX cards and T4"
        )
    return f"{kind.name} is not installed: {format_install_command(kind.extra)}"


def load_library(kind: TensorRTKind) -> TensorRTLibrary:
    """Import a library; MissingError if it is not installed, cannot be loaded, is too old, or has
    no ONNX parser.
    """
    name = find_library_module(kind)
    if name is None:
        raise MissingError(f"engine tensorrt: {describe_missing_library(kind)}")
    try:
        module = import_module(name)
    except (ImportError, OSError, RuntimeError) as error:
        first = str(error).partition("\n")[0]
        raise MissingError(
            f"engine tensorrt: {kind.name} cannot be loaded ({first}):"
            f" {format_install_command(kind.extra)}"
        ) from error
    return require_usable_library(TensorRTLibrary(kind=kind, module=module))


def require_usable_library(library: TensorRTLibrary) -> TensorRTLibrary:
    """Return a library that can build; MissingError if it is too old, or has no ONNX parser."""
    kind = library.kind
    if int(library.version.partition(".")[0]) < kind.min_major:
        raise MissingError(
            f"engine tensorrt: needs {kind.name} {kind.min_major} or newer; installed:"
            f" {library.version}"
        )
    if not hasattr(library.module, "OnnxParser"):
        raise MissingError(
            f"engine tensorrt: {library.title} has no ONNX parser, which podium builds with:"
            f" {format_install_command(kind.extra)}"
        )
    return library


def format_target(capability: Capability) -> str:
    """Return the name of a target: `sm75`."""
    return f"{TARGET_PREFIX}{capability[0]}{capability[1]}"


def format_capability(capability: Capability) -> str:
    """Return a compute capability as NVIDIA writes it: `7.5`."""
    return ".".join(map(str, capability))


def list_build_targets(library: TensorRTLibrary) -> list[str]:
    """Return the targets that a library builds for without their GPU, in ascending order."""
    if not library.kind.builds_ahead:
        return []
    known = library.module.ComputeCapability.__members__
    numbers = sorted(int(name[len(TARGET_PREFIX) :]) for name in known if name.startswith("SM"))
    return [f"{TARGET_PREFIX}{number}" for number in numbers]


def parse_target(name: str, library: TensorRTLibrary) -> Capability:
    """Return a target's compute capability; RequestError if the library does not build for it."""
    known = list_build_targets(library)
    if name not in known:
        raise RequestError(
            f"target '{name}': {library.title} builds for {', '.join(known) or 'its own GPU only'}"
        )
    number = int(name[len(TARGET_PREFIX) :])
    return number // 10, number % 10


def check_target_name(name: str) -> None:
    """RequestError for what is no target of the library that builds ahead; without the library, of
    the version that was current.
    """
    known = list(map(format_target, RTX_CAPABILITIES))
    if find_library_module(RTX) is None and name not in known:
        raise RequestError(f"target '{name}': {RTX.name} builds for {', '.join(known)}")


def set_build_target(library: TensorRTLibrary, config: Any, capability: str) -> None:
    """Have a builder build for a compute capability, if the library builds ahead of time; it would
    otherwise build for Ampere and later, not for Turing.
    """
    if not library.kind.builds_ahead:
        return
    name = f"SM{capability.replace('.', '')}"
    target = library.module.ComputeCapability.__members__.get(name)
    config.num_compute_capabilities = 1
    if target is None or not config.set_compute_capability(target, 0):
        raise MissingError(
            f"engine tensorrt: {library.title} does not support compute capability {capability}; it"
            f" has {', '.join(list_build_targets(library))}"
        )


def build_context_maker(library: TensorRTLibrary, engine: Any, path: Path) -> ContextMaker:
    """Build the maker of an engine's execution contexts; `path`: where compiled kernels are
    kept.
    """
    if not library.kind.builds_ahead:
        return ContextMaker(create=engine.create_execution_context, save=lambda: None)
    config = engine.create_runtime_config()
    cache = config.create_runtime_cache()
    if path.exists():
        cache.deserialize(path.read_bytes())  # False: of another GPU or driver, and compiled anew
    config.set_runtime_cache(cache)
    # at once: a recorded graph would keep the fallback kernels that run until the others are there
    strategy = library.module.DynamicShapesKernelSpecializationStrategy.EAGER
    config.dynamic_shapes_kernel_specialization_strategy = strategy

    def save_runtime_cache() -> None:
        with lock_cache_entry(path), replace_atomically(path) as partial:
            partial.write_bytes(memoryview(cache.serialize()))

    return ContextMaker(
        create=lambda: engine.create_execution_context(config), save=save_runtime_cache
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextMaker:
    """How an engine's execution contexts are created, and what follows their first run."""

    create: Callable[[], Any]
    save: Callable[[], None]
    """Keeps the kernels compiled so far; TensorRT compiles none when an engine runs."""
