"""The system under test: samples in memory, answers as bytes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from podium_rings import data, scoring, weights
from suite.engine import Call, Engine, Network, Plan
from suite.errors import RequestError
from suite.workload import Predictor, Run

# Legend: N samples, X sizes of a sample, K classes.


class RingsPredictor:
    """One worker's predictor."""

    def __init__(
        self,
        call: Call[torch.Tensor],
        samples: dict[int, torch.Tensor],
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
        return self._answer([self._unpack(payload) for payload in payloads])

    def _unpack(self, payload: bytes) -> torch.Tensor:
        """Return the sample of a payload; ValueError for bytes that are none."""
        wanted = self._blank_X.numel() * self._blank_X.element_size()
        if len(payload) != wanted:
            raise ValueError(f"a sample has {wanted} bytes, and this one {len(payload)}")
        flat = torch.frombuffer(bytearray(payload), dtype=self._blank_X.dtype)
        return flat.reshape(self._blank_X.shape)

    def _answer(self, inputs: Sequence[torch.Tensor]) -> Sequence[bytes]:
        with torch.inference_mode():
            (logit_NK,) = self._call(torch.stack(list(inputs)))
            return [scoring.encode_answer(best) for best in logit_NK.argmax(dim=-1).tolist()]


class RingsInference:
    """A checkpoint, an engine and the samples of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        self._run = run
        self._val = data.load(run, "val")
        self._blank_X = torch.zeros_like(self._val.input_NX[0])
        self._samples: dict[int, torch.Tensor] = {}
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
        options = {key: value for key, value in run.settings.items() if key.startswith("engine.")}
        batch = int(str(run.settings["batching.max_batch"]))
        plan: Plan[torch.Tensor] = Plan(
            device=run.device,
            precision=run.precision,
            threads=run.threads,
            max_batch=batch,
            cache=run.cache / "engines",
            options=options,
        )
        self._executable = engine.compile(network, plan)

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

    @property
    def sample_count(self) -> int:
        """Number of samples in the accuracy set."""
        return len(self._val.label_N)

    @property
    def performance_sample_count(self) -> int:
        """The row's sample count."""
        row = self._run.round.benchmark(weights.NAME).inference[self._run.profile]
        return min(row.performance_samples, self.sample_count)

    def load(self, samples: Sequence[int]) -> None:
        """Load samples into memory."""
        self._samples |= {sample: self._val.input_NX[sample] for sample in samples}

    def unload(self, samples: Sequence[int]) -> None:
        """Release samples."""
        for sample in samples:
            self._samples.pop(sample, None)

    def payload(self, sample: int) -> bytes:
        """Return a sample as bytes, to send it over a network."""
        return self._samples[sample].numpy().tobytes()

    def length(self, sample: int) -> int:
        """Return one constant: all samples have the same size."""
        return 1

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Create the predictor of one worker."""
        return RingsPredictor(self._executable.open(), self._samples, self._blank_X, max_batch)

    def truth(self, folder: Path) -> None:
        """Write the labels."""
        (folder / scoring.TRUTH).write_text(
            "".join(f"{scoring.format_label(label)}\n" for label in self._val.label_N.tolist()),
            "ascii",
        )

    def close(self) -> None:
        """Release all samples."""
        self._samples.clear()
