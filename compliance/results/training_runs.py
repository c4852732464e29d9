"""The runs of a run set as a report draws them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from compliance.logs.finite_numbers import is_finite_number
from suite.events import (
    SAMPLES_COUNT,
)

THROUGHPUT_KEY: Final = "throughput"
LOSS_KEY: Final = "loss"
PROGRESS_NAMES: Final = {SAMPLES_COUNT: "samples", "step_num": "steps"}
"""Metadata field with a run's progress -> its name; other fields count epochs."""
EPOCHS_NAME: Final = "epochs"
SEQUENCE_LENGTH_KEY: Final = "max_sequence_length"
"""Tokens of a training sequence. Source: mlcommons/logging, closed_llama31_8b.yaml."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTrainingRun:
    """One run of a run set."""

    log: str
    """Name of its file."""
    minutes: float | None
    """From run_start to run_stop; None if the log lacks one of them."""
    evaluations: tuple[tuple[float, Mapping[str, float]], ...]
    """Minutes, or progress, and scores of each evaluation in which one was logged."""
    progress: float | None
    """Progress at the evaluation that ended it; None if not logged."""
    final: Mapping[str, float]
    """Scores of that evaluation."""
    reached: bool
    """Whether it reached its target."""
    seed: object
    """None if not logged."""
    epoch_values: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    """Metric logged once per epoch -> epochs and values."""
    token_evaluations: tuple[tuple[float, Mapping[str, float]], ...] = ()
    """Tokens trained and scores of each evaluation; empty unless the log counts sequences and
    states their length.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTrainingSet:
    """All runs of a run set, and what their evaluations are drawn over."""

    runs: tuple[DrawnTrainingRun, ...]
    progress_name: str = EPOCHS_NAME
    """Unit of the runs' progress."""
    over_progress: bool = False
    """Whether the evaluations' positions are progress, not minutes: checkpoints that are evaluated
    after the clock have no time within the run.
    """


def list_token_evaluations(
    length: object, evaluations: Iterable[tuple[object, Mapping[str, float | None]]]
) -> tuple[tuple[float, Mapping[str, float]], ...]:
    """Return tokens trained and scores of evaluations, given the tokens of a sequence and the
    sequences trained before each; empty without a length.
    """
    if not is_finite_number(length) or length <= 0:
        return ()
    return tuple(
        (float(samples) * length, known)
        for samples, scores in evaluations
        if is_finite_number(samples)
        and (known := {metric: value for metric, value in scores.items() if value is not None})
    )
