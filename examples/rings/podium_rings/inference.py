"""The system under test: samples in memory, answers as bytes."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from podium_rings import data, scoring, weights
from suite.engine import Call, Engine, Network
from suite.errors import RequestError
from suite.workload import Predictor, Run
from workloads.common.payloads import decode_tensor, encode_tensor
from workloads.common.run_request import build_engine_plan, require_run_inference_row
from workloads.common.served_samples import LoadedSamples, ServedSamples

# Legend: N samples, X sizes of a sample, K classes.


class RingsPredictor:
    """One worker's predictor."""

    def __init__(
        self,
        call: Call[torch.Tensor],
        samples: LoadedSamples[torch.Tensor],
        blank_X: torch.Tensor,
        max_batch: int,
    ) -> None:
        self._call, self._samples = call, samples
        self._blank_X, self._max_batch = blank_X, max_batch

    def warm_up(self) -> None:
        """Run every batch size once."""
        for size in range(1, self._max_batch + 1):
            self._answer([self._blank_X] * size)

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer with the likeliest class."""
        return self._answer([self._samples[sample] for sample in samples])

    def answer(self, payloads: Sequence[bytes]) -> Sequence[bytes]:
        """Answer samples that came over a network (podium serve)."""
        return self._answer([decode_tensor(payload, self._blank_X) for payload in payloads])

    def _answer(self, inputs: Sequence[torch.Tensor]) -> Sequence[bytes]:
        with torch.inference_mode():
            (logit_NK,) = self._call(torch.stack(list(inputs)))
            return [scoring.encode_answer(best) for best in logit_NK.argmax(dim=-1).tolist()]


class RingsInference(ServedSamples[torch.Tensor]):
    """A checkpoint, an engine and the samples of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        self._val = data.load(run, "val")
        row = require_run_inference_row(run, weights.NAME)
        super().__init__(len(self._val.label_N), row.performance_samples, self._prepare)
        self._blank_X = torch.zeros_like(self._val.input_NX[0])
        network = Network(
            name=weights.NAME,
            module=weights.load(checkpoint),
            framework="torch",
            inputs=(self._blank_X[None],),
            input_names=("sample",),
            output_names=("logit",),
            dimensions=({0: "batch"},),
        )
        self._check_sizes(network)
        self._executable = engine.compile(network, build_engine_plan(run))

    def _check_sizes(self, network: Network[torch.Tensor]) -> None:
        """RequestError if the data do not fit the weights, before an engine says so in its own
        words.
        """
        try:
            with torch.inference_mode():
                network.module(*network.inputs)
        except (RuntimeError, IndexError) as error:
            sizes = tuple(self._blank_X.shape)
            raise RequestError(
                f"{weights.NAME}: its weights are not for samples of the sizes {sizes}: {error}"
            ) from error

    def _prepare(self, samples: Sequence[int]) -> Iterable[torch.Tensor]:
        return (self._val.input_NX[sample] for sample in samples)

    def payload(self, sample: int) -> bytes:
        """Return a sample as bytes, to send it over a network."""
        return encode_tensor(self._held[sample])

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Create the predictor of one worker."""
        return RingsPredictor(self._executable.open(), self._held, self._blank_X, max_batch)

    def truth(self, folder: Path) -> None:
        """Write the labels."""
        (folder / scoring.TRUTH).write_text(
            "".join(f"{scoring.format_label(label)}\n" for label in self._val.label_N.tolist()),
            "ascii",
        )
