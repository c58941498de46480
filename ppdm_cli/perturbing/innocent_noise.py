"""Noise on attributes that a leaf does not need: normal, of mean zero (Islam and Brankovic 3.2, maths 6).

A value's noise has a standard deviation of some per cent of the value, or of the attribute's own. What is
published has the decimals of the column, so that an altered value does not stand out. Whole numbers stay within
the smallest and the largest one that occur: the noise is drawn again outside, which is a truncated normal law,
and drawn here by its inverse at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, sqrt

import numpy as np
import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.arrays import Addresses, Floats
from ppdm_cli.coins import Coins, uniform

MOST_DECIMALS = 6
"""A column with more decimals is taken as continuous."""


@dataclass(frozen=True)
class Range:
    """What is counted of a column: how many numbers, their moments and ends, and their decimals."""

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
            while decimals <= MOST_DECIMALS and not _has(values, decimals):
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


def _has(values: Floats, decimals: int) -> bool:
    return bool((np.round(values, decimals) == values).all())


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
        """Return how far published values are apart, 0 where they are continuous."""
        return 0.0 if self.range.decimals > MOST_DECIMALS else 10.0**-self.range.decimals

    @property
    def bounded(self) -> bool:
        return self.step == 1

    def sd(self, values: Floats) -> Floats:
        """Return the standard deviation of each value's noise."""
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
        u = uniform(Coins(key), addresses[rows], halves[:, 0], halves[:, 1]) + 2.0**-54
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
        """Return the logarithms of the chances that one value is published as each of some."""
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
