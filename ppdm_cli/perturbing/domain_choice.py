"""Domains for perturbed attributes: declared, or from the data without revealing anyone; for `resolving`.

Edges from data are rounded outward to a width of 1, 2, 2.5 or 5 x 10^k, so that no one's largest income is
published. A category of fewer than ten records, or persons if a promise is for persons, is refused, merged or
published as asked. An identifier is refused even then: declare its values to publish them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import exp, log, sqrt
from typing import Any

import numpy as np
import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.arrays import Floats
from ppdm_cli.domain import (
    CALENDAR,
    MOST_VALUES,
    OTHER,
    Bins,
    Categories,
    Domain,
    Representative,
    calendar_edges,
    nice_edges,
    starts,
)
from ppdm_cli.engine import Counting, Facts, facts_of
from ppdm_cli.errors import DataError, RefusedError, UsageError, argument, listed, quoted
from ppdm_cli.perturbing.plan import AttributePlan, Rare
from ppdm_cli.privacy import FEW
from ppdm_cli.tables import Table, type_of


@dataclass(frozen=True)
class ResolvedDomain:
    """A domain, and the targets of merged values."""

    domain: Domain
    merges: bool = False


def declared(
    name: str, kind: pa.DataType, own: AttributePlan, bins: int, representative: Representative
) -> Domain:
    """Return the domain that the owner declared, without a look at the data."""
    try:
        listed = own.categories if own.mapping is None else tuple(own.mapping.names)
        if listed is not None:
            other = {OTHER} if own.other and pa.types.is_string(kind) else set()
            values = sorted({_value(v, kind) for v in listed} | other)
            if len(values) > MOST_VALUES:
                what = f"the domain of {quoted(name)} has more than {MOST_VALUES} values"
                step = f"add {argument('drop', name)}, or group its values first"
                raise RefusedError("domain-too-large", what, step)
            return Categories(kind, values, own.nulls)
        if dtypes.is_discrete(kind):
            what = f"the column {quoted(name)} is of type {kind}, which has no interval"
            step = f"use a list of its values, such as {argument('domain', '@file', name)}"
            raise UsageError("no-interval", what, step)
        if own.edges is not None:
            return Bins(kind, [_value(e, kind) for e in own.edges], own.nulls, representative)
        assert own.interval is not None
        ends = _ends(own.interval, kind)
        core = None if own.core is None else _ends(own.core, kind)
    except (ValueError, OverflowError):
        what = f"the domain declared for {quoted(name)} does not fit its type {kind}"
        step = "use values of that type: low below high, edges ascending"
        raise UsageError("domain-type", what, step) from None
    return cut(name, kind, own, ends, core, bins, representative)


def from_data(
    name: str,
    kind: pa.DataType,
    facts: Facts,
    bins: int,
    representative: Representative,
    rare: Rare,
    own: AttributePlan | None = None,
) -> ResolvedDomain:
    """Return a domain from the data that is safe to publish."""
    own = own or AttributePlan()
    nulls = facts.nulls > 0 or own.nulls
    if facts.values is not None and not facts.values:
        domain = argument("domain", "low|high" if pa.types.is_string(kind) else "0:120", name)
        step = f"add {argument('drop', name)}, or declare its domain, such as {domain}"
        raise RefusedError("only-nulls", f"the column {quoted(name)} has no values, only nulls", step)
    _check_writable(name, kind, facts)
    if rare == "merge" and few_nulls(facts) and not own.nulls:
        what = f"the column {quoted(name)} has nulls in fewer than {FEW} records, which cannot be merged"
        raise RefusedError("few-nulls", what, f"add {argument('nulls', 'true', name)}, or fill them")
    if facts.values is None or own.scale in CALENDAR:
        make = partial(calendar_edges, period=own.scale) if dtypes.is_dated(kind) else nice_edges
        if own.scale is not None and not dtypes.is_dated(kind):
            raise no_calendar(name, kind, own.scale)
        return ResolvedDomain(Bins(kind, make(facts.low, facts.high, bins, kind), nulls, representative))
    if len(facts.values) + nulls < 2:
        what = f"the column {quoted(name)} has one value only: a domain of one value has nothing to perturb"
        step = f"add {argument('drop', name)}, or {argument('keep', name)} if it is public"
        raise RefusedError("one-value", what, step)
    pools = own.other and pa.types.is_string(kind)
    if not pools and (rare == "publish" or not number_of_rare(facts)):
        return ResolvedDomain(Categories(kind, sorted(facts.values), nulls))
    values = common(facts)
    if pa.types.is_string(kind):
        values = sorted({OTHER, *values}) if pools else pooled(facts)
    if len(values) + nulls < 2 or pa.types.is_boolean(kind):
        raise RefusedError(
            "merged-to-one",
            f"merging the rare categories of {quoted(name)} leaves one value",
            f"add {argument('drop', name)}, or declare its domain, such as {argument('domain', '0:120', name)}",
        )
    return ResolvedDomain(Categories(kind, values, nulls), merges=number_of_rare(facts) > 0)


def _check_writable(name: str, kind: pa.DataType, facts: Facts) -> None:
    """Check that a domain can be written as text or JSON numbers; Arrow holds dates that neither can."""
    if facts.low is None:
        return
    lowest, highest = dtypes.limits(kind)
    if facts.low < lowest or facts.high > highest:
        raise DataError(
            "bad-date",
            f"the column {quoted(name)} has a value that is not a valid {kind}: dates lie in the years 1 to "
            "9999, times below 24:00",
            "fix it or make it null",
        )


def declared_type(own: AttributePlan) -> pa.DataType | None:
    """Return the type that a CSV's column has by its declared domain; None if none is declared."""
    if own.interval is None or not isinstance(own.interval, str):
        listed = own.categories or own.edges or own.interval
        texts = [str(v).lower() if isinstance(v, bool) else str(v) for v in listed or ()]  # as cells have them
        return type_of(texts) if listed is not None else None
    colons = [i for i, c in enumerate(own.interval) if c == ":"]
    kinds = [type_of([own.interval[:i], own.interval[i + 1 :]]) for i in colons]
    return next((k for k in kinds if not dtypes.is_discrete(k)), None)


