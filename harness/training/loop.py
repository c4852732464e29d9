"""The timed loop: one function for all workloads, and the result that it returns.

The clock never pauses between run_start and run_stop: it includes checkpoints, logging and
evaluation.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from enum import StrEnum

from harness.distributed import Ranks
from harness.progress import Progress
from harness.training.mllog_writer import LogError, MllogWriter
from harness.training.state.checkpointing import CheckpointKeeper, EpochPhase, TrainingPosition
from suite import events
from suite.errors import JudgedError
from suite.rounds.quality import (
    describe_possible_values,
    has_reached_target,
    is_possible_value,
)
from suite.workload import ExampleTraining, Scores, Training


class RunEnding(StrEnum):
    """How a run ended."""

    REACHED = "target reached"
    MISSED = "target not reached"
    NOT_A_NUMBER = "not a number"
    BROKEN = "aborted"


@dataclass(slots=True, kw_only=True)
class TrainingOutcome:
    """Result of a run."""

    ending: RunEnding = RunEnding.MISSED
    scores: Mapping[str, float] = field(default_factory=dict)
    """Scores of the last evaluation."""
    epoch: int = 0
    minutes: float = 0.0
    """Between run_start and run_stop, by the log's own timestamps."""

    @property
    def status(self) -> str:
        """Return the status of run_stop."""
        if self.ending is RunEnding.REACHED:
            return events.SUCCESS
        return events.ABORTED

    def record_evaluation(
        self, epoch: int, loss: float, scores: Scores, goal: "TrainingGoal"
    ) -> bool:
        """Record an evaluation; return whether the run is over: NaN ends it, as does reaching the
        target in all metrics.
        """
        self.epoch, self.scores = epoch, dict(scores)
        if not all(math.isfinite(value) for value in (loss, *scores.values())):
            self.ending = RunEnding.NOT_A_NUMBER
        elif has_reached_target(scores, goal.targets, goal.lower_is_better):
            self.ending = RunEnding.REACHED
        return self.ending is not RunEnding.MISSED


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingGoal:
    """Targets and log keys of a run: the round's numbers, which the judge reads too."""

    targets: Scores
    metrics: Mapping[str, str]
    """Metric -> its key in a structured eval_accuracy; "": the value is the number itself."""
    lower_is_better: tuple[str, ...] = ()
    """Metrics whose target is reached at most, not at least."""
    evaluations_below: Mapping[str, float] = field(default_factory=dict)
    """Metric -> value that the judge wants every evaluation below."""
    counts_samples: bool = False
    """Blocks and evaluations log the samples trained so far."""

    def check_scores(self, epoch: int, scores: Scores) -> None:
        """Raise JudgedError for a finite score that the judge would refuse, so that nothing more is
        trained or served.
        """
        for metric, value in scores.items():
            scale = metric, self.lower_is_better, self.evaluations_below
            if math.isfinite(value) and not is_possible_value(value, *scale):
                raise JudgedError(
                    f"after epoch {epoch} {metric} is {value:g}, and the judge expects"
                    f" {describe_possible_values(*scale)} (training.accuracy):"
                    f" {advise_on_score(value)}"
                )

    def build_samples_metadata(self, samples: int) -> dict[str, int]:
        """Return the metadata with the samples trained so far; empty if epochs alone count."""
        if self.counts_samples:
            return {events.SAMPLES_COUNT: samples}
        return {}


def advise_on_score(value: float) -> str:
    """Say what to do about a score that the judge would refuse."""
    if value < 0:
        return "evaluate() returns shares of 1, or losses, which are never negative"
    if value > 1:
        return "evaluate() returns shares of 1, not percentages"
    return "this benchmark's own round takes no perfect score: evaluate more or harder samples"


