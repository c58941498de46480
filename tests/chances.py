"""The statistical tests that laws are held to: exact binomial, Pearson's chi-square, and their power.

Every test runs at level `LEVEL`, so that a family of a hundred is wrong with probability below
1e-4; keys and seeds are fixed, so a test that passes once passes always.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats

LEVEL = 1e-6


def binomial(successes: int, trials: int, share: float) -> float:
    """Two-sided p-value of a count."""
    return float(stats.binomtest(successes, trials, share).pvalue)


def chi_square(counts: np.ndarray, shares: np.ndarray, fitted: int = 1) -> float:
    """p-value of counts against the shares of their law, in groups whose totals are given.

    `fitted` is how many totals (or other numbers) the expected counts were taken from.
    """
    total = counts.sum()
    expected = shares / shares.sum() * total
    assert expected.min() >= 5, "too few draws for the chi-square law"
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, counts.size - fitted))


def independent(table: np.ndarray) -> float:
    """p-value of a two-way table of counts against independence of its margins."""
    return float(stats.chi2_contingency(table, correction=False).pvalue)


def binomial_power(trials: int, share: float, wrong: float) -> float:
    """Chance that a count of law `wrong` is told from `share` (normal tails)."""
    margin = stats.norm.isf(LEVEL / 2) * np.sqrt(share * (1 - share) / trials)
    spread = np.sqrt(wrong * (1 - wrong) / trials)
    if spread == 0:
        return float(abs(wrong - share) > margin)
    law = stats.norm(wrong, spread)
    return float(law.sf(share + margin) + law.cdf(share - margin))


def uniform_power(draws: float, wrong: np.ndarray) -> float:
    """Chance that draws of law `wrong` are told from uniform ones by chi-square."""
    size = len(wrong)
    if size < 2:
        return 0.0
    away = draws * size * float(((wrong / wrong.sum() - 1 / size) ** 2).sum())
    critical = stats.chi2.isf(LEVEL, size - 1)
    return float(stats.ncx2.sf(critical, size - 1, away)) if away else LEVEL


def least(power: Callable[[int], float], wanted: float, most: int) -> int:
    """The fewest draws, to within a hundredth, that give a test the power, or `most`."""
    low, high = 1 << 12, 1 << 12
    while high < most and power(high) < wanted:
        low, high = high, min(2 * high, most)
    while high - low > high // 100:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= wanted else (middle, high)
    return high
