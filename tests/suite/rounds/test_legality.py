"""The closed division's constraints, each shown to bite and to let pass."""

import math

import pytest

from suite.rounds import Constraint, HyperValue
from suite.rounds.constraints import Relation
from suite.rounds.legality import check_hyperparameter_constraints


def breaches(constraint: Constraint, **values: HyperValue) -> list[str]:
    """Judge values against one constraint."""
    return [breach.required for breach in check_hyperparameter_constraints([constraint], values)]


@pytest.mark.parametrize(
    ("constraint", "good", "bad"),
    [
        (Constraint(key="x", equals=0.9), 0.9, 0.91),
        (Constraint(key="x", equals="sgd"), "sgd", "lars"),
        (Constraint(key="x", one_of=(1, 50)), 50, 2),
        (Constraint(key="x", none_of=("random", "")), "a.pth", "random"),
        (Constraint(key="x", minimum=1.0), 1, 0),
        (Constraint(key="x", above=0.0), 0.1, 0.0),
        (Constraint(key="x", multiple_of=0.001), 0.128, 0.1285),
        (Constraint(key="x", power_of_two_times=1e-4), 2e-4, 3e-4),
        (Constraint(key="x", power_of_two_times=1e-4), 2.5e-5, -1e-4),
        (Constraint(key="x", integer=True), 5.0, 5.5),
        (Constraint(key="x", minimum=0.0), 0, math.nan),
        (Constraint(key="x", minimum=0.0), 0, "5"),
        (Constraint(key="x", minimum=0.0), 0, True),
    ],
)
def test_constraint(constraint: Constraint, good: HyperValue, bad: HyperValue) -> None:
    """A constraint that cannot fail or cannot be met would be worse than none."""
    assert breaches(constraint, x=good) == []
    assert breaches(constraint, x=bad) != []


def test_absent_value_is_left_to_the_rule_that_asks_for_presence() -> None:
    """One fault, one finding."""
    assert breaches(Constraint(key="x", equals=1)) == []


def test_condition_on_another_value() -> None:
    """LARS momentum is fixed below a batch of 32k only (training_rules v0.7)."""
    rule = Constraint(key="momentum", equals=0.9, when_key="batch", when_below=32768)
    assert breaches(rule, momentum=0.95, batch=4096) == ["0.9"]
    assert breaches(rule, momentum=0.95, batch=32768) == []
    assert breaches(rule, momentum=0.95) == []


def test_condition_on_a_choice() -> None:
    """Constraints of one optimizer do not touch the other."""
    rule = Constraint(key="lr", multiple_of=0.5, when_key="opt_name", when_one_of=("sgd",))
    assert breaches(rule, lr=0.3, opt_name="sgd") == ["a multiple of 0.5"]
    assert breaches(rule, lr=0.3, opt_name="lars") == []


@pytest.mark.parametrize(("steps", "holds"), [(900, True), (901, False), (900.0001, False)])
def test_whole_numbers_have_no_tolerance(steps: float, holds: bool) -> None:
    """A millionth of a million steps is a step."""
    rule = Constraint(key="decay", relation=Relation(of="warmup", rest_of=1_000_000))
    assert (breaches(rule, decay=1_000_000 - 900, warmup=steps) == []) is holds
    assert (breaches(Constraint(key="x", equals=900), x=steps) == []) is holds


@pytest.mark.parametrize("other", ["100", True, -1])
def test_nothing_follows_from_what_is_no_number(other: HyperValue) -> None:
    """Otherwise the key that is related to it would go unchecked."""
    assert (
        breaches(
            Constraint(key="decay", relation=Relation(of="warmup", rest_of=1000)),
            decay=900,
            warmup=other,
        )
        != []
    )


def test_another_hyper_parameter_that_is_not_set_is_left_to_the_rule_that_asks_for_it() -> None:
    """One fault, one finding."""
    assert (
        breaches(Constraint(key="decay", relation=Relation(of="warmup", rest_of=1000)), decay=900)
        == []
    )
