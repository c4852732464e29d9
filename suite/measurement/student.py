"""Student's t distribution, standard library only; matches scipy within 1e-9
(tests/submissions/compare/test_distributions.py).
"""

import math
from functools import cache
from typing import Final

from suite.loadgen.beta_distribution import compute_regularised_beta

MAX_BISECTION_STEPS: Final = 200
"""Limit of bisection steps; a double has 53 bits, and starting from 0 takes few more."""


def compute_t_upper_tail(t: float, dof: float) -> float:
    """Return P(T > t) for t >= 0. Source: Abramowitz and Stegun, 26.5.27 and 26.7.1."""
    if t == 0.0:
        return 0.5
    square = t * t
    if square < dof:  # where 1 - x would lose the digits of a small t
        return 0.5 - 0.5 * compute_regularised_beta(square / (dof + square), 0.5, dof / 2.0)
    return 0.5 * compute_regularised_beta(dof / (dof + square), dof / 2.0, 0.5)


def compute_t_two_sided(t: float, dof: float) -> float:
    """Return P(|T| > |t|)."""
    return 2.0 * compute_t_upper_tail(abs(t), dof)


@cache
def compute_t_quantile(share: float, dof: float) -> float:
    """Return the t below which `share` of the distribution lies, 0.5 <= share < 1, by bisection."""
    if not 0.5 <= share < 1.0 or not 0.0 < dof < math.inf:
        raise ValueError(f"no quantile {share!r} of {dof!r} degrees of freedom")
    tail = 1.0 - share
    low, high = 0.0, 1.0
    while compute_t_upper_tail(high, dof) > tail:
        low, high = high, 2.0 * high
    for _ in range(MAX_BISECTION_STEPS):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if compute_t_upper_tail(middle, dof) > tail:
            low, high = middle, high
        else:
            low, high = low, middle
    return high
