"""What columns hold: their ranges, and their values where these are few. One fold over a table.

Where a promise is for persons, a fold counts the persons who have a value as well: up to FEW of them, as that
decides whether it is rare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.arrays import Addresses
from ppdm_cli.engine import Batch, fold
from ppdm_cli.errors import DataError, quoted
from ppdm_cli.tables import Table

FEW = 10
"""A value of fewer records, or persons, is rare."""
Persons = dict[Any, frozenset[int] | None]
"""The persons who have each value, or null (None); None where FEW of them or more do."""


class Counting(Protocol):
    """Which rows of a table count, and whose they are."""

    @property
    def person(self) -> str:
        """Return the column that says so, which must be read."""
        ...

    def __call__(self, batch: Batch) -> tuple[Batch, Addresses | None]:
        """Return the rows that count, and a number for the person of each; None where each row is one."""


@dataclass
class Facts:
    """What a column holds: its range, and its values as long as they are few."""

    nulls: int
    low: Any
    high: Any
    values: Counter[Any] | None
    """How often each value occurs; None if there are more values than asked for."""
    persons: Persons | None = None
    """None where each record is a person."""

    @property
    def counts(self) -> Counter[Any]:
        """Return how often each value occurs; nothing of too many."""
        return self.values or Counter()

    def support(self, values: Iterable[Any]) -> int:
        """Return how many records have one of the values, or null (None); of persons FEW are FEW or more."""
        if self.persons is None:
            return sum(self.nulls if v is None else self.counts[v] for v in values)
        own = _united(self.persons.get(v, frozenset()) for v in values)
        return FEW if own is None else len(own)

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
        if self.persons is not None and other.persons is not None:
            for value, own in other.persons.items():
                self.persons[value] = _united([self.persons.get(value, frozenset()), own])
        if self.persons is not None and self.values is None:
            self.persons = {None: self.persons.get(None, frozenset())}
        return self


def _united(several: Iterable[frozenset[int] | None]) -> frozenset[int] | None:
    """Return all these persons, or None where they are FEW or more."""
    found: frozenset[int] = frozenset()
    for own in several:
        if own is None or len(found := found | own) >= FEW:
            return None
    return found


def facts_of(
    table: Table, limits: Mapping[str, int], counting: Counting | None = None
) -> dict[str, Facts]:
    """Return the facts of each column in `limits`, which says how many values are few; none of no records.

    With `counting` they are of the rows that count.
    """
    task, merge = partial(_profiled, table.schema, limits, counting), partial(_merged, limits)
    columns = dict.fromkeys([*limits, *([] if counting is None else [counting.person])])
    return fold(table, task, merge, columns=list(columns)) or {}


def _profiled(
    schema: pa.Schema, limits: Mapping[str, int], counting: Counting | None, batch: Batch
) -> dict[str, Facts]:
    whose = None
    if counting is not None:
        batch, whose = counting(batch)
    found = {n: _facts(batch, n, schema.field(n).type, most) for n, most in limits.items()}
    if whose is not None:
        for name, facts in found.items():
            facts.persons = _persons(batch.column(name), facts.values, whose)
    return found


def _persons(array: pa.Array, values: Counter[Any] | None, whose: Addresses) -> Persons:
    """Return the persons who have each value of a batch, of null alone where there are too many values."""
    labels: list[Any]
    array = dtypes.plain(array)
    if dtypes.is_discrete(array.type):
        encoded = array.dictionary_encode(null_encoding="encode")
        labels, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)
    else:
        labels = sorted(values or ())
        numbers = dtypes.carrier(array)
        codes = np.searchsorted(np.array(labels, numbers.dtype), numbers)
        null = array.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        codes[null], labels = len(labels), [*labels, None]
        if values is None:
            codes, whose = codes[null], whose[null]
    order = np.lexsort((whose, codes))
    codes, whose = codes[order], whose[order]
    first = np.r_[True, (codes[1:] != codes[:-1]) | (whose[1:] != whose[:-1])][: len(codes)]
    codes, whose = codes[first], whose[first]
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]][: len(codes)])
    runs = pairwise([*starts.tolist(), len(codes)])
    return {labels[codes[a]]: None if b - a >= FEW else frozenset(whose[a:b].tolist()) for a, b in runs}


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
                    "no domain contains an infinite value: fix it or make it null",
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
