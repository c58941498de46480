"""Tests of row order for `perturb`: whether it reveals private values, from blocks of rows kept on the way.

A file sorted by a private column publishes it, whatever gamma says: the rows around a record reveal its value.
So the true codes of rows some steps apart are compared with those in a random order, among records that are
alike in kept columns: how often they are equal, and how their ranks correlate. Mean and variance are exact
(Mood 1940, Wald and Wolfowitz 1943); the tail is Bennett's (1962), which holds for codes that hardly any record
has, where the normal one is wrong by orders of magnitude.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import exp, log1p
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.engine import workers

FALSE_ALARM = 1e-4
"""The chance that a file in random order is refused, all attributes, lags and tests together."""
REVEALING = 0.1
"""The share of the possible excess of likeness, or of difference, that is refused unless it is chance."""
LAGS = (*range(1, 13), 24, 28, 30, 31, 48, 52, 60, 96, 100, 168, 365)
"""Steps between the rows compared: all short ones, and the hours, days, weeks and months of series."""
BLOCK = 1 << 10
"""Rows next to each other that are kept or left out together; well above the largest lag."""
_MOST_ROWS, _MOST_CELLS = 1 << 16, 1 << 24
_JUMP = 2.0
"""The most that moving one record changes: two pairs, each by at most 1."""
Column = Any
"""A NumPy or an Arrow array."""
_TEXT = 64
"""The number of characters of a kept text that are compared."""


@dataclass
class RowBlocks:
    """Blocks of rows, the same however a table is cut: every one, or every 2nd, 4th, ... of a long table."""

    names: list[str]
    seen: int
    pieces: list[list[Column]]
    """The numbers of the rows kept, then their columns."""

    @classmethod
    def of(cls, first_row: int, rows: int, columns: Mapping[str, Column]) -> RowBlocks:
        sample = cls(list(columns), first_row + rows, [])
        places = _kept(first_row, rows, sample._stride)
        sample.pieces = [[places, *(_short(_taken(c, places - first_row)) for c in columns.values())]]
        return sample

    @property
    def _most(self) -> int:
        """Return the number of rows to keep."""
        return max(4 * BLOCK, min(_MOST_ROWS, _MOST_CELLS // max(len(self.names), 1)))

    @property
    def _stride(self) -> int:
        stride = 1
        while -(-self.seen // (BLOCK * stride)) > self._most // BLOCK:
            stride *= 2
        return stride

    def merge(self, after: RowBlocks) -> None:
        """Add the kept rows that follow."""
        self.pieces += after.pieces
        self.seen = after.seen
        if len(self.pieces) > 64 or sum(len(p[0]) for p in self.pieces) > 2 * self._most:
            self.pieces = [self._joined()]

    def _joined(self) -> list[Column]:
        several = zip(*self.pieces, strict=True)
        whole = [np.concatenate(c) if isinstance(c[0], np.ndarray) else pa.concat_arrays(c) for c in several]
        rows = np.flatnonzero(whole[0] // BLOCK % self._stride == 0)
        return [_taken(c, rows) for c in whole]

    def columns(self) -> tuple[np.ndarray, dict[str, Column]]:
        """Return the numbers of the rows kept, and their columns."""
        places, *columns = self._joined()
        return places, dict(zip(self.names, columns, strict=True))


def _kept(first: int, rows: int, stride: int) -> np.ndarray:
    """Return the numbers of a batch's rows that are in every stride-th block."""
    blocks = np.arange(first // BLOCK, -(-(first + rows) // BLOCK), dtype=np.int64)
    places = (blocks[blocks % stride == 0, None] * BLOCK + np.arange(BLOCK)).ravel()
    return places[(places >= first) & (places < first + rows)]


def _taken(column: Column, rows: np.ndarray) -> Column:
    if isinstance(column, np.ndarray):
        return column[rows]
    # not pa.array(), which would load pandas
    return column.take(pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(rows)]))


def _short(column: Column) -> Column:
    """Return a column that can be ranked and takes a bounded space."""
    if isinstance(column, np.ndarray):
        return column
    column = dtypes.plain(column)
    return pc.utf8_slice_codeunits(column, 0, _TEXT) if pa.types.is_string(column.type) else column


def _ranks(column: pa.Array, ties: str) -> np.ndarray:
    return np.frombuffer(pc.rank(column, tiebreaker=ties).buffers()[1], np.uint64).astype(np.int64) - 1


def revealed_columns(sample: RowBlocks, perturbed: Sequence[str], kept: Sequence[str] = ()) -> list[str]:
    """Return the perturbed attributes that the row order reveals, beyond the information of kept columns."""
    places, columns = sample.columns()
    if not len(places):
        return []
    test = _Test(places, None, len(perturbed))
    with workers() as pool:
        reveals = pool.map(test.reveals, (columns[n] for n in perturbed))
        found = [n for n, does in zip(perturbed, reveals, strict=True) if does]
    if not found or not kept:
        return found
    groups = [_groups(columns[n]) for n in kept]
    given = _strata([g for g in groups if test.reveals(g)])
    if given is None:
        return found
    test = _Test(places, given, len(perturbed))
    return [n for n in found if test.reveals(columns[n])]


def in_order(sample: RowBlocks, name: str) -> bool:
    """Return whether the rows are in the order of a column, up or down; digits in text count as numbers."""
    column = sample.columns()[1][name]
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):  # text without a number; times
        column = pc.cast(column, pa.float64())
    steps = np.diff(_ranks(column, "dense"))
    return len(steps) > 1 and bool((steps > 0).all() or (steps < 0).all())


