"""A declared interval cut into bins: of equal width, of equal steps on a scale, or around a core.

All of it is what an owner can say without a look at the data. Equal widths waste bins on skewed attributes;
equal steps of the logarithm or the square root do not, nor does a core between two open bins.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import exp, log, sqrt
from typing import Any

import numpy as np
import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.arrays import Floats
from ppdm_cli.domain import CALENDAR, Bins, Categories, Domain, Representative, is_dated, starts
from ppdm_cli.errors import UsageError, quoted
from ppdm_cli.perturbing.attribute_plan import AttributePlan

_FROM: dict[str, Callable[[float], float]] = {"sqrt": lambda x: x * x, "log": exp}
_TO: dict[str, Callable[[float], float]] = {"sqrt": sqrt, "log": log}


def cut(
    name: str,
    kind: pa.DataType,
    own: AttributePlan,
    ends: tuple[Any, Any],
    core: tuple[Any, Any] | None,
    bins: int,
    representative: Representative,
) -> Domain:
    """Return the domain of an interval: bins, or the single values where those are whole and no more."""
    low, high = ends
    if not low < high:
        raise UsageError(
            f"the domain declared for {quoted(name)} does not go from low to high", "such as --domain age=0:120"
        )
    first, last = core or ends
    if not low <= first < last <= high:
        raise UsageError(
            f"the core declared for {quoted(name)} is not an interval within its domain",
            "such as domain=0:1000000,core=0:5000",
        )
    whole = dtypes.is_whole(kind)
    if own.scale in CALENDAR:
        if not is_dated(kind):
            raise no_calendar(name, kind, own.scale)
        inner_edges = [e for e in starts(low, high, CALENDAR[str(own.scale)], kind) if low < e < high]
        return Bins(kind, [low, *inner_edges, high], own.nulls, representative)
    if whole and high - low < bins:
        return Categories(kind, list(range(low, high + 1)), own.nulls)
    inner = bins - (low < first) - (last < high)
    if inner < 1:
        raise UsageError(
            f"{bins} bins are too few for {quoted(name)}: beside its core, either end has one",
            f"give it at least {bins + 1 - inner}",
        )
    if own.scale is not None:
        _check_scale(name, kind, own.scale, first)
    # whole steps up to and including `high`; the last bin is closed there
    stop = last + (whole and last == high)
    if whole:
        inner = min(inner, last - first)
    edges = [*[low] * (low < first), *_edges(first, stop, inner, own.scale, whole), *[high] * (last < high)]
    edges[-1] = high
    if whole:
        edges = _distinct(edges)
    try:
        return Bins(kind, edges, own.nulls, representative)
    except ValueError:
        raise UsageError(
            f"the domain declared for {quoted(name)} is too narrow for {bins} bins of type {kind}",
            "widen it, or give fewer bins",
        ) from None


def no_calendar(name: str, kind: pa.DataType, scale: str | None) -> UsageError:
    return UsageError(
        f"the column {quoted(name)} is of type {kind}, which has no {scale}s",
        "leave the scale out, or read the column as dates",
    )


def _check_scale(name: str, kind: pa.DataType, scale: str, first: Any) -> None:
    if pa.types.is_temporal(kind):
        raise UsageError(
            f"the column {quoted(name)} is of type {kind}, and dates and times have no {scale} scale",
            "leave the scale out, or give a core or edges",
        )
    if first < 0 or (scale == "log" and first == 0):
        least = "above 0" if scale == "log" else "at 0"
        raise UsageError(
            f"the {scale} scale of {quoted(name)} must begin {least}, and its domain begins lower",
            f"declare a core that begins {least}: what lies below gets a bin of its own",
        )


def _edges(low: Any, high: Any, bins: int, scale: str | None, whole: bool) -> list[Any]:
    """Return bins + 1 edges, equally far apart on the scale."""
    if scale is None and whole:
        return [low + i * (high - low) // bins for i in range(bins + 1)]
    if scale is None:
        return even_edges(low, high, bins)
    a, b = _TO[scale](low), _TO[scale](high)
    inner = [_FROM[scale](a + (b - a) * i / bins) for i in range(1, bins)]
    return [low, *_readable(np.array([low, *inner, high], float))[1:-1], high]


def _distinct(edges: list[Any]) -> list[int]:
    """Return edges of whole numbers, one step at least apart; the first and the last stay."""
    for i in range(1, len(edges) - 1):
        edges[i] = min(max(round(edges[i]), edges[i - 1] + 1), edges[-1] - (len(edges) - 1 - i))
    return edges


def _readable(exact: Floats) -> list[Any]:
    """Return the edges with as few digits as move none of them by more than a twentieth of a bin."""
    for digits in range(1, 17):
        edges = np.array([float(f"{e:.{digits}g}") for e in exact])
        if (np.abs(edges - exact)[1:] <= np.diff(exact) / 20).all():
            return list(edges.tolist())
    return list(exact.tolist())


def even_edges(low: float, high: float, bins: int) -> list[float]:
    """Return bins + 1 edges of equal distance, each the float nearest to the exact one."""
    a, width = Fraction(low), (Fraction(high) - Fraction(low)) / bins
    return [float(a + i * width) for i in range(bins)] + [high]
