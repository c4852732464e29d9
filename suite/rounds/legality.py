"""Checks hyper-parameters against a round's closed division; pure functions, used before the run
and by the judge.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from suite.rounds import Constraint, HyperValue, Profile, Round
from suite.rounds.constraints import HYPERPARAMETER_TOLERANCE
from suite.rounds.settings import collect_workload_settings, resolve_settings

MAX_SAFE_NUMBER = 1e30
MIN_SAFE_DIVISOR = 1e-12
"""Smallest divisor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegalityViolation:
    """One hyper-parameter that violates the closed division."""

    key: str
    found: HyperValue
    required: str


def check_hyperparameter_constraints(
    constraints: Iterable[Constraint], values: Mapping[str, HyperValue]
) -> Iterator[LegalityViolation]:
    """Yield violated constraints; missing hyper-parameters are not checked here."""
    for constraint in constraints:
        value = values.get(constraint.key)
        if value is None or (
            constraint.when_key is not None and not is_applicable(constraint, values)
        ):
            continue
        for required in check_value_conditions(constraint, value):
            yield LegalityViolation(key=constraint.key, found=value, required=required)
        if constraint.at_most_key or constraint.grid or constraint.relation:
            for required in check_related_conditions(constraint, value, values):
                yield LegalityViolation(key=constraint.key, found=value, required=required)


def check_served_settings(
    round: Round, workload: str, profile: Profile, values: Mapping[str, HyperValue]
) -> Iterator[LegalityViolation]:
    """Yield settings of a served system that are neither free, nor the row's own, nor among those
    that the closed division allows in training.
    """
    row = round.benchmark(workload)
    own = resolve_settings(round, workload, profile, {}, serving=True)
    constraints: Sequence[Constraint] = ()
    if training := row.training.get(profile):
        constraints = training.constraints
    for key, setting in collect_workload_settings(round, row).items():
        value, wanted = values.get(key), own.get(key)
        if setting.free or value is wanted or is_within_tolerance(value, wanted):
            continue
        own_constraints = [constraint for constraint in constraints if constraint.key == key]
        if own_constraints and value is not None:
            yield from check_hyperparameter_constraints(own_constraints, values)
        else:
            yield LegalityViolation(
                key=key,
                found="missing" if value is None else value,
                required="unset" if wanted is None else f"{wanted}",
            )


def is_applicable(constraint: Constraint, values: Mapping[str, HyperValue]) -> bool:
    """Return whether the condition of a constraint is met."""
    if constraint.when_key is None:
        return True
    value = values.get(constraint.when_key)
    if constraint.when_one_of and value not in constraint.when_one_of:
        return False
    if constraint.when_from is not None and not (
        is_safe_number(value) and value >= constraint.when_from
    ):
        return False
    return constraint.when_below is None or (
        is_safe_number(value) and value < constraint.when_below
    )


def check_value_conditions(constraint: Constraint, value: HyperValue) -> Iterator[str]:
    """Yield each condition of a constraint that the value violates."""
    folded = value.casefold() if constraint.any_case and isinstance(value, str) else value
    if constraint.equals is not None and not is_within_tolerance(folded, constraint.equals):
        yield f"{constraint.equals}"
    if constraint.one_of and not any(
        is_within_tolerance(folded, choice) for choice in constraint.one_of
    ):
        yield f"one of {', '.join(map(str, constraint.one_of))}"
    if any(is_within_tolerance(folded, choice) for choice in constraint.none_of):
        yield f"anything but {' or '.join(repr(choice) for choice in constraint.none_of)}"
    free = (
        constraint.minimum
        is constraint.above
        is constraint.below
        is constraint.multiple_of
        is constraint.power_of_two_times
        is None
    )
    free = free and constraint.multiple_or_share_of is None
    if constraint.integer or not free:
        yield from check_numeric_conditions(constraint, value)


