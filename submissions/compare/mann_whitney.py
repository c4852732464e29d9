"""The Mann-Whitney test, for sets with runs that missed their target: such a run is slower than all
others by an unknown amount.

The test is exact: it counts all ways to assign the ranks. It matches scipy's
`mannwhitneyu(method="exact")` within 1e-9 if no two runs are equal, and its full permutation test
otherwise (tests/submissions/compare/test_mann_whitney.py).
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final

MAX_EXACT_RUNS: Final = 50
"""Total runs of both sides up to which the test is exact; above it, the normal approximation is
more precise than any run's clock. Source: benchstat (golang.org/x/perf, internal/stats/utest.go)
counts exactly up to as many runs per side.
"""


def compute_doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value, with mean ranks for ties: doubling keeps all of them
    integers.
    """
    ordered = sorted(values)
    first = {value: rank for rank, value in reversed(list(enumerate(ordered, 1)))}
    last = {value: rank for rank, value in enumerate(ordered, 1)}
    return [first[value] + last[value] for value in values]


def compute_rank_p_value(first: Sequence[float], other: Sequence[float]) -> float:
    """Return the two-sided p-value for both sides having the same distribution; ValueError if a
    side has no runs.
    """
    if not first or not other:
        raise ValueError("a test needs at least one run on each side")
    doubled_ranks = compute_doubled_ranks([*first, *other])
    found = sum(doubled_ranks[: len(first)])
    if len(doubled_ranks) <= MAX_EXACT_RUNS:
        return compute_exact_p_value(doubled_ranks, len(first), found)
    return estimate_normal_p_value(doubled_ranks, len(first), found)


def has_higher_mean_rank(first: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether the other side has the higher mean rank."""
    doubled_ranks = compute_doubled_ranks([*first, *other])
    return sum(doubled_ranks[len(first) :]) * len(first) > sum(doubled_ranks[: len(first)]) * len(
        other
    )


def compute_exact_p_value(doubled_ranks: Sequence[int], take: int, found: int) -> float:
    """Return the p-value from the number of ways to choose this many ranks with a sum at least as
    extreme as the observed one.
    """
    ways = count_rank_sums(doubled_ranks, take)
    total = math.comb(len(doubled_ranks), take)
    low = sum(count for value, count in ways.items() if value <= found)
    high = sum(count for value, count in ways.items() if value >= found)
    return min(1.0, 2 * min(low, high) / total)


def count_rank_sums(doubled_ranks: Sequence[int], take: int) -> dict[int, int]:
    """Return each sum of `take` ranks -> the number of ways to obtain it."""
    ways: list[dict[int, int]] = [{0: 1}, *({} for _ in range(take))]
    for rank in doubled_ranks:
        for taken in range(take, 0, -1):
            for value, count in ways[taken - 1].items():
                ways[taken][value + rank] = ways[taken].get(value + rank, 0) + count
    return ways[take]


def estimate_normal_p_value(doubled_ranks: Sequence[int], take: int, found: int) -> float:
    """Normal approximation for many runs, corrected for ties and continuity."""
    size = len(doubled_ranks)
    mean = (size + 1) / 2
    spread = sum((rank / 2 - mean) ** 2 for rank in doubled_ranks) / (size - 1)
    error = math.sqrt(spread * take * (size - take) / size)
    distance = abs(found / 2 - take * mean) - 0.5
    if not error:
        return 1.0
    return min(1.0, 2.0 * (1.0 - NormalDist().cdf(distance / error)))
