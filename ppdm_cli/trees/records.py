"""Records for training, in memory: for every attribute a code of one or two bytes a record.

The codes of a numeric attribute are the ranks of its distinct values, or of quantiles where it has
too many; those of a nominal one its categories in order. Null and NaN are the last code: missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from ppdm_cli import dtypes
from ppdm_cli.arrays import code_type
from ppdm_cli.domain import Bins, Domain
from ppdm_cli.engine import Batch, ordered, scan, workers
from ppdm_cli.errors import DataError, UsageError, argument, quoted, unknown_column
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Table
from ppdm_cli.trees.tree import MOST_CLASSES, MOST_WEIGHT, Feature, StoredValue, spans

LEAST_CUTS = 1024
"""The number of quantiles of a number with too many values, unless a 64th of the records is more."""
MOST_CODES = 1 << 16


@dataclass(frozen=True, eq=False)
class CodedColumn:
    """One attribute's codes; `values` has the largest value of each code, if it is numeric."""

    feature: Feature
    codes: np.ndarray
    size: int
    values: np.ndarray
    missing: bool
    cut: bool = False
    ends: bool = False
    """True if the values are the ends of bins, where cuts belong; otherwise these lie halfway to the next."""

    def thresholds(self, codes: np.ndarray) -> np.ndarray:
        """Return the cut behind each of some codes: halfway to the next value, or the end of a bin."""
        low = self.values[codes]
        if self.ends or self.cut:
            return low
        high = self.values[codes + 1]
        half = low / 2 + high / 2
        if dtypes.is_whole(dtypes.parse(self.feature.dtype)):
            short = np.floor(half)
        else:  # without digits that come from rounding alone
            short = np.array([float(f"{h:.15g}") for h in half.tolist()])
        half = np.where((low <= short) & (short < high), short, half)
        return np.where((low <= half) & (half < high), half, low)


@dataclass(frozen=True, eq=False)
class CodedRecords:
    """The records that a tree is grown from."""

    columns: tuple[CodedColumn, ...]
    class_name: str
    class_dtype: str
    labels: tuple[StoredValue, ...]
    classes: np.ndarray
    weights: np.ndarray | None = None

    @property
    def rows(self) -> int:
        return len(self.classes)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Return the number of codes of each attribute, without the missing one."""
        return np.array([c.size for c in self.columns], np.int64)

    @cached_property
    def numeric(self) -> np.ndarray:
        return np.array([c.feature.numeric for c in self.columns], bool)

    @cached_property
    def codes(self) -> np.ndarray:
        """Return all codes, (attributes, records), in the type of the widest."""
        width = code_type(int(self.sizes.max(initial=0)) + 1)
        if not self.columns:
            return np.empty((0, self.rows), width)
        return np.stack([c.codes.astype(width, copy=False) for c in self.columns])

    @property
    def has_missing(self) -> bool:
        return any(c.missing for c in self.columns)


def coded_records(
    table: Table,
    class_: str,
    *,
    weights: str | np.ndarray | None = None,
    cuts: int | None = None,
    drop: Sequence[str] = (),
    nominal: Sequence[str] = (),
) -> CodedRecords:
    """Return the table's columns as codes; `nominal` names numbers that are categories."""
    known = table.schema.names
    own_weights = [weights] if isinstance(weights, str) else []
    for option, names in {"class_": [class_], "drop": drop, "nominal": nominal, "weights": own_weights}.items():
        for name in names:
            if name not in known:
                raise unknown_column(name, known, option)
    if cuts is not None and not 2 <= cuts <= MOST_CODES:
        raise UsageError("cuts-out-of-range", "the number of cuts is out of range", f"use 2 to {MOST_CODES}")
    if class_ in (*drop, *own_weights):
        what = f"{quoted(class_)} is the class, so it can't have another role"
        raise UsageError("class-named-twice", what, "name another column")
    names = [n for n in known if n not in (class_, *drop, *own_weights)]
    kinds = {n: dtypes.normal(table.schema.field(n).type, n) for n in known if n not in drop}
    numbers = {n for n in kinds if not dtypes.is_discrete(kinds[n]) and n not in nominal and n != class_}
    task = partial(_taken, class_, {n: n in numbers for n in kinds})
    parts = scan(table, task, columns=list(kinds), doing="reading")
    if not parts or not sum(len(p[class_]) for p in parts):
        raise DataError("no-records", f"{quoted(table.name)} has no records", "add records")

    def column(name: str) -> CodedColumn:
        pieces = [p.pop(name) for p in parts]
        kind = kinds[name]
        if name in numbers:
            return _numeric(Feature(name, str(kind), True), np.concatenate(pieces), cuts)
        return _nominal(name, kind, pa.chunked_array(pieces, pieces[0].type))

    label = column(class_)
    if label.size > MOST_CLASSES or pa.types.is_floating(kinds[class_]):
        what = f"{quoted(class_)} is not a class: it has numbers with fractions, or over {MOST_CLASSES} values"
        raise UsageError("not-a-class", what, "name a column of labels")
    weight = np.concatenate([p[weights] for p in parts]) if isinstance(weights, str) else weights
    with workers() as executor:
        columns = tuple(ordered(executor, names, column))
    codes = label.codes.astype(np.intp)
    checked = _weights(weight, len(codes))
    return CodedRecords(columns, class_, str(kinds[class_]), label.feature.categories, codes, checked)


