"""The ONNX Runtime engine: torch networks, exported and validated against their source, in fp32,
fp16 or INT8.

I/O binding uses tensors in place, without copies, and a decoder's cache stays in the engine's
memory. Imports ONNX Runtime only when a network is built, so that `missing` stays cheap.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from harness.engines.onnx.io_binding import BoundCall
from harness.engines.onnx.runtime_messages import format_runtime_message
from harness.engines.outputs import wrap_with_memory_report
from suite.engine import ONNX_FRAMEWORK, Plan
from suite.errors import MissingError, RequestError
from suite.process.installation import RUN_EXTRA, format_install_command
from suite.terms import Precision

if TYPE_CHECKING:
    import torch

    from suite.engine import Network
    from suite.rounds import HyperValue

    Tensors = tuple[torch.Tensor, ...]

ONNX_PACKAGES: Final = ("onnxruntime", "onnx", "onnxscript", "torch")
CPU_PROVIDER: Final = "cpu"
PROVIDER_NAMES: Final = {
    CPU_PROVIDER: "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
}
PROVIDER_PRECISIONS: Final[Mapping[str, tuple[Precision, ...]]] = {
    CPU_PROVIDER: (Precision.FP32, Precision.INT8),
    "cuda": (Precision.FP32, Precision.TF32, Precision.FP16),
    "tensorrt": (Precision.TF32, Precision.FP16, Precision.BF16, Precision.INT8),
}
"""Provider -> precisions that its kernels compute in; the CPU's fp16 convolutions are fp32 with
conversions around them, and TensorRT rounds fp32 products to TF32 (BuilderFlag.TF32, set unless
cleared), and the provider has no option to
disable that."""
PROVIDER_OPTION: Final = "engine.provider"
GRAPH_OPTIMISATION_OPTION: Final = "engine.graph_optimization"
GRAPH_OPTIMISATION_LEVELS: Final = {
    "all": "ORT_ENABLE_ALL",
    "extended": "ORT_ENABLE_EXTENDED",
    "basic": "ORT_ENABLE_BASIC",
    "none": "ORT_DISABLE_ALL",
}
LOG_ERRORS_ONLY: Final = 3
"""SessionOptions.log_severity_level."""


class OnnxRuntimeEngine:
    """Runs torch modules through ONNX."""

    name: ClassVar[str] = "onnxruntime"
    accepts: ClassVar[frozenset[str]] = frozenset({"torch", ONNX_FRAMEWORK})
    options: ClassVar[frozenset[str]] = frozenset({PROVIDER_OPTION, GRAPH_OPTIMISATION_OPTION})

    def missing(self, device: str, precision: Precision) -> str | None:
        """Return what this machine lacks, without importing it."""
        kinds = list_onnx_providers(device)
        known = list(dict.fromkeys(each for kind in kinds for each in PROVIDER_PRECISIONS[kind]))
        if precision not in known:
            return f"has no {precision} on {strip_device_number(device)}; it has {', '.join(known)}"
        absent = [package for package in ONNX_PACKAGES if not find_spec(package)]
        if absent:
            return f"{', '.join(absent)} not installed: {format_install_command(RUN_EXTRA)}"
        able = [kind for kind in kinds if precision in PROVIDER_PRECISIONS[kind]]
        if not any(map(is_provider_installed, able)):
            return (
                "the installed build of ONNX Runtime has no"
                f" {' or '.join(PROVIDER_NAMES[kind] for kind in able)}, which {precision} on a GPU"
                " needs"
            )
        return None

    def compile(
        self, network: Network[torch.Tensor], plan: Plan[torch.Tensor]
    ) -> OnnxRuntimeExecutable:
        """Export (or find in the cache), check, quantise if required, and build a session;
        MissingError if that fails.
        """
        lacking = self.missing(plan.device, plan.precision)
        if lacking:
            raise MissingError(f"engine {self.name}: {lacking}")
        if network.framework not in self.accepts:
            raise RequestError(f"engine {self.name} does not accept {network.framework} networks")
        return OnnxRuntimeExecutable(network, plan, resolve_onnx_provider(plan))

    def trial(self, device: str, precision: Precision) -> None:
        """Multiply two matrices with the provider that would run a network in that precision."""
        from harness.engines.onnx import dtype_trial

        plan: Plan[Any] = Plan(
            device=device, precision=precision, threads=1, max_batch=1, cache=Path()
        )
        provider = resolve_onnx_provider(plan)
        dtype_trial.run_precision_trial(
            PROVIDER_NAMES[provider],
            precision,
            {} if provider == CPU_PROVIDER else {"device_id": device.partition(":")[2] or "0"},
        )


def strip_device_number(device: str) -> str:
    """Return a device without its number."""
    return device.partition(":")[0]


def list_onnx_providers(device: str) -> Sequence[str]:
    """Return the providers that run on a device."""
    if strip_device_number(device) == "cuda":
        return ("cuda", "tensorrt")
    return (CPU_PROVIDER,)


def is_provider_installed(provider: str) -> bool:
    """Check whether the installed build has a provider, by its library."""
    spec = find_spec("onnxruntime")
    if provider == CPU_PROVIDER or spec is None or spec.origin is None:
        return provider == CPU_PROVIDER
    return any((Path(spec.origin).parent / "capi").glob(f"*onnxruntime_providers_{provider}.*"))


def resolve_onnx_provider(plan: Plan[Any]) -> str:
    """Return the provider that the user chose; RequestError if it does not fit device or precision,
    MissingError if it is not installed.
    """
    wanted = str(plan.options.get(PROVIDER_OPTION, "auto"))
    able = [
        kind
        for kind in list_onnx_providers(plan.device)
        if plan.precision in PROVIDER_PRECISIONS[kind]
    ]
    if wanted == "auto":
        return next(kind for kind in able if is_provider_installed(kind))
    if wanted not in able:
        raise RequestError(
            f"{PROVIDER_OPTION}={wanted} has no {plan.precision} on"
            f" {strip_device_number(plan.device)}; available there: {', '.join(able)}"
        )
    if not is_provider_installed(wanted):
        raise MissingError(
            "engine onnxruntime: the installed build of ONNX Runtime has no"
            f" {PROVIDER_NAMES[wanted]}"
        )
    return wanted


class OnnxRuntimeExecutable:
    """A session, shared by the workers: its `run` may be called from several threads."""

    def __init__(
        self, network: Network[torch.Tensor], plan: Plan[torch.Tensor], provider: str
    ) -> None:
        import onnx
        import onnxruntime

        from harness.engines.onnx.export import (
            LOG_FATAL_ONLY,
            ensure_onnx_file,
            read_export_notes,
        )

        source = ensure_onnx_file(network, plan)
        export_notes = read_export_notes(source)
        path, precision_facts = lower_onnx_for_provider(network, source, plan, provider)
        level = str(plan.options.get(GRAPH_OPTIMISATION_OPTION, "all"))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = plan.threads, 1
        options.graph_optimization_level = getattr(
            onnxruntime.GraphOptimizationLevel, GRAPH_OPTIMISATION_LEVELS[level]
        )
        # a stranger's file may fail, and the error is raised
        options.log_severity_level = (
            LOG_FATAL_ONLY if network.framework == ONNX_FRAMEWORK else LOG_ERRORS_ONLY
        )
        self.network, self.device = network, plan.device
        self.session = load_onnx_session(
            PROVIDER_NAMES[provider], path, options, build_provider_options(provider, plan)
        )
        self.facts: dict[str, HyperValue] = {
            "onnxruntime": onnxruntime.__version__,
            "onnx": onnx.__version__,
            "precision": plan.precision.value,
            "provider": PROVIDER_NAMES[provider],
            "threads": plan.threads,
            "graph_optimization": level,
            "file": path.stem,
            **export_notes,
            **precision_facts,
        }

    def open(self) -> Callable[..., Tensors]:
        """Build one worker's call, with its own binding and buffers."""
        return wrap_with_memory_report(
            OnnxRuntimeEngine.name, BoundCall(self.session, self.network, self.device)
        )

    def describe(self) -> Mapping[str, HyperValue]:
        """Describe what was built."""
        return self.facts


