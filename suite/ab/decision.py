"""When the blocks of an A/B suffice, and what they say: a pure function of the blocks so far.

The logarithms of B / A of all blocks have a mean and a standard error. A confidence interval around
the mean is looked at after each block, so that it has to be wider than one that is looked at once:
its half-width is that of Wald's sequential test of "no difference" against `difference`
(Wald 1945, Annals of Mathematical Statistics 16), which in standard errors is
a / sqrt(I) + sqrt(I) / 2, where I is (difference / standard error)^2 and a is log(1 / error). From
I = 2 a, where that is least, it stays sqrt(2 a), and the two questions close the study: as soon as
the interval excludes 1 one side is faster, and as soon as it lies within the difference there is
none. One of the two holds at the latest at I = 8 a. Student's t takes the place of the normal
distribution, since the noise is estimated: from the blocks' differences, and from the runs of the
same side inside each block (Jennison and Turnbull 2000, Group Sequential Methods, section 4.4,
for boundaries at levels of significance). Chosen among others by benchmarks/ab.py.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist, fmean
from typing import Final

from suite.ab.blocks import (
    BLOCK_RUNS,
    MIN_NOISE,
    BlockContrasts,
    MeasuredBlock,
    compute_contrasts,
    sum_pair_squares,
)
from suite.ab.design import AbDesign
from suite.measurement import student
from suite.measurement.intervals import convert_log_to_factor

MIN_BLOCKS: Final = 2
"""Blocks without which nothing is said: one block may have a step of the machine inside."""
ESTIMATION_MARGIN: Final = 0.3
"""Added to log(1 / error): with noise that is estimated, and looks at 2 to 60 blocks, the errors in
benchmarks/ab.py stay below what is stated.
"""
MAX_STANDARD_ERRORS: Final = 3.2
"""Half-width of an interval whose information is small yet, by which differences far above the one
that matters are found early. Simulated, equal sides are then called different in 3.7, 1.7 and
1.5 % of 2,000 series at a noise of 5, 10 and 20 %.
"""


class AbVerdict(StrEnum):
    """What the blocks say."""

    A_FASTER = "a-faster"
    B_FASTER = "b-faster"
    NO_DIFFERENCE = "no-difference"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class AbDecision:
    """What the blocks so far say."""

    verdict: AbVerdict
    ratio: float | None
    """Rate of B / rate of A, geometric mean over the blocks; None without blocks."""
    low: float | None
    """Interval of the ratio, which holds however often it was looked at."""
    high: float | None
    confidence: float
    """Of the interval: 1 - alpha; of "no difference" 1 - 2 alpha, where each end holds with
    1 - alpha, as usual for equivalence (Schuirmann 1987).
    """
    noise: float | None
    """Standard deviation of single runs of one side, as a share."""
    drift: float | None
    """Highest over lowest level of all blocks, - 1; noise of half a run's in each level included.
    """
    blocks_used: int
    runs: int
    """All runs, also those of disturbed blocks."""
    more_blocks: int
    """Undisturbed blocks that are still needed, at the ratio and noise found so far; 0 if decided.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class GainEstimate:
    """Mean of the blocks' logarithms of B / A, and the noise of a run."""

    mean: float
    noise: float
    dof: float
    blocks: int


def decide(blocks: Sequence[MeasuredBlock], design: AbDesign) -> AbDecision:
    """Decide whether the blocks so far say which side is faster.

    A study ends at the first block after which the verdict is not OPEN.

    Args:
        blocks: all blocks in the order in which they ran; disturbed ones count as runs only.
        design: what was stated before the first of them.

    Raises:
        ValueError: a block is none of four positive rates.
    """
    every = [compute_contrasts(each.order, each.values) for each in blocks]
    used = [one for one, block in zip(every, blocks, strict=True) if not block.disturbed]
    verdict, confidence, interval = AbVerdict.OPEN, 1 - design.alpha, None
    found = estimate_gain(used)
    if found is not None:
        verdict = find_verdict(found, design)
        if verdict == AbVerdict.NO_DIFFERENCE:
            confidence = 1 - 2 * design.alpha
        interval = compute_gain_interval(found, design, (1 - confidence) / 2)
    return AbDecision(
        verdict=verdict,
        ratio=None if found is None else convert_log_to_factor(found.mean),
        low=None if interval is None else convert_log_to_factor(interval[0]),
        high=None if interval is None else convert_log_to_factor(interval[1]),
        confidence=confidence,
        noise=None if found is None else found.noise,
        drift=compute_drift(every),
        blocks_used=len(used),
        runs=BLOCK_RUNS * len(blocks),
        more_blocks=estimate_more_blocks(found, design, verdict),
    )


