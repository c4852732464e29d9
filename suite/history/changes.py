"""Change points of a series of results, commit after commit.

The logarithms of one level scatter around a mean. After each result, every commit since the last
change is tried as the first of a new level: Student's t of what lies behind it against what lies
before it, with the noise of all levels so far. The most unlikely one is a change if its p is below
MAX_P. What is found depends on results up to that commit alone, so that a later result never moves
or removes a change. A single disturbed result changes nothing: values far from the level's median
count as less far (winsorising; Huber 1981, Robust Statistics), and MIN_AFTER results have to agree.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final, TypeAlias

from suite.measurement import student

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# Legend: C commits of a level, K commits that may begin a new one.
Floats: TypeAlias = "npt.NDArray[np.float64]"
Integers: TypeAlias = "npt.NDArray[np.int64]"

MAX_P: Final = 1e-4
"""Level of the test of one commit. Every result tests up to TRIED_COMMITS of them again: in
benchmarks/history.py, noise has less than one change in 1,000 commits.
"""
MIN_BEFORE: Final = 4
"""Results that a level has before another one may begin."""
MIN_AFTER: Final = 3
"""Results of a new level: two might be one disturbance of the machine."""
TRIED_COMMITS: Final = 50
"""Commits that may still turn out to begin a new level; older ones have been tried before."""
NOISE_COMMITS: Final = 100
"""Latest results whose differences tell what is far from a level."""
FAR: Final = 3.5
"""Standard deviations beyond which a value counts as this far: normal noise exceeds it once in
2,000 results.
"""
NORMAL_QUARTILE: Final = 0.674490
"""Quantile of the normal distribution, 75 %: the median absolute value of standard normal noise."""
LEAST_NOISE: Final = 1e-4
"""Noise that is assumed at least, as a share: equal counts may agree to the last digit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A new level of results."""

    index: int
    """First result of the new level, counted from 0. Where noise hides it, it may be off by some.
    """
    found_at: int
    """Result that showed it."""
    before: float
    """Median of the level before."""
    after: float
    """Median of the new level, up to the next change."""
    ratio: float
    """after / before."""
    p: float
    """Two-sided, of Student's t at `found_at`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelNoise:
    """What the levels before the last change say about noise."""

    squares: float = 0.0
    """Sum of squared deviations from their means."""
    dof: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The most unlikely first commit of a new level."""

    place: int
    """Counted from the level's beginning."""
    p: float
    noise: LevelNoise
    """Of all levels up to it."""


def find_changes(values: Sequence[float], noise: float | None = None) -> list[Change]:
    """Find the changes of level.

    Args:
        values: results in the order of their commits, positive.
        noise: standard deviation of a result, as a share, which pairs of equal runs show; what the
            series shows is used where it is larger, since days differ more than minutes do.

    Raises:
        ValueError: a value is not positive, or the noise is below 0.
    """
    import numpy as np

    if not all(0.0 < value < math.inf for value in values):
        raise ValueError("a history consists of positive numbers")
    if noise is not None and not 0.0 <= noise < math.inf:
        raise ValueError(f"noise is a share, not {noise!r}")
    floor = max(noise or 0.0, LEAST_NOISE)
    log_C = np.log(np.asarray(values, dtype=np.float64))
    start, known = 0, LevelNoise()
    found: list[tuple[int, int, float]] = []
    for end in range(MIN_BEFORE + MIN_AFTER, len(values) + 1):
        if end - start < MIN_BEFORE + MIN_AFTER:
            continue
        recent = max(floor, estimate_recent_noise(log_C[max(0, end - NOISE_COMMITS) : end]))
        split = find_split(limit_outliers(log_C[start:end], recent), known, floor)
        if split.p < MAX_P:
            start, known = start + split.place, split.noise
            found.append((start, end - 1, split.p))
    return describe_changes(values, found)


def estimate_recent_noise(log_C: Floats) -> float:
    """Estimate the noise from neighbours' differences, which few changes and outliers affect."""
    import numpy as np

    return float(np.median(np.abs(np.diff(log_C)))) / (NORMAL_QUARTILE * math.sqrt(2))


def limit_outliers(log_C: Floats, noise: float) -> Floats:
    """Return deviations from the median, none of them beyond FAR."""
    import numpy as np

    return np.clip(log_C - np.median(log_C), -FAR * noise, FAR * noise)


def find_split(deviation_C: Floats, known: LevelNoise, floor: float) -> Split:
    """Find the commit that most probably begins a new level.

    Args:
        deviation_C: logarithms of a level, and perhaps of the next one.
        known: noise of the levels before.
        floor: least noise.
    """
    import numpy as np

    count = len(deviation_C)
    sum_C, square_C = np.cumsum(deviation_C), np.cumsum(deviation_C**2)
    first = max(MIN_BEFORE, count - TRIED_COMMITS)
    before_K = np.arange(first, count - MIN_AFTER + 1)
    after_K = count - before_K
    lower_K = sum_C[before_K - 1] / before_K
    upper_K = (sum_C[-1] - sum_C[before_K - 1]) / after_K
    dof = count - 2 + known.dof
    rest_K = square_C[-1] - before_K * lower_K**2 - after_K * upper_K**2
    noise_K = np.maximum(np.sqrt(np.maximum(rest_K + known.squares, 0.0) / dof), floor)
    t_K = np.abs(upper_K - lower_K) / (noise_K * np.sqrt(1 / before_K + 1 / after_K))
    best = int(np.argmax(t_K))
    place = int(before_K[best])
    squares = max(0.0, float(square_C[place - 1] - place * lower_K[best] ** 2))
    return Split(
        place=place,
        p=student.compute_t_two_sided(float(t_K[best]), dof),
        noise=LevelNoise(squares=known.squares + squares, dof=known.dof + place - 1),
    )


def describe_changes(
    values: Sequence[float], found: Sequence[tuple[int, int, float]]
) -> list[Change]:
    """Describe changes by the levels around them.

    Args:
        values: all results.
        found: first result of each new level, the result that showed it, and p.
    """
    starts = [0, *(start for start, _, _ in found), len(values)]
    levels = [
        median(values[start:end])
        for start, end in zip(starts[:-1], starts[1:], strict=True)
        if end > start
    ]
    return [
        Change(
            index=start,
            found_at=shown,
            before=levels[number],
            after=levels[number + 1],
            ratio=levels[number + 1] / levels[number],
            p=p,
        )
        for number, (start, shown, p) in enumerate(found)
    ]