def train_to_quality(
    training: Training,
    goal: TrainingGoal,
    log: MllogWriter,
    keeper: CheckpointKeeper,
    ranks: Ranks,
    progress: Progress,
) -> TrainingOutcome:
    """Train until every target is reached, a loss or score is not finite, or the workload has no
    more epochs.

    Runs on all ranks; rank 0 logs and decides. A checkpoint in `keeper` is resumed.
    """
    position = keeper.restore(training)
    with log_run_markers(log, position) as (position, outcome):
        for leg in position.iterate_remaining_blocks(training.blocks()):
            loss, trained = 0.0, position.earlier_samples
            if leg.fresh:
                log.log_start(
                    events.BLOCK_START,
                    first_epoch_num=leg.block.start,
                    epoch_count=len(leg.block),
                    **goal.build_samples_metadata(trained),
                )
            for epoch, first_step, done in leg.epochs:
                if not first_step:
                    log.log_start(events.EPOCH_START, epoch_num=epoch)
                progress.begin_epoch(epoch, done)
                steps_taken, done = train_steps(
                    training, epoch, first_step, done, position, keeper, progress
                )
                trained += done
                log.log_stop(events.EPOCH_STOP, epoch_num=epoch)
                loss = ranks.share_value(
                    get_epoch_loss(training, steps_taken, position) if ranks.leads else 0.0
                )
                log.log_point(events.THROUGHPUT, progress.end_epoch(loss), epoch_num=epoch)
                if not math.isfinite(loss):
                    break  # the evaluation below ends the run
                position = replace(
                    position,
                    epoch=epoch,
                    step=0,
                    samples=0,
                    earlier_samples=trained,
                    phase=EpochPhase.TRAINED,
                    log_offset=log.offset,
                    loss=None,
                )
                keeper.save_if_due_after_epoch(training, position)
            counted = goal.build_samples_metadata(trained)
            log.log_stop(events.BLOCK_STOP, first_epoch_num=leg.block.start, **counted)
            log.log_start(events.EVAL_START, epoch_num=leg.block[-1], **counted)
            progress.show_evaluation()
            diverged = not math.isfinite(loss)  # its position was not kept, and it ends here
            with nullcontext() if diverged else keeper.save_on_signal(training, position):
                scores = ranks.share_value(
                    {metric: float(value) for metric, value in training.evaluate().items()}
                )
            log_example(training, scores, log, ranks, leg.block[-1])
            log.log_point(
                events.EVAL_ACCURACY,
                build_logged_scores(scores, goal.metrics),
                epoch_num=leg.block[-1],
                **counted,
            )
            log.log_stop(events.EVAL_STOP, epoch_num=leg.block[-1], **counted)
            progress.show_scores(leg.block[-1], scores)
            goal.check_scores(leg.block[-1], scores)
            if outcome.record_evaluation(leg.block[-1], loss, scores, goal):
                break
            position = replace(
                position, phase=EpochPhase.EVALUATED, log_offset=log.offset, scores=scores
            )
            keeper.save_if_due_after_epoch(training, position, always=True)
    return outcome


def log_example(
    training: Training, scores: Mapping[str, float], log: MllogWriter, ranks: Ranks, epoch: int
) -> None:
    """Log what an evaluation looked at, if the workload describes it and the scores are finite."""
    if isinstance(training, ExampleTraining) and all(map(math.isfinite, scores.values())):
        log.log_point(
            events.EXAMPLE, dict(training.example()) if ranks.leads else None, epoch_num=epoch
        )


def train_steps(
    training: Training,
    epoch: int,
    first_step: int,
    done: int,
    position: TrainingPosition,
    keeper: CheckpointKeeper,
    progress: Progress,
) -> tuple[int, int]:
    """Train an epoch from step `first_step` on, after `done` of its samples; the run may be saved
    or stopped after each step. Return the steps taken, and all samples of the epoch.
    """
    step = first_step
    with closing(training.train_epoch(epoch, first_step)) as steps:
        for step, samples in enumerate(steps, first_step + 1):
            done += samples
            progress.record_step(done)
            keeper.save_if_due_in_epoch(training, epoch, step, done, position)
    return step - first_step, done


def get_epoch_loss(training: Training, steps_taken: int, position: TrainingPosition) -> float:
    """Return the loss of an epoch's last step; where all steps were taken before the run was
    resumed, the one that was saved with it.
    """
    if steps_taken or position.loss is None:
        return training.loss()
    return position.loss


@contextmanager
def log_run_markers(
    log: MllogWriter, position: TrainingPosition
) -> Iterator[tuple[TrainingPosition, TrainingOutcome]]:
    """Log run_start, or where the run resumes, and run_stop with its status, however the block
    ends.
    """
    outcome = TrainingOutcome()
    if position.epoch:
        log.log_point(
            events.RESUMED,
            None,
            epoch_num=position.epoch,
            step=position.step,
            phase=position.phase,
            log_offset=position.log_offset,
        )
    else:
        log.log_start(events.RUN_START)
        position = replace(position, run_start_ms=log.time_ms)
    try:
        yield replace(position, log_offset=log.offset), outcome
    except LogError:
        raise
    except BaseException:
        log.log_stop(events.RUN_STOP, status=events.ABORTED)
        raise
    log.log_stop(events.RUN_STOP, status=outcome.status)
    outcome.minutes = (log.time_ms - position.run_start_ms) / 60_000


def build_logged_scores(
    scores: Scores, metrics: Mapping[str, str]
) -> float | dict[str, float | None] | None:
    """Return the value of eval_accuracy: the number itself, or a dict of the round's keys; null if
    not finite.
    """
    numbers = {metric: value if math.isfinite(value) else None for metric, value in scores.items()}
    if "" in metrics.values():
        return numbers[next(metric for metric, key in metrics.items() if not key)]
    return {key: numbers[metric] for metric, key in metrics.items()}
