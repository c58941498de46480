"""Profiles of columns: for `perturb`, which needs domains, and for `plan`, which proposes settings.

`Facts` are exact: the ends of a column, and its values as long as they are few. If a promise is for persons,
they also have the persons of each value, up to FEW of them, which decides whether it is rare.

A `Sketch` summarises any number of values in bounded memory: values are distinguished by a hash, and only those
whose hash is small are followed, with all their records (Gibbons, distinct sampling).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.arrays import Addresses, code_counts, code_type
from ppdm_cli.engine.passes import Batch, fold
from ppdm_cli.errors import DataError, quoted
from ppdm_cli.privacy import FEW
from ppdm_cli.tables import Table

Value = Any
"""A carrier value, or a category."""
Persons = dict[Value, frozenset[int] | None]
"""The persons who have each value, or null (None); None where FEW of them or more do."""
MOST_FOLLOWED = 1 << 15
"""The most values of a column whose records a sketch counts."""


@dataclass
class Ends:
    """The numbers of nulls and infinities in a column, and the ends of its values; adds up."""

    nulls: int
    infinite: int
    low: Value
    high: Value

    @classmethod
    def of(cls, array: pa.Array) -> tuple[Ends, np.ndarray]:
        """Return the ends of a column of numbers, dates or times, and its finite values."""
        valid = array.drop_null() if array.null_count else array
        values, infinite = dtypes.carrier(valid), 0
        if pa.types.is_floating(array.type):
            finite = np.isfinite(values)
            if not finite.all():
                infinite, values = int(np.isinf(values).sum()), values[finite]
        ends = (values.min().item(), values.max().item()) if len(values) else (None, None)
        return cls(len(array) - infinite - len(values), infinite, *ends), values

    def widen(self, other: Ends) -> None:
        self.nulls, self.infinite = self.nulls + other.nulls, self.infinite + other.infinite
        if self.low is None:
            self.low, self.high = other.low, other.high
        elif other.low is not None:
            self.low, self.high = min(self.low, other.low), max(self.high, other.high)


@dataclass
class Facts(Ends):
    """The facts of a column: its ends, and its values as long as they are few."""

    values: Counter[Value] | None
    """The count of each value; None if there are more values than asked for."""
    persons: Persons | None = None
    """The persons of each value; None if each record is a person."""

    @property
    def counts(self) -> Counter[Value]:
        """Return the count of each value; none if there are too many."""
        return self.values or Counter()

    def support(self, values: Iterable[Value]) -> int:
        """Return the number of records with one of the values, or null (None); of persons at most FEW."""
        if self.persons is None:
            return sum(self.nulls if v is None else self.counts[v] for v in values)
        own = _united(self.persons.get(v, frozenset()) for v in values)
        return FEW if own is None else len(own)

    def merge(self, other: Facts, most: int) -> Facts:
        self.widen(other)
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


class Counting(Protocol):
    """The rule for which rows of a table count, and whose they are."""

    @property
    def person(self) -> str:
        """Return the column of persons, which must be read."""
        ...

    def __call__(self, batch: Batch) -> tuple[Batch, Addresses | None]:
        """Return the rows that count, and a number for the person of each; None if each row is one."""


def facts_of(table: Table, limits: Mapping[str, int], counting: Counting | None = None) -> dict[str, Facts]:
    """Return the facts of each column in `limits`, which has the most values that are few; none without
    records.

    With `counting` only its rows count.
    """
    task, merge = partial(_facts, table.schema, limits, counting), partial(_merged, limits)
    columns = dict.fromkeys([*limits, *([] if counting is None else [counting.person])])
    return fold(table, task, merge, columns=list(columns)) or {}


def _merged(limits: Mapping[str, int], a: dict[str, Facts], b: dict[str, Facts]) -> dict[str, Facts]:
    return {n: a[n].merge(b[n], most) for n, most in limits.items()}


def _facts(
    schema: pa.Schema, limits: Mapping[str, int], counting: Counting | None, batch: Batch
) -> dict[str, Facts]:
    whose = None
    if counting is not None:
        batch, whose = counting(batch)
    found = dict[str, Facts]()
    for name, most in limits.items():
        words = dtypes.is_discrete(schema.field(name).type)
        found[name] = _of_words(batch, name, most) if words else _of_numbers(batch, name, most)
        if whose is not None:
            found[name].persons = _persons(batch.column(name), found[name].values, whose)
    return found


def _of_words(batch: Batch, name: str, most: int) -> Facts:
    column = batch.column(name)
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    codes = dtypes.carrier(coded.indices.drop_null() if coded.null_count else coded.indices)
    size = len(coded.dictionary)
    each = code_counts(codes.astype(code_type(size), copy=False), size)
    there, counts = np.flatnonzero(each), Counter[Value]()
    values = coded.dictionary.take(dtypes.from_carrier(there, pa.int64())).to_pylist()
    for value, count in zip(values, each[there].tolist(), strict=True):
        counts[value] += count
    nulls = coded.null_count + counts.pop(None, 0)
    return Facts(nulls, 0, None, None, counts if len(counts) <= most else None)


def _of_numbers(batch: Batch, name: str, most: int) -> Facts:
    array = batch.column(name)
    ends, values = Ends.of(array)
    if ends.infinite:
        infinite = np.isinf(dtypes.carrier(array)) & array.is_valid().to_numpy(zero_copy_only=False)
        raise DataError(
            "infinite-value",
            f"the column {quoted(name)} has an infinite value, first in {batch.where(int(infinite.argmax()))}",
            "no domain contains an infinite value: fix it or make it null",
        )
    few: Counter[Value] | None = None if len(values) else Counter()
    if len(values) and len(np.unique(values[:4096])) <= most:
        distinct, counts = np.unique(values, return_counts=True)
        if len(distinct) <= most:
            few = Counter(dict(zip(distinct.tolist(), counts.tolist(), strict=True)))
    return Facts(ends.nulls, 0, ends.low, ends.high, few)


def _persons(array: pa.Array, values: Counter[Value] | None, whose: Addresses) -> Persons:
    """Return the persons who have each value of a batch, of null alone where there are too many values."""
    labels: list[Value]
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


def _united(several: Iterable[frozenset[int] | None]) -> frozenset[int] | None:
    """Return all these persons, or None if they are FEW or more."""
    found: frozenset[int] = frozenset()
    for own in several:
        if own is None or len(found := found | own) >= FEW:
            return None
    return found


@dataclass
class Sketch(Ends):
    """A summary of a column with any number of values; adds up."""

    rows: int
    hashes: np.ndarray
    counts: np.ndarray
    level: int = field(default=0)
    """The level: one in 2^level of its values is followed."""

    @classmethod
    def of_column(cls, array: pa.Array) -> Sketch:
        import polars as pl  # its hashes are the fastest there are

        if dtypes.is_discrete(array.type):
            ends = Ends(array.null_count, 0, None, None)
            hashed = pl.Series(pl.from_arrow(array.drop_null())).hash(7).to_numpy()
        else:
            ends, values = Ends.of(array)
            if pa.types.is_floating(array.type):
                values = values + 0.0  # no zero below zero
            hashed = pl.Series(values).hash(7).to_numpy()
        sketch = cls(ends.nulls, ends.infinite, ends.low, ends.high, len(array), *_counted(hashed))
        sketch._thin()
        return sketch

    def merge(self, after: Sketch) -> Sketch:
        self.widen(after)
        self.rows, self.level = self.rows + after.rows, max(self.level, after.level)
        both = np.concatenate([self.hashes, after.hashes])
        counts = np.concatenate([self.counts, after.counts])
        order = np.argsort(both, kind="stable")  # fast, as they are two sorted runs
        self.hashes, starts = _different(both[order])
        self.counts = np.add.reduceat(counts[order], starts) if len(starts) else counts
        self._thin()
        return self

    def _thin(self) -> None:
        while (kept := int(np.searchsorted(self.hashes, _below(self.level)))) > MOST_FOLLOWED:
            self.level += 1
        self.hashes, self.counts = self.hashes[:kept], self.counts[:kept]

    @property
    def exact(self) -> bool:
        return self.level == 0

    @property
    def values(self) -> int:
        """Estimate the number of values without null, from the followed ones."""
        return len(self.hashes) << self.level

    @property
    def common(self) -> int:
        """Return the number of values that are not rare."""
        return int((self.counts >= FEW).sum()) << self.level

    @property
    def pooled(self) -> float:
        """Return the share of the records whose values are rare."""
        return float(self.counts[self.counts < FEW].sum()) / max(float(self.counts.sum()), 1.0)

    @property
    def largest_share(self) -> float:
        """Return the share of the records that have the most common of the followed values, or null."""
        return max(int(self.counts.max(initial=0)), self.nulls) / max(self.rows, 1)

    @property
    def records_each(self) -> float:
        """Return the mean number of records of a value."""
        return float(self.counts.mean()) if len(self.counts) else 0.0


def _below(level: int) -> np.uint64:
    return np.uint64((1 << (64 - level)) - 1)


def _different(ordered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values of sorted ones, and the place of the first of each."""
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)])
    return ordered[starts], starts


def _counted(hashed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values in order, and their counts."""
    found, starts = _different(np.sort(hashed))
    return found, np.diff(np.r_[starts, len(hashed)])
