"""What domains must be learnt from the private data: one fold, before anything is perturbed.

Runs only over the columns whose domain nobody declared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.domain import MOST_VALUES
from ppdm_cli.engine import Batch, fold
from ppdm_cli.errors import DataError, RefusedError, quoted, word
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


def profile(table: Table, most: Mapping[str, int]) -> dict[str, Facts]:
    """Return the facts of each column named in `most`, which says how many distinct numbers are few."""
    names = list(most)
    limits = {n: MOST_VALUES if dtypes.is_discrete(table.schema.field(n).type) else most[n] for n in names}
    task, merge = partial(_profiled, table.schema, limits), partial(_merged, limits)
    found = fold(table, task, merge, columns=names)
    if found is None:
        raise DataError(f"{quoted(table.name)} has no records", "there is nothing to perturb")
    for name in names:
        if found[name].values is None and dtypes.is_discrete(table.schema.field(name).type):
            raise RefusedError(
                f"the column {quoted(name)} has more than {MOST_VALUES} different values: "
                "no release of it could be mined",
                f"--drop {word(name)}, or group its values first",
            )
    return found


def _profiled(schema: pa.Schema, limits: Mapping[str, int], batch: Batch) -> dict[str, Facts]:
    return {n: _facts(batch, n, schema.field(n).type, most) for n, most in limits.items()}


def _merged(limits: Mapping[str, int], a: dict[str, Facts], b: dict[str, Facts]) -> dict[str, Facts]:
    return {n: a[n].merge(b[n], most) for n, most in limits.items()}


def _facts(batch: Batch, name: str, kind: pa.DataType, most: int) -> Facts:
    array = batch.column(name)
    if dtypes.is_discrete(kind):
        return _category_facts(array)
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


def _category_facts(array: pa.Array) -> Facts:
    counted = pc.value_counts(array)
    if pa.types.is_dictionary(array.type):
        values: Sequence[Any] = counted.field("values").dictionary_decode().to_pylist()
    else:
        values = counted.field("values").to_pylist()
    counts: Counter[Any] = Counter()
    for value, count in zip(values, counted.field("counts").to_pylist(), strict=True):
        counts[value] += count
    nulls = counts.pop(None, 0)
    return Facts(nulls, None, None, counts if len(counts) <= MOST_VALUES else None)


def _either(choose: Any, a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else choose(a, b)
