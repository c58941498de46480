"""The box, a kind for several attributes: one random choice blurs all their values or replaces all of them.

Its law is the `Mixture` of all attributes, whose amplification over all of them is gamma. Codes of several
attributes are those of the product of their domains, the last one fastest.

The Fisher information of one record about an interaction of functions of some attributes is a share of a clean
record's, mean over the three lowest cosines of each attribute, values uniform (docs/technical/method.md): lam^2
sum_y prod_i m_i(y_i)^2 / p(y), with m = U phi / N for an attribute of the interaction and U 1/N for another. n
times it is at most the effective number of unperturbed records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import zip_longest
from math import comb, prod
from typing import Annotated

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType

from ppdm_cli.arrays import Codes, Floats, joined, split
from ppdm_cli.channels.band import MOST_ORDERED
from ppdm_cli.channels.base import (
    Beyond,
    GammaSpec,
    Name,
    Request,
    Spec,
    continued,
    json_gamma,
    register_kind,
    within,
)
from ppdm_cli.channels.exact_draw import LARGEST_WIDE_RANGE, ExactDraw, rounded_down
from ppdm_cli.channels.matrix import Matrix
from ppdm_cli.channels.mixture import Blur, Mixture, blended, revealing
from ppdm_cli.domain import MOST_COMBINATIONS, Domain
from ppdm_cli.errors import RefusedError, UsageError

COSINES = 3
WIDEST = 0.55
"""The largest half-width that is tried, as a share of the values."""
MOST_LEVELS = 32
"""The largest number of levels into which an attribute's output probabilities are sorted."""
MOST_OUTPUT_SHARES = 1 << 20
Size = tuple[int, bool]
"""The number of an attribute's values without null, and whether they are in order."""
MOST_NAMED = 1 << 11
"""The most attributes that are listed; those of one box have at most so many combinations."""


