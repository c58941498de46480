"""Domains: the values or bins of an attribute, in order, and their codes.

A domain turns a column into codes and codes into a column. It is what an owner declares or
derives and what a sidecar publishes. Null, where it takes part, is the last code. The edges decide
a value's bin (edge <= value < next, the last bin closed); arithmetic may guess it, the edges
settle it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.arrays import Codes, code_type

Representative = Literal["center", "left", "right", "random"]
MOST_VALUES = 1 << 16
"""More values than this in a column to be perturbed are refused: no release could be mined."""
_BLOCK = 1 << 15
_TABLE = 1 << 20


@dataclass(frozen=True)
class Encoded:
    """A column's codes, and the rows whose values are outside the domain (their codes are junk)."""

    codes: Codes
    outside: np.ndarray
    """Row numbers within the batch, ascending."""


@dataclass(frozen=True, eq=False)
class Domain(ABC):
    """Values or bins of one attribute, of the column type `kind`."""

    kind: pa.DataType
    nulls: bool

    @property
    @abstractmethod
    def ordinary(self) -> int:
        """How many codes there are besides null's."""

    @property
    def size(self) -> int:
        """N: all codes."""
        return self.ordinary + self.nulls

    @property
    def null_code(self) -> int:
        return self.ordinary

    @abstractmethod
    def labels(self) -> list[str]:
        """What each code is called, for people."""

    def encode(self, array: pa.Array, clip: bool = False) -> Encoded:
        """The codes of a column; `clip` moves what is outside to the nearest bin, or to null."""
        if pa.types.is_dictionary(array.type) and array.dictionary.null_count:
            array = array.dictionary_decode()  # a null among the labels is a null of its rows
        codes = np.empty(len(array), code_type(self.size))
        null = np.flatnonzero(_null_mask(array)) if array.null_count else np.empty(0, np.intp)
        away = np.zeros(len(array), bool)
        away[self._encode_values(array, codes, null, clip)] = True
        away[null] = False
        outside = np.flatnonzero(away)
        if outside.size and pa.types.is_floating(self.kind):  # NaN is null, and in no bin
            nan = np.isnan(dtypes.carrier(array)[outside])
            null, outside = np.concatenate([null, outside[nan]]), outside[~nan]
        if self.nulls:
            codes[null] = self.null_code
        else:
            away[null] = True
            outside = np.flatnonzero(away)
        return Encoded(codes, outside)

    @abstractmethod
    def _encode_values(self, array: pa.Array, codes: Codes, null: np.ndarray, clip: bool) -> np.ndarray:
        """Fill in the codes of what is not null; the rows outside (nulls may be among them)."""

    def decode(self, codes: Codes, within: np.ndarray | None = None) -> pa.Array:
        """The column that codes stand for: values, or representatives of bins.

        `within` in [0, 1) places each value in its bin where the representative is random.
        """
        if not self.nulls:
            return self._decode_values(codes, within)
        null = codes == self.null_code
        if not null.any():
            return self._decode_values(codes, within)
        values = self._decode_values(np.where(null, 0, codes), within)
        valid = pa.array(~null).buffers()[1]
        buffers = values.buffers()
        return pa.Array.from_buffers(self.kind, len(codes), [valid, *buffers[1:]])

    def column(self, codes: Codes, within: np.ndarray | None = None) -> pa.Array:
        """The same column for a writer: text as a dictionary, without writing any label twice."""
        return self.decode(codes, within)

    def spread(self) -> Domain:
        """The same domain, with values drawn evenly from its bins."""
        return self

    @abstractmethod
    def extended(self, kind: pa.DataType, below: list[Any], above: list[Any]) -> Domain:
        """The domain that also has the edges (or numbers) below and above, in a type that holds them."""

    @abstractmethod
    def _decode_values(self, codes: Codes, within: np.ndarray | None) -> pa.Array: ...


