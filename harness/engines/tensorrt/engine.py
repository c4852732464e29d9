"""The TensorRT engine: torch networks through the ONNX files of the ONNX Runtime engine, strongly
typed, on NVIDIA GPUs.

Imports TensorRT only when a network is built, so that `missing` stays cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Final

from harness.engines.outputs import is_full, watched
from harness.machine.gpus import gpus
from suite.errors import MissingError, RequestError
from suite.process.installation import install
from suite.terms import Precision

if TYPE_CHECKING:
    import torch

    from harness.engines.tensorrt.device import Device
    from suite.engine import Network, Plan
    from suite.rounds import HyperValue

    Tensors = tuple[torch.Tensor, ...]

PACKAGES: Final = ("tensorrt", "onnx", "onnxruntime", "onnxscript", "torch")
LEAST: Final[Mapping[Precision, tuple[int, int]]] = {
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
OLDEST: Final = 10
"""Major version of TensorRT: the first whose networks are strongly typed in all these
precisions.
"""


class TensorRTEngine:
    """Runs torch modules through ONNX and TensorRT."""

    name: ClassVar[str] = "tensorrt"
    accepts: ClassVar[frozenset[str]] = frozenset({"torch"})
    options: ClassVar[frozenset[str]] = frozenset(
        {"engine.cuda_graphs", "engine.optimization_level", "engine.workspace_mib"}
    )
    caution: ClassVar[str] = (
        "tested against TensorRT's documented interface; it has not run on a GPU yet"
    )

    def missing(self, device: str, precision: Precision) -> str | None:
        """Return what this machine lacks, without importing it."""
        kind, _, number = device.partition(":")
        if kind != "cuda":
            return "runs on NVIDIA GPUs only"
        absent = [package for package in PACKAGES if not find_spec(package)]
        if absent:
            return f"{', '.join(absent)} not installed: {install(self.name)}"
        capability = capability_of(int(number or 0))
        if capability and capability < LEAST[precision]:
            wanted, found = (".".join(map(str, pair)) for pair in (LEAST[precision], capability))
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

        from harness.engines.tensorrt.device import Cuda

        return TensorRTExecutable(network, plan, tensorrt, Cuda(plan.device))


def capability_of(number: int) -> tuple[int, int] | None:
    """Return a GPU's compute capability; None if the driver does not report it."""
    found = gpus()
    return found[number].capability if number < len(found) else None


class TensorRTExecutable:
    """An engine, shared by the workers."""

    def __init__(
        self, network: Network[torch.Tensor], plan: Plan[torch.Tensor], trt: Any, device: Device
    ) -> None:
        from harness.engines.onnx import export, lowering
        from harness.engines.tensorrt import build
        from harness.engines.tensorrt import plan as trt_plan
        from harness.engines.tensorrt.execution import Built

        if int(trt.__version__.partition(".")[0]) < OLDEST:
            raise MissingError(
                f"engine tensorrt: needs TensorRT {OLDEST} or newer; installed: {trt.__version__}"
            )
        exported = export.exported(network, plan.cache)
        source, facts = lowering.lowered(network, exported, plan)
        target = trt_plan.Target(
            tensorrt=trt.__version__, device=device.name, capability=device.capability
        )
        wished, log = trt_plan.wish(network, plan, source, target), build.make_log(trt)
        self.runtime = trt.Runtime(log)
        engine = loaded(
            plan, lambda: build.built(trt, log, self.runtime, source, wished, plan.cache)
        )
        graphs = bool(plan.options.get(trt_plan.GRAPHS, True)) and not network.state
        self.built = Built(
            engine=engine, log=log, wish=wished, device=device, network=network, graphs=graphs
        )
        self.facts: dict[str, HyperValue] = {
            "tensorrt": trt.__version__,
            "gpu": device.name,
            "compute_capability": device.capability,
            "precision": plan.precision.value,
            "optimization_level": wished.level,
            "workspace_mib": wished.workspace_mib,
            "profiles": "; ".join(map(build.told, wished.profiles)),
            "cuda_graphs": graphs,
            "file": wished.key,
            **export.notes(exported),
            **facts,
        }

    def open(self) -> Callable[..., Tensors]:
        """Build one worker's call, with its own contexts, stream and buffers."""
        from harness.engines.tensorrt.execution import TensorRTCall

        return watched(TensorRTEngine.name, TensorRTCall(self.built))

    def describe(self) -> Mapping[str, HyperValue]:
        """Describe what was built."""
        return self.facts


def loaded(plan: Plan[Any], make: Callable[[], Any]) -> Any:
    """Build or load; on out of memory, report the batch that the engine was to be built for."""
    try:
        return make()
    except (MissingError, RuntimeError, MemoryError) as error:
        if not is_full(error):
            raise
        half = (
            f": --set batching.max_batch={plan.max_batch // 2} builds for half of it"
            if plan.max_batch > 1
            else ""
        )
        raise MissingError(
            f"engine tensorrt: not enough memory to build for a batch of {plan.max_batch}{half}"
        ) from error
