"""Bins for numbers, dates and times: domains of intervals between edges, and edges that cover an interval.

The edges decide a value's bin (edge <= value < next, the last bin closed); arithmetic may guess it, the edges
settle it. Edges have a round width (1, 2, 2.5 or 5 x 10^k), or are the starts of calendar periods.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import ceil, floor
from typing import Any

import numpy as np
import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.arrays import Codes, Floats, code_type
from ppdm_cli.domain.base import (
    MOST_VALUES,
    TABLE,
    Domain,
    Extents,
    Representative,
    checked_numeric,
    steps_above,
    unit,
)

_BLOCK = 1 << 15
CALENDAR = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
"""The numbers of months in periods, by name."""
_ROUND = (*CALENDAR.values(), 2, 6, 24, 60, *(m * 10**k for k in (1, 2, 3) for m in (24, 60, 120)))
_YEAR_0 = 1970 * 12
_A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


class Bins(Domain):
    """A domain of intervals between edges, each stood for by one value of the column's type."""

    type, form = "continuous", "edges"

    def __init__(
        self, kind: pa.DataType, edges: list[Any], nulls: bool, representative: Representative = "center"
    ) -> None:
        """Take `edges`, which are carrier numbers, strictly increasing."""
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

    @property
    def is_random(self) -> bool:
        return self.representative == "random"

    def nearest_values(self, values: np.ndarray) -> np.ndarray:
        return values.clip(self.edges[0], self.edges[-1])

    def extended(self, kind: pa.DataType, below: list[Any], above: list[Any]) -> Bins:
        return Bins(kind, [*below, *self.edges.tolist(), *above], self.nulls, self.representative)

    @property
    def ordinary(self) -> int:
        return len(self.edges) - 1

    def labels(self) -> list[str]:
        texts = [str(dtypes.to_json(e, self.kind)) for e in self.edges]
        for zeros in (r"\.0+(?=Z?$)", "T00:00:00Z?$"):  # a clock that shows nothing
            if dtypes.is_dated(self.kind) and all(re.search(zeros, t) for t in texts):
                texts = [re.sub(zeros, "", t) for t in texts]
        bins = [f"[{a}, {b})" for a, b in pairwise(texts)]
        return bins[:-1] + [bins[-1][:-1] + "]"] + ["null"] * self.nulls

    def _encode_values(self, array: pa.Array, codes: Codes, null: np.ndarray, clip: bool) -> np.ndarray:
        values = dtypes.carrier(array)
        misses = [np.empty(0, np.intp)]
        for start in range(0, len(values), _BLOCK):
            block, out = values[start : start + _BLOCK], codes[start : start + _BLOCK]
            if not self._guess(block, out):
                misses.append(start + self._settle(block, out, clip))
        return np.concatenate(misses)

    def _settle(self, values: np.ndarray, out: Codes, clip: bool = False) -> np.ndarray:
        """Return codes by the edges themselves, and the rows outside (including NaN, even when clipping)."""
        inside = (values >= self.edges[0]) & (values <= self.edges[-1])
        if clip:
            inside |= np.isfinite(values) if values.dtype.kind == "f" else True
        places = np.searchsorted(self.edges, values, side="right") - 1
        out[:] = places.clip(0, self.ordinary - 1)
        return np.flatnonzero(~inside)

    def _guess(self, values: np.ndarray, out: Codes) -> bool:
        """Return codes by arithmetic if that is certain; False for a value that needs `_settle`."""
        if not (values.min() >= self.edges[0] and values.max() <= self.edges[-1]):  # or NaN
            return False
        if self._table is not None:
            np.take(self._table, steps_above(values, self.edges[0]), out=out, mode="clip")
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
        """Return the code of every whole step of the domain, if they are few enough."""
        if not dtypes.is_whole(self.kind):
            return None
        low, span = int(self.edges[0]), int(self.edges[-1]) - int(self.edges[0])
        if span >= TABLE:
            return None
        steps = np.array([int(e) - low for e in self.edges])
        table = np.searchsorted(steps, np.arange(span + 1), side="right") - 1
        return table.clip(max=self.ordinary - 1).astype(code_type(self.size))

    @cached_property
    def _doubt(self) -> float:
        """Return the distance from an edge, in bins, within which arithmetic is not trusted."""
        edges = self.edges.astype(np.float64)
        with np.errstate(all="ignore"):  # a width that overflows or vanishes leaves no trust at all
            width = (edges[-1] - edges[0]) / self.ordinary
            rounding = 8 * np.spacing(np.abs(edges).max()) / width + 1e-14 * self.ordinary
        return float(max(rounding, 1e-9)) if np.isfinite(rounding) else np.inf

    @cached_property
    def _scale(self) -> float | None:
        """Return 1 / bin width if the bins are of equal width to within the doubt."""
        edges = self.edges.astype(np.float64)
        with np.errstate(all="ignore"):
            scale = self.ordinary / (edges[-1] - edges[0])
            off = np.abs((edges - edges[0]) * scale - np.arange(len(edges))).max()
        even = np.isfinite(scale) and self._doubt < 0.01 and off < self._doubt / 2
        return float(scale) if even else None

    @property
    def marks(self) -> list[Any]:
        found: list[Any] = self.edges.tolist()
        return found

    def numbers(self) -> Floats:
        edges = self.edges.astype(np.float64)
        last = edges[1:] - dtypes.is_whole(self.kind)
        last[-1] = edges[-1]
        found = np.full(self.size, np.nan)
        found[: self.ordinary] = (edges[:-1] / 2 + last / 2) * unit(self.kind)
        return found

    def tops(self) -> Floats:
        return self._steps[1].astype(np.float64)

    def extents(self) -> Extents:
        """Return the extents of the bins; whole values count half a step to either side."""
        checked_numeric(self.kind)
        edges = self.edges.astype(np.float64)
        if dtypes.is_whole(self.kind):
            edges -= 0.5
            edges[-1] += 1
        return tuple(pairwise(edges.tolist()))

    def limits(self) -> tuple[Floats, Floats]:
        lower, upper = super().limits()
        if not (pa.types.is_temporal(self.kind)):
            edges = np.array([float(dtypes.to_json(e, self.kind)) for e in self.edges])
            lower[: self.ordinary], upper[: self.ordinary] = edges[:-1], edges[1:]
        return lower, upper

    @cached_property
    def _steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and the last value of each bin."""
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
        """Return the value that stands for each bin (the left edge where it is random)."""
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

    @cached_property
    def _array(self) -> pa.Array:
        return dtypes.from_carrier(self.representatives, self.kind)

    def _drawn_values(self, codes: Codes, within: np.ndarray) -> pa.Array:
        first, last = (s.take(codes) for s in self._steps)
        if dtypes.is_whole(self.kind):
            values = _whole_between(first, last, within)
        else:
            values = np.clip((first * (1 - within) + last * within).astype(first.dtype), first, last)
        return dtypes.from_carrier(values, self.kind)


def _whole_between(first: np.ndarray, last: np.ndarray, within: np.ndarray) -> np.ndarray:
    """Return whole numbers from first to last, evenly by `within`; modulo 2^64, so that no width overflows."""
    low, high = (e.astype(np.uint64, casting="unsafe") for e in (first, last))
    span = high - low
    offset = np.minimum(within * (span.astype(np.float64) + 1), np.nextafter(2.0**64, 0)).astype(np.uint64)
    return (low + np.minimum(offset, span)).astype(first.dtype)


def nice_edges(low: Any, high: Any, bins: int, kind: pa.DataType) -> list[Any]:
    """Return the edges of 2 to `bins` bins of a round width that cover [low, high], from a multiple of it."""
    whole = dtypes.is_whole(kind)
    a, b = Fraction(low), Fraction(high)
    least = (b - a or Fraction(1)) / bins  # no narrower bins cover the span
    power = floor((Decimal(least.numerator) / Decimal(least.denominator)).log10()) - 1
    if whole:
        power = max(power, 0)
    lowest, highest = map(Fraction, dtypes.limits(kind))
    while True:
        for digits in (Fraction(1), Fraction(2), Fraction(5, 2), Fraction(5)):
            width = digits * Fraction(10) ** power
            if whole and width.denominator != 1:
                continue
            first, last = floor(a / width), max(ceil(b / width), floor(a / width) + 1)
            if last - first <= bins:
                if last - first == 1:  # one bin has nothing to perturb: an empty one beside it
                    first, last = (first, last + 1) if last * width < highest else (first - 1, last)
                exact = [min(max(i * width, lowest), highest) for i in range(first, last + 1)]
                return [int(e) if whole else float(e) for e in exact]
        power += 1


def starts(low: int, high: int, months: int, kind: pa.DataType) -> list[int]:
    """Return the starts of periods of so many months: from that of `low` up to the one after `high`'s."""
    first, last = (_month(v, kind) // months for v in (low, high))
    lowest, highest = dtypes.limits(kind)
    return [min(max(_start(i * months, kind), lowest), highest) for i in range(first, last + 2)]


def calendar_edges(low: Any, high: Any, bins: int, kind: pa.DataType, period: str | None = None) -> list[Any]:
    """Return edges of calendar periods over [low, high]: those named, or the shortest that `bins` can cover."""
    if period is not None:
        return _closed(starts(low, high, CALENDAR[period], kind), kind)
    span = _month(high, kind) - _month(low, kind) + 1
    if span > 2:
        for months in sorted(_ROUND):
            if span // months < bins and len(edges := starts(low, high, months, kind)) <= bins + 1:
                return _closed(edges, kind)
    a_day = _ticks(kind)
    if (high - low) // a_day < 2:
        return nice_edges(low, high, bins, kind)
    days = nice_edges(low // a_day, high // a_day + (a_day > 1), bins, pa.date32())
    lowest, highest = dtypes.limits(kind)
    return [min(max(d * a_day, lowest), highest) for d in days]


def _closed(edges: list[int], kind: pa.DataType) -> list[int]:
    """Return the edges of periods; the last one is closed, so of dates it is the period's last day."""
    if len(edges) == 2:  # one bin has nothing to perturb: an empty one beside it
        edges = [*edges, 2 * edges[1] - edges[0]]
    begins = edges[-1] < dtypes.limits(kind)[1]  # a period after the last one
    last = edges[-1] - (begins and pa.types.is_date(kind) and edges[-1] - 1 > edges[-2])
    return [*edges[:-1], last]


def _month(value: int, kind: pa.DataType) -> int:
    """Return the number of months from the year 0 to a carrier value."""
    day = np.datetime64(int(value) // _ticks(kind), "D")
    return int(day.astype("datetime64[M]").astype(np.int64)) + _YEAR_0


def _start(month: int, kind: pa.DataType) -> int:
    day = np.datetime64(month - _YEAR_0, "M").astype("datetime64[D]").astype(np.int64)
    return int(day) * _ticks(kind)


def _ticks(kind: pa.DataType) -> int:
    """Return the number of carrier steps in a day."""
    return _A_DAY[kind.unit] if pa.types.is_timestamp(kind) else 1
