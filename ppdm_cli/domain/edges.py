"""Edges for bins that cover an interval: of a round width (1, 2, 2.5 or 5 x 10^k), or calendar periods."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import ceil, floor
from typing import Any

import numpy as np
import pyarrow as pa

from ppdm_cli import dtypes

CALENDAR = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
"""Periods by name, and how many months each has."""
_ROUND = (*CALENDAR.values(), 2, 6, 24, 60, *(m * 10**k for k in (1, 2, 3) for m in (24, 60, 120)))
_YEAR_0 = 1970 * 12
_A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def nice_edges(low: Any, high: Any, bins: int, kind: pa.DataType) -> list[Any]:
    """Return the edges of 2 to `bins` bins of a round width that cover [low, high], from a multiple of it."""
    whole = dtypes.is_whole(kind)
    a, b = Fraction(low), Fraction(high)
    span = b - a or Fraction(1)
    power = floor((Decimal(span.numerator) / Decimal(span.denominator)).log10()) - 7
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
    """Return where periods of so many months begin: the one that `low` is in up to the one after `high`'s."""
    first, last = (_month(v, kind) // months for v in (low, high))
    lowest, highest = dtypes.limits(kind)
    return [min(max(_start(i * months, kind), lowest), highest) for i in range(first, last + 2)]


def calendar_edges(low: Any, high: Any, bins: int, kind: pa.DataType, period: str | None = None) -> list[Any]:
    """Return the edges of calendar periods that cover [low, high]: those named, or the shortest of which
    `bins` are enough; days, or parts of a day, where it is too short for months."""
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
    """Return how many carrier steps a day has."""
    return _A_DAY[kind.unit] if pa.types.is_timestamp(kind) else 1
