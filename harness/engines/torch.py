"""The PyTorch engine: fp32, bf16 and fp16, eager, compiled or through CUDA graphs, channels-last
where tensors have four dimensions.

Imports torch only when a network is built, so that `missing` stays cheap.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Final

from harness.engines.gpu_device import CUDA_GRAPHS_OPTION, CudaDevice
from harness.engines.outputs import convert_outputs_to_tuple, wrap_with_memory_report
from harness.engines.recorded_batches import RecordedBatches, list_recorded_sizes
from harness.engines.recorded_work import RecordableCall, WorkRecorder, print_recording_failure
from suite.errors import MissingError, RequestError
from suite.files.cache import is_cache_writable
from suite.process.installation import RUN_EXTRA, format_install_command
from suite.terms import Precision

if TYPE_CHECKING:
    import torch

    from harness.engines.gpu_device import GpuDevice
    from suite.engine import Network, Plan
    from suite.rounds import HyperValue

    Tensors = tuple[torch.Tensor, ...]

AUTOCAST_TYPES: Final = {Precision.BF16: "bfloat16", Precision.FP16: "float16"}
"""Precision -> autocast's compute type."""
TORCH_PRECISIONS: Final = (Precision.FP32, Precision.TF32, *AUTOCAST_TYPES)
CPP_COMPILERS: Final = ("c++", "g++", "clang++")
"""Compilers that torch.compile needs on a CPU: torch/_inductor/cpp_builder.py."""
COMPILE_OPTION: Final = "engine.compile"
"""The setting's name in a plan's options."""
COMPILE_MODE_OPTION: Final = "engine.compile_mode"
DEFAULT_COMPILE_MODE: Final = "default"
"""The torch.compile mode that records no CUDA graphs."""
IMAGE_DIMENSIONS: Final = 4
"""Dimensions of an image tensor (N, C, H, W)."""


class TorchEngine:
    """Runs torch modules."""

    name: ClassVar[str] = "torch"
    accepts: ClassVar[frozenset[str]] = frozenset({"torch"})
    options: ClassVar[frozenset[str]] = frozenset(
        {COMPILE_OPTION, COMPILE_MODE_OPTION, CUDA_GRAPHS_OPTION}
    )

    def missing(self, device: str, precision: Precision) -> str | None:
        """Return what this machine lacks, without importing torch."""
        if precision not in TORCH_PRECISIONS:
            return f"has no {precision}; it has {', '.join(TORCH_PRECISIONS)}"
        if precision is Precision.TF32 and not device.startswith("cuda"):
            return "has tf32 on NVIDIA GPUs only"
        if find_spec("torch"):
            return None
        return f"PyTorch is not installed: {format_install_command(RUN_EXTRA)}"

    def compile(self, network: Network[torch.Tensor], plan: Plan[torch.Tensor]) -> TorchExecutable:
        """Prepare a module for the plan, changing it in place; MissingError if it cannot."""
        lacking = self.missing(plan.device, plan.precision)
        if lacking:
            raise MissingError(f"engine {self.name}: {lacking}")
        if network.framework not in self.accepts:
            raise RequestError(f"engine {self.name} does not accept {network.framework} networks")
        if (
            plan.options.get(COMPILE_OPTION)
            and not plan.device.startswith("cuda")
            and not any(map(shutil.which, CPP_COMPILERS))
        ):
            raise MissingError(
                f"engine.compile needs a C++ compiler ({', '.join(CPP_COMPILERS)}), and this"
                " machine has none"
            )
        return TorchExecutable(
            network, plan, CudaDevice(plan.device) if plan.device.startswith("cuda") else None
        )


