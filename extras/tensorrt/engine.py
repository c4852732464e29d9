"""The TensorRT engine: torch networks through the ONNX files of the ONNX Runtime engine, strongly
typed, on NVIDIA GPUs.

Imports TensorRT only when a network is built, so that `missing` stays cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from extras.tensorrt.library import (
    DATACENTRE,
    RTX_CAPABILITIES,
    Capability,
    TensorRTLibrary,
    build_context_maker,
    describe_missing_library,
    find_installed_kind,
    format_capability,
    format_target,
    load_library,
    require_usable_library,
)
from harness.engines.gpu_device import CUDA_GRAPHS_OPTION
from harness.engines.outputs import is_out_of_memory, wrap_with_memory_report
from harness.machine.gpus import list_gpus
from suite.engine import ONNX_FRAMEWORK
from suite.errors import MissingError, RequestError
from suite.process.installation import format_install_command
from suite.terms import Precision

if TYPE_CHECKING:
    import torch

    from extras.tensorrt.plan import EngineRequest
    from harness.engines.gpu_device import GpuDevice
    from suite.engine import Network, Plan, ServingTask
    from suite.rounds import HyperValue

    Tensors = tuple[torch.Tensor, ...]

ONNX_PACKAGES: Final = ("onnx", "onnxruntime", "onnxscript", "torch")
"""What makes the files that TensorRT reads."""
MIN_CAPABILITIES: Final[Mapping[Precision, tuple[int, int]]] = {
    Precision.FP32: (7, 5),
    Precision.FP16: (7, 5),
    Precision.INT8: (7, 5),
    Precision.INT4: (8, 0),
    Precision.TF32: (8, 0),
    Precision.BF16: (8, 0),
    Precision.FP8: (8, 9),
}
"""Minimum compute capability of each precision: NVIDIA TensorRT, Support matrix, Supported
precision modes per TensorRT hardware.
"""


class TensorRTEngine:
    """Runs torch modules through ONNX and TensorRT."""

    name: ClassVar[str] = "tensorrt"
    accepts: ClassVar[frozenset[str]] = frozenset({"torch", ONNX_FRAMEWORK})
    options: ClassVar[frozenset[str]] = frozenset(
        {CUDA_GRAPHS_OPTION, "engine.optimization_level", "engine.plans", "engine.workspace_mib"}
    )

    @property
    def caution(self) -> str:
        """Say which library is installed, and what it has shown so far."""
        kind = find_installed_kind()
        if kind is None or not kind.builds_ahead:
            return "tested against TensorRT's documented interface; it has not run on a GPU yet"
        return (
            f"{kind.name} {kind.installed_version} builds here, without a GPU, for"
            f" {', '.join(map(format_target, RTX_CAPABILITIES))} (podium build); it has not run on"
            " a GPU yet"
        )

    def missing(self, device: str, precision: Precision) -> str | None:
        """Return what this machine lacks, without importing it."""
        kind, _, number = device.partition(":")
        if kind != "cuda":
            return "runs on NVIDIA GPUs only"
        library = find_installed_kind()
        if library is None:
            return describe_missing_library()
        absent = [package for package in ONNX_PACKAGES if not find_spec(package)]
        if absent:
            return f"{', '.join(absent)} not installed: {format_install_command(library.extra)}"
        capability = find_gpu_capability(int(number or 0))
        if capability and library.builds_ahead and capability not in RTX_CAPABILITIES:
            known = ", ".join(map(format_capability, RTX_CAPABILITIES))
            return (
                f"{library.name} supports compute capability {known}, and this GPU has"
                f" {format_capability(capability)}: {format_install_command(DATACENTRE.extra)}"
            )
        if capability:
            return describe_lacking_precision(precision, capability)
        return None

    def check_serving_task(self, task: ServingTask) -> None:
        """Refuse engines that were built ahead of time (`--plans`) for another system than this
        one; without such engines, do nothing.
        """
        from extras.tensorrt import prebuilt

        folder = task.options.get(prebuilt.PLANS_OPTION)
        if folder is None:
            return
        known = list_gpus()
        for device in task.devices:
            number = int(device.partition(":")[2] or 0)
            gpu = known[number] if number < len(known) else None
            prebuilt.check_prebuilt_engines(
                Path(str(folder)),
                prebuilt.ServedSystem(
                    workload=task.workload,
                    checkpoint_sha256=task.checkpoint_sha256,
                    precision=task.precision.value,
                    gpu=gpu.name if gpu else device,
                    capability=gpu.capability if gpu else None,
                ),
            )

    def compile(
        self, network: Network[torch.Tensor], plan: Plan[torch.Tensor]
    ) -> TensorRTExecutable:
        """Export, convert to the precision, and build, each cached if possible, or load what was
        built ahead of time; MissingError if that fails.
        """
        lacking = self.missing(plan.device, plan.precision)
        if lacking:
            raise MissingError(f"engine {self.name}: {lacking}")
        if network.framework not in self.accepts:
            raise RequestError(f"engine {self.name} does not accept {network.framework} networks")
        from harness.engines.gpu_device import CudaDevice

        return TensorRTExecutable(
            network, plan, load_serving_library(plan), CudaDevice(plan.device)
        )

    def run_trial_layer(self, device: str, precision: Precision) -> None:
        """Build and run one layer: the workload's trial networks have nothing to calibrate with."""
        from extras.tensorrt.precision_trial import run_dense_layer

        run_dense_layer(self.compile, device, precision)

    trial = run_trial_layer


def load_serving_library(plan: Plan[Any]) -> TensorRTLibrary:
    """Load the library that serves: the one that built the engines ahead of time, or the first one
    that is installed.
    """
    from extras.tensorrt import prebuilt

    folder = plan.options.get(prebuilt.PLANS_OPTION)
    if folder is not None:
        place = Path(str(folder))
        return prebuilt.load_manifest_library(place, prebuilt.read_manifest(place))
    return load_library(find_installed_kind() or DATACENTRE)


