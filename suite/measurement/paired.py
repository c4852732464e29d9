"""Whether two systems that answered the same samples differ in score, and by how much.

Right or wrong answers are compared by McNemar's test (McNemar 1947, Psychometrika 12), other scores
by a paired bootstrap: samples are drawn with repetition, the same for both systems (Efron and
Tibshirani 1993, chapter 16; for BLEU Koehn 2004, W04-3250). All draws come from one seed, so that
the judge finds the same numbers.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# Legend: R draws, S samples.
Integers: TypeAlias = "npt.NDArray[np.int64]"
Floats: TypeAlias = "npt.NDArray[np.float64]"
Booleans: TypeAlias = "npt.NDArray[np.bool_]"

BOOTSTRAP_DRAWS: Final = 500
MCNEMAR: Final = "McNemar"
BOOTSTRAP: Final = "paired bootstrap"
BOOTSTRAP_SEED: Final = 20_261_130
CONFIDENCE: Final = 0.95
SIGNIFICANCE: Final = 1 - CONFIDENCE
POWER: Final = 0.8
"""With which the smallest difference is found."""
NORMAL_95: Final = 1.959964
"""Quantile of the normal distribution, two-sided 95 %."""
NORMAL_POWER: Final = 0.841621
"""Quantile of the normal distribution, 80 %."""
LEAST_DIFFERING: Final = 6
"""Samples that must be answered differently: five that all favour one system have a probability of
2 / 2^5 = 0.06 if both are equally good, six one of 0.03.
"""


class ScoreSampler(Protocol):
    """Scores of one system's answers over any choice of its samples: what a workload's
    `sample_scores` returns.
    """

    @property
    def sample_count(self) -> int:
        """Return the number of samples."""
        ...

    @property
    def right(self) -> Mapping[str, Booleans]:
        """Return which samples are answered right, [S], for each metric that is their share."""
        ...

    def score_draws(self, draw_RS: Integers) -> Mapping[str, Floats]:
        """Return each metric over draws of samples, [R]."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """How a metric of one system differs from that of another on the same samples."""

    difference: float
    """Positive: the metric is higher than the other system's."""
    low: float
    """95 % interval of the difference, paired bootstrap."""
    high: float
    test: str
    p: float
    """Two-sided."""
    is_separable: bool
    """Whether a test at the 5 % level tells the two apart."""
    smallest: float
    """Difference that as many samples find in 80 % of all cases."""
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DrawnScores:
    """What is computed once of a system, however many others it is compared with."""

    samples: int
    right: Mapping[str, Booleans]
    whole: Mapping[str, float]
    """Each metric over all samples."""
    drawn: Mapping[str, Floats]
    """Each metric over each draw, [R]."""


def draw_scores(sampler: ScoreSampler) -> DrawnScores:
    """Compute the scores over all draws."""
    import numpy as np

    whole = sampler.score_draws(np.arange(sampler.sample_count)[None])
    return DrawnScores(
        samples=sampler.sample_count,
        right=sampler.right,
        whole={metric: float(value_1[0]) for metric, value_1 in whole.items()},
        drawn=sampler.score_draws(draw_samples(sampler.sample_count)),
    )


def compare_drawn_scores(
    one: DrawnScores, other: DrawnScores, differing: int
) -> dict[str, PairedDifference]:
    """Compare each metric that both systems have.

    Args:
        one: the system that is compared.
        other: what it is compared with.
        differing: samples that the two answer differently.

    Raises:
        ValueError: they have other numbers of samples.
    """
    if one.samples != other.samples:
        raise ValueError(f"{one.samples} samples, and {other.samples} of the other")
    return {
        metric: build_difference(
            difference=one.whole[metric] - other.whole[metric],
            difference_R=one.drawn[metric] - other.drawn[metric],
            rights=find_both_rights(one, other, metric),
            differing=differing,
            samples=one.samples,
        )
        for metric in one.drawn
        if metric in other.drawn
    }


def find_both_rights(
    one: DrawnScores, other: DrawnScores, metric: str
) -> tuple[Booleans, Booleans] | None:
    """Return which samples either system answers right; None of another kind of score."""
    mine, others = one.right.get(metric), other.right.get(metric)
    if mine is None or others is None:
        return None
    return mine, others


def build_difference(
    *,
    difference: float,
    difference_R: Floats,
    rights: tuple[Booleans, Booleans] | None,
    differing: int,
    samples: int,
) -> PairedDifference:
    """Test a difference, given those of all draws."""
    import numpy as np

    low, high = np.quantile(difference_R, [SIGNIFICANCE / 2, 1 - SIGNIFICANCE / 2])
    spread = float(difference_R.std(ddof=1))
    if rights is None:
        test, p, least = BOOTSTRAP, compute_bootstrap_p(difference_R), 0.0
    else:
        mine, others = rights
        gained, lost = int((mine & ~others).sum()), int((others & ~mine).sum())
        test, p, least = MCNEMAR, compute_mcnemar_p(gained, lost), LEAST_DIFFERING / samples
    return PairedDifference(
        difference=difference,
        low=float(low),
        high=float(high),
        test=test,
        p=p,
        is_separable=p <= SIGNIFICANCE and differing >= LEAST_DIFFERING,
        smallest=max((NORMAL_95 + NORMAL_POWER) * spread, least),
        samples=samples,
    )


def compute_bootstrap_p(difference_R: Floats) -> float:
    """Return twice the share of draws on the rarer side of 0, which counts one draw more than there
    are: without it, few draws find too much (Davison and Hinkley 1997, section 4.2).
    """
    rarer = min(int((difference_R <= 0).sum()), int((difference_R >= 0).sum()))
    return min(1.0, 2 * (rarer + 1) / (len(difference_R) + 1))


def compute_mcnemar_p(gained: int, lost: int) -> float:
    """Return the two-sided exact p of McNemar's test: if both systems are equally good, each sample
    that only one of them answers right falls to either with probability 1/2.
    """
    discordant = gained + lost
    tail = sum(math.comb(discordant, count) for count in range(min(gained, lost) + 1))
    return min(1.0, float(2 * tail / 2**discordant))


@lru_cache(maxsize=4)
def draw_samples(count: int) -> Any:
    """Return the numbers of drawn samples, [R, S]: the same ones for each pair of systems."""
    import numpy as np

    generator = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    return generator.integers(0, count, size=(BOOTSTRAP_DRAWS, count), dtype=np.int64)
