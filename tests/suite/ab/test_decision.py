"""Tests of A/B decisions: known values, sides that are swapped, and blocks that decide nothing."""

import math
import random
from itertools import count, takewhile
from statistics import NormalDist

import pytest
from scipy import stats

from suite.ab.blocks import MeasuredBlock, compute_contrasts, find_disturbance
from suite.ab.decision import (
    ESTIMATION_MARGIN,
    MAX_STANDARD_ERRORS,
    AbDecision,
    AbVerdict,
    GainEstimate,
    compute_half_width,
    decide,
    estimate_gain,
)
from suite.ab.design import ABBA, BAAB, AbDesign, plan_order

DESIGN = AbDesign(difference=0.03, seed=65)


def build_block(order: str, *values: float, disturbed: str = "") -> MeasuredBlock:
    first, second, third, fourth = values
    times = (0, 1, 2, 3)
    return MeasuredBlock(
        order=order,
        values=(first, second, third, fourth),
        starts_ns=times,
        ends_ns=times,
        disturbed=disturbed,
    )


def draw_blocks(
    seed: int, blocks: int, ratio: float, noise: float, scale: float = 1.0
) -> list[MeasuredBlock]:
    """Draw blocks of two sides whose rates have that ratio."""
    generator = random.Random(seed)
    drawn = []
    for index in range(blocks):
        order = plan_order(seed, index)
        rates = {"A": scale, "B": scale * ratio}
        values = [rates[side] * math.exp(generator.gauss(0, noise)) for side in order]
        drawn.append(build_block(order, *values))
    return drawn


def swap_sides(block: MeasuredBlock) -> MeasuredBlock:
    return build_block(
        {ABBA: BAAB, BAAB: ABBA}[block.order], *block.values, disturbed=block.disturbed
    )


def decide_in_order(blocks: list[MeasuredBlock]) -> AbDecision:
    """Decide after each block, as a study does."""
    found = [decide(blocks[:number], DESIGN) for number in range(len(blocks) + 1)]
    opened = list(takewhile(lambda each: each.verdict == AbVerdict.OPEN, found))
    return found[min(len(opened), len(blocks))]


def test_the_estimate_is_that_of_a_linear_model() -> None:
    """Block means and the two sides explain the runs; the rest is noise, with 3 n - 1 degrees."""
    blocks = [
        build_block(ABBA, 100, 104, 103, 101),
        build_block(BAAB, 90, 88, 87, 93),
        build_block(ABBA, 95, 99, 97, 96),
    ]
    found = estimate_gain([compute_contrasts(each.order, each.values) for each in blocks])
    assert found is not None
    gains, squares = [], 0.0
    for each in blocks:
        logs = [math.log(value) for value in each.values]
        sides = {
            side: [value for name, value in zip(each.order, logs, strict=True) if name == side]
            for side in "AB"
        }
        gains.append(sum(sides["B"]) / 2 - sum(sides["A"]) / 2)
        squares += sum((pair[0] - pair[1]) ** 2 / 2 for pair in sides.values())
    mean = sum(gains) / 3
    squares += sum((each - mean) ** 2 for each in gains)
    assert (found.mean, found.dof, found.blocks) == (pytest.approx(mean), 8, 3)
    assert found.noise == pytest.approx(math.sqrt(squares / 8))


@pytest.mark.parametrize(("noise", "blocks"), [(0.002, 2), (0.01, 2), (0.02, 5), (0.05, 40)])
@pytest.mark.parametrize("error", [0.025, 0.05])
def test_an_interval_has_the_width_of_the_sequential_test(
    noise: float, blocks: int, error: float
) -> None:
    """Against scipy: Wald's line until it is least, and constant from there."""
    found = GainEstimate(mean=0.0, noise=noise, dof=3 * blocks - 1, blocks=blocks)
    standard_error = noise / blocks**0.5
    exponent = math.log(1 / error) + ESTIMATION_MARGIN
    root = min(math.log(1.03) / standard_error, math.sqrt(2 * exponent))
    level = stats.norm.sf(exponent / root + root / 2)
    wanted = stats.t.isf(level, found.dof) * standard_error
    assert compute_half_width(found, DESIGN, error) == pytest.approx(wanted, rel=1e-6)