def estimate_gain(used: Sequence[BlockContrasts]) -> GainEstimate | None:
    """Estimate mean and noise; None without blocks.

    Runs of one side in a block differ by noise and by the drift of the machine: the latter makes
    the estimate larger, and so the interval wider.
    """
    if not used:
        return None
    mean = fmean(each.gain for each in used)
    squares = sum((each.gain - mean) ** 2 for each in used) + sum_pair_squares(used) / 2
    dof = 3 * len(used) - 1
    return GainEstimate(
        mean=mean, noise=max(math.sqrt(squares / dof), MIN_NOISE), dof=dof, blocks=len(used)
    )


def compute_half_width(found: GainEstimate, design: AbDesign, error: float) -> float:
    """Return the half-width of an interval of which each end errs with this probability, however
    often it is looked at.
    """
    standard_error = found.noise / math.sqrt(found.blocks)
    exponent = math.log(1 / error) + ESTIMATION_MARGIN
    information = (math.log1p(design.difference) / standard_error) ** 2
    distance = math.sqrt(2 * exponent)
    if information < 2 * exponent:
        distance = exponent / math.sqrt(information) + math.sqrt(information) / 2
    level = NormalDist().cdf(min(distance, MAX_STANDARD_ERRORS))
    return student.compute_t_quantile(level, found.dof) * standard_error


def compute_gain_interval(
    found: GainEstimate, design: AbDesign, error: float
) -> tuple[float, float]:
    """Return the interval of the logarithm of B / A."""
    half = compute_half_width(found, design, error)
    return found.mean - half, found.mean + half


def find_verdict(found: GainEstimate, design: AbDesign) -> AbVerdict:
    """Return what the interval says; that one side is faster comes first."""
    if found.blocks < MIN_BLOCKS:
        return AbVerdict.OPEN
    low, high = compute_gain_interval(found, design, design.alpha / 2)
    if low > 0:
        return AbVerdict.B_FASTER
    if high < 0:
        return AbVerdict.A_FASTER
    low, high = compute_gain_interval(found, design, design.alpha)
    limit = math.log1p(design.difference)
    if -limit < low and high < limit:
        return AbVerdict.NO_DIFFERENCE
    return AbVerdict.OPEN


def compute_drift(every: Sequence[BlockContrasts]) -> float | None:
    """Return the range of the blocks' levels, as a share; None without blocks."""
    if not every:
        return None
    levels = [each.level for each in every]
    return convert_log_to_factor(max(levels) - min(levels)) - 1


def estimate_more_blocks(found: GainEstimate | None, design: AbDesign, verdict: AbVerdict) -> int:
    """Estimate how many more blocks decide in `power` of cases; 0 if they are decided."""
    if verdict != AbVerdict.OPEN:
        return 0
    if found is None:
        return MIN_BLOCKS

    def can_decide(blocks: int) -> bool:
        later = GainEstimate(mean=found.mean, noise=found.noise, dof=3 * blocks - 1, blocks=blocks)
        limit = math.log1p(design.difference)
        apart = compute_half_width(later, design, design.alpha / 2)
        alike = compute_half_width(later, design, design.alpha)
        if apart + alike <= limit:
            return True
        chance = NormalDist().inv_cdf(design.power) * found.noise / math.sqrt(blocks)
        return abs(found.mean) - chance > apart or abs(found.mean) + chance + alike < limit

    low, high = found.blocks, max(found.blocks + 1, MIN_BLOCKS)
    while not can_decide(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if can_decide(middle) else (middle, high)
    return high - found.blocks
