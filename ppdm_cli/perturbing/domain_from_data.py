"""Domains: as declared, or from the data in a form that gives nothing more away than it must.

Edges from data are rounded outward to a width of 1, 2, 2.5 or 5 x 10^k, so that no one's largest
income is published; a category of fewer than ten records is refused, merged or published as asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.domain import (
    CALENDAR,
    MOST_VALUES,
    OTHER,
    Bins,
    Categories,
    Domain,
    Representative,
    calendar_edges,
    is_dated,
    nice_edges,
)
from ppdm_cli.errors import DataError, RefusedError, UsageError, quoted, word
from ppdm_cli.facts import FEW, Facts
from ppdm_cli.perturbing.attribute_plan import AttributePlan
from ppdm_cli.perturbing.cutting import cut, no_calendar
from ppdm_cli.perturbing.plan import Rare
from ppdm_cli.perturbing.rare import common, few_nulls, number_of_rare, pooled
from ppdm_cli.tables import type_of


@dataclass(frozen=True)
class ResolvedDomain:
    """A domain, and where the values go that were merged away."""

    domain: Domain
    merges: bool = False


def declared(
    name: str, kind: pa.DataType, own: AttributePlan, bins: int, representative: Representative
) -> Domain:
    """Return the domain that the owner declared; the data are not looked at."""
    try:
        listed = own.categories if own.mapping is None else tuple(own.mapping.names)
        if listed is not None:
            values = sorted({_value(v, kind) for v in listed} | ({OTHER} if own.other else set()))
            if len(values) > MOST_VALUES:
                raise RefusedError(
                    f"the domain of {quoted(name)} has more than {MOST_VALUES} values",
                    f"--drop {word(name)}, or group its values first",
                )
            return Categories(kind, values, own.nulls)
        if dtypes.is_discrete(kind):
            raise UsageError(
                f"the column {quoted(name)} is of type {kind}, which has no interval",
                f"list its values, such as --domain {word(name, '=@file')}",
            )
        if own.edges is not None:
            return Bins(kind, [_value(e, kind) for e in own.edges], own.nulls, representative)
        assert own.interval is not None
        ends = _ends(own.interval, kind)
        core = None if own.core is None else _ends(own.core, kind)
    except (ValueError, OverflowError):
        raise UsageError(
            f"the domain declared for {quoted(name)} does not fit its type {kind}",
            "give values of that type: low below high, edges ascending",
        ) from None
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
    """Return the domain that the data show, safe to publish."""
    own = own or AttributePlan()
    nulls = facts.nulls > 0 or own.nulls
    if facts.values is not None and not facts.values:
        raise RefusedError(
            f"the column {quoted(name)} has no values, only nulls",
            f"--drop {word(name)}, or declare its domain with --domain",
        )
    _check_writable(name, kind, facts)
    if rare == "merge" and few_nulls(facts) and not own.nulls:
        raise RefusedError(
            f"the column {quoted(name)} has nulls in fewer than {FEW} records, which cannot be merged",
            f"declare that it has them (--attribute {word(name, ':nulls=true')}), or fix the data",
        )
    if facts.values is None or own.scale in CALENDAR:
        make = partial(calendar_edges, period=own.scale) if is_dated(kind) else nice_edges
        if own.scale is not None and not is_dated(kind):
            raise no_calendar(name, kind, own.scale)
        return ResolvedDomain(Bins(kind, make(facts.low, facts.high, bins, kind), nulls, representative))
    if len(facts.values) + nulls < 2:
        raise RefusedError(
            f"the column {quoted(name)} has one value only: a domain of one value has nothing to perturb",
            f"--drop {word(name)}, or --keep it if it is public",
        )
    pools = own.other and pa.types.is_string(kind)
    if not pools and (rare == "publish" or not number_of_rare(facts)):
        return ResolvedDomain(Categories(kind, sorted(facts.values), nulls))
    values = common(facts)
    if pa.types.is_string(kind):
        values = sorted({OTHER, *values}) if pools else pooled(facts)
    if len(values) + nulls < 2 or pa.types.is_boolean(kind):
        raise RefusedError(
            f"merging the rare categories of {quoted(name)} leaves one value",
            f"--drop {word(name)}, or declare its domain with --domain",
        )
    return ResolvedDomain(Categories(kind, values, nulls), merges=number_of_rare(facts) > 0)


def _check_writable(name: str, kind: pa.DataType, facts: Facts) -> None:
    """Check that a domain can be written as text or JSON numbers; Arrow holds dates that neither can."""
    if facts.low is None:
        return
    lowest, highest = dtypes.limits(kind)
    if facts.low < lowest or facts.high > highest:
        raise DataError(
            f"the column {quoted(name)} has a value that is not a valid {kind}: dates lie in the years 1 to "
            "9999, times below 24:00",
            "fix it or make it null",
        )


def declared_type(own: AttributePlan) -> pa.DataType | None:
    """Return the type that a CSV's column has by its declared domain; None where none is declared."""
    if own.interval is None or not isinstance(own.interval, str):
        listed = own.categories or own.edges or own.interval
        return None if listed is None else type_of([_text(v) for v in listed])
    colons = [i for i, c in enumerate(own.interval) if c == ":"]
    kinds = [type_of([own.interval[:i], own.interval[i + 1 :]]) for i in colons]
    return next((k for k in kinds if not dtypes.is_discrete(k)), None)


def _text(value: Any) -> str:
    """Return a value of a plan as a CSV's cell has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(value: Any, kind: pa.DataType) -> Any:
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