class Categories(Domain):
    """A domain of single values, sorted."""

    def __init__(self, kind: pa.DataType, values: list[Any], nulls: bool) -> None:
        """`values` are strings, booleans or carrier numbers, each once, in sorted order."""
        super().__init__(kind, nulls)
        if sorted(set(values)) != values:
            raise ValueError("categories must be sorted and each listed once")
        if not values or len(values) > MOST_VALUES:
            raise ValueError(f"a domain has 1 to {MOST_VALUES} values")
        object.__setattr__(self, "values", values)

    values: list[Any]

    @property
    def ordinary(self) -> int:
        return len(self.values)

    def extended(self, kind: pa.DataType, below: list[Any], above: list[Any]) -> Categories:
        return Categories(kind, [*below, *self.values, *above], self.nulls)

    def labels(self) -> list[str]:
        return [str(dtypes.to_json(v, self.kind)) for v in self.values] + ["null"] * self.nulls

    @cached_property
    def _array(self) -> pa.Array:
        if dtypes.is_discrete(self.kind):
            return pa.array(self.values, self.kind)
        return dtypes.from_carrier(np.array(self.values, dtypes.carrier_type(self.kind)), self.kind)

    def _encode_values(self, array: pa.Array, codes: Codes, null: np.ndarray, clip: bool) -> np.ndarray:
        if pa.types.is_dictionary(array.type):
            places = self._find(array.dictionary)
            indices = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
            found = places[indices] if len(places) else np.full(len(array), -1)
        else:
            found = self._find(array)
        if null.size:
            found = found.copy()
            found[null] = 0
        if len(found) and found.min() < 0:
            outside = np.flatnonzero(found < 0)
            numbers = not dtypes.is_discrete(self.kind)
            if not clip or not (numbers or self.nulls):
                codes[:] = found
                return outside
            found = found.copy()
            found[outside] = self.nearest(dtypes.carrier(array)[outside]) if numbers else self.null_code
            codes[:] = found
            return self._unclipped(array, outside)
        codes[:] = found
        return np.empty(0, np.intp)

    def nearest(self, values: np.ndarray) -> np.ndarray:
        """The codes of the categories nearest to some numbers; of two as near the lower one."""
        known = np.array(self.values, dtypes.carrier_type(self.kind))
        above = np.searchsorted(known, values).clip(0, len(known) - 1)
        below = (above - 1).clip(0)
        return np.where(_apart(values, known[below]) <= _apart(values, known[above]), below, above)

    def _unclipped(self, array: pa.Array, outside: np.ndarray) -> np.ndarray:
        """NaN and infinities are near to nothing."""
        if not pa.types.is_floating(self.kind):
            return np.empty(0, np.intp)
        return outside[~np.isfinite(dtypes.carrier(array)[outside])]

    def _find(self, array: pa.Array) -> np.ndarray:
        """Each value's place among the categories, -1 where it has none."""
        if dtypes.is_discrete(self.kind):
            places = pc.index_in(array, value_set=self._array)
            return places.fill_null(-1).to_numpy(zero_copy_only=False)
        values, known = dtypes.carrier(array), dtypes.carrier(self._array)
        span = int(known[-1]) - int(known[0])
        if dtypes.is_whole(self.kind) and span < _TABLE:
            return self._find_in_table(values, known, span)
        places = np.searchsorted(known, values).clip(max=len(known) - 1)
        return np.where(known[places] == values, places, -1)

    def _find_in_table(self, values: np.ndarray, known: np.ndarray, span: int) -> np.ndarray:
        table = np.full(span + 1, -1, np.int32)
        table[_steps_above(known, known[0])] = np.arange(len(known))
        if len(values) and (values.min() < known[0] or values.max() > known[-1]):
            inside = (values >= known[0]) & (values <= known[-1])
            clipped = np.where(inside, values, known[0])
            return np.where(inside, table.take(_steps_above(clipped, known[0])), -1)
        return table.take(_steps_above(values, known[0]), mode="clip")

    def column(self, codes: Codes, within: np.ndarray | None = None) -> pa.Array:
        if not pa.types.is_string(self.kind):
            return self.decode(codes, within)
        null = codes == self.null_code if self.nulls else None
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=null), self._array)

    def _decode_values(self, codes: Codes, within: np.ndarray | None) -> pa.Array:
        if dtypes.is_discrete(self.kind):
            return self._array.take(pa.array(codes))
        return dtypes.taken(dtypes.carrier(self._array), codes, self.kind)


