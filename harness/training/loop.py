"""The timed loop: one function for all workloads, and the result that it returns.

The clock never pauses between run_start and run_stop: it includes checkpoints, logging and
evaluation.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum

from harness.distributed import Ranks
from harness.progress import Progress
from harness.training.mllog_writer import Log, LogError
from harness.training.state.checkpointing import Keeper, Phase, Position
from suite import events
from suite.workload import ExampleTraining, Scores, Training


class Ending(StrEnum):
    """How a run ended."""

    REACHED = "target reached"
    MISSED = "target not reached"
    NOT_A_NUMBER = "not a number"
    BROKEN = "aborted"


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Result of a run."""

    ending: Ending = Ending.MISSED
    scores: Mapping[str, float] = field(default_factory=dict)
    """Scores of the last evaluation."""
    epoch: int = 0
    minutes: float = 0.0
    """Between run_start and run_stop, by the log's own timestamps."""

    @property
    def status(self) -> str:
        """Return the status of run_stop."""
        return events.SUCCESS if self.ending is Ending.REACHED else events.ABORTED

    def judge(self, epoch: int, loss: float, scores: Scores, targets: Scores) -> bool:
        """Record an evaluation; return whether the run is over: NaN ends it, as does reaching the
        target in all metrics.
        """
        self.epoch, self.scores = epoch, dict(scores)
        if not all(math.isfinite(value) for value in (loss, *scores.values())):
            self.ending = Ending.NOT_A_NUMBER
        elif all(scores[metric] >= target for metric, target in targets.items()):
            self.ending = Ending.REACHED
        return self.ending is not Ending.MISSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Targets and log keys of a run: the round's numbers, which the judge reads too."""

    targets: Scores
    metrics: Mapping[str, str]
    """Metric -> its key in a structured eval_accuracy; "": the value is the number itself."""


def train_to_quality(
    training: Training, goal: Goal, log: Log, keeper: Keeper, ranks: Ranks, progress: Progress
) -> Outcome:
    """Train until every target is reached, a loss or score is not finite, or the workload has no
    more epochs.

    Runs on all ranks; rank 0 logs and decides. A checkpoint in `keeper` is resumed.
    """
    at = keeper.restore(training)
    with run_markers(log, at) as (at, outcome):
        for leg in at.remaining(training.blocks()):
            loss = 0.0
            if leg.fresh:
                log.start(
                    events.BLOCK_START, first_epoch_num=leg.block.start, epoch_count=len(leg.block)
                )
            for epoch, first_step, done in leg.epochs:
                if not first_step:
                    log.start(events.EPOCH_START, epoch_num=epoch)
                progress.begin(epoch, done)
                taken = take_steps(training, epoch, first_step, done, at, keeper, progress)
                log.stop(events.EPOCH_STOP, epoch_num=epoch)
                loss = ranks.share(loss_of(training, taken, at) if ranks.leads else 0.0)
                log.point(events.THROUGHPUT, progress.end(loss), epoch_num=epoch)
                if not math.isfinite(loss):
                    break  # the evaluation below ends the run
                at = replace(at, epoch=epoch, step=0, samples=0, phase=Phase.TRAINED, loss=None)
                keeper.between(training, at)
            log.stop(events.BLOCK_STOP, first_epoch_num=leg.block.start)
            log.start(events.EVAL_START, epoch_num=leg.block[-1])
            progress.evaluating()
            with keeper.settled(training, at):
                scores = ranks.share(
                    {metric: float(value) for metric, value in training.evaluate().items()}
                )
            log_example(training, scores, log, ranks, leg.block[-1])
            log.point(
                events.EVAL_ACCURACY, logged_scores(scores, goal.metrics), epoch_num=leg.block[-1]
            )
            log.stop(events.EVAL_STOP, epoch_num=leg.block[-1])
            progress.evaluated(leg.block[-1], scores)
            if outcome.judge(leg.block[-1], loss, scores, goal.targets):
                break
            at = replace(at, phase=Phase.EVALUATED, scores=scores)
            keeper.between(training, at, always=True)
    return outcome


def log_example(
    training: Training, scores: Mapping[str, float], log: Log, ranks: Ranks, epoch: int
) -> None:
    """Log what an evaluation looked at, where the workload tells it and the scores are finite."""
    if isinstance(training, ExampleTraining) and all(map(math.isfinite, scores.values())):
        log.point(
            events.EXAMPLE, dict(training.example()) if ranks.leads else None, epoch_num=epoch
        )


def take_steps(
    training: Training,
    epoch: int,
    first_step: int,
    done: int,
    at: Position,
    keeper: Keeper,
    progress: Progress,
) -> int:
    """Train an epoch from step `first_step` on, after `done` of its samples; the run may be saved
    or stopped after each step. Return the steps taken.
    """
    step = first_step
    with closing(training.train_epoch(epoch, first_step)) as steps:
        for step, samples in enumerate(steps, first_step + 1):
            done += samples
            progress.step(done)
            keeper.step(training, epoch, step, done, at)
    return step - first_step


def loss_of(training: Training, taken: int, at: Position) -> float:
    """Return the loss of an epoch's last step; where all steps were taken before the run was
    resumed, the one that was saved with it.
    """
    return training.loss() if taken or at.loss is None else at.loss


@contextmanager
def run_markers(log: Log, at: Position) -> Iterator[tuple[Position, Outcome]]:
    """Log run_start, or where the run resumes, and run_stop with its status, however the block
    ends.
    """
    outcome = Outcome()
    if at.epoch:
        log.point(
            events.RESUMED,
            None,
            epoch_num=at.epoch,
            step=at.step,
            phase=at.phase,
            log_offset=at.log_offset,
        )
    else:
        log.start(events.RUN_START)
        at = replace(at, run_start_ms=log.time_ms)
    try:
        yield at, outcome
    except LogError:
        raise
    except BaseException:
        log.stop(events.RUN_STOP, status=events.ABORTED)
        raise
    log.stop(events.RUN_STOP, status=outcome.status)
    outcome.minutes = (log.time_ms - at.run_start_ms) / 60_000


def logged_scores(
    scores: Scores, metrics: Mapping[str, str]
) -> float | dict[str, float | None] | None:
    """Return the value of eval_accuracy: the number itself, or a dict of the round's keys; null if
    not finite.
    """
    numbers = {metric: value if math.isfinite(value) else None for metric, value in scores.items()}
    if "" in metrics.values():
        return numbers[next(metric for metric, key in metrics.items() if not key)]
    return {key: numbers[metric] for metric, key in metrics.items()}
