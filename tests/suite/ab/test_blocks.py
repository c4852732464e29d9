"""Tests of disturbed blocks: found by what concerns both sides alike, never by their difference."""

import math
import random

import pytest
from scipy import stats

from suite.ab.blocks import (
    DISTURBANCE_LEVEL,
    BlockContrasts,
    MeasuredBlock,
    compute_contrasts,
    find_disturbance,
)
from suite.ab.design import ABBA, BAAB, plan_order

TIMES = (0, 1, 2, 3)


def build_block(order: str, *values: float, disturbed: str = "") -> MeasuredBlock:
    first, second, third, fourth = values
    return MeasuredBlock(
        order=order,
        values=(first, second, third, fourth),
        starts_ns=TIMES,
        ends_ns=TIMES,
        disturbed=disturbed,
    )


def draw_block(generator: random.Random, order: str, gain: float = 0.0) -> MeasuredBlock:
    values = [math.exp(generator.gauss(gain if side == "B" else 0.0, 0.01)) for side in order]
    return build_block(order, *values)


EARLIER = [draw_block(random.Random(index), ABBA) for index in range(6)]


def test_contrasts_are_those_of_the_runs() -> None:
    found = compute_contrasts(BAAB, [math.e, 1.0, math.e**2, math.e**5])
    assert (found.gain, found.outer, found.inner) == pytest.approx((2.0, 4.0, 2.0))
    assert found.level == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("values", "side"),
    [((1.0, 1.0, 1.0, 1.2), "A"), ((1.2, 1.0, 1.0, 1.0), "A"), ((1.0, 0.8, 1.0, 1.0), "B")],
)
def test_a_step_inside_a_block_is_found(values: tuple[float, ...], side: str) -> None:
    """Such a block would favour one side by half the step."""
    said = find_disturbance(ABBA, values, EARLIER)
    assert said.startswith(f"the two runs of {side} differ by 20 %") or "25 %" in said


def test_a_difference_of_the_sides_disturbs_nothing() -> None:
    """Else a difference would be repeated until it is gone."""
    for order in (ABBA, BAAB):
        values = [2.0 if side == "B" else 1.0 for side in order]
        assert find_disturbance(order, values, EARLIER) == ""


@pytest.mark.parametrize("seed", range(30))
def test_what_is_disturbed_does_not_depend_on_the_difference(seed: int) -> None:
    """The same noise with other speeds of B, and with the sides' names swapped."""
    order = plan_order(seed, 0)
    found = {
        bool(find_disturbance(order, draw_block(random.Random(seed), order, gain).values, EARLIER))
        for gain in (-1.0, -0.03, 0.0, 0.03, 1.0)
    }
    assert len(found) == 1
    values = draw_block(random.Random(seed), order).values
    swapped = ABBA if order == BAAB else BAAB
    assert bool(find_disturbance(order, values, EARLIER)) == bool(
        find_disturbance(swapped, values, EARLIER)
    )


def test_the_limit_is_students() -> None:
    """Of the equal runs of all earlier blocks: known values by scipy."""
    pairs = [each.outer for each in map(read_contrasts, EARLIER)]
    pairs += [each.inner for each in map(read_contrasts, EARLIER)]
    noise = math.sqrt(sum(pair**2 for pair in pairs) / len(pairs))
    limit = stats.t.isf(DISTURBANCE_LEVEL / 4, len(pairs)) * noise
    below, above = math.exp(limit * 0.999), math.exp(limit * 1.001)
    assert find_disturbance(ABBA, (1.0, 1.0, 1.0, below), EARLIER) == ""
    assert find_disturbance(ABBA, (1.0, 1.0, 1.0, above), EARLIER)


def read_contrasts(block: MeasuredBlock) -> BlockContrasts:
    return compute_contrasts(block.order, block.values)


def test_the_first_block_has_nothing_to_be_compared_with() -> None:
    assert find_disturbance(ABBA, (1.0, 1.0, 1.0, 9.0), []) == ""


def test_a_machine_that_stays_noisy_is_not_repeated_for_ever() -> None:
    """After a disturbed block the next one is used, and raises the limit."""
    restless = (1.0, 1.0, 1.0, 1.3)
    disturbed = build_block(ABBA, *restless, disturbed=find_disturbance(ABBA, restless, EARLIER))
    assert disturbed.disturbed
    assert find_disturbance(ABBA, restless, [*EARLIER, disturbed]) == ""
    used = build_block(ABBA, *restless)
    assert find_disturbance(ABBA, (1.0, 1.0, 1.0, 1.2), [*EARLIER, disturbed, used]) == ""


def test_quiet_machines_repeat_few_blocks() -> None:
    """0.5 % of the blocks of a machine with normal noise, whatever its noise."""
    generator, blocks = random.Random(1), list[MeasuredBlock]()
    for _ in range(600):
        drawn = draw_block(generator, ABBA)
        said = find_disturbance(ABBA, drawn.values, blocks[-100:])
        blocks.append(build_block(ABBA, *drawn.values, disturbed=said))
    assert sum(bool(each.disturbed) for each in blocks) <= 9
