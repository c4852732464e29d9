"""Closed-division constraints on a hyper-parameter, alone or relative to another one: learning
rates that scale with the batch, steps from samples.
"""

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

HyperValue: TypeAlias = bool | int | float | str | tuple[int | float, ...]
"""A hyper-parameter or setting, as in logs and TOML."""
HYPERPARAMETER_TOLERANCE: Final = 1e-6
"""Relative tolerance of fractions: logs print floats with six digits or more. Whole numbers are
exact.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """Value of a hyper-parameter as a function of another one; without any number, the two are
    equal.
    """

    of: str
    """The other hyper-parameter."""
    value: float | None = None
    """This value ..."""
    at: float = 1.0
    """... when the other one is this; it scales with ..."""
    power: float = 1.0
    """... this power of the other one, and may differ by ..."""
    within: float = 0.0
    """... this much, or by ..."""
    share: float = 0.0
    """... this share of it."""
    steps: int | None = None
    """Steps for this many samples, where the other one is a batch size, ..."""
    less: int = 0
    """... minus the steps for this many samples."""
    rest_of: int | None = None
    """This many steps minus the other one."""
    whole_batches: float | None = None
    """This many samples, rounded up to whole batches."""

    @property
    def is_equality(self) -> bool:
        """Whether the two are equal."""
        return self.value is self.steps is self.rest_of is self.whole_batches is None

    def compute_expected(self, other: float) -> float:
        """Return the value for a given value of the other hyper-parameter, which must be above 0 if
        it is a divisor.
        """
        if self.value is not None:
            return float(self.value * (other / self.at) ** self.power)
        if self.steps is not None:
            return math.ceil(self.steps / other) - math.ceil(self.less / other)
        if self.whole_batches is not None:
            return math.ceil(self.whole_batches / other) * other
        if self.rest_of is None:
            return other
        return self.rest_of - other

    def is_satisfied(self, value: float, other: float) -> bool:
        """Return whether a value matches a given value of the other hyper-parameter."""
        wanted = self.compute_expected(other)
        is_exact = self.value is None and (self.rest_of is not None or float(wanted).is_integer())
        return abs(value - wanted) <= max(
            self.within,
            (self.share + (0.0 if is_exact else HYPERPARAMETER_TOLERANCE)) * abs(wanted),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """Closed-division constraint on one hyper-parameter; every given condition must hold."""

    key: str
    equals: HyperValue | None = None
    one_of: tuple[bool | int | float | str, ...] = ()
    none_of: tuple[bool | int | float | str, ...] = ()
    any_case: bool = False
    """Compare text with `equals` and `one_of` case-insensitively."""
    minimum: float | None = None
    above: float | None = None
    below: float | None = None
    at_most_key: str | None = None
    """The value is at most that of this hyper-parameter."""
    multiple_of: float | None = None
    multiple_or_share_of: float | None = None
    """value = this x N, or this / N, for a whole N."""
    relation: Relation | None = None
    """The value is a function of another hyper-parameter."""
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
    """Applies only if this hyper-parameter ..."""
    when_one_of: tuple[bool | int | float | str, ...] = ()
    """... has one of these values ..."""
    when_below: float | None = None
    """... or is below this one ..."""
    when_from: float | None = None
    """... or is at least this one."""
