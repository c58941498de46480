"""Noise on the class that keeps a tree: within leaves, or over all of them (Islam and Brankovic 3.1, maths 6).

Random deals each leaf's own classes out anew, so that the totals stay; Probabilistic draws each case's class by
its leaf's shares; All leaves changes a class with one probability everywhere, to another by the overall shares.
The expected number of changes is the same. What Random publishes does not depend on who had which class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ppdm_cli.arrays import Addresses, Floats
from ppdm_cli.coins import Coins, Key, uniform
from ppdm_cli.dealing import Deal, Staircase
from ppdm_cli.errors import RefusedError


@dataclass(frozen=True, eq=False)
class ClassNoise:
    """How the class is altered: dealt, or drawn by laws that are rows of leaves or of true classes."""

    scheme: str
    counts: np.ndarray
    """Records by (leaf, class)."""
    deal: Deal | None
    key: bytes

    @classmethod
    def of(cls, scheme: str, parts: np.ndarray, key: Key, name: str) -> ClassNoise:
        """Plan the noise from counts by (partition, leaf, class)."""
        counts = parts.sum(axis=0)
        if expected_changes(counts) == 0:
            raise RefusedError(
                "every leaf of the tree has one class only: no class would be changed",
                "train a smaller tree, with fewer and larger leaves",
            )
        own, deal = key.derive(scheme, name), None
        if scheme == "class-random":
            leaf, class_ = np.nonzero(counts)
            stairs = [Staircase(leaf, class_, counts[leaf, class_])]
            deal = Deal.of(parts.sum(axis=2), stairs, counts.shape[1], own.hex())
        return cls(scheme, counts, deal, own)

    def __call__(self, leaf: np.ndarray, true: np.ndarray, addresses: Addresses, partition: int) -> np.ndarray:
        """Return the classes to publish."""
        if self.deal is not None:
            return self.deal(leaf, partition).astype(np.int64)
        row = leaf if self.scheme == "class-probabilistic" else true
        code = (leaf * self.counts.shape[1] + true).astype(np.uint32)
        coins = uniform(Coins(self.key), addresses, code)
        sums = np.cumsum(self.law, axis=1)
        sums[:, -1] = np.inf
        drawn = np.empty(len(row), np.int64)
        for start in range(0, len(row), 1 << 16):
            part = slice(start, start + (1 << 16))
            drawn[part] = (sums[row[part]] <= coins[part, None]).sum(axis=1)
        return drawn

    @property
    def law(self) -> Floats:
        """Return the chances of the published classes, by leaf, or for all leaves by true class."""
        if self.scheme != "class-all-leaves":
            return np.asarray(self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1))
        totals = self.counts.sum(axis=0)
        p = expected_changes(self.counts) / totals.sum()
        others = np.where(np.eye(len(totals), dtype=bool), 0, totals)
        sums = others.sum(axis=1, keepdims=True)
        return np.asarray(np.diag(np.full(len(totals), 1 - p)) + p * others / np.maximum(sums, 1))

    def wrong(self) -> Floats:
        """Return, by (leaf, published class), the chance that it is not the original one."""
        shares = self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1)
        if self.scheme != "class-all-leaves":
            return np.asarray(1 - shares)
        law = self.law
        published = shares @ law
        return np.asarray(1 - shares * np.diag(law) / np.maximum(published, 1e-300))


def expected_changes(counts: np.ndarray) -> float:
    """Return the expected number of changed classes (maths 6), for any number of classes."""
    sizes = counts.sum(axis=1)
    return float((sizes - (counts.astype(float) ** 2).sum(axis=1) / np.maximum(sizes, 1)).sum())