class Bins(Domain):
    """A domain of intervals between edges, each stood for by one value of the column's type."""

    def __init__(
        self, kind: pa.DataType, edges: list[Any], nulls: bool, representative: Representative = "center"
    ) -> None:
        """`edges` are carrier numbers, strictly increasing."""
        super().__init__(kind, nulls)
        array = np.array(edges, dtypes.carrier_type(kind))
        if len(edges) < 2 or len(edges) > MOST_VALUES + 1 or not (array[1:] > array[:-1]).all():
            raise ValueError(f"bins need 2 to {MOST_VALUES + 1} strictly increasing edges")
        object.__setattr__(self, "edges", array)
        object.__setattr__(self, "representative", representative)

    edges: np.ndarray
    representative: Representative

    def spread(self) -> Bins:
        return Bins(self.kind, self.edges.tolist(), self.nulls, "random")

    def extended(self, kind: pa.DataType, below: list[Any], above: list[Any]) -> Bins:
        return Bins(kind, [*below, *self.edges.tolist(), *above], self.nulls, self.representative)

    @property
    def ordinary(self) -> int:
        return len(self.edges) - 1

    def labels(self) -> list[str]:
        texts = [str(dtypes.to_json(e, self.kind)) for e in self.edges]
        bins = [f"[{a}, {b})" for a, b in pairwise(texts)]
        return bins[:-1] + [bins[-1][:-1] + "]"] + ["null"] * self.nulls

    def _encode_values(self, array: pa.Array, codes: Codes, null: np.ndarray, clip: bool) -> np.ndarray:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        values = dtypes.carrier(array)
        misses = [np.empty(0, np.intp)]
        for start in range(0, len(values), _BLOCK):
            block, out = values[start : start + _BLOCK], codes[start : start + _BLOCK]
            if not self._guess(block, out):
                misses.append(start + self._settle(block, out, clip))
        return np.concatenate(misses)

    def _settle(self, values: np.ndarray, out: Codes, clip: bool = False) -> np.ndarray:
        """Codes by the edges themselves; the rows outside (NaN among them, even when clipping)."""
        inside = (values >= self.edges[0]) & (values <= self.edges[-1])
        if clip:
            inside |= np.isfinite(values) if values.dtype.kind == "f" else True
        places = np.searchsorted(self.edges, values, side="right") - 1
        out[:] = places.clip(0, self.ordinary - 1)
        return np.flatnonzero(~inside)

    def _guess(self, values: np.ndarray, out: Codes) -> bool:
        """Codes by arithmetic where that is certain; False where a value needs `_settle`."""
        if not (values.min() >= self.edges[0] and values.max() <= self.edges[-1]):  # or NaN
            return False
        if self._table is not None:
            np.take(self._table, _steps_above(values, self.edges[0]), out=out, mode="clip")
            return True
        if self._scale is None:
            return False
        scaled = np.subtract(values, self.edges[0], dtype=np.float64)
        scaled *= self._scale
        with np.errstate(invalid="ignore"):  # the last edge may be one code too many: settled below
            out[:] = scaled
        scaled -= np.rint(scaled)
        np.abs(scaled, out=scaled)
        if scaled.min() < self._doubt:
            near = np.flatnonzero(scaled < self._doubt)
            near = near[values[near] != self.edges[0]]  # often many, and certain
            settled = np.empty(len(near), out.dtype)
            self._settle(values[near], settled)
            out[near] = settled
        return True

    @cached_property
    def _table(self) -> Codes | None:
        """The code of every whole step of the domain, where they are few enough."""
        if not dtypes.is_whole(self.kind):
            return None
        low, span = int(self.edges[0]), int(self.edges[-1]) - int(self.edges[0])
        if span >= _TABLE:
            return None
        steps = np.array([int(e) - low for e in self.edges])
        table = np.searchsorted(steps, np.arange(span + 1), side="right") - 1
        return table.clip(max=self.ordinary - 1).astype(code_type(self.size))

    @cached_property
    def _doubt(self) -> float:
        """How near to an edge, in bins, arithmetic is not trusted."""
        edges = self.edges.astype(np.float64)
        with np.errstate(all="ignore"):  # a width that overflows or vanishes leaves no trust at all
            width = (edges[-1] - edges[0]) / self.ordinary
            rounding = 8 * np.spacing(np.abs(edges).max()) / width + 1e-14 * self.ordinary
        return float(max(rounding, 1e-9)) if np.isfinite(rounding) else np.inf

    @cached_property
    def _scale(self) -> float | None:
        """1 / bin width, where the bins are of equal width to within the doubt."""
        edges = self.edges.astype(np.float64)
        with np.errstate(all="ignore"):
            scale = self.ordinary / (edges[-1] - edges[0])
            off = np.abs((edges - edges[0]) * scale - np.arange(len(edges))).max()
        even = np.isfinite(scale) and self._doubt < 0.01 and off < self._doubt / 2
        return float(scale) if even else None

    @property
    def tops(self) -> np.ndarray:
        """The last value of each bin."""
        return self._steps[1]

    @cached_property
    def _steps(self) -> tuple[np.ndarray, np.ndarray]:
        """The first and the last value of each bin."""
        first, after = self.edges[:-1], self.edges[1:]
        if dtypes.is_whole(self.kind):
            last = after - 1
        else:
            last = np.nextafter(after, self.edges[0], dtype=self.edges.dtype)
        last = last.copy()
        last[-1] = self.edges[-1]
        return first, last

    @cached_property
    def representatives(self) -> np.ndarray:
        """The value that stands for each bin (the left edge where it is random)."""
        first, last = self._steps
        if self.representative == "right":
            return last
        if self.representative != "center":
            return first
        if dtypes.is_whole(self.kind):
            middles = [(int(a) + int(b)) // 2 for a, b in zip(first, last, strict=True)]
            return np.array(middles, self.edges.dtype)
        middle = self.edges[:-1] / 2 + self.edges[1:] / 2
        return np.clip(middle.astype(self.edges.dtype), first, last)

    def _decode_values(self, codes: Codes, within: np.ndarray | None) -> pa.Array:
        if self.representative != "random" or within is None:
            return dtypes.taken(self.representatives, codes, self.kind)
        first, last = (s.take(codes) for s in self._steps)
        if dtypes.is_whole(self.kind):
            values = _whole_between(first, last, within)
        else:
            values = np.clip((first * (1 - within) + last * within).astype(first.dtype), first, last)
        return dtypes.from_carrier(values, self.kind)


def _apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """|a - b|; of whole numbers modulo 2^64, where it cannot overflow."""
    if a.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.abs(a - b)
    high, low = np.maximum(a, b), np.minimum(a, b)
    return high.astype(np.uint64, casting="unsafe") - low.astype(np.uint64, casting="unsafe")


def _whole_between(first: np.ndarray, last: np.ndarray, within: np.ndarray) -> np.ndarray:
    """Whole numbers from first to last, evenly by `within`; modulo 2^64, so that no width overflows."""
    low, high = (e.astype(np.uint64, casting="unsafe") for e in (first, last))
    span = high - low
    offset = np.minimum(within * (span.astype(np.float64) + 1), np.nextafter(2.0**64, 0)).astype(np.uint64)
    return (low + np.minimum(offset, span)).astype(first.dtype)


def _steps_above(values: np.ndarray, low: Any) -> np.ndarray:
    """values - low where values >= low, without overflow of a narrow signed type."""
    wide = values.dtype if values.dtype.kind == "u" else np.int64
    return np.subtract(values, low, dtype=wide)


def _null_mask(array: pa.Array) -> np.ndarray:
    return array.is_null().to_numpy(zero_copy_only=False)
