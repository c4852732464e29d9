"""The TensorRT engine: torch networks through the ONNX files of the ONNX Runtime engine, strongly
typed, on NVIDIA GPUs.

Imports TensorRT only when a network is built, so that `missing` stays cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Final

from harness.engines.gpu_device import CUDA_GRAPHS_OPTION
from harness.engines.outputs import is_out_of_memory, wrap_with_memory_report
from harness.machine.gpus import list_gpus
from suite.errors import MissingError, RequestError
from suite.process.installation import format_install_command
from suite.terms import Precision

if TYPE_CHECKING:
    import torch

    from harness.engines.gpu_device import GpuDevice
    from suite.engine import Network, Plan
    from suite.rounds import HyperValue

    Tensors = tuple[torch.Tensor, ...]

TENSORRT_PACKAGES: Final = ("tensorrt", "onnx", "onnxruntime", "onnxscript", "torch")
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
MIN_MAJOR_VERSION: Final = 10
"""Major version of TensorRT: the first whose networks are strongly typed in all these
precisions.
"""


class TensorRTEngine:
    """Runs torch modules through ONNX and TensorRT."""

    name: ClassVar[str] = "tensorrt"
    accepts: ClassVar[frozenset[str]] = frozenset({"torch"})
    options: ClassVar[frozenset[str]] = frozenset(
        {CUDA_GRAPHS_OPTION, "engine.optimization_level", "engine.workspace_mib"}
    )
    caution: ClassVar[str] = (
        "tested against TensorRT's documented interface; it has not run on a GPU yet"
    )

    def missing(self, device: str, precision: Precision) -> str | None:
        """Return what this machine lacks, without importing it."""
        kind, _, number = device.partition(":")
        if kind != "cuda":
            return "runs on NVIDIA GPUs only"
        absent = [package for package in TENSORRT_PACKAGES if not find_spec(package)]
        if absent:
            return f"{', '.join(absent)} not installed: {format_install_command(self.name)}"
        capability = find_gpu_capability(int(number or 0))
        if capability and capability < MIN_CAPABILITIES[precision]:
            wanted, found = (
                ".".join(map(str, pair)) for pair in (MIN_CAPABILITIES[precision], capability)
            )
            return f"has {precision} from compute capability {wanted}, and this GPU has {found}"
        return None

    def compile(
        self, network: Network[torch.Tensor], plan: Plan[torch.Tensor]
    ) -> TensorRTExecutable:
        """Export, convert to the precision, and build, each cached if possible; MissingError if
        that fails.
        """
        lacking = self.missing(plan.device, plan.precision)
        if lacking:
            raise MissingError(f"engine {self.name}: {lacking}")
        if network.framework not in self.accepts:
            raise RequestError(f"engine {self.name} does not accept {network.framework} networks")
        import tensorrt

        from harness.engines.gpu_device import CudaDevice

        return TensorRTExecutable(network, plan, tensorrt, CudaDevice(plan.device))


def find_gpu_capability(number: int) -> tuple[int, int] | None:
    """Return a GPU's compute capability; None if the driver does not report it."""
    found = list_gpus()
    return found[number].capability if number < len(found) else None


class TensorRTExecutable:
    """An engine, shared by the workers."""

    def __init__(
        self, network: Network[torch.Tensor], plan: Plan[torch.Tensor], trt: Any, device: GpuDevice
    ) -> None:
        from harness.engines.onnx import export, lowering
        from harness.engines.tensorrt import build
        from harness.engines.tensorrt import plan as trt_plan
        from harness.engines.tensorrt.execution import SharedEngine

        if int(trt.__version__.partition(".")[0]) < MIN_MAJOR_VERSION:
            raise MissingError(
                f"engine tensorrt: needs TensorRT {MIN_MAJOR_VERSION} or newer; installed:"
                f" {trt.__version__}"
            )
        exported = export.ensure_onnx_export(network, plan.cache)
        source, precision_facts = lowering.lower_onnx_to_precision(network, exported, plan)
        target = trt_plan.EngineTarget(
            tensorrt=trt.__version__, device=device.name, capability=device.capability
        )
        request, log = (
            trt_plan.build_engine_request(network, plan, source, target),
            build.build_error_logger(trt),
        )
        self.runtime = trt.Runtime(log)
        engine = build_or_report_memory(
            plan,
            lambda: build.load_tensorrt_engine(trt, log, self.runtime, source, request, plan.cache),
        )
        graphs = bool(plan.options.get(CUDA_GRAPHS_OPTION, True)) and not network.state
        self.built = SharedEngine(
            engine=engine, log=log, request=request, device=device, network=network, graphs=graphs
        )
        self.facts: dict[str, HyperValue] = {
            "tensorrt": trt.__version__,
            "gpu": device.name,
            "compute_capability": device.capability,
            "precision": plan.precision.value,
            "optimization_level": request.level,
            "workspace_mib": request.workspace_mib,
            "profiles": "; ".join(map(build.format_shape_profile, request.profiles)),
            "cuda_graphs": graphs,
            "file": request.key,
            **export.read_export_notes(exported),
            **precision_facts,
        }

    def open(self) -> Callable[..., Tensors]:
        """Build one worker's call, with its own contexts, stream and buffers."""
        from harness.engines.tensorrt.execution import TensorRTCall

        return wrap_with_memory_report(TensorRTEngine.name, TensorRTCall(self.built))

    def describe(self) -> Mapping[str, HyperValue]:
        """Describe what was built."""
        return self.facts


def build_or_report_memory(plan: Plan[Any], build_engine: Callable[[], Any]) -> Any:
    """Build or load; on out of memory, report the batch that the engine was to be built for."""
    try:
        return build_engine()
    except (MissingError, RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        half = (
            f": --set batching.max_batch={plan.max_batch // 2} builds for half of it"
            if plan.max_batch > 1
            else ""
        )
        raise MissingError(
            f"engine tensorrt: not enough memory to build for a batch of {plan.max_batch}{half}"
        ) from error
