"""Quantiles: where the estimated shares below reach a share, with the interval of a test's inversion.

The interval has all values below which, as far as chance tells, the share may lie (Woodruff 1952). Inside a bin
values are taken to be spread evenly.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan, sqrt

import numpy as np

from ppdm_cli import dtypes
from ppdm_cli.arrays import Floats
from ppdm_cli.domain import Bins, Domain, unit
from ppdm_cli.querying.told import SURE


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
        # the share below each mark less the share, and what chance makes of it
        below = np.tril(np.ones((len(counts), len(counts)))) - self.share
        excess = np.concatenate([[-self.share * n], below @ counts])
        spread = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", below, covered, below), 0.0))
        spread = np.concatenate([[0.0], spread])
        risen, low, high = (_risen(e) for e in (excess, excess + z * spread, excess - z * spread))
        place = self._first(risen)
        part = self._part(place, risen)
        at = np.concatenate([np.full((1, len(counts)), -self.share), below])  # how each excess moves
        moves[list(self.places)] = (1 - part) * at[max(place - 1, 0)] + part * at[place]
        return (
            self._between(self._first(risen), risen),
            self._between(self._first(low), low),
            self._last(high),
            moves,
        )

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

    @staticmethod
    def _first(excess: Floats) -> int:
        """Return the first mark at which the excess is no more negative."""
        return int(np.argmax(excess >= 0)) if (excess >= 0).any() else len(excess) - 1

    def _last(self, excess: Floats) -> float:
        """Return the last value at which it is not yet positive, or the end of the domain."""
        positive = excess > 0
        place = len(excess) - int(np.argmax(~positive[::-1])) if not positive.all() else 1
        return self._between(min(place, len(excess) - 1), excess)

    def _between(self, place: int, excess: Floats) -> float:
        marks = self._marks
        if not isinstance(self.domain, Bins):
            return float(marks[max(place, 1)])
        if place == 0:
            return float(marks[0])
        return float(marks[place - 1] + self._part(place, excess) * (marks[place] - marks[place - 1]))

    def _part(self, place: int, excess: Floats) -> float:
        """Return how far from the mark before to this one the excess is 0; of single values, all the way."""
        before, after = excess[max(place - 1, 0)], excess[place]
        if not isinstance(self.domain, Bins):
            return 0.0 if place == len(excess) - 1 else 1.0
        return float(min(max(-before / (after - before), 0.0), 1.0)) if after > before else 1.0


def _risen(values: Floats) -> Floats:
    """Return values that never fall: half-way between their largest so far and their least from there on."""
    return (np.maximum.accumulate(values) + np.minimum.accumulate(values[::-1])[::-1]) / 2