class _Test:
    """Rows some steps apart within groups of records, against a random order within each group."""

    def __init__(self, places: np.ndarray, groups: np.ndarray | None, attributes: int) -> None:
        self._n, self._level = len(places), FALSE_ALARM / (max(attributes, 1) * len(LAGS) * 4)
        self._groups = np.zeros(self._n, np.int64) if groups is None else groups
        self._sizes = np.bincount(self._groups)
        self._paired = dict[int, np.ndarray]()
        pairs, shared = list[Floats](), list[Floats]()
        for lag in (lag for lag in LAGS if lag < self._n):
            paired = places[lag:] - places[:-lag] == lag
            paired &= self._groups[lag:] == self._groups[:-lag]
            self._paired[lag] = paired
            pairs.append(self._counted(paired, lag))
            shared.append(self._counted(paired[lag:] & paired[:-lag], lag))
        self._pairs, self._shared = (np.reshape(c, (-1, len(self._sizes))) for c in (pairs, shared))
        """The pairs, and the records in the middle of two of them, by lag and group."""

    def _counted(self, rows: np.ndarray, lag: int) -> Floats:
        """Return the number of some rows, counted from the lag-th, in each group."""
        if len(self._sizes) == 1:
            return np.array([float(np.count_nonzero(rows))])
        groups = self._groups[lag : lag + len(rows)][rows]
        return np.bincount(groups, minlength=len(self._sizes)).astype(np.float64)

    def reveals(self, codes: Codes) -> bool:
        """Return whether codes some steps apart are more, or less, alike than by chance, and by enough."""
        return any(s >= REVEALING and p < self._level for _, s, p in self.measured(codes))

    def measured(self, codes: Codes) -> list[tuple[int, float, float]]:
        """Return lag, share of the possible excess and bound of its chance, for equality, then for ranks."""
        n, cells, of = self._sizes, codes, np.zeros(int(codes.max()) + 1, np.int64)
        if len(n) > 1:
            values, cells = np.unique(self._groups * len(of) + codes, return_inverse=True)
            of = values // len(of)
        counts = np.bincount(cells).astype(np.float64)
        ranks = (np.cumsum(counts) - counts / 2 - (np.cumsum(n) - n)[of]) / n[of] - 0.5
        ranks *= counts > 0
        ranks /= max(np.abs(ranks).max(), 1e-300)

        def total(each: Floats) -> Floats:
            return np.bincount(of, each * counts, len(n)).astype(np.float64)

        equals = total(counts - 1)
        squares, fourths = total(ranks**2), total(ranks**4)
        of_equals = _Sums(equals, total((counts - 1) ** 2), equals)
        of_ranks = _Sums(-squares, fourths, squares**2 - fourths)  # the ranks of a group sum to 0
        equal, alike = (s.moments(n, self._pairs, self._shared) for s in (of_equals, of_ranks))
        pairs, spreads = self._pairs.sum(axis=1), self._pairs @ (squares / n)
        score, found = ranks[cells], []
        for i, (lag, paired) in enumerate(self._paired.items()):
            mean, variance = equal[:, i].tolist()
            seen = float(np.count_nonzero((codes[lag:] == codes[:-lag]) & paired))
            possible = float(pairs[i]) - mean if seen > mean else mean
            found.append((lag, *_judged(seen - mean, possible, variance)))
            mean, variance = alike[:, i].tolist()
            seen = float(np.einsum("i,i,i", score[lag:], score[:-lag], paired))  # a product of BLAS would wait
            found.append((lag, *_judged(seen - mean, float(spreads[i]), variance)))
        return found


@dataclass(frozen=True)
class _Sums:
    """Sums of a symmetric measure f of two records over all pairs (a, b) of a group, a not b."""

    once: Floats
    """f(a, b)."""
    star: Floats
    """The square, for each a, of the sum of f(a, b) over b."""
    squares: Floats
    """f(a, b) squared."""

    def moments(self, n: np.ndarray, pairs: Floats, shared: Floats) -> Floats:
        """Return means and variances, by group, of f summed over pairs in a random order, some `shared`."""
        two = np.maximum(n * (n - 1.0), 1)
        three, four = two * np.maximum(n - 2, 1), two * np.maximum(n - 2, 1) * np.maximum(n - 3, 1)
        mean = pairs * self.once / two
        apart = (self.once**2 - 4 * self.star + 2 * self.squares) / four
        touching = (self.star - self.squares) / three
        squared = pairs * self.squares / two + 2 * shared * touching + (pairs**2 - pairs - 2 * shared) * apart
        return np.stack([mean.sum(axis=-1), (squared - mean**2).sum(axis=-1)])


def _judged(excess: float, possible: float, variance: float) -> tuple[float, float]:
    """Return the share of the possible excess, and Bennett's bound on the probability of such an excess."""
    variance = max(variance, 1e-6)
    u = _JUMP * abs(excess) / variance
    bound = exp(-variance / _JUMP**2 * ((1 + u) * log1p(u) - u))
    return (abs(excess) / possible if possible > 1e-9 else 0.0), bound


def _groups(column: pa.Array) -> np.ndarray:
    """Return a kept column's values, or if they are many, ranges of about as many records each."""
    n = len(column)
    if pa.types.is_null(column.type):
        return np.zeros(n, np.int64)
    values = _ranks(column, "dense")
    if values.max() < min(256, n // 8):
        return values
    return _ranks(column, "min") * max(2, min(32, n // 32)) // n


def _strata(columns: list[np.ndarray]) -> np.ndarray | None:
    """Return groups of records alike in all these columns; a column that would leave none is skipped."""
    joint: np.ndarray | None = None
    for column in columns:
        finer = column if joint is None else joint * (int(column.max()) + 1) + column
        values, numbered = np.unique(finer, return_inverse=True)
        if len(values) <= max(2, len(column) // 8):
            joint = numbered
    return joint