def _value(value: object, kind: pa.DataType) -> Any:
    return dtypes.from_text(value, kind) if isinstance(value, str) else dtypes.from_json(value, kind)


def _ends(interval: Any, kind: pa.DataType) -> tuple[Any, Any]:
    """Return both ends; in the text of times, the separating colon is the one that leaves two values."""
    if not isinstance(interval, str):
        return _value(interval[0], kind), _value(interval[1], kind)
    colons = [i for i, c in enumerate(interval) if c == ":"]
    for i in colons:
        try:
            return _value(interval[:i], kind), _value(interval[i + 1 :], kind)
        except ValueError:
            continue
    raise ValueError("no interval")


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
    """Return the domain of an interval: bins, or the single values if these are whole and not more."""
    low, high = ends
    if not low < high:
        what = f"the domain declared for {quoted(name)} does not go from low to high"
        raise UsageError("bad-interval", what, f"try {argument('domain', '0:120', 'age')}")
    first, last = core or ends
    if not low <= first < last <= high:
        what = f"the core declared for {quoted(name)} is not an interval within its domain"
        raise UsageError("core-outside", what, "try domain=0:1000000,core=0:5000")
    whole = dtypes.is_whole(kind)
    if own.scale in CALENDAR:
        if not dtypes.is_dated(kind):
            raise no_calendar(name, kind, own.scale)
        inner_edges = [e for e in starts(low, high, CALENDAR[str(own.scale)], kind) if low < e < high]
        return Bins(kind, [low, *inner_edges, high], own.nulls, representative)
    if whole and high - low < bins:
        return Categories(kind, list(range(low, high + 1)), own.nulls)
    inner = bins - (low < first) - (last < high)
    if inner < 1:
        what = f"{bins} bins are too few for {quoted(name)}: its core and both ends need one each"
        raise UsageError("bins-for-core", what, f"use at least {bins + 1 - inner}")
    if own.scale is not None:
        _check_scale(name, kind, own.scale, first)
    # whole steps up to and including `high`; the last bin is closed there
    stop = last + (whole and last == high)
    if whole:
        inner = min(inner, last - first)
    edges = [*[low] * (low < first), *_edges(first, stop, inner, own.scale, whole), *[high] * (last < high)]
    edges[-1] = high
    if whole:
        for i in range(1, len(edges) - 1):  # one step at least apart; the first and the last stay
            edges[i] = min(max(round(edges[i]), edges[i - 1] + 1), edges[-1] - (len(edges) - 1 - i))
    try:
        return Bins(kind, edges, own.nulls, representative)
    except ValueError:
        what = f"the domain declared for {quoted(name)} is too narrow for {bins} bins of type {kind}"
        raise UsageError("too-narrow", what, "widen it, or use fewer bins") from None


