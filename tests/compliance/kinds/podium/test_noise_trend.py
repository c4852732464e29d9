"""The judge's test of a run's pace: how often chance alone makes a steady run suspect, and which
runs are found.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from compliance.kinds.podium.documents.conditions import RunConditions
from compliance.kinds.podium.rules import noise
from suite import registry

HALF = 5
"""Slices of half a run."""
CROWDED = 0.08
"""Spread of the slices of short runs on a shared host, as a share of the rate: halves differ by
more than 3 % in every other run.
"""


def suspect(slices: Sequence[float]) -> bool:
    """Judge the pace of a run with these rates in ten slices of its time."""
    rates = (slices[:HALF], slices[HALF:])
    run = RunConditions(
        path=Path("run_1"),
        telemetry=None,
        window=None,
        resumed=False,
        rates=rates,
        round=registry.load_round(),
    )
    return bool(list(noise.trend(run)))


def runs(
    count: int, spread: float, pace: Callable[[int], float] = lambda place: 1.0
) -> list[list[float]]:
    """Draw runs whose slices have this pace and spread."""
    draw = random.Random(14)
    return [
        [1000 * pace(place) * draw.gauss(1.0, spread) for place in range(2 * HALF)]
        for _ in range(count)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.01, CROWDED])
def test_a_steady_run_is_suspect_as_seldom_as_the_round_says(spread: float):
    """Twenty undisturbed runs have to pass together; where any two halves that lie apart were
    suspect, one run in 126 was.
    """
    level = registry.load_round().noise.trend_level  # type: ignore[union-attr]
    found = sum(map(suspect, runs(10_000, spread)))
    assert found <= 1.5 * level * 10_000 and (1 - level) ** 20 > 0.95


def test_two_halves_that_lie_apart_by_chance_are_not_suspect():
    """Each slice of the second half is slower, by no more than slices differ among themselves."""
    assert not suspect([1010, 1150, 1020, 1200, 1030, 1000, 900, 995, 840, 990])


@pytest.mark.parametrize(
    ("pace", "share"),
    [
        (lambda place: 1.0 if place < HALF else 0.7, 0.99),  # somebody began to use the cores
        (lambda place: 0.7 if place < HALF else 1.0, 0.99),  # and ended
        (lambda place: 1.0 - 0.03 * place, 0.6),  # a machine that becomes hot
    ],
)
def test_a_disturbed_run_is_suspect(pace: Callable[[int], float], share: float):
    """At a spread of 2 %, as quiet hosts have it."""
    assert sum(map(suspect, runs(200, 0.02, pace))) >= share * 200


def test_equal_slices_are_judged_without_a_spread():
    """A made-up record may have none."""
    assert (
        not suspect([1000.0] * 10)
        and not suspect([0.0] * 10)
        and suspect([1000.0] * HALF + [900.0] * HALF)
    )


def test_without_the_rules_or_the_rates_nothing_is_suspect():
    """Earlier rounds have no limits; a short run has no slices."""
    run = RunConditions(
        path=Path("run_1"),
        telemetry=None,
        window=None,
        resumed=False,
        rates=None,
        round=registry.load_round(),
    )
    assert not list(noise.trend(run)) and not list(
        noise.trend(
            replace(run, rates=([1.0] * 5, [2.0] * 5), round=replace(run.round, noise=None))
        )
    )
