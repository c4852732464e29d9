"""Measures the cost of the timed loop (log, markers, progress, checkpoint clock) against a bare
`for` over the same Training.

Both sides take the same steps of a ResNet-50 epoch (smoke: 32 px, bf16, the workload's own loader)
from one Training object, alternating. The loop's own cost is also measured without training, so
that machine noise cannot hide it.
"""

import cProfile
import io
import pstats
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common.figures import arguments, compare, options, show
from common.tiny import choose_size

from harness.distributed import SingleRank
from harness.progress import Progress
from harness.request import resolve_request
from harness.training import seeds
from harness.training.loop import TrainingGoal, train_to_quality
from harness.training.mllog_writer import MllogWriter
from harness.training.state.checkpointing import CheckpointKeeper, TrainingPosition
from suite.process.signals import UnheardSignals
from suite.terms import Precision
from suite.workload import Block

GOAL = TrainingGoal(targets={"top1": 0.5}, metrics={"top1": ""})
NULL_STEPS = choose_size(200_000, 1_000)


@dataclass
class Tail:
    """The last steps of an epoch of another Training, without its evaluation, which is the
    workload's and not the loop's.
    """

    inner: Any  # a Training
    first_step: int

    def blocks(self) -> Iterator[Block]:
        """One epoch, one evaluation."""
        yield range(1, 2)

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """The last steps."""
        yield from self.inner.train_epoch(epoch, self.first_step)

    def loss(self) -> float:
        """The inner one's."""
        return float(self.inner.loss())

    def evaluate(self) -> dict[str, float]:
        """At the target, so that no checkpoint is written."""
        return {"top1": 1.0}


class Nothing(Tail):
    """Steps that take no time."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """As many as asked for."""
        yield from (32 for _ in range(self.steps))

    def loss(self) -> float:
        """None to tell."""
        return 0.0


def ours(training: Any, folder: Path) -> float:
    """Seconds of a run of one epoch under the harness."""
    with MllogWriter(folder / "log") as log:
        keeper = CheckpointKeeper(folder / "state", log, SingleRank(), UnheardSignals(), 300.0)
        progress = Progress("benchmark", 4800, training.loss, GOAL.targets, silent=True)
        began = time.perf_counter()
        train_to_quality(training, GOAL, log, keeper, SingleRank(), progress)
        return time.perf_counter() - began


def theirs(training: Any) -> float:
    """Seconds of the same steps in a bare loop."""
    began = time.perf_counter()
    for _ in training.train_epoch(1):
        pass
    training.loss()
    return time.perf_counter() - began


def main() -> None:
    given = arguments(__doc__ or "", pairs=8, steps=12)
    with TemporaryDirectory() as folder:
        request = resolve_request(options(Path(folder), given.threads), "resnet50")
        seeds.seed_generators(1, 0, "torch")
        training = request.workload.build_training(request.build_run(1, Precision.FP32))
        steps = -(
            -int(str(training.facts()["train_samples"]))
            // int(str(request.settings["global_batch_size"]))
        )
        tail = Tail(training, steps - given.steps)
        theirs(tail)  # the first one starts the loader's workers and fills caches
        pairs = [
            (
                (ours(tail, Path(folder)), theirs(tail))
                if turn % 2
                else (theirs(tail), ours(tail, Path(folder)))[::-1]
            )
            for turn in range(given.pairs)
        ]
        figure = compare(
            [pair[0] for pair in pairs], [pair[1] for pair in pairs], f"s per {given.steps} steps"
        )
        empty_epoch_s = min(ours(Nothing(0), Path(folder)) for _ in range(20))
        step_s = (
            ours(Nothing(NULL_STEPS), Path(folder)) - theirs(Nothing(NULL_STEPS))
        ) / NULL_STEPS
        epoch_s = figure.theirs / given.steps * steps
        own = (empty_epoch_s + step_s * steps) / epoch_s
        save_s = checkpoint(training, Path(folder))
        notes = {
            "checkpoint": (
                f"{save_s:.2f} s after each evaluation but the last: {save_s / epoch_s:.2%} of that"
                " epoch"
            ),
            "loop alone": (
                f"{step_s * 1e9:.0f} ns a step and {empty_epoch_s * 1e6:.0f} us an epoch: {own:.5%}"
                f" of an epoch of {epoch_s:.1f} s"
            ),
        }
        if given.form == "text":
            notes["profile"] = "\n" + profile(
                Path(folder) / "profiled"
            )  # a folder of its own: nothing there to resume from
        show(
            "timed loop against a bare loop, ResNet-50 smoke; below 1.02 is the aim",
            figure,
            given.form,
            notes,
        )


def checkpoint(training: Any, folder: Path) -> float:
    """Seconds of one checkpoint, on the disk: inside the clock, but not of the loop's own
    making.
    """
    with MllogWriter(folder / "log") as log:
        keeper = CheckpointKeeper(folder / "state", log, SingleRank(), UnheardSignals(), 300.0)
        began = time.perf_counter()
        keeper.save(training, TrainingPosition(epoch=1))
        return time.perf_counter() - began


def profile(folder: Path) -> str:
    """Profile the loop itself."""
    folder.mkdir()
    profiler = cProfile.Profile()
    profiler.runcall(ours, Nothing(NULL_STEPS), folder)
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).strip_dirs().sort_stats("tottime").print_stats(6)
    return "\n".join(line for line in text.getvalue().splitlines() if line.strip())[:1500]


if __name__ == "__main__":
    main()
