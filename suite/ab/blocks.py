"""Blocks of four runs, what they say about the difference of the two sides, and which of them were
disturbed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from suite.ab.design import ABBA, ORDERS
from suite.human_numbers import format_share_as_percent
from suite.measurement import student
from suite.measurement.intervals import convert_log_to_factor

BLOCK_RUNS: Final = 4
DISTURBANCE_LEVEL: Final = 0.005
"""Share of undisturbed blocks whose equal runs disagree as much; of each of two pairs, half of it.
In benchmarks/ab.py, 0.7 % of the blocks of a machine that does not drift are repeated for nothing.
"""
MIN_NOISE: Final = 1e-4
"""Least noise of a run, as a share: equal runs may agree to the last digit, and a difference of
0.01 % is not about the sides.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredBlock:
    """Four runs, in the order in which they ran."""

    order: str
    """ABBA or BAAB."""
    values: tuple[float, float, float, float]
    """The rate of each run; higher is better."""
    starts_ns: tuple[int, int, int, int]
    ends_ns: tuple[int, int, int, int]
    disturbed: str = ""
    """Why the block is repeated and not used; empty if it is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockContrasts:
    """What a block says, on natural logarithms."""

    gain: float
    """Logarithm of B / A. Its standard deviation is that of a single run."""
    outer: float
    """Last run against the first, both of one side; sqrt(2) times as noisy as a run."""
    inner: float
    """Third run against the second, both of the other side; as noisy."""
    level: float
    """Mean of all four."""


def compute_contrasts(order: str, values: Sequence[float]) -> BlockContrasts:
    """Compute what four runs say; ValueError if they are no block of positive rates."""
    if order not in ORDERS or len(values) != BLOCK_RUNS:
        raise ValueError(f"{len(values)} runs in the order {order!r} are no block")
    if not all(0.0 < value < math.inf for value in values):
        raise ValueError(f"a rate is a positive number: {', '.join(map(str, values))}")
    first, second, third, fourth = map(math.log, values)
    gain = (second + third - first - fourth) / 2
    return BlockContrasts(
        gain=gain if order == ABBA else -gain,
        outer=fourth - first,
        inner=third - second,
        level=(first + second + third + fourth) / BLOCK_RUNS,
    )


def sum_pair_squares(found: Sequence[BlockContrasts]) -> float:
    """Sum the squared differences of equal runs."""
    return sum(each.outer**2 + each.inner**2 for each in found)


def find_disturbance(order: str, values: Sequence[float], earlier: Sequence[MeasuredBlock]) -> str:
    """Return why a block has to be repeated; empty if it has not.

    Two runs of one side differ by more than the noise of all earlier blocks explains (Student's t).
    Neither side's speed matters: with normal noise, what is tested is independent of the difference
    of the two sides, so that a repetition favours nobody. The block after a disturbed one is always
    used: a machine that is disturbed twice in a row has that noise.

    Args:
        order: of the block.
        values: rates of its runs.
        earlier: all blocks before it.

    Raises:
        ValueError: they are no block of positive rates.
    """
    mine = compute_contrasts(order, values)
    known = [compute_contrasts(each.order, each.values) for each in earlier if not each.disturbed]
    if not known or earlier[-1].disturbed:
        return ""
    dof = 2 * len(known)
    noise = max(math.sqrt(sum_pair_squares(known) / dof), MIN_NOISE)
    limit = student.compute_t_quantile(1 - DISTURBANCE_LEVEL / 4, dof) * noise
    pairs = {order[0]: abs(mine.outer), order[1]: abs(mine.inner)}
    side = max(pairs, key=pairs.__getitem__)
    if pairs[side] <= limit:
        return ""
    apart, explained = (
        format_share_as_percent(convert_log_to_factor(each) - 1) for each in (pairs[side], limit)
    )
    return (
        f"the two runs of {side} differ by {apart}, more than the {explained} that the noise of"
        " earlier blocks explains"
    )