class TorchExecutable:
    """A module ready to run: in evaluation mode, on its device, in its layout and precision; with a
    GPU, each batch size is recorded when a worker opens it.
    """

    def __init__(
        self,
        network: Network[torch.Tensor],
        plan: Plan[torch.Tensor],
        gpu: GpuDevice | None = None,
    ) -> None:
        import torch

        from harness.engines import batch_norm_folding, onednn_packing

        torch.set_num_threads(plan.threads)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = (
            plan.precision is Precision.TF32
        )
        self.device = torch.device(plan.device)
        self.lower: torch.dtype | None = None
        if plan.precision in AUTOCAST_TYPES:
            self.lower = getattr(torch, AUTOCAST_TYPES[plan.precision])
        self.pictures = any(example.dim() == IMAGE_DIMENSIONS for example in network.inputs)
        module = network.module.eval().to(self.device)
        if self.pictures:
            module = module.to(memory_format=torch.channels_last)
        folded = batch_norm_folding.fold_batch_norms(module)
        if self.lower is not None:
            lower_module_weights(module, self.lower)
        self.compiled = bool(plan.options.get(COMPILE_OPTION))
        packed = 0
        if not self.compiled:
            packed = onednn_packing.pack_linear_layers(module)
        # each LoadGen run is a new process, which finds there what an earlier one has built; where
        # the cache can only be read, PyTorch keeps its own folder for temporary files
        if self.compiled and is_cache_writable(plan.cache / "inductor"):
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(plan.cache / "inductor")
        mode = str(plan.options.get(COMPILE_MODE_OPTION, DEFAULT_COMPILE_MODE))
        self.recorded = (
            self.compiled and mode != DEFAULT_COMPILE_MODE and self.device.type == "cuda"
        )
        self.run: Callable[..., Any] = module
        if self.compiled:
            self.run = torch.compile(module, dynamic=bool(network.dimensions), mode=mode)
        self.gpu, self.network = gpu, network
        self.has_graphs = (
            gpu is not None
            and not self.compiled
            and bool(plan.options.get(CUDA_GRAPHS_OPTION, True))
        )
        self.recorded_sizes = list_recorded_sizes(network, plan.max_batch)
        self.recorders: list[WorkRecorder] = []
        self.facts: dict[str, HyperValue] = {
            "torch": torch.__version__,
            "precision": plan.precision.value,
            "compiled": self.compiled,
            "compile_mode": mode if self.compiled else "",
            "layout": "channels-last" if self.pictures else "contiguous",
            "packed_layers": packed,
            "folded_batch_norms": folded,
            "threads": plan.threads,
        }

    def open(self) -> Callable[..., Tensors]:
        """Build one worker's call. It enters inference mode and autocast itself: both are per
        thread.
        """
        import torch

        kind, lower, run = self.device.type, self.lower, self.run

        def run_module(*inputs: torch.Tensor) -> Tensors:
            with (
                torch.inference_mode(),
                torch.autocast(kind, dtype=lower, enabled=lower is not None),
            ):
                results = convert_outputs_to_tuple(run(*map(self.place_input, inputs)))
            # the graph's next replay overwrites them
            return tuple(result.clone() for result in results) if self.recorded else results

        call = wrap_with_memory_report(TorchEngine.name, run_module)
        if self.gpu is None or not self.has_graphs:
            return call
        recorder = WorkRecorder(run_module, self.place_input, self.gpu)
        self.recorders.append(recorder)
        if not self.recorded_sizes:
            return RecordableCall(call, recorder, self.report_recording_failure)
        try:
            batches = RecordedBatches(
                run_module, recorder, self.build_input_buffers(), self.recorded_sizes
            )
        except Exception as error:  # of PyTorch, CUDA or the module, each with its own types
            self.report_recording_failure(error)
            return call
        return wrap_with_memory_report(TorchEngine.name, batches)

    def report_recording_failure(self, error: Exception) -> None:
        """Say that the network runs eager, for all workers, and why."""
        if self.has_graphs:
            print_recording_failure(TorchEngine.name, self.network.name, error)
        self.has_graphs = False

    def build_input_buffers(self) -> Tensors:
        """Build inputs of the largest recorded size on the device, in the layout of the weights."""
        largest = max(self.recorded_sizes)
        return tuple(
            self.place_input(example.new_zeros(largest, *example.shape[1:]))
            for example in self.network.inputs
        )

    def place_input(self, tensor: torch.Tensor) -> torch.Tensor:
        """Move an input to the device, in the layout of the weights."""
        import torch

        if tensor.dim() == IMAGE_DIMENSIONS:
            layout = torch.channels_last
        else:
            layout = torch.contiguous_format
        return tensor.to(self.device, memory_format=layout, non_blocking=True)

    def describe(self) -> Mapping[str, HyperValue]:
        """Describe what was built, and whether its work is recorded as CUDA graphs: by size when a
        worker opens it, or at the request of a workload.
        """
        requested = any(recorder.recordings for recorder in self.recorders)
        return self.facts | {
            "cuda_graphs": self.has_graphs and (bool(self.recorded_sizes) or requested)
        }


def lower_module_weights(module: torch.nn.Module, lower: torch.dtype) -> None:
    """Round the weights of convolutions and linear layers once, as autocast would at every call;
    batch-norm stays in fp32.
    """
    from torch import nn

    for part in module.modules():
        if isinstance(part, (nn.modules.conv._ConvNd, nn.Linear)):
            part.to(lower)
