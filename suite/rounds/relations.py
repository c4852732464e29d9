"""Hyper-parameters whose allowed value follows from another one: learning rates that scale with the batch, steps that make up a number of samples."""

import math
from dataclasses import dataclass
from typing import Final

TOLERANCE: Final = 1e-6
"""Relative: logs print floats with six digits or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """What a hyper-parameter is, given another one; without any number, the same."""

    of: str
    """The other hyper-parameter."""
    value: float | None = None
    """The value ..."""
    at: float = 1.0
    """... where the other one is this; it scales with ..."""
    power: float = 1.0
    """... this power of the other one, and may differ by ..."""
    within: float = 0.0
    """... this much, or by ..."""
    share: float = 0.0
    """... this share of it."""
    steps: int | None = None
    """The steps of this many samples, the other one being a batch, ..."""
    less: int = 0
    """... less those of so many."""
    rest_of: int | None = None
    """What the other one leaves of this many steps."""
    whole_batches: float | None = None
    """The samples of the fewest whole batches with as many."""

    def expected(self, other: float) -> float:
        """Give the value for another hyper-parameter's, which is above 0 where something is divided by it."""
        if self.value is not None:
            return float(self.value * (other / self.at) ** self.power)
        if self.steps is not None:
            return math.ceil(self.steps / other) - math.ceil(self.less / other)
        if self.whole_batches is not None:
            return math.ceil(self.whole_batches / other) * other
        return other if self.rest_of is None else self.rest_of - other

    def holds(self, value: float, other: float) -> bool:
        """Tell whether a value fits another hyper-parameter's."""
        wanted = self.expected(other)
        return abs(value - wanted) <= max(self.within, (self.share + TOLERANCE) * abs(wanted))
