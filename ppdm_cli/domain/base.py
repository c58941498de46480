"""Domains for all packages: their protocol (codes, columns, numbers), and the product of several.

The codes of a product are the combinations, the last attribute fastest. Its columns are structs with a field
for each attribute, which readers and writers of tables assemble.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.arrays import Codes, Floats, code_type, joined, split

Representative = Literal["center", "left", "right", "random"]
MOST_VALUES = 1 << 16
"""More values than this in a column to be perturbed are refused: no release could be mined."""
TABLE = 1 << 20
"""The longest table from whole values to codes: a megabyte or so, which a core's caches hold."""
MOST_COMBINATIONS = 1 << 32
"""The most combinations: codes are of 32 bits, and a cell's coins have 32 bits for which one it has."""
TIMES = " x "
Extents = tuple[tuple[float, float], ...]
"""The numbers between which the values of each code lie; for a single value, it twice."""


_COMBINED = "combinations have no order and no numbers"


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
    type: ClassVar[Literal["continuous", "discrete"]]
    form: ClassVar[Literal["edges", "categories"]]
    """The name of its `marks` in a sidecar."""

    @property
    @abstractmethod
    def ordinary(self) -> int:
        """Return the number of codes without null's."""

    @property
    def size(self) -> int:
        """Return N, the number of all codes."""
        return self.ordinary + self.nulls

    @property
    def parts(self) -> tuple[Domain, ...]:
        """Return the domains of its attributes: itself, or those of a product."""
        return (self,)

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.size,)

    def joined(self, codes: Sequence[Codes]) -> Codes:
        """Return the code of each combination of the attributes' codes."""
        return codes[0]

    def split(self, codes: Codes) -> list[Codes]:
        return [codes]

    @property
    def is_random(self) -> bool:
        """Return whether the values that stand for codes are drawn."""
        return False

    @property
    def with_null(self) -> Domain:
        found = copy(self)
        for name in [n for n in vars(self) if isinstance(getattr(type(self), n, None), cached_property)]:
            del found.__dict__[name]  # made for fewer codes
        object.__setattr__(found, "nulls", True)
        return found

    @property
    def null_code(self) -> int:
        return self.ordinary

    @abstractmethod
    def labels(self) -> list[str]:
        """Return each code's label, for people."""

    def encode(self, array: pa.Array, clip: bool = False) -> Encoded:
        """Return the codes of a column; `clip` moves values outside to the nearest bin, or to null."""
        if pa.types.is_dictionary(array.type):
            if not array.dictionary.null_count:
                return self._encode_entries(array, clip)
            array = array.dictionary_decode()  # a null among the labels is a null of its rows
        codes = np.empty(len(array), code_type(self.size))
        null = np.empty(0, np.intp)
        if array.null_count:
            null = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))
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

    def _encode_entries(self, array: pa.DictionaryArray, clip: bool) -> Encoded:
        """Return the codes of a dictionary's rows by those of its entries."""
        places, entries = dtypes.carrier(array.indices), self._of_entries(array.dictionary, clip)
        null = np.empty(0, np.intp)
        if array.null_count:
            null = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))
            places = places.copy()
            places[null] = 0
        if np.array_equal(entries.codes, np.arange(len(entries.codes))):  # as releases have them
            codes = places.astype(code_type(self.size))
        else:
            codes = entries.codes.take(places)
        outside = np.empty(0, np.intp)
        if entries.outside.size or (null.size and not self.nulls):
            away = np.isin(np.arange(len(array.dictionary) + 1), entries.outside).take(places)
            away[null] = not self.nulls
            outside = np.flatnonzero(away)
        if self.nulls:
            codes[null] = self.null_code
        return Encoded(codes, outside)

    def _of_entries(self, entries: pa.Array, clip: bool) -> Encoded:
        """Return the codes of a dictionary's entries, which mostly are those of the batch before."""
        before = self._before.get(clip)
        if before is None or not before[0].equals(entries):
            before = self._before[clip] = entries, self.encode(entries, clip)
        return before[1]

    @cached_property
    def _before(self) -> dict[bool, tuple[pa.Array, Encoded]]:
        return {}

    def _encode_values(self, array: pa.Array, codes: Codes, null: np.ndarray, clip: bool) -> np.ndarray:
        """Fill in the codes of values, and return the rows outside (nulls may be among them)."""
        raise ValueError(_COMBINED)

    def decode(self, codes: Codes, within: np.ndarray | None = None) -> pa.Array:
        """Return the values that codes stand for, or that represent bins."""
        return dtypes.plain(self.column(codes, within))

    def column(self, codes: Codes, within: np.ndarray | None = None) -> pa.Array:
        """Return the column for a writer: the codes and the values that they stand for.

        If these are drawn, `within` in [0, 1) places each value in its bin, and the column has values alone.
        """
        valid = None
        if self.nulls and (null := codes == self.null_code).any():  # Arrow's own takes ten times as long
            codes, valid = codes * ~null, pa.py_buffer(np.packbits(~null, bitorder="little"))
        if self.is_random and within is not None:
            values = self._drawn_values(codes, within)
            return pa.Array.from_buffers(self.kind, len(codes), [valid, *values.buffers()[1:]])
        kind = pa.dictionary(pa.from_numpy_dtype(codes.dtype), self.kind)
        return pa.DictionaryArray.from_buffers(kind, len(codes), [valid, pa.py_buffer(codes)], self._array)

    def spread(self) -> Domain:
        """Return the same domain with values drawn evenly from its bins."""
        return self

    def nearest_values(self, values: np.ndarray) -> np.ndarray:
        """Return the values of the domain that are nearest to some numbers."""
        return values

    @property
    def marks(self) -> list[Any]:
        """Return the carrier values that make up the domain, ascending: the edges of bins, or single values."""
        raise ValueError(_COMBINED)

    def written(self) -> dict[str, Any]:
        shared = {"dtype": str(self.kind), "N": self.size, "nulls": self.nulls}
        return shared | {"type": self.type, self.form: [dtypes.to_json(m, self.kind) for m in self.marks]}

    @property
    def ordered(self) -> int:
        """Return the number of ordered codes; 0 for a domain without an order."""
        return 0 if dtypes.is_discrete(self.kind) else self.ordinary

    @property
    def width(self) -> float:
        """Return the distance from the first to the last number of the domain."""
        return float(self.marks[-1]) - float(self.marks[0])

    def numbers(self) -> Floats:
        """Return the number that each code stands for; NaN for null and for words."""
        return np.full(self.size, np.nan)

    def tops(self) -> Floats:
        """Return the largest value of each ordinary code, or the positions of words."""
        return np.arange(self.ordinary, dtype=np.float64)

    def extents(self) -> Extents:
        """Return the numbers between which the values of each ordinary code lie; ValueError if it has none."""
        raise ValueError(_COMBINED)

    def limits(self) -> tuple[Floats, Floats]:
        """Return the ends of each bin of numbers; NaN for single values, null, dates and times."""
        return np.full(self.size, np.nan), np.full(self.size, np.nan)

    def extended(self, kind: pa.DataType, below: list[Any], above: list[Any]) -> Domain:
        """Return the domain that also has the edges (or numbers) below and above, in a type that holds them."""
        raise ValueError(_COMBINED)

    @property
    def _array(self) -> pa.Array:
        """Return the value that each ordinary code stands for."""
        raise ValueError(_COMBINED)

    def _drawn_values(self, codes: Codes, within: np.ndarray) -> pa.Array:
        raise ValueError(_COMBINED)


