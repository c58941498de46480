"""Quantiles: where the estimated shares below reach a share, with the interval of a test's inversion.

The interval has all values below which, as far as chance tells, the share may lie (Woodruff 1952). Estimated
shares need not rise, nor the ends of their intervals: they are put in order, which brings them nearer to what
does rise (Chernozhukov, Fernandez-Val and Galichon 2009). Inside a bin values are taken to be spread evenly.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan, sqrt

import numpy as np

from ppdm_cli import dtypes
from ppdm_cli.arrays import Floats
from ppdm_cli.domain import Bins, Domain, unit
from ppdm_cli.querying.told import SURE

STEPS = 32
"""How finely shares are followed inside a bin."""


@dataclass(frozen=True, eq=False)
class Quantile:
    """A quantile that is asked for: the sums that count each code of its column."""

    domain: Domain
    places: tuple[int, ...]
    share: float

    def of(self, sums: Floats, covariance: Floats, z: float) -> tuple[float, float, float, Floats]:
        """Return the quantile, its interval, and how the share below moves with each sum.

        NaN where there may be no records at all.
        """
        moves = np.zeros(len(sums))
        own = np.ix_(self.places, self.places)
        counts, covered = sums[list(self.places)], covariance[own]
        n = float(counts.sum())
        if not n > SURE * sqrt(max(covered.sum(), 0.0)):
            return nan, nan, nan, moves
        # at each mark the records below less the share of all, and what chance makes of it
        below = np.tril(np.ones((len(counts) + 1, len(counts))), -1) - self.share
        along = below @ covered
        excess, squares = below @ counts, np.einsum("ij,ij->i", along, below)
        excess, spread = self._inside(excess, squares, np.einsum("ij,ij->i", along[:-1], below[1:]))
        places = [self._crossed(excess + reach) for reach in (0.0, z * spread)]
        places.append(self._crossed(excess - z * spread, last=True))
        whole = int(places[0])
        part = places[0] - whole
        moves[list(self.places)] = (1 - part) * below[whole] + part * below[min(whole + 1, len(counts))]
        value, low, high = np.interp(places, np.arange(len(below)), self._marks)
        return float(value), float(low), float(high), moves

    def _inside(self, excess: Floats, squares: Floats, products: Floats) -> tuple[Floats, Floats]:
        """Return the excess and its standard error, inside bins too: `STEPS` of them to a bin.

        What lies between two marks is a mean of both, whose errors have these squares and products.
        """
        if not isinstance(self.domain, Bins):
            return excess, np.sqrt(np.maximum(squares, 0.0))
        part = np.arange(STEPS)[None, :] / STEPS
        first = (1 - part) * excess[:-1, None] + part * excess[1:, None]
        second = (1 - part) ** 2 * squares[:-1, None] + part**2 * squares[1:, None]
        second = second + 2 * part * (1 - part) * products[:, None]
        found = np.append(second.ravel(), squares[-1])
        return np.append(first.ravel(), excess[-1]), np.sqrt(np.maximum(found, 0.0))

    def _crossed(self, curve: Floats, last: bool = False) -> float:
        """Return at which mark a curve becomes 0, made to rise; of single values the first, or the last."""
        curve, most = np.sort(curve), float(len(self.places))
        place = int(np.searchsorted(curve, 0.0, "right" if last else "left"))
        if not isinstance(self.domain, Bins):
            return min(max(place, 1), most)
        if place in (0, len(curve)):
            return most * (place > 0)
        before, after = curve[place - 1], curve[place]
        return float(place - 1 - before / (after - before)) / STEPS

    @property
    def _marks(self) -> Floats:
        """Return where each code ends, and before them where the first begins."""
        scale = unit(self.domain.kind)
        if isinstance(self.domain, Bins):
            half = dtypes.is_whole(self.domain.kind) / 2  # whole numbers count half a step to either side
            edges = self.domain.edges.astype(np.float64) - half
            edges[-1] += 2 * half
            return edges * scale
        return np.asarray([self.domain.marks[0], *self.domain.marks], np.float64) * scale
