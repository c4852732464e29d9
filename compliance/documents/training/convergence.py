"""Tests a set against its round's reference convergence points: did its runs need as much training
as the reference's?
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median
from typing import Final

from compliance.documents.training.log import BATCH, PublishedSet
from compliance.documents.training.values import finite
from suite.rounds.convergence import Point, Reference, reference_of, trimmed

NEVER: Final = 1e9
"""Value for a run that missed the target. Source: mlcommons/logging, rcp_checker.py."""
HALVINGS: Final = 60
WIDE: Final = 100.0
"""Upper limit for what future runs may need, as a multiple of the reference's mean."""


class Outcome(StrEnum):
    """Outcome of the test."""

    PASS = "pass"
    """The runs need at least as much training as the reference's."""
    FACTOR = "pass with factor"
    """They need less, but within chance: the score is multiplied by a factor."""
    FAIL = "fail"
    """They need less than chance allows."""
    MISSING = "no point"
    """The round has no point for this batch size: it is larger than all, or smaller than all and
    the runs need less.
    """
    INCOMPLETE = "incomplete"
    """Runs are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """The test's result for a set."""

    outcome: Outcome
    batch: float
    mean: float | None
    """Mean of what the runs needed, without the extremes; None while runs are missing."""
    factor: float
    """Factor by which the minutes are multiplied."""
    point: Point | None
    least: float | None
    """The smallest passing mean."""
    spare: int | None = None
    """Number of runs that could have needed one evaluation less with the set still passing; below
    0, that many would have to need one more.
    """
    missing: int = 0
    """Runs still missing."""
    others_need: float | None = None
    """The smallest mean of the missing runs with which the set passes."""


def convergence_of(group: PublishedSet) -> Convergence | None:
    """Test a closed set; None in the open division, if the round has no points, or if the logs lack
    the required facts.
    """
    row, batch = group.row, group.logs[0].value(BATCH) if group.logs else None
    if (
        row is None
        or not row.progress
        or group.benchmark is None
        or not finite(batch)
        or not all(log.closed for log in group.logs)
    ):
        return None
    known = reference_of(group.round, group.benchmark, row)
    if known is None or any(log.value(BATCH) != batch for log in group.logs):
        return None
    needed = [log.converged_at if log.succeeded else NEVER for log in group.logs]
    told = [value for value in needed if value is not None]
    if (
        len(told) < len(needed)
        or sum(value == NEVER for value in told) > group.missed_allowed
        or len(told) > row.runs
    ):
        return None
    return held(known, float(batch), told, step_of(group))


def held(
    known: Reference, batch: float, needed: Sequence[float], step: float | None
) -> Convergence:
    """Compare what the runs needed with the points of a batch size."""
    point = known.at(batch)
    smallest = known.points[0] if batch < known.points[0].batch else None
    against = point or smallest
    if against is None:
        return Convergence(
            outcome=Outcome.MISSING, batch=batch, mean=None, factor=1.0, point=None, least=None
        )
    least = against.least - known.earlier
    if len(needed) < known.runs:
        left = known.runs - len(needed)
        others = needed_of_others(needed, left, least, known)
        return Convergence(
            outcome=Outcome.INCOMPLETE,
            batch=batch,
            mean=None,
            factor=1.0,
            point=against,
            least=least,
            missing=left,
            others_need=others,
        )
    mean = fmean(trimmed(needed, known.ends))
    counted = len(needed) - 2 * known.ends
    spare = int((mean - least) * counted // step) if step else None
    factor = max(1.0, against.mean / mean) if mean else 1.0
    outcome = Outcome.FAIL if mean < least else Outcome.FACTOR if factor > 1 else Outcome.PASS
    if smallest and outcome is Outcome.FAIL:
        outcome = Outcome.MISSING
    passed = outcome in (Outcome.PASS, Outcome.FACTOR)
    return Convergence(
        outcome=outcome,
        batch=batch,
        mean=mean,
        factor=factor if passed else 1.0,
        point=against,
        least=least,
        spare=spare,
    )


def needed_of_others(needed: Sequence[float], left: int, least: float, known: Reference) -> float:
    """Return what each missing run needs at least, all alike, for the mean to pass."""
    low, high = 0.0, WIDE * known.points[-1].mean
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (
            (low, middle)
            if fmean(trimmed([*needed, *[middle] * left], known.ends)) >= least
            else (middle, high)
        )
    return high


def step_of(group: PublishedSet) -> float | None:
    """Return the usual distance between evaluations; None if no log has two."""
    gaps = [
        late.epoch - early.epoch
        for log in group.logs
        for early, late in zip(log.evaluations, log.evaluations[1:], strict=False)
        if early.epoch is not None and late.epoch is not None and late.epoch > early.epoch
    ]
    return median(gaps) if gaps else None