def _taken(class_: str, numeric: Mapping[str, bool], batch: Batch) -> dict[str, Any]:
    """Return the columns of a batch: numbers as floats, others as they are; refuse a record without a class."""
    if batch.column(class_).null_count:
        row = int(np.flatnonzero(~_valid(batch.column(class_)))[0])
        raise DataError(
            "class-null",
            f"the class {quoted(class_)} is null in {batch.where(row)}",
            "remove the records without a class, or give them one",
        )
    return {n: (floats if as_floats else dtypes.plain)(batch.column(n)) for n, as_floats in numeric.items()}


def _weights(weights: np.ndarray | None, rows: int) -> np.ndarray | None:
    if weights is None:
        return None
    array = np.asarray(weights, np.float64)
    fine = array.shape == (rows,) and ((array >= 0) & (array <= MOST_WEIGHT / rows)).all()
    if not fine or not array.any():
        what = "the weights are not one number from 0 up for every record, some above 0"
        raise DataError("invalid-weights", what, "check the weights")
    return array


def _valid(array: pa.Array) -> np.ndarray:
    return pc.is_valid(array).to_numpy(zero_copy_only=False)


def floats(array: pa.Array) -> np.ndarray:
    """Return carriers as floats, missing ones as NaN; an infinity is a value like others, at the ends."""
    array = dtypes.plain(array)
    values = dtypes.carrier(array).astype(np.float64)
    if array.null_count:
        values[~_valid(array)] = np.nan
    return np.clip(values, -np.finfo(float).max, np.finfo(float).max)


def sorted_floats(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of floats, NaN last, and the sorted values.

    Their bits are sorted as whole numbers, with the row in the last ones: an order takes four times as long.
    """
    bits = len(values).bit_length()
    keys = np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)  # of one NaN and one 0
    keys ^= keys >> 63 & np.iinfo(np.int64).max
    keys &= -1 << bits
    keys |= np.arange(len(values))
    keys.sort()
    order = keys & (1 << bits) - 1
    known = values.take(order)
    wrong = np.flatnonzero(known[1:] < known[:-1])
    if wrong.size:  # they differ in the last bits alone
        keys >>= bits
        alike = np.unique(keys[wrong])
        first = np.searchsorted(keys, alike)
        run = spans(first, np.searchsorted(keys, alike, side="right") - first)
        order[run] = order[run][np.argsort(known[run])]
        known[run] = values[order[run]]
    return order, known


def _numeric(feature: Feature, values: np.ndarray, cuts: int | None) -> CodedColumn:
    order, known = sorted_floats(values)
    known = known[: np.searchsorted(known, np.nan)]
    new = np.ones(len(known), bool)
    new[1:] = known[1:] != known[:-1]
    cut = int(np.count_nonzero(new)) > MOST_CODES
    if cut:
        cuts = cuts or min(max(LEAST_CUTS, len(values) // 64), MOST_CODES)
        distinct = np.unique(known[(np.arange(1, cuts + 1) * len(known)) // cuts - 1])
        # each code ends with its value; the next one begins behind it
        starts = np.append(0, np.searchsorted(known, distinct[:-1], side="right"))
    else:
        starts = np.flatnonzero(new)
        distinct = known.take(starts)
    codes = np.full(len(values), len(distinct), code_type(len(distinct) + 1))
    ranks = np.arange(len(distinct), dtype=codes.dtype)
    codes[order[: len(known)]] = np.repeat(ranks, np.diff(starts, append=len(known)))
    missing = len(known) < len(values)
    return CodedColumn(feature, codes, len(distinct), distinct, missing, cut)


def _nominal(name: str, kind: pa.DataType, array: pa.ChunkedArray) -> CodedColumn:
    if pa.types.is_floating(kind):
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
    encoded = array.dictionary_encode().unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], array.type).dictionary_encode()
    labels = encoded.dictionary
    values = labels.to_pylist() if dtypes.is_discrete(kind) else dtypes.carrier(labels).tolist()
    order = sorted(range(len(values)), key=lambda i: values[i])
    if len(values) > MOST_CODES:
        what = f"{quoted(name)} has more than {MOST_CODES} categories"
        raise DataError(
            "too-many-categories",
            what,
            f"leave it out, because it identifies records: {argument('drop', name)}",
        )
    size = max(len(values), 1)
    rank = np.empty(len(values) + 1, code_type(size + 1))
    rank[order] = np.arange(len(values))
    rank[-1] = size
    places = encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
    blank: StoredValue = "" if pa.types.is_string(kind) else False if pa.types.is_boolean(kind) else 0
    listed = tuple(dtypes.to_json(values[i], kind) for i in order) or (dtypes.to_json(blank, kind),)
    return CodedColumn(
        Feature(name, str(kind), False, listed), rank[places], size, np.empty(0), encoded.null_count > 0
    )


def at_edges(records: CodedRecords, sidecar: Sidecar) -> CodedRecords:
    """Return the records of a reconstruction, with thresholds at the edges of the bins, not within them."""
    if sidecar.reconstruction is UNSET or sidecar.reconstruction.spread:
        return records
    bins = {a.name: a.domain for a in sidecar.attributes if a.edges is not UNSET}
    return replace(records, columns=tuple(_at_edges(c, bins.get(c.feature.name)) for c in records.columns))


def _at_edges(column: CodedColumn, domain: Domain | None) -> CodedColumn:
    if not isinstance(domain, Bins) or not column.feature.numeric or column.cut:
        return column
    codes = np.searchsorted(domain.edges.astype(np.float64), column.values, side="right") - 1
    codes = np.clip(codes, 0, domain.ordinary - 1)
    if (np.diff(codes) <= 0).any():  # more values than bins: these are not representatives
        return column
    return replace(column, values=domain.tops()[codes], ends=True)
