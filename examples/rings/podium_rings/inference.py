"""The system under test: points in memory, answers of four bytes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from podium_rings import data, model, scoring
from suite.engine import Call, Engine, Network, Plan
from suite.workload import Predictor, Run


class RingsPredictor:
    """One worker's predictor."""

    def __init__(
        self, call: Call[torch.Tensor], samples: dict[int, torch.Tensor], max_batch: int
    ) -> None:
        self._call, self._samples, self._max_batch = call, samples, max_batch

    def warm_up(self) -> None:
        """Run every batch size once."""
        for size in range(1, self._max_batch + 1):
            self._call(torch.zeros(size, 2))

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer with the ring of each point."""
        return self._answer([self._samples[sample] for sample in samples])

    def answer(self, payloads: Sequence[bytes]) -> Sequence[bytes]:
        """Answer points that came over a network (podium serve)."""
        return self._answer([torch.tensor(scoring.POINT.unpack(payload)) for payload in payloads])

    def _answer(self, points: Sequence[torch.Tensor]) -> Sequence[bytes]:
        (logit_NK,) = self._call(torch.stack(list(points)))
        return [scoring.ANSWER.pack(ring) for ring in logit_NK.argmax(dim=1).tolist()]


class RingsInference:
    """A checkpoint, an engine and the points of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        self._run = run
        self._point_N2, self._ring_N = data.load(run, "val")
        self._samples: dict[int, torch.Tensor] = {}
        network = Network(
            name=model.NAME,
            module=model.load(checkpoint),
            framework="torch",
            inputs=(torch.zeros(1, 2),),
            input_names=("point",),
            output_names=("logit",),
            dimensions=({0: "batch"},),
        )
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

    @property
    def sample_count(self) -> int:
        """Number of points in the accuracy set."""
        return len(self._ring_N)

    @property
    def performance_sample_count(self) -> int:
        """The row's sample count."""
        row = self._run.round.benchmark(model.NAME).inference[self._run.profile]
        return min(row.performance_samples, self.sample_count)

    def load(self, samples: Sequence[int]) -> None:
        """Load points into memory."""
        self._samples |= {sample: self._point_N2[sample] for sample in samples}

    def unload(self, samples: Sequence[int]) -> None:
        """Release points."""
        for sample in samples:
            self._samples.pop(sample, None)

    def payload(self, sample: int) -> bytes:
        """Return a point as bytes, to send it over a network."""
        return scoring.POINT.pack(*self._samples[sample].tolist())

    def length(self, sample: int) -> int:
        """Return one constant: all points have the same size."""
        return 1

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Create the predictor of one worker."""
        return RingsPredictor(self._executable.open(), self._samples, max_batch)

    def truth(self, folder: Path) -> None:
        """Write the labels."""
        (folder / scoring.TRUTH).write_text(
            "".join(f"{ring}\n" for ring in self._ring_N.tolist()), "ascii"
        )

    def close(self) -> None:
        """Release all points."""
        self._samples.clear()