def describe_lacking_precision(precision: Precision, capability: Capability) -> str | None:
    """Return why GPUs of a compute capability do not compute in a precision, or None."""
    wanted = MIN_CAPABILITIES[precision]
    if capability >= wanted:
        return None
    return (
        f"has {precision} from compute capability {format_capability(wanted)}, and this GPU has"
        f" {format_capability(capability)}"
    )


def find_gpu_capability(number: int) -> tuple[int, int] | None:
    """Return a GPU's compute capability; None if the driver does not report it."""
    found = list_gpus()
    if number < len(found):
        return found[number].capability
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedEngine:
    """An engine that TensorRT has loaded, and what it was built from."""

    engine: Any
    request: EngineRequest
    facts: Mapping[str, HyperValue]


class TensorRTExecutable:
    """An engine, shared by the workers."""

    def __init__(
        self,
        network: Network[torch.Tensor],
        plan: Plan[torch.Tensor],
        library: TensorRTLibrary,
        device: GpuDevice,
    ) -> None:
        from extras.tensorrt import build, prebuilt
        from extras.tensorrt.execution import SharedEngine

        require_usable_library(library)
        log = build.build_error_logger(library.module)
        self.runtime = library.module.Runtime(log)
        if prebuilt.PLANS_OPTION in plan.options:
            load = load_prebuilt_engine
        else:
            load = build_engine_here
        loaded = build_or_report_memory(
            plan, lambda: load(network, plan, library, log, self.runtime, device)
        )
        request, engine = loaded.request, loaded.engine
        graphs = bool(plan.options.get(CUDA_GRAPHS_OPTION, True)) and not network.state
        self.built = SharedEngine(
            engine=engine,
            contexts=build_context_maker(
                library, engine, plan.cache / "tensorrt" / f"{request.key}.kernels"
            ),
            log=log,
            request=request,
            device=device,
            network=network,
            graphs=graphs,
        )
        self.facts: dict[str, HyperValue] = {
            "library": library.kind.name,
            "tensorrt": library.version,
            "gpu": device.name,
            "compute_capability": device.capability,
            "precision": plan.precision.value,
            "optimization_level": request.level,
            "workspace_mib": request.workspace_mib,
            "profiles": "; ".join(map(build.format_shape_profile, request.profiles)),
            "cuda_graphs": graphs,
            "file": request.key,
            **loaded.facts,
        }

    def open(self) -> Callable[..., Tensors]:
        """Build one worker's call, with its own contexts, stream and buffers."""
        from extras.tensorrt.execution import TensorRTCall

        return wrap_with_memory_report(TensorRTEngine.name, TensorRTCall(self.built))

    def describe(self) -> Mapping[str, HyperValue]:
        """Describe what was built."""
        return self.facts


def build_engine_here(
    network: Network[torch.Tensor],
    plan: Plan[torch.Tensor],
    library: TensorRTLibrary,
    log: Any,
    runtime: Any,
    device: GpuDevice,
) -> LoadedEngine:
    """Export, convert and build for this GPU, each cached if possible, and load."""
    from extras.tensorrt import build
    from extras.tensorrt import plan as trt_plan

    target = trt_plan.EngineTarget(
        tensorrt=library.version,
        device=device.name,
        capability=device.capability,
        library=library.kind.name,
    )
    source, facts = prepare_onnx_file(network, plan, library)
    request = trt_plan.build_engine_request(network, plan, source, target)
    engine = build.load_tensorrt_engine(library, log, runtime, source, request, plan.cache)
    return LoadedEngine(engine=engine, request=request, facts=facts)


def prepare_onnx_file(
    network: Network[torch.Tensor], plan: Plan[torch.Tensor], library: TensorRTLibrary
) -> tuple[Path, Mapping[str, HyperValue]]:
    """Return the network's ONNX file in the plan's precision, and its description."""
    from harness.engines.onnx import convolution_products, export, lowering

    source = exported = export.ensure_onnx_file(network, plan)
    if library.kind.builds_ahead and plan.precision is Precision.INT8:
        source = convolution_products.ensure_convolution_products(exported)
    path, facts = lowering.lower_onnx_to_precision(network, source, plan)
    return path, {**export.read_export_notes(exported), **facts}


def load_prebuilt_engine(
    network: Network[torch.Tensor],
    plan: Plan[torch.Tensor],
    library: TensorRTLibrary,
    log: Any,
    runtime: Any,
    device: GpuDevice,
) -> LoadedEngine:
    """Load an engine that was built ahead of time, if it fits network, precision and GPU."""
    from extras.tensorrt import prebuilt

    folder = Path(str(plan.options[prebuilt.PLANS_OPTION]))
    major, minor = map(int, device.capability.split("."))
    entry, request, content = prebuilt.read_prebuilt_engine(
        folder, network, plan, (major, minor), device.name
    )
    engine = prebuilt.require_loaded_engine(
        library, log, folder / entry.file, runtime.deserialize_cuda_engine(content)
    )
    return LoadedEngine(engine=engine, request=request, facts=entry.description)


def build_or_report_memory(plan: Plan[Any], build_engine: Callable[[], Any]) -> Any:
    """Build or load; on out of memory, report the batch that the engine was to be built for."""
    try:
        return build_engine()
    except (MissingError, RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        half = ""
        if plan.max_batch > 1:
            half = f": --set batching.max_batch={plan.max_batch // 2} builds for half of it"
        raise MissingError(
            f"engine tensorrt: not enough memory to build for a batch of {plan.max_batch}{half}"
        ) from error
