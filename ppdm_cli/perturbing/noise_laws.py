"""Laws for noise that keeps a tree (Islam and Brankovic 3.1 and 3.2): on the class, and on innocent numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, sqrt

import numpy as np
import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.arrays import Addresses, Floats
from ppdm_cli.coins import Coins, Key, uniform_cells
from ppdm_cli.errors import RefusedError
from ppdm_cli.repeatable import Deal, Staircase


@dataclass(frozen=True, eq=False)
class ClassNoise:
    """Noise on the class: dealt, or drawn by laws that are rows of leaves or of true classes."""

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
            what = "every leaf of the tree has one class only: no class would be changed"
            raise RefusedError("pure-leaves", what, "train a smaller tree, with fewer and larger leaves")
        own, deal = key.derive(scheme, name), None
        if scheme == "class-random":
            leaf, class_ = np.nonzero(counts)
            stairs = [Staircase(leaf, class_, counts[leaf, class_])]
            deal = Deal.of(parts.sum(axis=2), stairs, counts.shape[1], own.hex())
        return cls(scheme, counts, deal, own)

    def __call__(self, leaf: np.ndarray, true: np.ndarray, addresses: Addresses, partition: int) -> np.ndarray:
        if self.deal is not None:
            return self.deal(leaf, partition).astype(np.int64)
        row = leaf if self.scheme == "class-probabilistic" else true
        code = (leaf * self.counts.shape[1] + true).astype(np.uint32)
        coins = uniform_cells(Coins(self.key), addresses, code)
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
        """Return the probability that a published class is not the original one, by (leaf, published class)."""
        shares = self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1)
        if self.scheme != "class-all-leaves":
            return np.asarray(1 - shares)
        law = self.law
        published = shares @ law
        return np.asarray(1 - shares * np.diag(law) / np.maximum(published, 1e-300))


def expected_changes(counts: np.ndarray) -> float:
    """Return the expected number of changed classes, for any number of classes."""
    sizes = counts.sum(axis=1)
    return float((sizes - (counts.astype(float) ** 2).sum(axis=1) / np.maximum(sizes, 1)).sum())


MOST_DECIMALS = 6
"""The number of decimals above which a column counts as continuous."""


@dataclass(frozen=True)
class Range:
    """The counts of a column: its numbers, their moments and ends, and their decimals."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float = inf
    high: float = -inf
    decimals: int = 0

    @classmethod
    def of(cls, array: pa.Array) -> Range:
        values = known(array)
        if not len(values):
            return cls()
        mean, decimals = float(values.mean()), 0
        if pa.types.is_floating(array.type):
            while decimals <= MOST_DECIMALS and (np.round(values, decimals) != values).any():
                decimals += 1
        squares = float(((values - mean) ** 2).sum())
        return cls(len(values), mean, squares, float(values.min()), float(values.max()), decimals)

    def __add__(self, other: Range) -> Range:
        n = self.n + other.n
        if not self.n or not other.n:
            return self if self.n else other
        apart = other.mean - self.mean
        squares = self.squares + other.squares + apart**2 * self.n * other.n / n
        ends = min(self.low, other.low), max(self.high, other.high)
        decimals = max(self.decimals, other.decimals)
        return Range(n, self.mean + apart * other.n / n, squares, *ends, decimals)


def known(array: pa.Array) -> Floats:
    """Return the numbers of a column that are there and finite."""
    values = dtypes.carrier(array).astype(np.float64)
    there = np.isfinite(values) & array.is_valid().to_numpy(zero_copy_only=False)
    return np.asarray(values[there])


@dataclass(frozen=True)
class Noise:
    """The law of one attribute's noise, in units of its carrier."""

    share: float
    of_value: bool
    range: Range

    @property
    def step(self) -> float:
        """Return the distance between published values, 0 if they are continuous."""
        return 0.0 if self.range.decimals > MOST_DECIMALS else 10.0**-self.range.decimals

    @property
    def bounded(self) -> bool:
        return self.step == 1

    def sd(self, values: Floats) -> Floats:
        own = sqrt(self.range.squares / max(self.range.n, 1))
        return np.asarray(self.share * (np.abs(values) if self.of_value else np.full(len(values), own)))

    def _ends(self, values: Floats, sd: Floats) -> tuple[Floats, Floats]:
        """Return the chances of falling below the smallest and the largest value."""
        from scipy.special import ndtr

        if not self.bounded:
            return np.zeros(len(values)), np.ones(len(values))
        low, high = self.range.low - 0.5, self.range.high + 0.5
        return ndtr((low - values) / sd), ndtr((high - values) / sd)

    def published(self, array: pa.Array, rows: np.ndarray, key: bytes, addresses: Addresses) -> pa.Array:
        """Return the column with noise in some rows; nulls, zeros of a share and infinities stay."""
        from scipy.special import ndtri

        carrier = dtypes.carrier(array)
        values = carrier.astype(np.float64)
        values[~np.isfinite(values)] = 0
        sd = self.sd(values)
        rows = np.flatnonzero(
            rows & (sd > 0) & np.isfinite(carrier) & array.is_valid().to_numpy(zero_copy_only=False)
        )
        x, sd = values[rows], sd[rows]
        halves = (x + 0.0).view("<u4").reshape(-1, 2)
        u = uniform_cells(Coins(key), addresses[rows], halves[:, 0], halves[:, 1]) + 2.0**-54
        low, high = self._ends(x, sd)
        noise = sd * ndtri(low + u * (high - low))
        out = carrier.copy()
        if carrier.dtype.kind == "f":
            noisy = x + noise if not self.step else np.round(x + noise, self.range.decimals)
            out[rows] = noisy.clip(self.range.low, self.range.high) if self.bounded else noisy
        else:
            moved = carrier[rows].astype(np.int64) + np.rint(noise).astype(np.int64)
            out[rows] = moved.clip(int(self.range.low), int(self.range.high))
        if not array.null_count:
            return dtypes.from_carrier(out, array.type)
        places = pa.array(np.arange(len(out)), mask=~array.is_valid().to_numpy(zero_copy_only=False))
        return dtypes.from_carrier(out, array.type).take(places)

    def likelihood(self, original: float, published: Floats) -> Floats:
        """Return the logarithms of the probabilities that one value is published as each of some."""
        from scipy.special import ndtr

        if not isfinite(original):
            return np.where(np.isnan(published), 0.0, -inf)
        sd = float(self.sd(np.array([original]))[0])
        if sd == 0:
            return np.where(published == original, 0.0, -inf)
        half = (self.step or 2.0**-40 * (abs(original) + sd)) / 2
        away = np.abs(published - original)  # in the lower tail differences keep their digits
        low, high = self._ends(np.array([original]), np.array([sd]))
        with np.errstate(divide="ignore", invalid="ignore"):
            chance = np.log((ndtr((half - away) / sd) - ndtr((-half - away) / sd)) / (high - low))
        return np.where(np.isfinite(chance), chance, -inf)
