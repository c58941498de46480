"""Tests: how likely what was published would be, were some numbers computed from sums 0 in the population.

Such numbers d have the covariance S = G V G', by the delta method with the whole covariance V of the sums. Of
Q = sum w d^2 the law is a sum of chi-squares, weighted by the eigenvalues of S scaled by w (Rao and Scott
1981); its tail is that of a chi-square with the same first three moments (Hall, 1983; Buckley
and Eagleson, 1988). 1/w is what Pearson divides by, and what the noise adds to d's variance: of originals the
test is his, and cells that are noise alone have no say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from ppdm_cli.arrays import Floats, chi_square_tail
from ppdm_cli.querying.told import Told

FLOOR = 0.1
"""The least that Pearson's test divides by, as a share of the mean."""

Compared = Callable[[Floats], tuple[list[Told], Floats]]
"""What makes of a group's sums the numbers that a test takes for 0, and what Pearson would divide by."""


@dataclass(frozen=True, eq=False)
class Test:
    """A test that is asked for."""

    compared: Compared
    shown: Callable[[Floats], Told] | None = None
    """A number that is told with the p-value, where there is one that says more than the statistic."""
    kept: Callable[[Floats], float] | None = None
    """Of a test of what was published itself, the share of records that originals would need."""

    def of(self, sums: Floats, sampled: Floats, clean: Floats) -> tuple[float, float, float]:
        """Return the statistic, its p-value, and the share of the records that originals would need.

        The statistic is scaled to the mean of a chi-square with as many degrees of freedom as there are.
        """
        apart, pearsons = self.compared(sums)
        if not all(d.sure(sampled) for d in apart):
            return np.nan, np.nan, np.nan
        moves = np.stack([d.gradient for d in apart])
        pearsons = np.maximum(pearsons, FLOOR * np.maximum(pearsons, 0.0).mean())
        spread = moves @ sampled @ moves.T
        own = np.einsum("ij,jk,ik->i", moves, clean, moves)
        noise = np.maximum(np.diagonal(spread) - own, 0.0)
        own = pearsons * max(float(own.sum()), 0.0) / max(float(pearsons.sum()), 1e-300)
        # a weight must not hang on its own cell's chance: noise is taken as a line over what Pearson divides by
        level, size = float(noise.mean()), pearsons / max(float(pearsons.mean()), 1e-300) - 1
        slope = float(size @ noise) / max(float(size @ size), 1e-300)
        noise = level + min(max(slope, 0.0), level) * size
        weights = np.divide(1.0, own + noise, out=np.zeros(len(own)), where=own + noise > 0)
        roots = np.sqrt(weights)
        statistic = float((np.array([d.value for d in apart]) ** 2 * weights).sum())
        laws = np.asarray(np.linalg.eigvalsh(spread * np.outer(roots, roots)), np.float64)
        freedom, whole = np.count_nonzero(laws > 1e-9 * laws.max()), float(laws.sum())
        if self.kept is not None:
            share = self.kept(sums)
        else:  # as far as what is not so moves it, in its own standard deviations
            moved = float((weights * own).sum())
            share = moved / sqrt(freedom * float((laws**2).sum())) if whole > 0 else 1.0
        scale = freedom / whole if whole > 0 else 1.0
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