def check_numeric_conditions(constraint: Constraint, value: HyperValue) -> Iterator[str]:
    """Yield each numeric condition that is violated."""
    if not is_safe_number(value):
        yield "a finite number"
        return
    if constraint.integer and value != int(value):
        yield "a whole number"
    if constraint.minimum is not None and value < constraint.minimum:
        yield f"at least {constraint.minimum:g}"
    if constraint.above is not None and value <= constraint.above:
        yield f"above {constraint.above:g}"
    if constraint.below is not None and value >= constraint.below:
        yield f"below {constraint.below:g}"
    if constraint.multiple_of is not None and not is_whole_ratio(value / constraint.multiple_of):
        yield f"a multiple of {constraint.multiple_of:g}"
    unit = constraint.multiple_or_share_of
    if unit is not None and not (
        value > 0 and (is_whole_ratio(value / unit) or is_whole_ratio(unit / value))
    ):
        yield f"a multiple of {unit:g}, or {unit:g} divided by a whole number"
    if constraint.power_of_two_times is not None and not is_power_of_two(
        value / constraint.power_of_two_times
    ):
        yield f"{constraint.power_of_two_times:g} times a power of two"


def check_related_conditions(
    constraint: Constraint, value: HyperValue, values: Mapping[str, HyperValue]
) -> Iterator[str]:
    """Yield each violated condition that involves other hyper-parameters, or the entries of a
    list.
    """
    other = None
    if constraint.at_most_key:
        other = values.get(constraint.at_most_key)
    if is_safe_number(other) and is_safe_number(value) and value > other:
        yield f"at most {constraint.at_most_key}, {other:g}"
    yield from check_value_relation(constraint, value, values)
    divisor = values.get(constraint.grid_per_key) if constraint.grid_per_key else 1
    if constraint.grid and is_safe_number(divisor) and divisor > 0:
        points = tuple(point * constraint.grid_times / divisor for point in constraint.grid)
        if not is_on_grid(value, points, 1.0 if constraint.grid_per_key else 0.0):
            yield f"{', '.join(f'{point:g}' for point in points)}, all times one 1 + k/10"


def check_value_relation(
    constraint: Constraint, value: HyperValue, values: Mapping[str, HyperValue]
) -> Iterator[str]:
    """Yield the expected value if it is a function of another hyper-parameter, which must be a
    positive number if it is set.
    """
    relation = constraint.relation
    other = values.get(relation.of) if relation else None
    if relation is None or other is None or (relation.is_equality and value == other):
        return
    if (
        not is_safe_number(other)
        or other < 0
        or (other < MIN_SAFE_DIVISOR and relation.rest_of is None)
    ):
        yield (
            f"a value that follows from {relation.of}, which must be a number"
            f" {'from' if relation.rest_of is not None else 'above'} 0, not {other!r}"
        )
        return
    if not is_safe_number(value) or not relation.is_satisfied(value, other):
        yield (
            f"{relation.compute_expected(other):.10g}, with {relation.of}"
            f" {other:g}{f', up to {relation.share:.0%} more or less' if relation.share else ''}"
        )


def is_on_grid(value: HyperValue, points: Sequence[float], slack: float) -> bool:
    """Return whether a list equals these points x (1 + k / 10) for one integer k, each within a
    slack of less than one.
    """
    if (
        not isinstance(value, list | tuple)
        or len(value) != len(points)
        or not all(map(is_safe_number, value))
    ):
        return False
    k = round((value[0] / points[0] - 1) * 10)
    near = (abs(each - point * (1 + k / 10)) for each, point in zip(value, points, strict=True))
    return k > -10 and all(
        gap < max(slack, HYPERPARAMETER_TOLERANCE * point)
        for gap, point in zip(near, points, strict=True)
    )


def is_safe_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a number safe for arithmetic: no bool, no text, no NaN, no integer
    of arbitrary length.
    """
    if type(value) is int or type(value) is float:
        return -MAX_SAFE_NUMBER < value < MAX_SAFE_NUMBER
    return False


def is_within_tolerance(left: object, right: object) -> bool:
    """Compare fractions within the tolerance, whole numbers and everything else exactly."""
    if (
        is_safe_number(left)
        and is_safe_number(right)
        and not (isinstance(right, int) or right.is_integer())
    ):
        return math.isclose(left, right, rel_tol=HYPERPARAMETER_TOLERANCE)
    return left == right


def is_whole_ratio(ratio: float) -> bool:
    """Return whether a ratio is an integer within the tolerance."""
    return math.isclose(ratio, round(ratio), rel_tol=HYPERPARAMETER_TOLERANCE) and round(ratio) >= 0


def is_power_of_two(ratio: float) -> bool:
    """Return whether a ratio is a power of two within the tolerance."""
    return ratio > 0 and math.isclose(
        ratio, 2.0 ** round(math.log2(ratio)), rel_tol=HYPERPARAMETER_TOLERANCE
    )
