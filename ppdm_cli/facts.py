"""What columns hold: their ranges, and their values where these are few. One fold over a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.engine import Batch, fold
from ppdm_cli.errors import DataError, quoted
from ppdm_cli.tables import Table


@dataclass
class Facts:
    """What a column holds: its range, and its values as long as they are few."""

    nulls: int
    low: Any
    high: Any
    values: Counter[Any] | None
    """How often each value occurs; None if there are more values than asked for."""

    def merge(self, other: Facts, most: int) -> Facts:
        self.nulls += other.nulls
        self.low = _either(min, self.low, other.low)
        self.high = _either(max, self.high, other.high)
        if self.values is None or other.values is None:
            self.values = None
        else:
            self.values.update(other.values)
            if len(self.values) > most:
                self.values = None
        return self


def facts_of(table: Table, limits: Mapping[str, int]) -> dict[str, Facts]:
    """Return the facts of each column in `limits`, which says how many values are few; none of no records."""
    task, merge = partial(_profiled, table.schema, limits), partial(_merged, limits)
    return fold(table, task, merge, columns=list(limits)) or {}


def _profiled(schema: pa.Schema, limits: Mapping[str, int], batch: Batch) -> dict[str, Facts]:
    return {n: _facts(batch, n, schema.field(n).type, most) for n, most in limits.items()}


def _merged(limits: Mapping[str, int], a: dict[str, Facts], b: dict[str, Facts]) -> dict[str, Facts]:
    return {n: a[n].merge(b[n], most) for n, most in limits.items()}


def _facts(batch: Batch, name: str, kind: pa.DataType, most: int) -> Facts:
    array = batch.column(name)
    if dtypes.is_discrete(kind):
        return _category_facts(array, most)
    nulls = array.null_count
    valid = array.drop_null() if nulls else array
    values = dtypes.carrier(valid)
    if pa.types.is_floating(kind):
        finite = np.isfinite(values)
        if not finite.all():
            infinite = np.isinf(dtypes.carrier(array)) & array.is_valid().to_numpy(zero_copy_only=False)
            if infinite.any():
                raise DataError(
                    f"the column {quoted(name)} has an infinite value, first in "
                    f"{batch.where(int(infinite.argmax()))}",
                    "no domain contains an infinite value: mend it or make it null",
                )
            nulls += int((~finite).sum())
            values = values[finite]
    if not len(values):
        return Facts(nulls, None, None, Counter())
    few: Counter[Any] | None = None
    if len(np.unique(values[:4096])) <= most:
        distinct, counts = np.unique(values, return_counts=True)
        if len(distinct) <= most:
            few = Counter(dict(zip(distinct.tolist(), counts.tolist(), strict=True)))
    return Facts(nulls, values.min().item(), values.max().item(), few)


def _category_facts(array: pa.Array, most: int) -> Facts:
    counted = pc.value_counts(array)
    values = dtypes.plain(counted.field("values")).to_pylist()
    counts: Counter[Any] = Counter()
    for value, count in zip(values, counted.field("counts").to_pylist(), strict=True):
        counts[value] += count
    nulls = counts.pop(None, 0)
    return Facts(nulls, None, None, counts if len(counts) <= most else None)


def _either(choose: Any, a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else choose(a, b)