def no_calendar(name: str, kind: pa.DataType, scale: str | None) -> UsageError:
    return UsageError(
        "no-calendar",
        f"the column {quoted(name)} is of type {kind}, which has no {scale}s",
        "leave the scale out, or read the column as dates",
    )


def _check_scale(name: str, kind: pa.DataType, scale: str, first: Any) -> None:
    if pa.types.is_temporal(kind):
        what = f"the column {quoted(name)} is of type {kind}, and dates and times have no {scale} scale"
        raise UsageError("no-such-scale", what, "leave the scale out, or add a core or edges")
    if first < 0 or (scale == "log" and first == 0):
        least = "above 0" if scale == "log" else "at 0"
        what = f"the {scale} scale of {quoted(name)} must begin {least}, but its domain begins lower"
        step = f"declare a core that begins {least}: lower values get a bin of their own"
        raise UsageError("scale-begins", what, step)


def _edges(low: Any, high: Any, bins: int, scale: str | None, whole: bool) -> list[Any]:
    """Return bins + 1 edges, equally far apart on the scale."""
    if scale is None and whole:
        return [low + i * (high - low) // bins for i in range(bins + 1)]
    if scale is None:
        return even_edges(low, high, bins)
    a, b = _TO[scale](low), _TO[scale](high)
    inner = [_FROM[scale](a + (b - a) * i / bins) for i in range(1, bins)]
    return [low, *_readable(np.array([low, *inner, high], float))[1:-1], high]


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


MANY = 100
"""The number of values above which, if most are rare, each points to a person."""
_WRITTEN = re.compile(
    r"\s*(?:[+-]?\d+(?:[. ]\d{3})*[,.]\d+|\d{1,4}([-./])\d{1,2}\1\d{1,4}(?:[T ].*)?)\s*", re.DOTALL
)
"""A number with a decimal mark, or a date."""


def number_of_rare(facts: Facts) -> int:
    """Return the number of a column's values that fewer than ten records, or persons, have."""
    return sum(facts.support([v]) < FEW for v in facts.values or ())


def few_nulls(facts: Facts) -> bool:
    """Return whether nulls are rare: null is a category too, and may identify a person."""
    return facts.nulls > 0 and facts.support([None]) < FEW


def common(facts: Facts) -> list[Any]:
    """Return the values that are frequent enough; the others move to the nearest of them."""
    return sorted(v for v in facts.values or () if facts.support([v]) >= FEW)


def pooled(facts: Facts) -> list[Any]:
    """Return the labels that are frequent enough, and one, frequent enough too, for all others together."""
    counts, named = facts.counts, [v for v in common(facts) if v != OTHER]
    if named and facts.support(counts.keys() - named) < FEW:
        named.remove(min(named, key=lambda v: (counts[v], v)))
    return sorted([*named, OTHER])


def identifies(facts: Facts) -> bool:
    """Return whether most records have a value of one record or person alone, or one of many rare values."""
    counts = facts.counts
    if len(counts) <= FEW:
        return False
    support = {v: facts.support([v]) for v in counts}
    alone = sum(c for v, c in counts.items() if support[v] == 1)
    rare = sum(c for v, c in counts.items() if support[v] < FEW)
    return 2 * (rare if len(counts) > MANY else alone) > counts.total()


def refuse_rare(
    facts: Mapping[str, Facts],
    asked: Mapping[str, AttributePlan] | None = None,
    rare: Rare = "refuse",
    whom: str = "records",
) -> None:
    """Refuse all columns with rare categories at once, by names and numbers; identifiers under any `rare`."""
    others = {n for n, w in (asked or {}).items() if w.other}
    nulls = {n for n, w in (asked or {}).items() if w.nulls}
    merged = {*facts} if rare == "merge" else others
    found = {n for n, f in facts.items() if identifies(f) and not (n in merged and (common(f) or f.nulls))}
    few = {
        n
        for n, f in facts.items()
        if (number_of_rare(f) and n not in others) or (few_nulls(f) and n not in nulls)
    }
    few = few - found if rare == "refuse" else set()
    either = found | few
    written = [n for n in facts if n in either and is_written(facts[n].counts)]
    named = [n for n in facts if n in found and n not in written]
    few -= {*written}
    troubles = _of_identifiers(named, facts)
    if written:
        what = f"the text in {listed(written)} looks like decimal numbers or dates"
        troubles.append((what, "use `ppdm plan FILE -o plan.toml`, which finds how they are written"))
    troubles += _of_rare({n: f for n, f in facts.items() if n in few}, whom)
    if troubles:
        raise RefusedError(
            "rare-categories", "; ".join(what for what, _ in troubles), "; ".join(way for _, way in troubles)
        )


def is_written(values: Collection[Any]) -> bool:
    """Return whether most values are text that says a number or a date."""
    return 2 * sum(isinstance(v, str) and bool(_WRITTEN.fullmatch(v)) for v in values) > len(values)


def _of_identifiers(names: Collection[str], facts: Mapping[str, Facts]) -> list[tuple[str, str]]:
    which = ", ".join(
        f"{quoted(n)} looks like an identifier ({len(c)} values in {c.total()} records)"
        for n in names
        for c in [facts[n].counts]
    )
    drops = argument("drop", list(names))
    return [(which, f"leave {'it' if len(names) == 1 else 'them'} out: {drops}")] if names else []


def _of_rare(found: Mapping[str, Facts], whom: str) -> list[tuple[str, str]]:
    if not found:
        return []
    which = ", ".join(f"{quoted(n)} ({_counted(f)})" for n, f in found.items())
    ways = [argument("nulls", "true", n) for n, f in found.items() if few_nulls(f)]
    rare = {n: f for n, f in found.items() if number_of_rare(f)}
    finer = [n for n, f in rare.items() if f.low is not None and len(f.counts) > FEW]
    ways += [argument("bins", FEW, n) for n in finer]
    if other := [n for n in rare if n not in finer]:
        domain = argument("domain", "1:10" if rare[other[0]].low is not None else "@file", other[0])
        ways.append(f"{argument('rare', 'merge')}, or declare the domain: {domain}")
    what = f"categories that occur in fewer than {FEW} {whom}: {which}"
    return [(f"{what}. Publishing that they exist may identify persons", f"add {' '.join(ways)}")]


def _counted(facts: Facts) -> str:
    rare = number_of_rare(facts)
    parts = [f"{rare} of {len(facts.counts)}"] if rare else []
    return " and ".join(parts + ["null"] * few_nulls(facts))


def profile(table: Table, most: Mapping[str, int], counting: Counting | None = None) -> dict[str, Facts]:
    """Return the facts of each column named in `most`, which has the most distinct numbers that are few."""
    words = [n for n in most if dtypes.is_discrete(table.schema.field(n).type)]
    found = facts_of(table, {**most, **dict.fromkeys(words, MOST_VALUES)}, counting)
    if not found:
        raise DataError("no-records", f"{quoted(table.name)} has no records", "add records")
    for name in words:
        if found[name].values is None:
            raise RefusedError(
                "too-many-values",
                f"the column {quoted(name)} has more than {MOST_VALUES} different values: "
                "no release of it could be mined",
                f"add {argument('drop', name)}, or group its values first",
            )
    return found
