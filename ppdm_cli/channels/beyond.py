"""What is published beyond a domain: by kinds that publish a value as one near it."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from msgspec import UNSET, Meta, UnsetType

from ppdm_cli import dtypes
from ppdm_cli.domain import MOST_VALUES, Domain
from ppdm_cli.errors import RefusedError

Scalar = int | float | bool | Annotated[str, Meta(max_length=1 << 14)]


class Beyond(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is published beyond the domain: as many edges (or numbers) more on either side.

    `dtype` is the type of the published column, which is wider where the attribute's own has no room.
    """

    dtype: Annotated[str, Meta(max_length=128)]
    below: Annotated[list[Scalar], Meta(max_length=MOST_VALUES)]
    above: Annotated[list[Scalar], Meta(max_length=MOST_VALUES)]


Values = tuple[pa.DataType, list[Any], list[Any]]


def beyond_values(domain: Domain, beyond: Beyond) -> Values:
    """Return the type of what is published, and what lies below and above; ValueError if wrong."""
    kind = dtypes.parse(beyond.dtype)
    below, above = ([dtypes.from_json(e, kind) for e in side] for side in (beyond.below, beyond.above))
    if not below or len(below) != len(above):
        raise ValueError("as much is published below the domain as above it")
    if dtypes.is_discrete(domain.kind) or dtypes.holding(domain.kind, below[0], above[-1]) != kind:
        raise ValueError(f"what is published of type {domain.kind} has not the type {beyond.dtype}")
    domain.extended(kind, below, above)
    return kind, below, above


def within(domain: Domain, beyond: Values | Beyond | UnsetType, count: int) -> Domain:
    """Return a domain with so many values more on either side, of those that are published beyond it.

    The type is that of the whole column; ValueError where there are fewer.
    """
    if beyond is UNSET:
        if count:
            raise ValueError("a half-width above 0 needs 'beyond'")
        return domain
    kind, below, above = beyond_values(domain, beyond) if isinstance(beyond, Beyond) else beyond
    if count > len(below):
        raise ValueError("less is published beyond the domain than a half-width says")
    return domain.extended(kind, below[len(below) - count :], above[:count])


def continued(domain: Domain, count: int) -> Beyond:
    """Return as many values more on either side, by the first and the last step of the domain."""
    try:
        ends = _continued(domain.marks, count, dtypes.is_whole(domain.kind))
        kind = dtypes.holding(domain.kind, ends[0][0], ends[1][-1])
        if kind is None:
            raise ValueError
        carrier = dtypes.carrier_type(kind).type
        below, above = ([carrier(v).item() for v in side] for side in ends)
        domain.extended(kind, below, above)
    except (ValueError, OverflowError):
        raise RefusedError(
            f"a band publishes values beyond the domain, and the type {domain.kind} has none",
            "use matrix=gamma-diagonal for it",
        ) from None
    return Beyond(str(kind), *([dtypes.to_json(v, kind) for v in side] for side in (below, above)))


def _continued(numbers: list[Any], count: int, whole: bool) -> tuple[list[Any], list[Any]]:
    """Return the numbers before and after a rising list, continued by its first and its last step."""
    exact: Any = int if whole else Fraction
    (first, second), (before, last) = map(exact, numbers[:2]), map(exact, numbers[-2:])
    below = [first - i * (second - first) for i in range(count, 0, -1)]
    above = [last + i * (last - before) for i in range(1, count + 1)]
    return (below, above) if whole else ([float(v) for v in below], [float(v) for v in above])
