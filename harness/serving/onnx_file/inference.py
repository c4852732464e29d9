"""The system under test of an ONNX file: samples in memory, an engine, and answers as bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from harness.engines.onnx.runtime_messages import format_runtime_message
from harness.serving.onnx_file.network import OnnxNetwork
from harness.serving.onnx_file.samples import count_loadable_samples, generate_random_sample
from harness.serving.onnx_file.shapes import format_input_sizes
from suite.engine import ONNX_FRAMEWORK, Call, Engine, Network, Plan, ShapeProfile
from suite.errors import RequestError
from suite.workload import Predictor, Run

ANSWER_BYTES: Final = 64
"""Of a sample's part of the first output, that are its answer: enough to show that the network ran,
and little enough to cost no time.
"""
NAME_HASH_DIGITS: Final = 12


class OnnxInference:
    """A file, an engine, and samples in host memory."""

    def __init__(self, run: Run, network: OnnxNetwork, engine: Engine[Any]) -> None:
        torch.set_num_threads(run.threads)
        self._network, self._seed = network, run.seed
        self._device = torch.device(run.device)
        self._batch = int(str(run.settings["batching.max_batch"]))
        self._held: dict[int, tuple[torch.Tensor, ...]] = {}
        self._executable = engine.compile(
            build_engine_network(network, self._batch, self._device), build_file_plan(run)
        )

    @property
    def sample_count(self) -> int:
        """Number of samples."""
        files = self._network.files
        if files:
            return len(files.names)
        return max(self._batch, count_loadable_samples(self._network.shapes))

    @property
    def performance_sample_count(self) -> int:
        """As many as fit into memory, and a batch at least."""
        loadable = max(self._batch, count_loadable_samples(self._network.shapes))
        return min(self.sample_count, loadable)

    def load(self, samples: Sequence[int]) -> None:
        """Read or generate samples, outside the clock."""
        for sample in samples:
            self._held[sample] = tuple(map(self._place_on_host, self._make_sample(sample)))

    def _make_sample(self, sample: int) -> tuple[torch.Tensor, ...]:
        network = self._network
        if network.files is None:
            return generate_random_sample(network.shapes, self._seed, sample)
        arrays = network.files.read_sample(sample, network.shapes)
        return tuple(torch.from_numpy(array.copy()) for array in arrays)

    def _place_on_host(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.pin_memory() if self._device.type == "cuda" else tensor

    def unload(self, samples: Sequence[int]) -> None:
        """Release samples."""
        for sample in samples:
            self._held.pop(sample, None)

    def length(self, sample: int) -> int:
        """Return one constant: all samples have the same sizes."""
        return 1

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Create the predictor of one worker."""
        return OnnxPredictor(
            self._executable.open(),
            self._network,
            self._held,
            OpenedBatch(device=self._device, batch=max_batch, sample=self._make_sample(0)),
        )

    def truth(self, folder: Path) -> None:
        """Write nothing: the samples of a file have no labels."""

    def close(self) -> None:
        """Release all samples."""
        self._held.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedBatch:
    """Where a predictor computes, and what it warms up with."""

    device: torch.device
    batch: int
    sample: tuple[torch.Tensor, ...]


class OnnxPredictor:
    """One worker's predictor: sample numbers in, the beginnings of outputs out."""

    def __init__(
        self,
        call: Call[torch.Tensor],
        network: OnnxNetwork,
        held: Mapping[int, tuple[torch.Tensor, ...]],
        opening: OpenedBatch,
    ) -> None:
        self._call, self._network, self._held = call, network, held
        self._device, self._opening = opening.device, opening

    def warm_up(self) -> None:
        """Answer one sample and one full batch; RequestError if the network cannot run with its
        inputs.
        """
        for size in dict.fromkeys((1, self._opening.batch)):
            try:
                self._run_batch([self._opening.sample] * size)
            except RuntimeError as error:  # of the engine; it names a node
                raise describe_run_failure(self._network, size, error) from error

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer with the first bytes of each sample's first output."""
        held = [self._held[sample] for sample in samples]
        if self._network.graph.is_batched:
            return self._run_batch(held)
        return [answer for each in held for answer in self._run_batch([each])]

    def _run_batch(self, held: Sequence[tuple[torch.Tensor, ...]]) -> list[bytes]:
        with torch.inference_mode():
            stacked = held[0]
            if self._network.graph.is_batched:
                stacked = tuple(map(torch.stack, map(list, zip(*held, strict=True))))
            first, *_ = self._call(*(each.to(self._device) for each in stacked))
            return list(cut_answers(first, len(held)))


def describe_run_failure(network: OnnxNetwork, size: int, error: RuntimeError) -> RequestError:
    """Return the refusal of inputs that a network cannot run with."""
    sizes = (
        f"{each.name} {format_input_sizes(each, batched=network.graph.is_batched)}"
        for each in network.shapes
    )
    return RequestError(
        f"{network.graph.path}: does not run with {', '.join(sizes)} at batch {size}; other sizes"
        f" (--shape) or other inputs (--data) may fit:"
        f" {format_runtime_message(error)}"
    )


def cut_answers(output: torch.Tensor, samples: int) -> list[bytes]:
    """Return the first bytes of each sample's part of an output, or of all of it if it is not
    divided by samples.
    """
    divided = output.ndim > 0 and output.shape[0] == samples
    rows = output.reshape(samples, -1) if divided else output.reshape(1, -1).expand(samples, -1)
    numbers = max(1, ANSWER_BYTES // output.element_size())
    head = rows[:, :numbers].contiguous().cpu()
    if not head.numel():
        return [b""] * samples
    return [row.tobytes() for row in head.view(torch.uint8).numpy()]


def build_engine_network(
    network: OnnxNetwork, batch: int, device: torch.device
) -> Network[torch.Tensor]:
    """Describe the file for an engine, which prepares for one sample to a full batch."""
    batched = network.graph.is_batched
    least, most = (
        tuple(((size, *each.sizes) if batched else each.sizes) for each in network.shapes)
        for size in (1, batch)
    )
    return Network(
        name=f"{network.name}-{network.graph.sha256[:NAME_HASH_DIGITS]}",
        module=network.graph.path,
        framework=ONNX_FRAMEWORK,
        inputs=tuple(
            torch.zeros(sizes, dtype=getattr(torch, each.dtype), device=device)
            for sizes, each in zip(most, network.shapes, strict=True)
        ),
        input_names=tuple(each.name for each in network.shapes),
        output_names=network.graph.output_names,
        shapes=ShapeProfile(minimum=least, usual=most, maximum=most),
    )


def build_file_plan(run: Run) -> Plan[torch.Tensor]:
    """Return the plan of a run (the harness' counterpart of workloads.common.run_request)."""
    return Plan(
        device=run.device,
        precision=run.precision,
        threads=run.threads,
        max_batch=int(str(run.settings["batching.max_batch"])),
        cache=run.cache,
        options={key: value for key, value in run.settings.items() if key.startswith("engine.")},
    )