def test_an_interval_is_wider_than_one_that_is_looked_at_once() -> None:
    for blocks in range(2, 60):
        found = GainEstimate(mean=0.0, noise=0.03, dof=3 * blocks - 1, blocks=blocks)
        once = stats.t.isf(0.025, found.dof) * 0.03 / blocks**0.5
        assert compute_half_width(found, DESIGN, 0.025) > once


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (1.1, AbVerdict.B_FASTER),
        (0.9, AbVerdict.A_FASTER),
        (1.0, AbVerdict.NO_DIFFERENCE),
    ],
)
def test_clear_cases_end_after_two_blocks(ratio: float, verdict: AbVerdict) -> None:
    found = decide_in_order(draw_blocks(1, 40, ratio, 0.004))
    assert (found.verdict, found.blocks_used, found.runs) == (verdict, 2, 8)
    assert found.low is not None and found.high is not None and found.ratio is not None
    assert found.low < found.ratio < found.high
    assert found.more_blocks == 0
    if verdict == AbVerdict.NO_DIFFERENCE:
        assert found.low > 1 / 1.03 and found.high < 1.03
        assert found.confidence == pytest.approx(0.9)
    else:
        assert not found.low <= 1 <= found.high
        assert found.confidence == pytest.approx(0.95)


@pytest.mark.parametrize("seed", range(20))
def test_swapped_sides_swap_the_verdict(seed: int) -> None:
    """Neither side is favoured, whatever the blocks are."""
    blocks = draw_blocks(seed, 12, random.Random(seed).uniform(0.95, 1.05), 0.02)
    mine = decide(blocks, DESIGN)
    others = decide([swap_sides(each) for each in blocks], DESIGN)
    mirrored = {
        AbVerdict.A_FASTER: AbVerdict.B_FASTER,
        AbVerdict.B_FASTER: AbVerdict.A_FASTER,
    }
    assert others.verdict == mirrored.get(mine.verdict, mine.verdict)
    assert mine.ratio is not None and mine.low is not None and mine.high is not None
    assert others.ratio == pytest.approx(1 / mine.ratio)
    assert (others.low, others.high) == pytest.approx((1 / mine.high, 1 / mine.low))
    assert (others.noise, others.drift) == pytest.approx((mine.noise, mine.drift))
    assert others.more_blocks == mine.more_blocks


@pytest.mark.parametrize("seed", range(10))
def test_units_and_the_order_of_blocks_do_not_matter(seed: int) -> None:
    """Samples per second or per hour, and whichever block was first."""
    blocks = draw_blocks(seed, 9, 1.02, 0.02)
    hourly = [build_block(each.order, *(3600 * value for value in each.values)) for each in blocks]
    shuffled = random.Random(seed).sample(blocks, len(blocks))
    wanted = decide(blocks, DESIGN)
    for found in (decide(hourly, DESIGN), decide(shuffled, DESIGN)):
        assert (found.verdict, found.more_blocks) == (wanted.verdict, wanted.more_blocks)
        for name in ("ratio", "low", "high", "noise", "drift"):
            assert getattr(found, name) == pytest.approx(getattr(wanted, name)), name


def test_a_steady_drift_favours_nobody() -> None:
    """Five A and then five B differ by it; blocks do not."""
    level, blocks = count(), []
    for index in range(6):
        order = plan_order(3, index)
        blocks.append(build_block(order, *(math.exp(-0.005 * next(level)) for _ in order)))
    found = decide(blocks, DESIGN)
    assert found.ratio == pytest.approx(1.0)
    assert found.drift == pytest.approx(math.exp(0.005 * 20) - 1)