def load_onnx_session(
    provider: str, path: Path, options: Any, provider_settings: Mapping[str, str]
) -> Any:
    """Load a file; MissingError if ONNX Runtime cannot run it, or if its provider does not start:
    ONNX Runtime would warn, and run on the CPU.
    """
    import onnxruntime

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # reported below, as an error
        try:
            session = onnxruntime.InferenceSession(
                path, options, providers=[(provider, dict(provider_settings))]
            )
        except Exception as error:  # its errors have no common class
            raise describe_session_failure(path, error) from error
    if provider not in session.get_providers():
        raise MissingError(
            f"engine onnxruntime: {provider} does not start here: its libraries or the GPU are"
            " missing or have the wrong version"
        )
    return session


def describe_session_failure(path: Path, error: Exception) -> Exception:
    """Return the error of a file that ONNX Runtime cannot run; any other error as it is."""
    if not type(error).__module__.startswith("onnxruntime."):
        return error
    return MissingError(
        f"engine onnxruntime cannot run {path.name}: {format_runtime_message(error)}"
    )


def lower_onnx_for_provider(
    network: Network[torch.Tensor], source: Path, plan: Plan[torch.Tensor], provider: str
) -> tuple[Path, Mapping[str, HyperValue]]:
    """Return the file in the plan's precision, and its description; TF32 and TensorRT's formats are
    left to the provider.
    """
    from harness.engines.onnx import export, lowering, quantization

    if plan.precision is Precision.FP16 and provider == "cuda":
        return quantization.ensure_fp16_onnx(source), {"weights": "fp16"}
    if plan.precision is not Precision.INT8:
        return source, {}
    if provider == "tensorrt":
        form = lowering.TENSORRT_INT8_FORM
    else:
        form = quantization.choose_default_form()
    path = quantization.ensure_int8_onnx(network, source, plan.calibration, form)
    weights, activations = (
        f"int8 per channel, {7 if form.narrow else 8} bits",
        f"{'int8' if form.symmetric else 'uint8'} per tensor, explicit Q/DQ",
    )
    return path, {
        "weights": weights,
        "activations": activations,
        **quantization.collect_activation_ranges(export.read_onnx_model(path)),
    }


def build_provider_options(provider: str, plan: Plan[Any]) -> dict[str, str]:
    """Return a provider's options: ONNX Runtime, Execution providers."""
    if provider == CPU_PROVIDER:
        return {}
    number = plan.device.partition(":")[2] or "0"
    if provider == "cuda":
        return {"device_id": number, "use_tf32": str(int(plan.precision is Precision.TF32))}
    cache = {
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": str(plan.cache / "tensorrt"),
        "trt_timing_cache_enable": "1",
    }
    lower = {
        Precision.FP16: "trt_fp16_enable",
        Precision.BF16: "trt_bf16_enable",
        Precision.INT8: "trt_int8_enable",
    }
    return {
        "device_id": number,
        **cache,
        **({lower[plan.precision]: "1"} if plan.precision in lower else {}),
    }
