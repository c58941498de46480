"""Tests: how likely what was published would be, were some numbers computed from sums 0 in the population.

Such numbers d have the covariance S = G V G', by the delta method with the whole covariance V of the sums. Of
Q = sum w d^2 the law is a sum of chi-squares, weighted by the eigenvalues of S scaled by w (Rao and Scott
1981); its tail is that of a chi-square with the same first three moments (Hall, 1983; Buckley
and Eagleson, 1988).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.querying.told import Told
from ppdm_cli.stats import chi_square_tail

Compared = Callable[[Floats], tuple[list[Told], Floats]]
"""What makes of a group's sums the numbers that a test takes for 0, and their weights."""


@dataclass(frozen=True, eq=False)
class Test:
    """A test that is asked for."""

    compared: Compared
    shown: Callable[[Floats], Told] | None = None
    """A number that is told with the p-value, where there is one that says more than the statistic."""

    def of(self, sums: Floats, sampled: Floats, clean: Floats) -> tuple[float, float, float]:
        """Return the statistic, its p-value, and the share of the records that originals would need.

        The statistic is scaled to the mean of a chi-square with as many degrees of freedom as there are.
        """
        apart, weights = self.compared(sums)
        if not all(d.sure(sampled) for d in apart):
            return np.nan, np.nan, np.nan
        roots = np.sqrt(weights)
        moves = np.stack([d.gradient for d in apart]) * roots[:, None]
        spread = moves @ sampled @ moves.T
        statistic = float((np.array([d.value for d in apart]) ** 2 * weights).sum())
        whole = float(np.trace(spread))
        share = float(np.trace(moves @ clean @ moves.T)) / whole if whole > 0 else 1.0
        laws = np.asarray(np.linalg.eigvalsh(spread), np.float64)
        scale = np.count_nonzero(laws > 1e-9 * laws.max()) / whole if whole > 0 else 1.0
        return statistic * scale, tail(statistic, laws), min(max(share, 0.0), 1.0)


def tail(statistic: float, weights: Floats) -> float:
    """Return how often a sum of chi-squares of one degree with these weights is more than a statistic."""
    one, two, three = (float((np.maximum(weights, 0.0) ** k).sum()) for k in (1, 2, 3))
    if three <= 0:
        return 1.0 if statistic <= 0 else 0.0
    freedom = two**3 / three**2
    return chi_square_tail(max((statistic - one) * two / three + freedom, 0.0), freedom)


def holm(values: Sequence[float]) -> list[float]:
    """Return p-values of several tests that hold together (Holm 1979)."""
    order = np.argsort(values)
    found, least = [1.0] * len(values), 0.0
    for rank, place in enumerate(order):
        least = max(least, min(1.0, values[place] * (len(values) - rank)))
        found[place] = least
    return found
