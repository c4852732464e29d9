"""Test a set against its round's reference convergence points: did its runs need as much training
as the reference's?
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from statistics import fmean, median
from typing import Final

from compliance.kinds.training.convergence_points import (
    ConvergencePoint,
    ConvergenceReference,
    drop_extremes,
    find_convergence_reference,
)
from compliance.kinds.training.documents.log import GLOBAL_BATCH_KEY, PublishedSet
from compliance.logs.finite_numbers import is_finite_number
from suite.files.untrusted_files import open_regular_file

SCALING_FILE: Final = "scaling.json"
MAX_SCALING_BYTES: Final = 1 << 16
FILED_FACTOR_TOLERANCE: Final = 0.01
"""Points were revised after some rounds; a filed factor within one per cent is the set's own."""
NEVER_CONVERGED: Final = 1e9
"""Value for a run that missed the target. Source: mlcommons/logging, rcp_checker.py."""
BISECTION_STEPS: Final = 60
MAX_MEAN_MULTIPLE: Final = 100.0
"""Upper limit for the needs of future runs, as a multiple of the reference's mean."""


class ConvergenceOutcome(StrEnum):
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

    outcome: ConvergenceOutcome
    batch: float
    mean: float | None
    """Mean of the runs' needs, without the extremes; None while runs are missing."""
    factor: float
    """Factor by which the minutes are multiplied."""
    point: ConvergencePoint | None
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
    filed: bool = False
    """The runs need less than chance allows, but the set was filed with the factor that makes up
    for it.
    """


def judge_set_convergence(group: PublishedSet) -> Convergence | None:
    """Test a closed set; None in the open division, if the round has no points, or if the logs lack
    the required facts.
    """
    row, batch = group.row, group.logs[0].find_value(GLOBAL_BATCH_KEY) if group.logs else None
    if (
        row is None
        or not row.progress
        or group.benchmark is None
        or not is_finite_number(batch)
        or not all(log.closed for log in group.logs)
    ):
        return None
    known = find_convergence_reference(group.round, group.benchmark, row)
    if known is None or any(log.find_value(GLOBAL_BATCH_KEY) != batch for log in group.logs):
        return None
    needed = [log.converged_at if log.succeeded else NEVER_CONVERGED for log in group.logs]
    known_needs = [value for value in needed if value is not None]
    if (
        len(known_needs) < len(needed)
        or sum(value == NEVER_CONVERGED for value in known_needs) > group.missed_allowed
        or len(known_needs) > row.runs
    ):
        return None
    found = compare_needs_with_points(
        known, float(batch), known_needs, compute_evaluation_step(group)
    )
    return accept_filed_factor(found, read_filed_factor(group.folder))


def accept_filed_factor(found: Convergence, filed: float | None) -> Convergence:
    """Accept a set that fails the test, if it was filed with the factor by which it trained less
    than the reference: its published time is multiplied by it.
    """
    if (
        found.outcome is not ConvergenceOutcome.FAIL
        or filed is None
        or found.point is None
        or not found.mean
        or abs(filed * found.mean / found.point.mean - 1) > FILED_FACTOR_TOLERANCE
    ):
        return found
    return replace(found, outcome=ConvergenceOutcome.FACTOR, factor=filed, filed=True)


def read_filed_factor(folder: Path) -> float | None:
    """Return the factor by which the checker found a set's times to be multiplied, from the file
    that it writes beside the logs; None without one.

    Source: mlcommons/logging, rcp_checker.py, _set_results_scaling: scaling.json.
    """
    try:
        with open_regular_file(folder / SCALING_FILE) as stream:
            table = json.loads(stream.read(MAX_SCALING_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    factor = None
    if isinstance(table, dict):
        factor = table.get("scaling_factor")
    if is_finite_number(factor):
        return float(factor)
    return None


def compare_needs_with_points(
    known: ConvergenceReference, batch: float, needed: Sequence[float], step: float | None
) -> Convergence:
    """Compare the runs' needs with the points of a batch size."""
    point = known.find_point(batch)
    smallest = None
    if batch < known.points[0].batch:
        smallest = known.points[0]
    against = point or smallest
    if against is None:
        return Convergence(
            outcome=ConvergenceOutcome.MISSING,
            batch=batch,
            mean=None,
            factor=1.0,
            point=None,
            least=None,
        )
    least = against.least - known.earlier
    if len(needed) < known.runs:
        left = known.runs - len(needed)
        others = compute_need_of_missing_runs(needed, left, least, known)
        return Convergence(
            outcome=ConvergenceOutcome.INCOMPLETE,
            batch=batch,
            mean=None,
            factor=1.0,
            point=against,
            least=least,
            missing=left,
            others_need=others,
        )
    mean = fmean(drop_extremes(needed, known.ends))
    counted = len(needed) - 2 * known.ends
    spare = None
    if step:
        spare = int((mean - least) * counted // step)
    factor = 1.0
    if mean:
        factor = max(1.0, against.mean / mean)
    if mean < least:
        outcome = ConvergenceOutcome.FAIL
    elif factor > 1:
        outcome = ConvergenceOutcome.FACTOR
    else:
        outcome = ConvergenceOutcome.PASS
    if smallest and outcome is ConvergenceOutcome.FAIL:
        outcome = ConvergenceOutcome.MISSING
    passed = outcome in (ConvergenceOutcome.PASS, ConvergenceOutcome.FACTOR)
    return Convergence(
        outcome=outcome,
        batch=batch,
        mean=mean,
        factor=factor if passed else 1.0,
        point=against,
        least=least,
        spare=spare,
    )


def compute_need_of_missing_runs(
    needed: Sequence[float], left: int, least: float, known: ConvergenceReference
) -> float:
    """Return the need of each missing run, equal for all, with which the mean passes."""
    low, high = 0.0, MAX_MEAN_MULTIPLE * known.points[-1].mean
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        if fmean(drop_extremes([*needed, *[middle] * left], known.ends)) >= least:
            low, high = low, middle
        else:
            low, high = middle, high
    return high


def compute_evaluation_step(group: PublishedSet) -> float | None:
    """Return the usual distance between evaluations; None if no log has two."""
    gaps = [
        late.epoch - early.epoch
        for log in group.logs
        for early, late in zip(log.evaluations, log.evaluations[1:], strict=False)
        if early.epoch is not None and late.epoch is not None and late.epoch > early.epoch
    ]
    if gaps:
        return median(gaps)
    return None
