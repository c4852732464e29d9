"""A folder of engines that were built ahead of time, and its manifest: what each engine was built
from, by which library and for which target, and which of them were refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from extras.tensorrt.build import format_last_errors
from extras.tensorrt.library import (
    TENSORRT_KINDS,
    Capability,
    TensorRTLibrary,
    format_capability,
    format_target,
    load_library,
)
from extras.tensorrt.plan import (
    EngineRequest,
    EngineTarget,
    build_shape_profiles,
    split_engine_file,
)
from suite.errors import MissingError, RequestError
from suite.files.json_files import write_json
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.rounds import HyperValue

if TYPE_CHECKING:
    from suite.engine import Calibration, Network, Plan

PLANS_OPTION: Final = "engine.plans"
"""The setting that names the folder."""
MANIFEST_FILE: Final = "plans.json"
MAX_ENGINE_BYTES: Final = 1 << 34
"""House rule: no network of podium's has an engine of 16 GiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrebuiltEngine:
    """One engine of the folder."""

    network: str
    precision: str
    target: str
    """`sm75`: the compute capability that it runs on."""
    file: str
    sha256: str
    file_bytes: int
    weights_bytes: int | None
    """Memory on the GPU, as the builder logs it; likewise below."""
    activation_bytes: int | None
    layers: int
    build_s: float
    profiles: str
    description: Mapping[str, HyperValue]
    """What the measurements file says of the network's ONNX file: exporter, difference, ranges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedEngine:
    """A combination that could not be built, and why."""

    precision: str
    target: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrebuiltManifest:
    """The folder's manifest."""

    workload: str
    round: str
    profile: str
    checkpoint_sha256: str
    library: str
    library_version: str
    podium_version: str
    engines: tuple[PrebuiltEngine, ...]
    refused: tuple[RefusedEngine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedSystem:
    """What a folder of engines has to fit."""

    workload: str
    checkpoint_sha256: str
    precision: str
    gpu: str
    capability: Capability | None
    """None if the driver does not report it; the engine is then refused when it is loaded."""


MANIFEST_DECODER: Final = msgspec.json.Decoder(PrebuiltManifest)


def compute_weights_sha256(network: Network[Any]) -> str:
    """Hash names, types, shapes and values of a network's weights and buffers; another version of
    PyTorch or of the exporter changes nothing.
    """
    import torch

    digest = hashlib.sha256(network.name.encode())
    for name, tensor in sorted(network.module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        flat = tensor.detach().cpu().contiguous().flatten()
        digest.update(flat.view(dtype=torch.uint8).numpy().data)
    return digest.hexdigest()


def compute_calibration_sha256(calibration: Calibration[Any] | None) -> str:
    """Hash the samples and the method that ranges come from; "" without calibration."""
    if calibration is None:
        return ""
    ingredients = (calibration.method, calibration.samples, calibration.sha256)
    return hashlib.sha256(repr(ingredients).encode()).hexdigest()


def write_manifest(folder: Path, manifest: PrebuiltManifest) -> None:
    """Write a folder's manifest."""
    write_json(folder / MANIFEST_FILE, msgspec.to_builtins(asdict(manifest)))


def read_manifest(folder: Path, option: str = "--plans") -> PrebuiltManifest:
    """Read the manifest of a folder that an option names; RequestError if there is none, or if it
    is not one.
    """
    try:
        return read_untrusted_file(folder / MANIFEST_FILE, MANIFEST_DECODER.decode)
    except UnreadableError as error:
        raise RequestError(
            f"{option} {folder}: {MANIFEST_FILE}: {error.reason}; podium build writes one"
        ) from error


def check_prebuilt_engines(folder: Path, system: ServedSystem) -> None:
    """Refuse a folder whose engines do not fit, before anything is timed: RequestError for another
    workload, checkpoint or precision, MissingError for another GPU or version of the library.
    """
    manifest = read_manifest(folder)
    for kind, found, wanted in (
        ("workload", manifest.workload, system.workload),
        ("checkpoint", manifest.checkpoint_sha256, system.checkpoint_sha256),
    ):
        if found != wanted:
            raise RequestError(f"--plans {folder}: built for {kind} {found}, not for {wanted}")
    if system.capability is not None:
        select_engines(folder, manifest, system.precision, system.capability, system.gpu)
    load_manifest_library(folder, manifest)


def load_manifest_library(folder: Path, manifest: PrebuiltManifest) -> TensorRTLibrary:
    """Load the library that built a folder's engines; MissingError if it is not installed here, or
    is of another version.
    """
    kind = next((each for each in TENSORRT_KINDS if each.name == manifest.library), None)
    if kind is None:
        raise RequestError(f"--plans {folder}: built by the unknown library {manifest.library}")
    library = load_library(kind)
    if library.version != manifest.library_version:
        raise MissingError(
            f"--plans {folder}: built by {kind.name} {manifest.library_version}, and here is"
            f" {library.version}, which does not load it; build it again"
        )
    return library


def select_engines(
    folder: Path, manifest: PrebuiltManifest, precision: str, capability: Capability, gpu: str
) -> list[PrebuiltEngine]:
    """Select the engines of a precision and a GPU; RequestError if there is none in the precision,
    MissingError if there is none for the GPU.
    """
    computing = [each for each in manifest.engines if each.precision == precision]
    if not computing:
        known = list_distinct(each.precision for each in manifest.engines)
        raise RequestError(f"--plans {folder}: not built in {precision}, only in {known}")
    target = format_target(capability)
    fitting = [each for each in computing if each.target == target]
    if not fitting:
        known = list_distinct(each.target for each in computing)
        raise MissingError(
            f"--plans {folder}: built for {known} in {precision}, but {gpu} is {target}"
        )
    return fitting


def list_distinct(names: Iterable[str]) -> str:
    """List names once each; `none` if there are none."""
    return ", ".join(dict.fromkeys(names)) or "none"


def read_prebuilt_engine(
    folder: Path, network: Network[Any], plan: Plan[Any], capability: Capability, gpu: str
) -> tuple[PrebuiltEngine, EngineRequest, bytes]:
    """Read the engine of a network: its entry, what it was built for, and its content. RequestError
    if its file is damaged or of other weights, shapes or calibration samples.
    """
    manifest = read_manifest(folder)
    fitting = select_engines(folder, manifest, plan.precision.value, capability, gpu)
    entry = next((each for each in fitting if each.network == network.name), None)
    if entry is None:
        raise RequestError(f"--plans {folder}: holds no engine of network {network.name}")
    path = folder / Path(entry.file).name
    try:
        request, content = read_untrusted_file(
            path, lambda stored: decode_engine_file(stored, entry), MAX_ENGINE_BYTES
        )
    except UnreadableError as error:
        raise RequestError(f"--plans {path}: {error.reason}; build it again") from error
    target = EngineTarget(
        tensorrt=manifest.library_version,
        device="",
        capability=format_capability(capability),
        library=manifest.library,
    )
    check_engine_fits(path, request, network, plan, target)
    return entry, request, content


def decode_engine_file(stored: bytes, entry: PrebuiltEngine) -> tuple[EngineRequest, bytes]:
    """Split an engine file; ValueError if it is not the one that the manifest names."""
    if hashlib.sha256(stored).hexdigest() != entry.sha256:
        raise ValueError(f"damaged: its SHA-256 differs from {MANIFEST_FILE}'s")
    return split_engine_file(stored)


def check_engine_fits(
    path: Path,
    request: EngineRequest,
    network: Network[Any],
    plan: Plan[Any],
    target: EngineTarget,
) -> None:
    """Refuse an engine whose own header names another network, number format, target, weights,
    sizes or calibration samples than those to be served, whatever the manifest says of it.
    """
    for what, found, wanted in (
        ("networks", request.network, network.name),
        ("number formats", request.precision, plan.precision.value),
        ("targets", request.target, target),
        ("weights", request.weights_sha256, compute_weights_sha256(network)),
        ("inputs", request.inputs, tuple(network.input_names)),
        ("sizes", request.profiles, build_shape_profiles(network)),
        ("calibration", request.calibration_sha256, compute_calibration_sha256(plan.calibration)),
    ):
        if found != wanted:
            raise RequestError(
                f"--plans {path}: built for other {what} of network {network.name} than are to be"
                " served; build it again with the same checkpoint and settings"
            )


def require_loaded_engine(library: TensorRTLibrary, log: Any, path: Path, engine: Any) -> Any:
    """Return an engine that TensorRT has loaded; MissingError says why it has not."""
    if engine is None:
        raise MissingError(
            f"--plans {path}: {library.title} cannot load it here: {format_last_errors(log)}"
        )
    return engine
