"""Edges of a round width: 1, 2, 2.5 or 5 x 10^k."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import ceil, floor
from typing import Any

import pyarrow as pa

from ppdm_cli import dtypes


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
