"""The box: several attributes by one coin, which either blurs all their values or replaces all of them.

Attribute j has a `Blur` U_j with w_j of T_j outputs for each value; w and T are the products. With chance lam
every value becomes one of its own w_j outputs, else every one any of the T_j: M = lam prod U_j + (1-lam)/T
(maths 11). An entry is gamma c or c with c = 1/((gamma-1) w + T), so the amplification over all attributes is
gamma. Codes of several attributes are those of the product of their domains, the last one fastest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import prod
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType

from ppdm_cli.arrays import Codes, joined
from ppdm_cli.channels.band import MOST_ORDERED
from ppdm_cli.channels.base import GammaSpec, Name, Request, Spec, json_gamma, register
from ppdm_cli.channels.beyond import Beyond, continued, within
from ppdm_cli.channels.blur import Blur
from ppdm_cli.channels.exact_draw import LARGEST_WIDE_RANGE, rounded_down, uniform_below_wide
from ppdm_cli.channels.half_widths import best_widths
from ppdm_cli.channels.matrix import Blocks, Matrix
from ppdm_cli.channels.mixture import Drawn
from ppdm_cli.domain import Domain
from ppdm_cli.errors import RefusedError, UsageError

MOST_NAMED = 1 << 11
"""The most attributes that are listed; those of one box have at most so many combinations."""
LARGEST_PRODUCT = 1 << 32
"""The most combinations of values: a cell's coins depend on which it has, and have 32 bits for it."""


@dataclass(frozen=True)
class Box(Drawn):
    """A box of amplification gamma, drawn exactly."""

    gamma: Decimal
    sides: tuple[Blur, ...]

    def __post_init__(self) -> None:
        if max(self.inputs, self.outputs) > LARGEST_PRODUCT:
            raise RefusedError(
                f"{len(self.sides)} attributes together have {self.inputs:,} combinations of values; a box has "
                f"at most {LARGEST_PRODUCT:,}",
                "publish fewer of them together, or use fewer bins",
            )
        if self._range > LARGEST_WIDE_RANGE:
            raise UsageError(
                f"gamma {self.gamma} has too many decimals for a box of {self.all_outputs} outputs: the exact "
                "sampler has no room for them",
                "round gamma down to fewer digits",
            )

    def sample(self, codes: Codes, blocks: Blocks, out: Codes) -> None:
        drawn = self.drawn(uniform_below_wide(self._range, blocks), self.split(codes, self.shape_in))
        out[:] = joined(drawn, self.shape_out)

    def drawn(self, u: np.ndarray, codes: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return what each attribute publishes for codes and whole numbers u below R.

        Proof. gamma = p/s in lowest terms, R = (p-s) w + s T. The (p-s) w numbers below that give each of the
        w combinations of offsets p-s times, so each combination of the values' own outputs; the other s T
        give each of all T combinations s times. So a combination of own outputs has (p-s+s)/R = gamma c, any
        other s/R = c. Both are numbered with mixed radix, the last attribute fastest. No floating-point
        number takes part.
        """
        p, s = self._ratio
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
            out[near], out[far] = side.near(code[near], of_near), side.shown(of_far)
            found.append(out)
        return found[::-1]


def _divided(numbers: np.ndarray, by: int) -> tuple[np.ndarray, np.ndarray]:
    """Return quotients and remainders; numpy's own are several times slower."""
    quotients = numbers // numbers.dtype.type(by)
    return quotients, numbers - quotients * numbers.dtype.type(by)


@register
class BoxSpec(GammaSpec, frozen=True, tag="box", tag_field="kind", kw_only=True):
    """What a sidecar says of a box: gamma over all its attributes, and the half-width of each."""

    about = (
        "Several attributes go by one coin: either each value becomes one of its neighbourhood, or all of them "
        "become any values at all. Gamma holds for all of them together."
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
        return Box(self.exact, tuple(Blur(d.ordinary, b, d.nulls) for d, b in parts))

    @property
    def reach(self) -> list[int]:
        return self.half_width

    def published(self, domain: Domain, matrix: Matrix, beyond: Beyond | UnsetType) -> Domain:
        return within(domain, beyond, self.half_width[0])

    def of_some(self, places: Sequence[int]) -> BoxSpec:
        names, widths = ([of[p] for p in places] for of in (self.attributes, self.half_width))
        return msgspec.structs.replace(self, attributes=names, half_width=widths)

    @property
    def decides(self) -> dict[str, Any]:
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
        riding: int = 0,
    ) -> BoxSpec:
        """Return a box of these attributes; a float gamma was derived, and is rounded down.

        Without half-widths it gets those that tell most; the last `riding` attributes are labels, which take
        part in whatever is to be learnt.
        """
        sizes = [(d.ordinary, o) for d, o in zip(domains, ordered, strict=True)]
        widths = best_widths(float(gamma), sizes, riding) if widths is None else widths
        sides = tuple(Blur(d.ordinary, b, d.nulls) for d, b in zip(domains, widths, strict=True))
        if not isinstance(gamma, Decimal):
            T, w = prod(s.all_outputs for s in sides), prod(s.width for s in sides)
            gamma = rounded_down(gamma, T, w, LARGEST_WIDE_RANGE)
        Box(gamma, sides)  # refuses what cannot be drawn exactly
        return cls(attributes=list(names), gamma=json_gamma(gamma), half_width=list(widths))
