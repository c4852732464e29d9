"""OpenVINO as an engine of podium: the ONNX files that podium exports, on a CPU.

fp32; bf16 where the processor has it; int8 from podium's own calibration, whose file both engines
read. It is imported only when a network is built, so that `missing` stays cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from harness.engines.onnx.export import ensure_onnx_file, read_export_notes, read_onnx_model
from harness.engines.onnx.quantization import collect_activation_ranges, ensure_int8_onnx
from harness.engines.outputs import wrap_with_memory_report
from harness.machine.system_description import read_cpu_fields
from suite.engine import ONNX_FRAMEWORK, Plan
from suite.errors import MissingError, RequestError
from suite.terms import Precision

if TYPE_CHECKING:
    import torch

    from suite.engine import Network
    from suite.rounds import HyperValue

    Tensors = tuple[torch.Tensor, ...]

OPENVINO: Final = "openvino"
DEVICE: Final = "CPU"
STREAMS_OPTION: Final = "engine.streams"
"""Requests that OpenVINO computes at once, with its threads shared among them: as many as
`batching.workers`.
"""
PRECISIONS: Final[Mapping[Precision, str]] = {
    Precision.FP32: "f32",
    Precision.BF16: "bf16",
    Precision.INT8: "f32",
}
"""Number format -> the hint for what no Q/DQ nodes of the file quantise. Without it, OpenVINO takes
bf16 where the processor has it, and fp32 would be a wrong name.
"""
BF16_CPU_FLAGS: Final = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""Processor flags, x86 and ARM."""


class OpenVinoEngine:
    """Runs torch modules through ONNX."""

    name: ClassVar[str] = OPENVINO
    accepts: ClassVar[frozenset[str]] = frozenset({"torch", ONNX_FRAMEWORK})
    options: ClassVar[frozenset[str]] = frozenset({STREAMS_OPTION})

    def missing(self, device: str, precision: Precision) -> str | None:
        """Return what this machine lacks, without importing OpenVINO."""
        if device != "cpu":
            return f"has no {device}; it has cpu"
        if precision not in PRECISIONS:
            return f"has no {precision}; it has {', '.join(PRECISIONS)}"
        if precision is Precision.BF16 and not has_bf16_instructions():
            return "this processor has no instructions for bf16"
        if not find_spec(OPENVINO):
            return "OpenVINO is not installed: pip install openvino"
        return None

    def compile(
        self, network: Network[torch.Tensor], plan: Plan[torch.Tensor]
    ) -> OpenVinoExecutable:
        """Export (or find in the cache), quantise if asked for, and compile; MissingError if that
        fails.
        """
        lacking = self.missing(plan.device, plan.precision)
        if lacking:
            raise MissingError(f"engine {self.name}: {lacking}")
        if network.framework not in self.accepts:
            raise RequestError(f"engine {self.name} does not accept {network.framework} networks")
        return OpenVinoExecutable(network, plan)


class OpenVinoExecutable:
    """A compiled network, shared by the workers."""

    def __init__(self, network: Network[torch.Tensor], plan: Plan[torch.Tensor]) -> None:
        import openvino

        source = ensure_onnx_file(network, plan)
        path, quantised = quantise_if_asked(network, source, plan)
        streams = int(plan.options.get(STREAMS_OPTION, 1))
        settings = {
            "INFERENCE_PRECISION_HINT": PRECISIONS[plan.precision],
            "INFERENCE_NUM_THREADS": plan.threads,
            "NUM_STREAMS": streams,
            "ENABLE_CPU_PINNING": False,  # podium has placed its processes already
        }
        core = openvino.Core()
        try:
            self.compiled = core.compile_model(core.read_model(path), DEVICE, settings)
        except RuntimeError as error:
            told = str(error).strip().splitlines()[-1]
            raise MissingError(f"engine {OPENVINO} cannot run {path.name}: {told}") from error
        self.network = network
        self.facts: dict[str, HyperValue] = {
            "openvino": version(OPENVINO),
            "precision": plan.precision.value,
            "computes_in": str(self.compiled.get_property("INFERENCE_PRECISION_HINT").to_string()),
            "threads": plan.threads,
            "streams": streams,
            "file": path.stem,
            **read_export_notes(source),
            **quantised,
        }

    def open(self) -> Callable[..., Tensors]:
        """Build one worker's call, with its own request."""
        return wrap_with_memory_report(OPENVINO, RequestCall(self.compiled, self.network))

    def describe(self) -> Mapping[str, HyperValue]:
        """Describe what was built."""
        return self.facts


class RequestCall:
    """One worker's request; inputs are read in place, and results are valid until the next call."""

    def __init__(self, compiled: Any, network: Network[torch.Tensor]) -> None:
        self.request = compiled.create_infer_request()
        known = {name for port in compiled.inputs for name in port.get_names()}
        self.inputs = [name if name in known else None for name in network.input_names]
        self.outputs = [(name, name in network.state) for name in network.output_names]

    def __call__(self, *inputs: torch.Tensor) -> Tensors:
        """Run the network; an input that the graph does not use is left out."""
        import openvino
        import torch

        named = zip(self.inputs, inputs, strict=True)
        self.request.infer(
            {
                name: openvino.Tensor(tensor.contiguous().numpy(), shared_memory=True)
                for name, tensor in named
                if name is not None
            }
        )
        results = []
        for name, is_state in self.outputs:
            result = torch.from_numpy(self.request.get_tensor(name).data)
            # the next call reads it while it writes its own
            results.append(result.clone() if is_state else result)
        return tuple(results)


def quantise_if_asked(
    network: Network[torch.Tensor], source: Path, plan: Plan[torch.Tensor]
) -> tuple[Path, Mapping[str, HyperValue]]:
    """Return the file in the plan's precision, and the ranges that calibration found."""
    if plan.precision is not Precision.INT8:
        return source, {}
    path = ensure_int8_onnx(network, source, plan.calibration)
    return path, collect_activation_ranges(read_onnx_model(path))


def has_bf16_instructions() -> bool:
    """Return whether the processor multiplies bf16 numbers itself."""
    fields = next(iter(read_cpu_fields()), {})
    flags = f"{fields.get('flags', '')} {fields.get('Features', '')}"
    return not BF16_CPU_FLAGS.isdisjoint(flags.split())
