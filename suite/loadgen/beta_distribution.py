"""The regularised incomplete beta function in pure Python: the binomial tail of LoadGen's early
stopping, and Student's distribution.

Source: DLMF 8.17.22; Press et al., Numerical Recipes, 6.4. Tested against scipy.
"""

import math
from typing import Final

LENTZ_FLOOR: Final = 1e-300
FRACTION_PRECISION: Final = 1e-15


def compute_regularised_beta(x: float, a: float, b: float) -> float:
    """Return I_x(a, b) for 0 < x < 1 and a, b > 0, by continued fraction."""
    if x > (a + 1) / (a + b + 2):  # the continued fraction converges faster for the complement
        return 1.0 - compute_regularised_beta(1.0 - x, b, a)
    log_front = (
        a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    )
    return math.exp(log_front) / a / compute_continued_fraction(x, a, b)


def compute_continued_fraction(x: float, a: float, b: float) -> float:
    """Evaluate 1 + d1/(1 + d2/(1 + ...)) by the modified Lentz method."""
    value = c = 1.0
    d = 0.0
    change, step = 2.0, 0
    while abs(change - 1.0) > FRACTION_PRECISION:
        step += 1
        term = compute_fraction_coefficient(x, a, b, step)
        d = 1.0 / (1.0 + term * d or LENTZ_FLOOR)
        c = 1.0 + term / c or LENTZ_FLOOR
        change = c * d
        value *= change
    return value


def compute_fraction_coefficient(x: float, a: float, b: float, step: int) -> float:
    """Return d_step of the continued fraction."""
    m, odd = divmod(step, 2)
    if odd:
        return -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
    return m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
