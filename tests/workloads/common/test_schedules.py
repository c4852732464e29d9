"""Learning rates and evaluation blocks as pure functions."""

from dataclasses import replace

import pytest

from suite import registry
from suite.rounds import Profile, TrainingRow
from workloads.common.optimisation.schedules import (
    build_linear_warmup,
    build_polynomial_decay,
    build_step_decay,
    iterate_epoch_blocks,
)


def test_warm_up_is_linear_from_zero() -> None:
    """Starting at the full rate would make large batches diverge."""
    rate = build_linear_warmup(lambda step: 99.0, 8.0, 4)
    assert [rate(step) for step in range(5)] == [0.0, 2.0, 4.0, 6.0, 99.0]


@pytest.mark.parametrize(
    ("halvings", "expected"),
    [(0, [0.0, 2.0, 4.0, 6.0]), (1, [4.0, 5.0, 6.0, 7.0]), (3, [7.0, 7.25, 7.5, 7.75])],
)
def test_warm_up_may_begin_part_of_the_way_up(halvings: int, expected: list[float]) -> None:
    """r0 - (wb - b) r0 / (wb 2^wk): MLPerf's warm-up factor."""
    rate = build_linear_warmup(lambda step: 99.0, 8.0, 4, halvings)
    assert [rate(step) for step in range(5)] == [*expected, 99.0]


def test_no_warm_up_starts_at_once() -> None:
    """Zero steps of warm-up must not divide by zero."""
    assert build_linear_warmup(lambda step: 5.0, 5.0, 0)(0) == 5.0


def test_polynomial_follows_the_reference() -> None:
    """(base - end) (1 - (step - W) / (T - W + 1))^2 + end, at the start, in the middle and at T."""
    rate = build_polynomial_decay(10.0, 1e-4, 2, 5, 104)
    assert rate(5) == 10.0
    assert rate(55) == pytest.approx((10.0 - 1e-4) * 0.25 + 1e-4)
    assert rate(104) == pytest.approx((10.0 - 1e-4) * 0.01**2 + 1e-4)


def test_polynomial_stays_at_its_end() -> None:
    """Beyond T an even power would rise again."""
    rate = build_polynomial_decay(10.0, 1e-4, 2, 5, 104)
    assert rate(105) == rate(10_000) == 1e-4


def test_polynomial_falls() -> None:
    """Every step's rate is at most the one before."""
    rate = build_polynomial_decay(17.0, 1e-4, 2, 3, 50)
    rates = [rate(step) for step in range(3, 60)]
    assert rates == sorted(rates, reverse=True)


def test_steps_multiply_at_their_boundaries() -> None:
    """The boundary's own step has the new rate already."""
    rate = build_step_decay(1.0, 0.1, (3, 6))
    assert [rate(step) for step in (0, 2, 3, 5, 6, 100)] == pytest.approx(
        [1, 1, 0.1, 0.1, 0.01, 0.01]
    )


@pytest.fixture
def row() -> TrainingRow:
    return registry.load_round().benchmark("resnet50").training[Profile.SMOKE]


@pytest.mark.parametrize(
    ("every", "offset", "most", "expected"),
    [
        (1, 0, 3, [[1], [2], [3]]),
        (4, 0, 8, [[1, 2, 3, 4], [5, 6, 7, 8]]),
        (4, 0, 6, [[1, 2, 3, 4], [5, 6]]),
        (4, 2, 8, [[1, 2], [3, 4, 5, 6], [7, 8]]),
        (4, 0, 2, [[1, 2]]),
    ],
)
def test_blocks(
    row: TrainingRow, every: int, offset: int, most: int, expected: list[list[int]]
) -> None:
    """No epoch is left out or trained twice, and none beyond the last allowed."""
    own = replace(
        row, evaluate_every_epochs=every, evaluate_offset_epochs=(offset,), max_epochs=most
    )
    assert [list(block) for block in iterate_epoch_blocks(own)] == expected


@pytest.mark.parametrize(
    ("named", "most", "expected"),
    [
        ((2, 3, 5), 5, [[1, 2], [3], [4, 5]]),
        ((2, 5), 4, [[1, 2], [3, 4]]),
        ((3,), 9, [[1, 2, 3]]),
        ((4, 8), 2, [[1, 2]]),
    ],
)
def test_blocks_end_at_the_epochs_that_the_rules_name(
    row: TrainingRow, named: tuple[int, ...], most: int, expected: list[list[int]]
) -> None:
    """Evaluated where the judge expects it; none is left for training that nobody evaluates."""
    assert [
        list(block)
        for block in iterate_epoch_blocks(replace(row, evaluation_epochs=named, max_epochs=most))
    ] == expected
