"""What all intervals and tests are made of: binomial bounds, and the tail of chi-square.

Clopper and Pearson 1934, Wilson 1927; the incomplete beta and gamma functions by continued fractions.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, isinf, lgamma, log, log1p, sqrt

Z = 1.959963984540054
"""Of a normal distribution, 95 % are within."""
_STEPS = 10_000


def wilson(hits: float, trials: float) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927); all of [0, 1] where nothing is known."""
    if trials <= 0:
        return 0.0, 1.0
    share, z2 = hits / trials, Z * Z / trials
    middle = (share + z2 / 2) / (1 + z2)
    half = Z * sqrt(max(share * (1 - share), 0.0) / trials + z2 / (4 * trials)) / (1 + z2)
    low = 0.0 if hits <= 0 else max(0.0, middle - half)
    high = 1.0 if hits >= trials else min(1.0, middle + half)
    return min(low, share), max(high, share)


def clopper_pearson(hits: int, trials: int, level: float = 0.05) -> tuple[float, float]:
    """The exact interval of a chance, which fails to hold it with probability `level` at most."""
    low = 0.0 if hits == 0 else _solved(lambda p: binomial_at_least(hits, trials, p), level / 2)
    high = 1.0 if hits == trials else _solved(lambda p: binomial_at_least(hits + 1, trials, p), 1 - level / 2)
    return low, high


def _solved(rising: Callable[[float], float], wanted: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if rising(middle) < wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def binomial_at_least(hits: int, trials: int, chance: float) -> float:
    """Pr(a binomial count is `hits` or more)."""
    if hits <= 0:
        return 1.0
    if hits > trials:
        return 0.0
    return _beta(hits, trials - hits + 1, chance)


def binomial_p(hits: int, trials: int, chance: float) -> float:
    """Two-sided p-value of a count: twice the smaller tail, which is exact to the safe side."""
    above = binomial_at_least(hits, trials, chance)
    below = _beta(trials - hits, hits + 1, 1 - chance) if hits < trials else 1.0
    return min(1.0, 2 * min(above, below))


def chi_square_tail(statistic: float, freedom: float) -> float:
    """Pr(chi-square of so many degrees of freedom is above the statistic)."""
    if statistic <= 0 or freedom <= 0:
        return 1.0
    a, x = freedom / 2, statistic / 2
    if isinf(x):
        return 0.0
    front = exp(a * log(x) - x - lgamma(a)) if a * log(x) - x - lgamma(a) > -745 else 0.0
    if x < a + 1:
        term = total = 1 / a
        for k in range(1, _STEPS * 100):
            term *= x / (a + k)
            total += term
            if term < total * 1e-15:
                break
        return max(0.0, 1 - front * total)
    b = x + 1 - a
    c, d = 1e300, 1 / b
    value = d
    for k in range(1, _STEPS * 100):
        an = -k * (k - a)
        b += 2
        d = an * d + b
        d = 1 / (d if abs(d) > 1e-300 else 1e-300)
        c = b + an / c
        c = c if abs(c) > 1e-300 else 1e-300
        value *= d * c
        if abs(d * c - 1) < 1e-14:
            break
    return front * value


def _beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    logs = lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)
    front = exp(logs) if logs > -745 else 0.0
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """Lentz's continued fraction of the incomplete beta function."""
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, _STEPS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + term * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + term / c
            c = c if abs(c) > tiny else tiny
            value *= d * c
        if abs(d * c - 1) < 1e-14:
            break
    return value
