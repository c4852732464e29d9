"""Tests of paired differences: known values, honest systems, and systems that lose one per cent."""

import numpy as np
import pytest
from scipy.stats import binomtest

from suite.measurement.paired import (
    LEAST_DIFFERING,
    compare_drawn_scores,
    compute_mcnemar_p,
    draw_scores,
)
from workloads.common.score_samplers import build_mean_sampler, build_share_sampler

SAMPLES = 2048


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (0, 5), (6, 0), (10, 25), (40, 41)])
def test_mcnemar_is_the_binomial_test(gained: int, lost: int) -> None:
    """Of the samples that only one of the two answers right."""
    wanted = 1.0 if gained + lost == 0 else binomtest(gained, gained + lost).pvalue
    assert compute_mcnemar_p(gained, lost) == pytest.approx(wanted)


def test_equal_systems_differ_by_nothing() -> None:
    """And the least difference that could be found is stated, not 0."""
    right = {"top1": [True] * 30 + [False] * 10}
    drawn = draw_scores(build_share_sampler(right))
    found = compare_drawn_scores(drawn, drawn, 0)["top1"]
    assert (found.difference, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)
    assert found.smallest == LEAST_DIFFERING / 40 and not found.is_separable


def test_a_lost_per_cent_is_found() -> None:
    """Of 2,048 right or wrong answers, where the rest is answered alike."""
    right = np.arange(SAMPLES) % 4 != 0
    worse = right.copy()
    worse[np.flatnonzero(right)[:20]] = False
    honest, losing = (
        draw_scores(build_share_sampler({"top1": each.tolist()})) for each in (right, worse)
    )
    found = compare_drawn_scores(losing, honest, 20)["top1"]
    assert found.is_separable and found.test == "McNemar"
    assert found.difference == pytest.approx(-20 / SAMPLES)
    assert found.low < found.difference < found.high < 0
    assert found.smallest < 0.01


def test_a_lost_per_cent_of_a_mean_is_found() -> None:
    """By the bootstrap; five samples alone never suffice."""
    generator = np.random.default_rng(5)
    values = generator.uniform(0.5, 1.0, 512)
    worse = values.copy()
    worse[:26] -= 0.2
    honest = draw_scores(build_mean_sampler({"rougeL": values.tolist()}))
    losing = draw_scores(build_mean_sampler({"rougeL": worse.tolist()}))
    found = compare_drawn_scores(losing, honest, 26)["rougeL"]
    assert found.is_separable and found.test == "paired bootstrap" and found.p < 0.05
    assert found.difference == pytest.approx(-26 * 0.2 / 512)
    assert not compare_drawn_scores(losing, honest, LEAST_DIFFERING - 1)["rougeL"].is_separable


def test_numbers_are_the_same_each_time() -> None:
    """The judge computes them again."""
    values = np.random.default_rng(7).normal(size=100).tolist()
    one, other = (draw_scores(build_mean_sampler({"bleu": values})) for _ in range(2))
    shifted = draw_scores(build_mean_sampler({"bleu": values[::-1]}))
    assert compare_drawn_scores(shifted, one, 100) == compare_drawn_scores(shifted, other, 100)


def test_other_numbers_of_samples_are_refused() -> None:
    """They are not the same samples."""
    one, other = (draw_scores(build_mean_sampler({"bleu": [0.5] * count})) for count in (8, 9))
    with pytest.raises(ValueError, match="8 samples, and 9 of the other"):
        compare_drawn_scores(one, other, 0)


def test_honest_systems_are_told_apart_in_five_per_cent() -> None:
    """Four hundred pairs of equally good systems; what exceeds 8 % has a probability of 0.5 %."""
    generator = np.random.default_rng(11)
    alarms = 0
    for _ in range(400):
        first, second = (
            build_mean_sampler({"rougeL": (base + noise).tolist()})
            for base in [generator.uniform(0.4, 0.9, 160)]
            for noise in generator.normal(0, 0.1, (2, 160))
        )
        found = compare_drawn_scores(draw_scores(first), draw_scores(second), 160)
        alarms += found["rougeL"].is_separable
    assert alarms <= 0.08 * 400
