"""Which matrix an attribute gets: gamma-diagonal, or a band where its values are in order.

Bins of numbers and times are in order, and so is what is declared as an interval. Other single numbers
may be codes (a zip code, a car's make), so they get a band only where it is asked of the attribute
itself; labels have no order at all.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

from msgspec import UNSET, UnsetType

from ppdm_cli import dtypes
from ppdm_cli.domain import Bins, Domain
from ppdm_cli.errors import RefusedError, UsageError
from ppdm_cli.matrices import BandSpec, GammaDiagonalSpec, MatrixSpec, best_half_width, build, rounded_down
from ppdm_cli.perturbing.wishes import AttributeWish, Kind
from ppdm_cli.sidecar import Beyond

Chosen = tuple[MatrixSpec, Beyond | UnsetType]


def chosen(domain: Domain, gamma: Decimal | float, wish: AttributeWish, for_all: Kind | None) -> Chosen:
    """The matrix, checked, and what it publishes beyond the domain; a float gamma is rounded down."""
    if wish.matrix == "band" or wish.half_width is not None:
        if dtypes.is_discrete(domain.kind):
            raise UsageError(
                f"values of type {domain.kind} have no order, so no band", "leave matrix=band away for it"
            )
        return _band(domain, gamma, wish.half_width)
    ordered = isinstance(domain, Bins) or wish.interval is not None
    if wish.matrix is None and for_all == "band" and ordered:
        try:
            return _band(domain, gamma, None)
        except RefusedError:  # where a band cannot be: asked for all, it goes to those that can have one
            return _gamma_diagonal(domain, gamma)
    return _gamma_diagonal(domain, gamma)


def _gamma_diagonal(domain: Domain, gamma: Decimal | float) -> Chosen:
    spec = GammaDiagonalSpec.of(gamma if isinstance(gamma, Decimal) else rounded_down(gamma, domain.size))
    build(spec, domain.size)
    return spec, UNSET


def _band(domain: Domain, gamma: Decimal | float, half_width: int | None) -> Chosen:
    """A band; of half-width 0, which is best for few values, it is the gamma-diagonal matrix."""
    exact = gamma if isinstance(gamma, Decimal) else rounded_down(gamma, domain.size)
    b = best_half_width(exact, domain.ordinary) if half_width is None else half_width
    if b == 0:
        return _gamma_diagonal(domain, gamma)
    if not isinstance(gamma, Decimal):
        width = 2 * b + 1
        exact = rounded_down(exact, domain.ordinary + width - 1 + domain.nulls * width, width)
    spec = BandSpec.of(exact, b)
    build(spec, domain.size, domain.nulls)
    return spec, _beyond(domain, b)


def _beyond(domain: Domain, count: int) -> Beyond:
    try:
        numbers = domain.edges.tolist() if isinstance(domain, Bins) else domain.values  # type: ignore[attr-defined]
        ends = _continued(numbers, count, dtypes.is_whole(domain.kind))
        kind = dtypes.holding(domain.kind, ends[0][0], ends[1][-1])
        if kind is None:
            raise ValueError
        carrier = dtypes.carrier_type(kind).type
        below, above = ([carrier(v).item() for v in side] for side in ends)
        domain.extended(kind, below, above)
    except (ValueError, OverflowError):
        raise RefusedError(
            f"a band publishes values beyond the domain, and there are none such of type {domain.kind}",
            "say matrix=gamma-diagonal for it",
        ) from None
    return Beyond(str(kind), *([dtypes.to_json(v, kind) for v in side] for side in (below, above)))


def _continued(numbers: list[Any], count: int, whole: bool) -> tuple[list[Any], list[Any]]:
    """Numbers before and after a rising list, by its first and its last step."""
    exact: Any = int if whole else Fraction
    (first, second), (before, last) = map(exact, numbers[:2]), map(exact, numbers[-2:])
    below = [first - i * (second - first) for i in range(count, 0, -1)]
    above = [last + i * (last - before) for i in range(1, count + 1)]
    return (below, above) if whole else ([float(v) for v in below], [float(v) for v in above])
