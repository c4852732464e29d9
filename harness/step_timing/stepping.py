"""A training as a system under test: each of LoadGen's queries is one optimizer step."""

import math
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from harness.data_survey import add_survey_results
from harness.distributed import SingleRank
from harness.engines.null import NULL_ANSWER, NullInference
from harness.training.request import TrainingRequest
from harness.training.run_context import TrainingContext
from harness.training.step_preparation import prepare_and_report_steps
from harness.training.timed_run import build_checked_training
from suite import events
from suite.engine import Engine
from suite.errors import JudgedError, RequestError
from suite.workload import Inference, Run, Training

WARM_UP_STEPS: Final = 3
"""House rule: the first step starts data workers and chooses kernels; a compiled one may be built
anew at the second.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SteppingWorkload:
    """Builds the training in LoadGen's process."""

    training: TrainingRequest
    batch: int
    """Samples of an optimizer step."""

    def build_inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> Inference:
        """Build the training of a run, with its steps prepared. There are no weights yet, and no
        engine serves.
        """
        job = TrainingContext(training=self.training, ranks=SingleRank())
        training, facts = build_checked_training(job, add_survey_results(job.request, run))
        prepare_and_report_steps(job, training)
        return NullInference(
            sample_count=max(self.batch, int(str(facts[events.TRAIN_SAMPLES]))),
            performance_sample_count=self.batch,  # as many as a query has: the training chooses
            predictor=StepPredictor(training, job.name, self.batch),
        )


class StepPredictor:
    """Takes an optimizer step for each query, and waits until the device has ended it."""

    def __init__(self, training: Training, name: str, batch: int) -> None:
        self.training, self.name, self.batch = training, name, batch
        self.steps = iterate_step_samples(training)
        self.whole = 0
        """Samples of a step that counts; 0 before the first one."""

    def warm_up(self) -> None:
        """Take some steps before the clock."""
        for _ in range(WARM_UP_STEPS):
            self.take_step()

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Take a step."""
        self.take_step()
        return [NULL_ANSWER] * len(samples)

    def take_step(self) -> None:
        """Take a step of a whole batch; a smaller one, at the end of an epoch, does not count and
        another follows it, in the same query. RequestError for a step without samples, JudgedError
        if the loss is not a number.
        """
        samples = self.take_samples()
        if not self.whole:  # the first step; with fewer samples, the batch counts their tokens
            self.whole = self.batch if samples == self.batch else 1
        while samples < self.whole:
            samples += self.take_samples()
        loss = self.training.loss()  # a device may still be at work
        if not math.isfinite(loss):
            raise JudgedError(f"{self.name}: the loss is {loss}; no speed of such steps counts")

    def take_samples(self) -> int:
        """Take an optimizer step, and return its number of samples."""
        samples = next(self.steps)
        if not samples:
            raise RequestError(
                f"{self.name}: its training has steps without samples, such as self-play, of which"
                " no rate of samples can be compared"
            )
        return samples


def iterate_step_samples(training: Training) -> Generator[int, None, None]:
    """Yield the samples of each step, epoch after epoch, and from the first one again after the
    last; nothing evaluates between them. RequestError for epochs without steps.
    """
    epochs = [epoch for block in training.blocks() for epoch in block]
    for epoch in cycle(epochs):
        is_empty = True
        with closing(training.train_epoch(epoch)) as taken:
            for samples in taken:
                is_empty = False
                yield samples
        if is_empty:
            raise RequestError(f"epoch {epoch} of the training has no steps")