def test_disturbed_blocks_are_counted_and_not_used() -> None:
    blocks = draw_blocks(5, 3, 1.0, 0.02)
    disturbed = build_block(ABBA, 1.0, 9.0, 9.0, 1.2, disturbed="the two runs of A differ")
    mine, others = decide([*blocks, disturbed], DESIGN), decide(blocks, DESIGN)
    assert (mine.ratio, mine.low, mine.high) == (others.ratio, others.low, others.high)
    assert (mine.runs, mine.blocks_used) == (16, 3)
    assert mine.drift is not None and others.drift is not None and mine.drift > others.drift


def test_without_blocks_nothing_is_said() -> None:
    found = decide([], DESIGN)
    assert (found.verdict, found.runs, found.more_blocks) == (AbVerdict.OPEN, 0, 2)
    assert found.ratio is found.low is found.high is found.drift is found.noise is None


def test_one_block_decides_nothing() -> None:
    """Whatever it shows: a step of the machine may lie inside it."""
    found = decide([build_block(ABBA, 1.0, 2.0, 2.0, 1.0)], DESIGN)
    assert (found.verdict, found.more_blocks) == (AbVerdict.OPEN, 1)


def test_runs_that_agree_to_the_last_digit_have_an_interval() -> None:
    """Counts are whole numbers: a noise of zero would make every difference certain."""
    found = decide([build_block(ABBA, 7.0, 7.0, 7.0, 7.0)] * 2, DESIGN)
    assert found.verdict == AbVerdict.NO_DIFFERENCE
    assert found.low is not None and found.low < 1.0


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="a rate is a positive number"):
        decide([build_block(ABBA, 1.0, 1.0, rate, 1.0)], DESIGN)


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(ValueError, match="are no block"):
        decide([build_block("AABB", 1.0, 1.0, 1.0, 1.0)], DESIGN)


@pytest.mark.parametrize("noise", [0.02, 0.03])
def test_the_estimated_blocks_suffice(noise: float) -> None:
    """In about `power` of cases; a difference of half the bound takes longest, and ends too."""
    for ratio in (1.0, 1.015, 1.03, 1.06):
        reached = 0
        for seed in range(50):
            blocks = draw_blocks(seed, 200, ratio, noise)
            told = decide(blocks[:4], DESIGN)
            more = decide_in_order(blocks)
            assert more.verdict != AbVerdict.OPEN
            reached += more.blocks_used <= 4 + told.more_blocks
        assert reached >= 25, ratio


def test_extreme_noise_and_rates_are_no_error() -> None:
    """Whatever a foreign file states."""
    wild = build_block(BAAB, 1e-300, 1e300, 1.0, 5e-324)
    calm = build_block(ABBA, 1.0, 1.0, 1.0, 1.0)
    found = decide([wild, calm, wild], DESIGN)
    assert found.verdict == AbVerdict.OPEN
    assert found.more_blocks > 0
    assert find_disturbance(ABBA, wild.values, [build_block(ABBA, 1.0, 1.0, 1.0, 1.0)] * 2)


@pytest.mark.parametrize("field", ["difference", "alpha", "power"])
@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, math.nan])
def test_a_design_that_can_say_nothing_is_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match="between|above"):
        AbDesign(**{"difference": 0.03, "seed": 1, field: value})


def test_orders_are_drawn_and_balanced() -> None:
    """Of two neighbours one begins with A: the sequence is the seed's."""
    orders = [plan_order(65, index) for index in range(400)]
    assert orders == [plan_order(65, index) for index in range(400)]
    assert orders != [plan_order(66, index) for index in range(400)]
    assert all(set(pair) == {ABBA, BAAB} for pair in zip(orders[::2], orders[1::2], strict=True))
    first = sum(each == ABBA for each in orders[::2])
    assert 75 <= first <= 125, "neighbours always begin alike"


def test_the_normal_quantile_of_the_largest_interval_is_a_number() -> None:
    """One millionth of a standard error of information would ask for a share of 1."""
    found = GainEstimate(mean=0.0, noise=400.0, dof=5, blocks=2)
    assert compute_half_width(found, DESIGN, 0.025) == pytest.approx(
        stats.t.isf(1 - NormalDist().cdf(MAX_STANDARD_ERRORS), 5) * 400 / 2**0.5, rel=1e-4
    )
