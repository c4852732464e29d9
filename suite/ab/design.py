"""What is fixed before the first run of an A/B: the difference that matters, how often the answer
may be wrong, and the order of the runs.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

ABBA: Final = "ABBA"
BAAB: Final = "BAAB"
"""The two orders of a block: both sides have the same mean place in it, so that a drift at a steady
rate hits them alike.
"""
ORDERS: Final = (ABBA, BAAB)
DEFAULT_ALPHA: Final = 0.05
DEFAULT_POWER: Final = 0.8
"""Source: Cohen, Statistical Power Analysis, 2nd ed., 2.4, as for submissions/compare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbDesign:
    """What decides an A/B, and is stated before it begins."""

    difference: float
    """Smallest ratio - 1 that matters: 0.03 is 3 %."""
    alpha: float = DEFAULT_ALPHA
    """How often equal sides may be called different; and how often sides that differ by at least
    `difference` may be called equal.
    """
    power: float = DEFAULT_POWER
    """Share of cases in which the estimated number of further blocks suffices."""
    seed: int
    """Draws the order of the blocks."""

    def __post_init__(self) -> None:
        """Raise ValueError if no statement is possible."""
        if not 0.0 < self.difference < 1.0:
            raise ValueError(f"a difference is above 0 and below 100 %, not {self.difference:.6g}")
        if not 0.0 < self.alpha < 0.5 <= self.power < 1.0:
            raise ValueError(
                f"alpha is between 0 and 0.5, and power from 0.5 to 1, not {self.alpha:.6g} and"
                f" {self.power:.6g}"
            )


def plan_order(seed: int, block_index: int) -> str:
    """Return the order of a block, counted from 0 with those that are repeated.

    One of two neighbours begins with A, which is drawn: a step of the machine's speed inside a
    block then favours either side with equal probability, and a curve (warming up) hits both alike.
    """
    drawn = hashlib.sha256(f"{seed}:{block_index // 2}".encode()).digest()[0]
    return ORDERS[(drawn + block_index) % 2]
