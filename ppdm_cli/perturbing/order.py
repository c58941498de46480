"""Does the order of the rows give private values back? One number an attribute, beside the perturbing.

A file sorted by a private column publishes it, whatever gamma says: the neighbours of a record tell
its value. So the true codes of neighbours are compared with what independence would give.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from ppdm_cli.arrays import Codes

TELLING = 0.1
"""Share of the possible excess of agreement (or of disagreement) that is refused."""
CERTAIN = 4.0
"""... where chance does not explain it: 4 standard deviations, 3 in 100,000 at random."""
_SAMPLE = 1 << 15


@dataclass
class OrderState:
    """Agreements between neighbours and a histogram of codes; merges in the rows' order."""

    pairs: int
    agreements: int
    first: int | None
    last: int | None
    histogram: np.ndarray

    @classmethod
    def of(cls, codes: Codes, size: int) -> OrderState:
        if not len(codes):
            return cls(0, 0, None, None, np.zeros(size, np.int64))
        some = codes[:: 1 + len(codes) // _SAMPLE]  # the shares of codes need no more
        return cls(
            len(codes) - 1,
            int(np.count_nonzero(codes[1:] == codes[:-1])),
            int(codes[0]),
            int(codes[-1]),
            np.bincount(some, minlength=size),
        )

    def merge(self, after: OrderState) -> None:
        if after.first is None:
            return
        self.pairs += after.pairs
        self.agreements += after.agreements
        self.histogram += after.histogram
        if self.last is not None:
            self.pairs += 1
            self.agreements += self.last == after.first
        else:
            self.first = after.first
        self.last = after.last

    @property
    def telling(self) -> bool:
        """Whether neighbours agree, or avoid each other, so much that the order gives values back."""
        if self.pairs < 2:
            return False
        shares = self.histogram / self.histogram.sum()
        expected = float((shares**2).sum())
        spread = sqrt(max(expected * (1 - expected), 1e-12) / self.pairs)
        observed = self.agreements / self.pairs
        excess = observed - expected
        strength = excess / (1 - expected) if excess > 0 else -excess / expected
        return strength >= TELLING and abs(excess) >= CERTAIN * spread
