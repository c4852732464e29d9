"""Measures the cost of LoadGen, the queue and the workload: Offline samples/s against the engine's
bare loop over the same batches.

Ours is a LoadGen run of ResNet-50 at 224x224 in ONNX Runtime INT8, the fastest engine here and so
the hardest case. The other side only calls the engine, on the same tensors that the workload passes
to it. The sides alternate, each in its own process.

Usage: python benchmarks/harness_loss.py [--pairs N] [--threads N] [--format text|json]
"""

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from common.figures import arguments, compare, show
from common.served import MAX_BATCH, RATE, offline, system, write_checkpoint
from common.tiny import choose_size

from harness.children.process import Abort, run_in_child
from harness.engines.onnx.engine import OnnxRuntimeEngine
from harness.serving.loadgen.session import LoadedSystem, LoadGenJob, run_loadgen
from suite.engine import Executable, Network, Plan
from suite.loadgen.detail_log import read_detail_log
from suite.terms import Precision

SAMPLES: Final = choose_size(480, 8)
"""Samples per measurement; a multiple of the largest batch."""
BATCHES: Final = choose_size(8, 2)
"""Number of different batches that the bare loop cycles through."""


class Tapped(OnnxRuntimeEngine):
    """Keeps its executable and the inputs of its calls."""

    def compile(self, network: Network[Any], plan: Plan[Any]) -> Executable[Any]:
        """Compile the network, and keep the executable."""
        self.built = super().compile(network, plan)
        self.given: list[tuple[Any, ...]] = []
        return self

    def open(self) -> Callable[..., tuple[Any, ...]]:
        """Return a call that records its inputs."""
        call = self.built.open()

        def noting(*inputs: Any) -> tuple[Any, ...]:
            self.given.append(inputs)
            return call(*inputs)

        return noting

    def describe(self) -> dict[str, Any]:
        """Describe what was built."""
        return dict(self.built.describe())


def bare(job: LoadedSystem, abort: Abort) -> float:
    """Return the samples/s of the engine alone."""
    engine = Tapped()
    # engine and executable in one
    inference = job.workload.build_inference(job.run, job.checkpoint, engine)  # type: ignore[arg-type]
    predictor = inference.open(0, MAX_BATCH)
    inference.load(range(BATCHES * MAX_BATCH))
    for number in range(BATCHES):
        predictor(range(number * MAX_BATCH, (number + 1) * MAX_BATCH))
    call, batches = engine.built.open(), list(engine.given)
    for inputs in batches:
        call(*inputs)
    began = time.perf_counter()
    for number in range(SAMPLES // MAX_BATCH):
        call(*batches[number % BATCHES])
    return SAMPLES / (time.perf_counter() - began)


def served(job: LoadedSystem) -> float:
    """Return the samples/s of a LoadGen run."""
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        run_in_child(
            run_loadgen, LoadGenJob(system=job, schedule=offline(SAMPLES), folder=Path(folder))
        )
        return read_detail_log(Path(folder)).require_number(RATE)


def main() -> None:
    """Measure both sides in one run."""
    given = arguments(__doc__ or "", pairs=5)
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        job = system(
            OnnxRuntimeEngine(),
            Precision.INT8,
            write_checkpoint(Path(folder) / "checkpoint"),
            given.threads,
        )
        measured = [(served(job), run_in_child(bare, job)) for _ in range(given.pairs)]
    ours, theirs = zip(*measured, strict=True)
    show(
        f"Offline under LoadGen against the engine's bare loop, INT8, batches of {MAX_BATCH} (aim:"
        " 0.97)",
        compare(ours, theirs, "samples/s"),
        given.form,
        {},
    )


if __name__ == "__main__":
    main()
