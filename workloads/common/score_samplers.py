"""Scores over any choice of samples, for tests of paired differences (suite.measurement.paired);
imports no framework.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

# Legend: R draws, S samples, M metrics, F statistics of a sample.
Integers: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Booleans: TypeAlias = npt.NDArray[np.bool_]

DRAWS_AT_ONCE: Final = 64
"""So that draws of 50,000 samples need some 100 MB."""


class SumSampler:
    """Scores that follow from sums over the samples."""

    def __init__(
        self,
        statistic_SF: Floats,
        combine: Callable[[Floats, int], Mapping[str, Floats]],
        right: Mapping[str, Booleans] | None = None,
    ) -> None:
        """Keep the statistics of each sample.

        Args:
            statistic_SF: what is summed over the samples.
            combine: function of the sums, [R, F], and the number of samples that returns each
                metric, [R].
            right: which samples are right, [S], of metrics that are their share.
        """
        self.statistic_SF, self.combine = statistic_SF, combine
        self.right: Mapping[str, Booleans] = right or {}

    @property
    def sample_count(self) -> int:
        """Return the number of samples."""
        return len(self.statistic_SF)

    def score_draws(self, draw_RS: Integers) -> Mapping[str, Floats]:
        """Return each metric over draws of samples, [R]."""
        parts = [
            self.statistic_SF[draw_RS[begin : begin + DRAWS_AT_ONCE]].sum(axis=1)
            for begin in range(0, len(draw_RS), DRAWS_AT_ONCE)
        ]
        return self.combine(np.concatenate(parts), draw_RS.shape[1])


def build_mean_sampler(values: Mapping[str, Sequence[float]]) -> SumSampler:
    """Build the sampler of metrics that are means over the samples."""
    return SumSampler(stack_values(values), make_mean_combination(tuple(values)))


def build_share_sampler(right: Mapping[str, Sequence[bool]]) -> SumSampler:
    """Build the sampler of metrics that are shares of right samples."""
    return SumSampler(
        stack_values(right),
        make_mean_combination(tuple(right)),
        {metric: np.array(each, dtype=np.bool_) for metric, each in right.items()},
    )


def stack_values(values: Mapping[str, Sequence[float]]) -> Floats:
    """Return the values of all metrics, [S, M]."""
    return np.stack([np.array(each, dtype=np.float64) for each in values.values()], axis=1)


def make_mean_combination(
    metrics: Sequence[str],
) -> Callable[[Floats, int], Mapping[str, Floats]]:
    """Return the function that divides sums by the number of samples."""

    def divide_sums(sum_RM: Floats, samples: int) -> Mapping[str, Floats]:
        return {metric: sum_RM[:, place] / samples for place, metric in enumerate(metrics)}

    return divide_sums
