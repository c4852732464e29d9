"""What the closed division allows for a hyper-parameter, by itself or given another one: learning rates that scale with the batch, steps of samples."""

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

HyperValue: TypeAlias = bool | int | float | str | tuple[int | float, ...]
"""A hyper-parameter or setting, as logs and TOML have them."""
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
        """Return the value for another hyper-parameter's, which is above 0 where something is divided by it."""
        if self.value is not None:
            return float(self.value * (other / self.at) ** self.power)
        if self.steps is not None:
            return math.ceil(self.steps / other) - math.ceil(self.less / other)
        if self.whole_batches is not None:
            return math.ceil(self.whole_batches / other) * other
        return other if self.rest_of is None else self.rest_of - other

    def holds(self, value: float, other: float) -> bool:
        """Return whether a value fits another hyper-parameter's."""
        wanted = self.expected(other)
        return abs(value - wanted) <= max(self.within, (self.share + TOLERANCE) * abs(wanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """What the closed division allows for one hyper-parameter; all that is given must hold."""

    key: str
    equals: HyperValue | None = None
    one_of: tuple[bool | int | float | str, ...] = ()
    none_of: tuple[bool | int | float | str, ...] = ()
    any_case: bool = False
    """Text is compared with `equals` and `one_of` whatever its case."""
    minimum: float | None = None
    above: float | None = None
    below: float | None = None
    at_most_key: str | None = None
    """The value is not above that of this hyper-parameter."""
    multiple_of: float | None = None
    multiple_or_share_of: float | None = None
    """value = this x N, or this / N, for a whole N."""
    relation: Relation | None = None
    """The value follows from another hyper-parameter."""
    power_of_two_times: float | None = None
    """value = this x 2^N for a whole N, positive or negative."""
    grid: tuple[float, ...] = ()
    """value = a list of these x (1 + k / 10) for one whole k ..."""
    grid_times: float = 1.0
    """... x this ..."""
    grid_per_key: str | None = None
    """... / this hyper-parameter, rounded either way."""
    integer: bool = False
    when_key: str | None = None
    """Applies only where this hyper-parameter ..."""
    when_one_of: tuple[bool | int | float | str, ...] = ()
    """... has one of these values ..."""
    when_below: float | None = None
    """... or is below this one ..."""
    when_from: float | None = None
    """... or is not."""
