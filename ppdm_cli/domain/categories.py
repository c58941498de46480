"""Categories for labels, and for few numbers or dates: domains of single values."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.domain.base import MOST_VALUES, TABLE, Domain, Extents, checked_numeric, steps_above, unit

OTHER = "(other)"
"""The value that stands for all text that a domain does not name."""


class Categories(Domain):
    type, form = "discrete", "categories"

    def __init__(self, kind: pa.DataType, values: list[Any], nulls: bool) -> None:
        """Take `values`: strings, booleans or carrier numbers, each once, in sorted order."""
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

    @property
    def marks(self) -> list[Any]:
        return self.values

    def numbers(self) -> Floats:
        found = np.full(self.size, np.nan)
        if not dtypes.is_discrete(self.kind):
            found[: self.ordinary] = np.array(self.values, np.float64) * unit(self.kind)
        return found

    def tops(self) -> Floats:
        if dtypes.is_discrete(self.kind):
            return np.arange(self.ordinary, dtype=np.float64)
        return np.asarray(self.values, np.float64)

    def extents(self) -> Extents:
        checked_numeric(self.kind)
        return tuple((float(v), float(v)) for v in self.values)

    def labels(self) -> list[str]:
        return [str(dtypes.to_json(v, self.kind)) for v in self.values] + ["null"] * self.nulls

    @cached_property
    def _array(self) -> pa.Array:
        return dtypes.column(self.values, self.kind)

    def _encode_values(self, array: pa.Array, codes: Codes, null: np.ndarray, clip: bool) -> np.ndarray:
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
        """Return the codes of the categories nearest to some numbers; the lower one of two equally near."""
        known = np.array(self.values, dtypes.carrier_type(self.kind))
        above = np.searchsorted(known, values).clip(0, len(known) - 1)
        below = (above - 1).clip(0)
        return np.where(_apart(values, known[below]) <= _apart(values, known[above]), below, above)

    def nearest_values(self, values: np.ndarray) -> np.ndarray:
        return np.array(self.values, values.dtype)[self.nearest(values)]

    def _unclipped(self, array: pa.Array, outside: np.ndarray) -> np.ndarray:
        """Return the rows that cannot be clipped: NaN and infinities have no nearest value."""
        if not pa.types.is_floating(self.kind):
            return np.empty(0, np.intp)
        return outside[~np.isfinite(dtypes.carrier(array)[outside])]

    def _find(self, array: pa.Array) -> np.ndarray:
        """Return each value's place among the categories, -1 where it has none."""
        if dtypes.is_discrete(self.kind):
            places = pc.index_in(array, value_set=self._array)
            return places.fill_null(-1).to_numpy(zero_copy_only=False)
        values, known = dtypes.carrier(array), dtypes.carrier(self._array)
        span = int(known[-1]) - int(known[0])
        if dtypes.is_whole(self.kind) and span < TABLE:
            return self._find_in_table(values, known, span)
        places = np.searchsorted(known, values).clip(max=len(known) - 1)
        return np.where(known[places] == values, places, -1)

    def _find_in_table(self, values: np.ndarray, known: np.ndarray, span: int) -> np.ndarray:
        table = np.full(span + 1, -1, np.int32)
        table[steps_above(known, known[0])] = np.arange(len(known))
        if len(values) and (values.min() < known[0] or values.max() > known[-1]):
            inside = (values >= known[0]) & (values <= known[-1])
            clipped = np.where(inside, values, known[0])
            return np.where(inside, table.take(steps_above(clipped, known[0])), -1)
        return table.take(steps_above(values, known[0]), mode="clip")


def _apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return |a - b|; for whole numbers modulo 2^64, where it cannot overflow."""
    if a.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.abs(a - b)
    high, low = np.maximum(a, b), np.minimum(a, b)
    return high.astype(np.uint64, casting="unsafe") - low.astype(np.uint64, casting="unsafe")
