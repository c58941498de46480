"""Does the order of the rows give private values back? A few numbers an attribute, beside the perturbing.

A file sorted by a private column publishes it, whatever gamma says: the neighbours of a record tell
its value. So the true codes of neighbours are compared with what independence would give: how often
they are equal, and how far apart they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np

from ppdm_cli.arrays import Codes

TELLING = 0.1
"""Share of the possible excess of likeness (or of difference) between neighbours that is refused."""
CERTAIN = 4.0
"""... where chance does not explain it: 4 standard deviations."""
_SAMPLE = 1 << 15
"""Rows of a partition that distances and shares are counted on."""


@dataclass
class OrderState:
    """Likeness of neighbours and a histogram of codes; merges in the rows' order."""

    pairs: int
    agreements: int
    measured: int
    """Pairs whose distance is in `distance`."""
    distance: int
    first: int | None
    last: int | None
    histogram: np.ndarray

    @classmethod
    def of(cls, codes: Codes, size: int) -> OrderState:
        if not len(codes):
            return cls(0, 0, 0, 0, None, None, np.zeros(size, np.int64))
        shares = codes if len(codes) < _SAMPLE else codes.take(_sampled_rows(len(codes)))
        near = codes[:_SAMPLE].astype(np.int32)
        return cls(
            len(codes) - 1,
            int(np.count_nonzero(codes[1:] == codes[:-1])),
            len(near) - 1,
            int(np.abs(np.diff(near)).sum(dtype=np.int64)),
            int(codes[0]),
            int(codes[-1]),
            np.bincount(shares, minlength=size),
        )

    def merge(self, after: OrderState) -> None:
        if after.first is None:
            return
        self.pairs += after.pairs
        self.agreements += after.agreements
        self.measured += after.measured
        self.distance += after.distance
        self.histogram += after.histogram
        if self.last is not None:
            self.pairs += 1
            self.agreements += self.last == after.first
        else:
            self.first = after.first
        self.last = after.last

    @property
    def telling(self) -> bool:
        """Whether neighbours are alike, or avoid each other, so much that the order gives values back."""
        if self.measured < 2:
            return False
        shares = self.histogram / self.histogram.sum()
        return self._agreement_tells(shares) or self._distance_tells(shares)

    def _agreement_tells(self, shares: np.ndarray) -> bool:
        expected = float((shares**2).sum())
        # neighbouring pairs share a record, hence the covariance
        variance = expected * (1 - expected) + 2 * float((shares**3).sum() - expected**2)
        excess = self.agreements / self.pairs - expected
        strength = excess / (1 - expected) if excess > 0 else -excess / expected
        return _tells(strength, abs(excess), variance, self.pairs) if 0 < expected < 1 else False

    def _distance_tells(self, shares: np.ndarray) -> bool:
        codes = np.arange(len(shares), dtype=np.float64)
        below, mean = np.cumsum(shares), float((shares * codes).sum())
        moment_below = np.cumsum(shares * codes)
        to_others = codes * (2 * below - 1) + mean - 2 * moment_below  # E|k - c| for each k
        expected = float((shares * to_others).sum())
        square = 2 * (float((shares * codes**2).sum()) - mean**2)
        variance = square - expected**2 + 2 * (float((shares * to_others**2).sum()) - expected**2)
        nearer = expected - self.distance / self.measured
        return _tells(nearer / expected, nearer, variance, self.measured) if expected > 0 else False


@lru_cache(maxsize=8)
def _sampled_rows(rows: int) -> np.ndarray:
    """Rows at uneven distances: of a file that alternates, every second row would show one code."""
    step = 1 + rows // _SAMPLE
    spread = np.random.default_rng(rows).integers(0, step, -(-rows // step))
    return np.minimum(np.arange(0, rows, step) + spread, rows - 1)


def _tells(strength: float, excess: float, variance: float, pairs: int) -> bool:
    return strength >= TELLING and excess >= CERTAIN * sqrt(max(variance, 1e-12) / pairs)
