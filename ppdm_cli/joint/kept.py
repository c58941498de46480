"""Domains of kept columns, from the release itself: they take part in a model as exact evidence.

Words and a few numbers are their values, many numbers are cut at quantiles. What decides are the same rows
whatever the size of the partitions; a value that they lack goes to the nearest code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.channels import Channel
from ppdm_cli.domain import Bins, Categories, Domain
from ppdm_cli.engine import Batch, fold
from ppdm_cli.repeatable import mixed
from ppdm_cli.tables import Table

MOST_BINS = 24
"""Numbers of more values are cut at so many quantiles."""
DECIDING_ROWS = 1 << 16
"""About so many rows decide on the quantiles."""


def kept_channels(table: Table, names: Sequence[str], most: int) -> list[Channel]:
    """Return the kept columns that can take part: with two values or more, and of words at most `most`."""
    if not names:
        return []
    kinds = {n: dtypes.normal(table.schema.field(n).type, n) for n in names}
    thin = 0 if table.rows is None else max(table.rows // DECIDING_ROWS, 0).bit_length()
    task = partial(_seen, kinds, most, thin)
    found = fold(table, task, partial(_merged, most), columns=list(kinds))
    domains = {n: s.domain(kinds[n]) for n, s in (found or {}).items()}
    return [Channel(n, d, d) for n, d in domains.items() if d is not None and d.size > 1]


@dataclass(frozen=True, eq=False)
class _Seen:
    """The values of a column: every word (None where they are too many), or some of the numbers."""

    nulls: bool
    words: frozenset[Any] | None
    numbers: np.ndarray | None

    def domain(self, kind: pa.DataType) -> Domain | None:
        if self.numbers is None:
            return Categories(kind, sorted(self.words), self.nulls) if self.words else None
        distinct = np.unique(self.numbers)
        if len(distinct) <= MOST_BINS:
            return Categories(kind, distinct.tolist(), self.nulls) if len(distinct) else None
        edges = np.unique(np.quantile(self.numbers, np.linspace(0, 1, MOST_BINS + 1), method="lower"))
        return Bins(kind, edges.tolist(), self.nulls)


def _seen(kinds: Mapping[str, pa.DataType], most: int, thin: int, batch: Batch) -> dict[str, _Seen]:
    rows = np.flatnonzero(mixed(batch.addresses) >> np.uint64(64 - thin) == 0) if thin else None
    found = {}
    for name, kind in kinds.items():
        array = batch.column(name)
        if dtypes.is_discrete(kind):
            words = set(pc.unique(array).to_pylist()) - {None}
            found[name] = _Seen(array.null_count > 0, frozenset(words) if len(words) <= most else None, None)
            continue
        some = array if rows is None else array.take(pa.array(rows))
        values = dtypes.carrier(some.drop_null())
        finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
        nulls = array.null_count > 0 or (
            values.dtype.kind == "f" and bool(np.isnan(dtypes.carrier(array)).any())
        )
        found[name] = _Seen(nulls, None, finite)
    return found


def _merged(most: int, a: dict[str, _Seen], b: dict[str, _Seen]) -> dict[str, _Seen]:
    return {n: _both(most, a[n], b[n]) for n in a}


def _both(most: int, a: _Seen, b: _Seen) -> _Seen:
    if a.numbers is not None and b.numbers is not None:
        return _Seen(a.nulls or b.nulls, None, np.concatenate([a.numbers, b.numbers]))
    words = None if a.words is None or b.words is None else a.words | b.words
    return _Seen(a.nulls or b.nulls, None if words is None or len(words) > most else words, None)