@dataclass(frozen=True)
class Box(Mixture, ExactDraw):
    """A box of amplification gamma, drawn exactly."""

    wide = True

    @classmethod
    def of(cls, gamma: Decimal, sides: tuple[Blur, ...]) -> Box:
        """Return the box of amplification gamma; refuse one that cannot be drawn exactly."""
        found = cls(revealing(gamma, sides), sides, gamma)
        if max(found.inputs, found.outputs) > MOST_COMBINATIONS:
            raise RefusedError(
                "box-too-large",
                f"{len(sides)} attributes together have {found.inputs:,} combinations of values; a box has "
                f"at most {MOST_COMBINATIONS:,}",
                "publish fewer of them together, or use fewer bins",
            )
        if found.range > LARGEST_WIDE_RANGE:
            raise UsageError(
                "gamma-too-fine-for-box",
                f"gamma {gamma} has too many decimals for a box of {found.all_outputs} outputs: the sampler "
                "can't draw it exactly",
                "round gamma down to fewer digits",
            )
        return found

    def replace(self, codes: Codes, numbers: np.ndarray, out: Codes) -> None:
        out[:] = joined(self.drawn(numbers, split(codes, self.shape_in)), self.shape_out)

    def drawn(self, u: np.ndarray, codes: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return each attribute's published outputs for codes and whole numbers u below R.

        Proof. gamma = p/s in lowest terms, R = (p-s) w + s T. The (p-s) w numbers below that give each of the
        w combinations of offsets p-s times, so each combination of the values' own outputs; the other s T
        give each of all T combinations s times. So a combination of own outputs has (p-s+s)/R = gamma c, any
        other s/R = c. Both are numbered with blended radix, the last attribute fastest. No floating-point
        number takes part.
        """
        p, s = self.ratio
        of = u.dtype.type
        blurred = u < of((p - s) * self.width)
        near, far = np.flatnonzero(blurred), np.flatnonzero(~blurred)
        offset = u[near] // of(p - s)
        number = (u[far] - of((p - s) * self.width)) // of(s)
        found = []
        for side, code in zip(reversed(self.sides), reversed(codes), strict=True):
            out = np.empty(len(u), np.int64)
            offset, of_near = _divided(offset, side.width)
            number, of_far = _divided(number, side.all_outputs)
            out[near], out[far] = side.near(code[near], of_near), side.as_published(of_far)
            found.append(out)
        return found[::-1]


def _divided(numbers: np.ndarray, by: int) -> tuple[np.ndarray, np.ndarray]:
    """Return quotients and remainders; numpy's own are several times slower."""
    quotients = numbers // numbers.dtype.type(by)
    return quotients, numbers - quotients * numbers.dtype.type(by)


@register_kind
class BoxSpec(GammaSpec, frozen=True, tag="box", tag_field="kind", kw_only=True):
    """The record of a box in a sidecar: gamma over all its attributes, and the half-width of each."""

    about = (
        "Makes one random choice for several attributes: either each value stays or moves to a near one, "
        "or all are replaced by random values. Gamma holds for all of them together."
    )
    by_name = False

    attributes: Annotated[list[Name], Meta(min_length=1, max_length=MOST_NAMED)]
    half_width: Annotated[
        list[Annotated[int, Meta(ge=0, le=MOST_ORDERED // 2)]], Meta(min_length=1, max_length=MOST_NAMED)
    ]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.half_width) != len(self.attributes) or len(set(self.attributes)) != len(self.attributes):
            raise ValueError("a box has one half-width for each of its attributes, and each attribute once")

    def matrix(self, domain: Domain) -> Box:
        if len(domain.parts) != len(self.half_width):
            raise ValueError("a box has one half-width for each of its attributes")
        parts = list(zip(domain.parts, self.half_width, strict=True))
        if any(b and not d.ordered for d, b in parts):
            raise ValueError("values without an order have a half-width of 0")
        return Box.of(self.exact, tuple(Blur(d.ordinary, b, d.nulls) for d, b in parts))

    @property
    def reach(self) -> list[int]:
        return self.half_width

    def published(self, domain: Domain, matrix: Matrix, beyond: Beyond | UnsetType) -> Domain:
        return within(domain, beyond, self.half_width[0])

    def of_some(self, places: Sequence[int]) -> BoxSpec:
        names, widths = ([of[p] for p in places] for of in (self.attributes, self.half_width))
        return msgspec.structs.replace(self, attributes=names, half_width=widths)

    @property
    def decides(self) -> dict[str, object]:
        return {"kind": self.kind, "gamma": self.gamma, "half_width": self.half_width}

    def short(self) -> str:
        return f"{self.kind} of {len(self.attributes)}"

    def described(self) -> str:
        return f"gamma {self.gamma} over {', '.join(self.attributes)} (box)"

    @classmethod
    def asked(cls, name: str, domain: Domain, request: Request) -> tuple[Spec, Beyond | UnsetType]:
        assert request.gamma is not None
        b = request.options.get("half_width")
        spec = cls.of([name], [domain], [domain.ordered > 0], request.gamma, None if b is None else [b])
        b = spec.half_width[0]
        return spec, continued(domain, b) if b else UNSET

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        domains: Sequence[Domain],
        ordered: Sequence[bool],
        gamma: Decimal | float,
        widths: Sequence[int] | None = None,
        always_published: int = 0,
    ) -> BoxSpec:
        """Return a box of these attributes; a float gamma was derived, and is rounded down.

        Without half-widths it gets the most informative ones. The last `always_published` attributes are
        labels, which take part in every interaction.
        """
        sizes = [(d.ordinary, o) for d, o in zip(domains, ordered, strict=True)]
        widths = best_widths(float(gamma), sizes, always_published) if widths is None else widths
        sides = tuple(Blur(d.ordinary, b, d.nulls) for d, b in zip(domains, widths, strict=True))
        if not isinstance(gamma, Decimal):
            T, w = prod(s.all_outputs for s in sides), prod(s.width for s in sides)
            gamma = rounded_down(gamma, T, w, LARGEST_WIDE_RANGE)
        Box.of(gamma, sides)  # refuses what cannot be drawn exactly
        return cls(attributes=list(names), gamma=json_gamma(gamma), half_width=list(widths))


# -- half-widths by Fisher information: what a record says of attributes and pairs, before any data is seen


@lru_cache(maxsize=1 << 10)
def _side(values: int, half_width: int) -> tuple[Floats, Floats, Floats]:
    """Return the distinct output probabilities u of a uniform value, with the sums of m^2 and of u^2 at each.

    The information depends on an output through u and, linearly, through m^2: outputs of one u are as one, and
    of many u those that are near each other.
    """
    if not half_width:  # then all functions are alike
        return np.array([1 / values]), np.array([1 / values]), np.array([1 / values])
    blur = Blur(values, half_width)
    u = blur.forward(np.full(values, 1 / values))
    places = (np.arange(values) + 0.5) / values
    functions = [np.sqrt(2) * np.cos(np.pi * f * places) / values for f in range(1, min(COSINES + 1, values))]
    squares = np.mean([blur.forward(phi) ** 2 for phi in functions], axis=0)
    levels = np.rint(u * values * blur.width).astype(np.int64)
    found = levels.max() + 1
    groups = levels * min(MOST_LEVELS, found) // found
    many = np.bincount(groups)
    sums: list[Floats] = [np.bincount(groups, each)[many > 0].astype(float) for each in (u, squares, u**2)]
    return sums[0] / many[many > 0], sums[1], sums[2]


def information(
    gamma: float, sizes: Sequence[Size], widths: Sequence[int], order: int, always_published: int = 0
) -> float:
    """Return the Fisher information of a record of a box about interactions of `order` attributes, mean over
    all.

    The last `always_published` of them are labels that take part in every interaction and do not count in
    `order`.
    """
    blurs = [Blur(n, b) for (n, _), b in zip(sizes, widths, strict=True)]
    T, w = float(prod(b.all_outputs for b in blurs)), float(prod(b.width for b in blurs))
    lam = (gamma - 1) * w / (T + (gamma - 1) * w)
    sides = [_side(n, b) for (n, _), b in zip(sizes, widths, strict=True)]
    p = np.ones(1)
    for u, _, _ in sides:
        p = np.multiply.outer(p, u).ravel()
    p = blended(lam, p, 1 / T)
    free = len(sizes) - always_published
    wanted = min(order, free)
    sums = [1 / p]  # over the outputs of the last attributes, by how many of these the interaction has
    for place, (_, squares, shares) in reversed(list(enumerate(sides))):
        parts = [part.reshape(-1, shares.size) for part in sums]
        others = [part @ squares for part in parts[:wanted]] if place < free else []
        both = zip_longest([part @ shares for part in parts], [np.zeros(1), *others], fillvalue=np.zeros(1))
        sums = [without + within for without, within in both]
    return lam**2 * float(sums[wanted][0]) / comb(free, wanted)


def best_widths(gamma: float, sizes: Sequence[Size], always_published: int = 0) -> list[int]:
    """Return the most informative half-widths, for pairs if there are any: one share of each domain.

    Of 16 shares the best is found, then the best of those near it, so that wide domains take no longer.
    """
    return list(_best(gamma, tuple(sizes), always_published))


@lru_cache(maxsize=1 << 12)
def _best(gamma: float, sizes: tuple[Size, ...], always_published: int) -> tuple[int, ...]:
    longest = max((n for n, ordered in sizes if ordered), default=0)
    widest = int(WIDEST * longest)
    step = max(1, widest // 16)

    def most_informative(shares: Iterable[int]) -> int:
        best, found = -1.0, 0
        for b in shares:
            halves = widths(b)
            sides = (_side(n, half) for (n, _), half in zip(sizes, halves, strict=True))
            if prod(u.size for u, _, _ in sides) > MOST_OUTPUT_SHARES:
                break
            share = information(gamma, sizes, halves, 2, always_published)
            if share > best * 1.0001:
                best, found = share, b
        return found

    def widths(b: int) -> tuple[int, ...]:
        return tuple(min(round(b * n / longest), n // 2) if ordered else 0 for n, ordered in sizes)

    near = most_informative(range(0, widest + 1, step))
    around = range(max(near - step + 1, 0), min(near + step, widest + 1))
    return widths(most_informative(around))
