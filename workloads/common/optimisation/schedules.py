"""Learning rates as pure functions of the step, counted from 0; schedules have no state that a
resumed run could lose.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import TypeAlias

from suite.rounds import TrainingRow

RateSchedule: TypeAlias = Callable[[int], float]
"""Step of the run, counted from 0 -> its learning rate."""


def build_linear_warmup(
    schedule: RateSchedule, base: float, warm_up_steps: int, halvings: int = 0
) -> RateSchedule:
    """Rise linearly to `base`, then follow the schedule; mlcommons/training, resnet-tf2,
    lars_util.py.

    The rise starts from 0, or with `halvings` k covers only the last 1 / 2^k: base - (W - step)
    base / (W 2^k); training_rules.adoc v0.6, Hyperparameters.
    """
    full_rise_steps: int = warm_up_steps * 2**halvings

    def compute_rate(step: int) -> float:
        if step < warm_up_steps:
            return base * (full_rise_steps - warm_up_steps + step) / full_rise_steps
        return schedule(step)

    return compute_rate


def build_warmup_from_factor(
    schedule: RateSchedule, factor: float, warm_up_steps: int
) -> RateSchedule:
    """Rise linearly from `factor` times the schedule to the schedule itself; mlcommons/training,
    maskrcnn, solver/lr_scheduler.py.
    """

    def compute_rate(step: int) -> float:
        if step < warm_up_steps:
            return schedule(step) * (1 - (1 - factor) * (1 - step / warm_up_steps))
        return schedule(step)

    return compute_rate


def build_polynomial_decay(
    base: float, end: float, power: float, warm_up_steps: int, decay_steps: int
) -> RateSchedule:
    """Fall from `base` after the warm-up to `end` at `decay_steps`, then stay constant.

    (base - end) (1 - (step - W) / (T - W + 1))^power + end; mlcommons/training, resnet-tf2,
    lars_util.py.
    """

    def compute_rate(step: int) -> float:
        left = 1 - (step - warm_up_steps) / (decay_steps - warm_up_steps + 1)
        return (base - end) * float(max(0.0, left) ** power) + end

    return compute_rate


def build_cosine_decay(
    base: float, end: float, warm_up_steps: int, decay_steps: int
) -> RateSchedule:
    """Fall from `base` after the warm-up to `end` at step `decay_steps` along half a cosine, then
    stay constant; Loshchilov and Hutter 2017, arXiv:1608.03983, equation 5.
    """

    def compute_rate(step: int) -> float:
        share = min(1.0, max(0, step - warm_up_steps) / max(1, decay_steps - warm_up_steps))
        return end + (base - end) * (1 + math.cos(math.pi * share)) / 2

    return compute_rate


def build_step_decay(base: float, factor: float, boundaries: Sequence[int]) -> RateSchedule:
    """Multiply by `factor` at each boundary; mlcommons/training, resnet-tf1, resnet_run_loop.py."""
    return lambda step: base * factor ** sum(step >= boundary for boundary in boundaries)


def iterate_epoch_blocks(row: TrainingRow) -> Iterator[range]:
    """Yield the epochs between two evaluations; the last block may be shorter."""
    start = 1
    for stop in iterate_evaluation_epochs(row):
        yield range(start, min(stop, row.max_epochs) + 1)
        start = stop + 1
        if start > row.max_epochs:
            return


def iterate_evaluation_epochs(row: TrainingRow) -> Iterator[int]:
    """Yield the epochs followed by an evaluation: those in the row, or every k-th."""
    if row.evaluation_epochs:
        yield from row.evaluation_epochs
        return
    yield from count(
        row.evaluate_offset_epochs[0] or row.evaluate_every_epochs, row.evaluate_every_epochs
    )
