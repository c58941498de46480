"""What a condition says of each code of a domain, and of each record of a kept column.

A condition on what was perturbed is about whole bins: one that cuts a bin inside is refused, with the edges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.domain import Bins, Domain
from ppdm_cli.errors import RefusedError, UsageError, counted, quoted
from ppdm_cli.querying.asked import Literals, Predicate

FALSE, TRUE, NULL = 0, 1, 2
"""What a condition is of a code or a record."""
_EDGES = 24


def resolved(predicate: Predicate, kind: pa.DataType) -> Predicate:
    """Return what is asked with its values as carrier numbers or categories of the column's type.

    Of whole carriers nothing is asked but whether they are below a number, or among some.
    """
    name, asks = predicate.column, predicate.asks
    values = [_carrier(v, kind, name) for v in predicate.values]
    if asks in ("below", "up to"):
        if dtypes.is_discrete(kind):
            raise UsageError(f"{quoted(name)} has no order, so nothing is below or above", "ask by =, <> or in")
        if dtypes.is_whole(kind):
            edge = math.ceil(values[0]) if asks == "below" else math.floor(values[0]) + 1
            return Predicate(name, "below", (edge,))
        return Predicate(name, asks, (float(values[0]),))
    if dtypes.is_whole(kind):
        low, high = dtypes.limits(kind)
        values = [int(v) for v in values if v.denominator == 1 and low <= v <= high]
    elif not dtypes.is_discrete(kind):
        values = [float(v) for v in values]
    return Predicate(name, asks, tuple(values))


def _carrier(value: Literals, kind: pa.DataType, name: str) -> Any:
    """Return a value in the column's carrier, exactly: numbers as fractions."""
    wrong = UsageError(
        f"{quoted(name)} is of type {kind}, which the value it is compared with is not",
        "write text, dates and times in quotes, numbers without",
    )
    if dtypes.is_discrete(kind):
        right = bool if pa.types.is_boolean(kind) else str
        if not isinstance(value, right):
            raise wrong
        return value
    if pa.types.is_temporal(kind):
        try:
            return Fraction(dtypes.from_json(value, kind))
        except ValueError:
            raise wrong from None
    if isinstance(value, (bool, str)) or not math.isfinite(value):
        raise wrong
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    return Fraction(str(value)) * 10**scale


def over_domain(predicate: Predicate, domain: Domain) -> np.ndarray:
    """Return for each code of a domain whether what is asked, as `resolved`, is true, false or null."""
    found = np.full(domain.size, NULL, np.uint8)
    if predicate.asks == "null":
        found[:] = FALSE
        found[domain.ordinary :] = TRUE
        return found
    if isinstance(domain, Bins):
        found[: domain.ordinary] = _of_bins(predicate, domain)
        return found
    if predicate.asks == "among":
        missing = sum(v not in domain.marks for v in predicate.values)
        if missing and dtypes.is_discrete(domain.kind):
            raise UsageError(
                f"{quoted(predicate.column)} is asked for {counted(missing, 'value')} that its domain lacks",
                f"its values: {', '.join(map(quoted, domain.labels()[:_EDGES]))}",
            )
        told = [mark in predicate.values for mark in domain.marks]
    else:
        told = [_below(mark, predicate) for mark in domain.marks]
    found[: domain.ordinary] = told
    return found


def _below(value: Any, predicate: Predicate) -> bool:
    edge = predicate.values[0]
    return bool(value < edge if predicate.asks == "below" else value <= edge)


def _of_bins(predicate: Predicate, domain: Bins) -> Sequence[int]:
    """Return for each bin whether what is asked is true or false of all of its values."""
    edges, whole = domain.marks, dtypes.is_whole(domain.kind)
    found = []
    for place, (low, high) in enumerate(pairwise(edges)):
        closed = place == domain.ordinary - 1
        after = high + 1 if whole and closed else high  # where values end: [low, after), or [low, high]
        if predicate.asks == "among":
            inside = sum(low <= v < after or (closed and v == high) for v in set(predicate.values))
            true, false = whole and inside == after - low, not inside
        elif predicate.asks == "below":
            edge = predicate.values[0]
            true, false = after < edge if closed and not whole else after <= edge, low >= edge
        else:
            true, false = high <= predicate.values[0], low > predicate.values[0]
        if true == false:
            shown = [str(dtypes.to_json(e, domain.kind)) for e in edges]
            more = [f"and {len(shown) - _EDGES} more"] * (len(shown) > _EDGES)
            raise RefusedError(
                f"{quoted(predicate.column)} was published in bins, and the condition cuts one",
                f"use < or >= with an edge: {', '.join([*shown[:_EDGES], *more])}",
            )
        found.append(TRUE if true else FALSE)
    return found


def over_column(predicate: Predicate, column: pa.Array) -> np.ndarray:
    """Return for each record of a kept column whether what is asked, as `resolved`, is true, false or null."""
    column = dtypes.plain(column)
    null = nulls(column)
    if predicate.asks == "null":
        return np.where(null, TRUE, FALSE).astype(np.uint8)
    if dtypes.is_discrete(column.type):
        among = pc.is_in(column, value_set=pa.array(predicate.values, column.type))
        told = among.to_numpy(zero_copy_only=False)
    else:
        values = dtypes.carrier(column)
        with np.errstate(invalid="ignore", over="ignore"):  # past the column's largest number is infinity
            if predicate.asks == "among":
                told = np.isin(values, np.array(predicate.values, values.dtype))
            elif predicate.asks == "below":
                told = values < predicate.values[0]
            else:
                told = values <= predicate.values[0]
    return np.where(null, NULL, told).astype(np.uint8)


def nulls(column: pa.Array) -> np.ndarray:
    """Return which records of a column have no value; NaN is none."""
    found: np.ndarray = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    return found