class Product(Domain):
    """The combinations of several domains."""

    def __init__(self, parts: Sequence[Domain]) -> None:
        super().__init__(pa.struct([(str(i), p.kind) for i, p in enumerate(parts)]), False)
        if prod(p.size for p in parts) > MOST_COMBINATIONS:
            raise ValueError(f"several attributes together have at most {MOST_COMBINATIONS} combinations")
        object.__setattr__(self, "_parts", tuple(parts))

    _parts: tuple[Domain, ...]

    @property
    def parts(self) -> tuple[Domain, ...]:
        return self._parts

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(p.size for p in self._parts)

    @property
    def ordinary(self) -> int:
        return prod(self.sizes)

    @property
    def ordered(self) -> int:
        return 0

    def joined(self, codes: Sequence[Codes]) -> Codes:
        """Return the code of each combination of the attributes' codes."""
        return joined(codes, self.sizes)

    def split(self, codes: Codes) -> list[Codes]:
        found = split(codes, self.sizes)
        return [c.astype(code_type(size)) for c, size in zip(found, self.sizes, strict=True)]

    def labels(self) -> list[str]:
        """Return each combination's labels, such as "F x 40"; one that could be taken for two is in quotes."""
        several = [[_quoted(label) for label in p.labels()] for p in self._parts]
        return reduce(lambda so_far, more: [a + TIMES + b for a in so_far for b in more], several)

    def encode(self, array: pa.Array, clip: bool = False) -> Encoded:
        found = [p.encode(array.field(i), clip) for i, p in enumerate(self._parts)]
        outside = np.unique(np.concatenate([f.outside for f in found]))
        for each in found:
            each.codes[each.outside] = 0
        return Encoded(self.joined([f.codes for f in found]), outside)

    def column(self, codes: Codes, within: np.ndarray | None = None) -> pa.Array:
        """Return a column of structs; `within` has a column an attribute."""
        columns = [
            part.column(own, None if within is None else within[:, i])
            for i, (part, own) in enumerate(zip(self._parts, self.split(codes), strict=True))
        ]
        return pa.StructArray.from_arrays(columns, [str(i) for i in range(len(columns))])

    def spread(self) -> Domain:
        return Product([p.spread() for p in self._parts])


def _quoted(label: str) -> str:
    return '"' + label.replace('"', '""') + '"' if TIMES in label or '"' in label else label


def unit(kind: pa.DataType) -> float:
    """Return the value of one step of a column's carrier: decimals are unscaled, points in time in days."""
    if pa.types.is_timestamp(kind):
        return 1 / dtypes.ticks(kind) / 86_400
    return 10.0**-kind.scale if pa.types.is_decimal(kind) else 1.0


def checked_numeric(kind: pa.DataType) -> None:
    """Raise ValueError for a type whose values cannot take noise."""
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise ValueError(f"values of type {kind} take no noise")


def steps_above(values: np.ndarray, low: Any) -> np.ndarray:
    """Return values - low if values >= low, without overflow of a narrow signed type."""
    wide = values.dtype if values.dtype.kind == "u" else np.int64
    return np.subtract(values, low, dtype=wide)
