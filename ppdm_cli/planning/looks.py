"""What columns hold, as a plan must know it, in one fold: how many values, how often, between which ends.

Values are told apart by a hash, and of the many values of a column only those are followed whose hash is small,
with all their records (Gibbons, distinct sampling): so the number of values and the records of each are known
from bounded memory. Blocks of rows are kept besides, for what columns tell of each other and of the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.engine import Batch, fold
from ppdm_cli.perturbing import RowBlocks
from ppdm_cli.tables import Table

MOST_FOLLOWED = 1 << 15
"""The most values of a column whose records are counted."""
_SOME = 2
"""The level at which the values of a batch are counted first."""


@dataclass
class Look:
    """What is known of a column; adds up."""

    rows: int
    nulls: int
    infinite: int
    low: Any
    high: Any
    hashes: np.ndarray
    counts: np.ndarray
    level: int = 0
    """One in 2^level of its values is followed."""

    def merge(self, after: Look) -> Look:
        self.rows, self.nulls = self.rows + after.rows, self.nulls + after.nulls
        self.infinite += after.infinite
        self.low, self.high = _either(min, self.low, after.low), _either(max, self.high, after.high)
        self.level = max(self.level, after.level)
        both = np.concatenate([self.hashes, after.hashes])
        counts = np.concatenate([self.counts, after.counts])
        self.hashes, places = np.unique(both, return_inverse=True)
        self.counts = np.bincount(places, counts, len(self.hashes)).astype(np.int64)
        self._thin()
        return self

    def _thin(self) -> None:
        kept = self.hashes < _below(self.level)
        while kept.sum() > MOST_FOLLOWED:
            self.level += 1
            kept = self.hashes < _below(self.level)
        self.hashes, self.counts = self.hashes[kept], self.counts[kept]

    @property
    def exact(self) -> bool:
        return self.level == 0

    @property
    def values(self) -> int:
        """Return how many values there are besides null, as far as the followed ones tell."""
        return len(self.hashes) << self.level

    @property
    def common(self) -> int:
        """Return how many values occur in ten records or more."""
        return int((self.counts >= 10).sum()) << self.level

    @property
    def pooled(self) -> float:
        """Return the share of the records whose values occur in fewer than ten."""
        return float(self.counts[self.counts < 10].sum()) / max(float(self.counts.sum()), 1.0)

    @property
    def largest(self) -> float:
        """Return the share of the records that the commonest of the followed values has, or null."""
        most = max(int(self.counts.max(initial=0)), self.nulls)
        return most / max(self.rows, 1)

    @property
    def each(self) -> float:
        """Return the mean number of records of a value."""
        return float(self.counts.mean()) if len(self.counts) else 0.0


def _either(choose: Any, a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else choose(a, b)


def _below(level: int) -> Any:
    return np.uint64((1 << (64 - level)) - 1) if level else np.uint64(2**64 - 1)


@dataclass
class Looks:
    """What is known of a table."""

    columns: dict[str, Look]
    sample: RowBlocks

    def merge(self, after: Looks) -> Looks:
        for name, look in after.columns.items():
            self.columns[name].merge(look)
        self.sample.merge(after.sample)
        return self


def looks_of(table: Table, columns: Sequence[str]) -> Looks | None:
    """Return what columns hold; None of a table without records."""
    return fold(table, partial(_looked, list(columns)), Looks.merge, columns=list(columns))


def _looked(names: list[str], batch: Batch) -> Looks:
    columns = {n: _look(dtypes.plain(batch.column(n))) for n in names}
    sample = RowBlocks.of(batch.first_row, batch.rows, {n: dtypes.plain(batch.column(n)) for n in names})
    return Looks(columns, sample)


def _look(array: pa.Array) -> Look:
    import polars as pl  # its hashes are the fastest there are

    rows, nulls, infinite, low, high = len(array), array.null_count, 0, None, None
    valid = array.drop_null() if nulls else array
    if not dtypes.is_discrete(array.type):
        values = dtypes.carrier(valid)
        if pa.types.is_floating(array.type):
            finite = np.isfinite(values)
            if not finite.all():
                infinite = int(np.isinf(values).sum())
                nulls += len(values) - int(finite.sum()) - infinite
                values = values[finite]
            values = values + 0.0  # no zero below zero
        low, high = (values.min().item(), values.max().item()) if len(values) else (None, None)
        hashed = pl.Series(values).hash(7).to_numpy()
    else:
        hashed = pl.from_arrow(valid).hash(7).to_numpy()  # type: ignore[union-attr]
    found, counts, level = *_counted(hashed[hashed < _below(_SOME)]), _SOME
    if len(found) <= MOST_FOLLOWED:  # else there are so many values that no more would be followed
        found, counts, level = *_counted(hashed), 0
    look = Look(rows, nulls, infinite, low, high, found, counts, level)
    look._thin()
    return look


def _counted(hashed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what there is, in order, and how often."""
    import polars as pl

    counted = pl.Series("h", hashed).value_counts()
    order = np.argsort(found := counted["h"].to_numpy())
    return found[order], counted["count"].to_numpy()[order].astype(np.int64)
