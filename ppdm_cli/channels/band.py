"""The band, a kind for codes in order: any of the 2b+1 codes around a value alike, else any code at all.

For N ordered codes the outputs are N + 2b, b more on either side: M[h, k] = gamma x where k <= h <= k+2b, else
x (docs/technical/method.md). Null, if it takes part, is one more input with 2b+1 outputs of its own, which are
published as one. Products along an axis cost O(N). The unbiased estimate builds a matrix of N x N, so a band
has at most `MOST_ORDERED` codes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import UNSET, Meta, UnsetType

from ppdm_cli.arrays import Codes
from ppdm_cli.channels.base import (
    Beyond,
    Channel,
    GammaSpec,
    Request,
    Spec,
    continued,
    json_gamma,
    register_kind,
    within,
)
from ppdm_cli.channels.exact_draw import LARGEST_RANGE, ExactDraw, rounded_down
from ppdm_cli.channels.gamma_diagonal import GammaDiagonalSpec
from ppdm_cli.channels.matrix import Matrix
from ppdm_cli.channels.mixture import Blur, Mixture, revealing
from ppdm_cli.display import percent, whole
from ppdm_cli.domain import Bins, Domain
from ppdm_cli.errors import RefusedError, UsageError, argument

MOST_ORDERED = 1 << 11


@dataclass(frozen=True)
class Band(Mixture, ExactDraw):
    """A band of ordered codes, and of null as the last one if it takes part.

    Amplification. Let w = 2b+1 and D = (gamma-1) w + T, where T counts all outputs, null's w among
    them. A column has w entries of gamma/D and T-w of 1/D, which sum to 1. So a row has entries
    gamma/D and 1/D only, at a ratio of at most gamma; the first row has both, as the first code alone
    reaches it. Null's w rows are equal, and shown as one their sum has w gamma/D and w/D: the ratio is
    gamma again.
    """

    @classmethod
    def of(cls, gamma: Decimal, ordered: int, half_width: int, nulls: bool = False) -> Band:
        """Return the band of amplification gamma; refuse one that cannot be drawn exactly."""
        if not 2 <= ordered <= MOST_ORDERED:
            what = f"a band needs 2 to {MOST_ORDERED} values or bins in order, this domain has {ordered}"
            step = f"use another number of {argument('bins')}, or matrix=gamma-diagonal"
            raise RefusedError("band-of-unordered", what, step)
        if not 1 <= half_width <= ordered // 2:
            what = f"the half-width of a band must be from 1 to half its values, here {ordered // 2}"
            raise UsageError("wrong-half-width", what, "leave it out to get the most informative one")
        sides = (Blur(ordered, half_width, nulls),)
        found = cls(revealing(gamma, sides), sides, gamma)
        if found.range > LARGEST_RANGE:
            raise UsageError(
                "gamma-too-fine-for-band",
                f"gamma {gamma} has too many decimals for a band of {ordered} values: the sampler can't "
                "draw it exactly",
                "round gamma down to fewer digits",
            )
        return found

    @property
    def half_width(self) -> int:
        return self.sides[0].half_width

    @property
    def neighbourhood(self) -> float:
        """Return the probability that a value is published as one at most b bins from it."""
        return self.width * self.staying

    @cached_property
    def condition_number(self) -> float:
        values = np.linalg.eigvalsh(self.backward(self.dense()))
        return float(np.sqrt(values[-1] / values[0]))

    def replace(self, codes: Codes, numbers: np.ndarray, out: Codes) -> None:
        """Replace each code k by h with probability exactly M[h, k].

        Proof. gamma = p/q in lowest terms, R = (p-q) w + q T, u uniform on 0..R-1 (`uniform_below`, which
        says what it assumes). The (p-q) w values below that give each of the w outputs from the code's
        first one p-q times; the other q T give each of all T outputs q times. So an output of the
        code's own has (p-q+q)/R = gamma/D, any other q/R = 1/D. The first of its own is k itself
        (output 0 lies b below the domain), null's is the first after the ordered ones; whatever comes
        after the ordered ones is null. No floating-point number takes part.
        """
        (p, q), (side,) = self.ratio, self.sides
        own, u = (p - q) * self.width, numbers
        near, null = u < own, side.null_output
        anywhere = (u - u.dtype.type(own)) // u.dtype.type(q)  # wraps around where it is near
        place = u // u.dtype.type(p - q)
        first = codes.astype(place.dtype)
        if side.nulls:
            first[codes == side.ordered] = null
        place += first
        place = np.where(near, place, anywhere)
        if side.nulls:
            np.minimum(place, null, out=place)
        out[:] = place


@lru_cache(maxsize=1 << 12)
def best_half_width(gamma: Decimal | float, ordered: int) -> int:
    """Return the most informative half-width for equal shares, 0 for gamma-diagonal: the only peak."""
    g, low, high = float(gamma), 0, ordered // 2
    while low < high:
        middle = (low + high) // 2
        if bits_revealed(g, ordered, middle) >= bits_revealed(g, ordered, middle + 1):
            high = middle
        else:
            low = middle + 1
    return low


def bits_revealed(gamma: float, ordered: int, half_width: int) -> float:
    """Return the information of one answer, H(y) - H(M) in bits, for equally likely ordered codes."""
    width = 2 * half_width + 1
    outputs = ordered + width - 1
    D = (gamma - 1) * width + outputs
    # an output is reached, with gamma, from 1, 2, ..., up to the narrower of band and domain
    top = min(width, ordered)
    reached = np.minimum(np.minimum(np.arange(1, outputs + 1), np.arange(outputs, 0, -1)), top)
    y = (1 + (gamma - 1) * reached / ordered) / D
    column = width * gamma / D * np.log2(gamma / D) + (outputs - width) / D * np.log2(1 / D)
    return float(column - (y * np.log2(y)).sum())


def read_half_width(value: object) -> int:
    """Read the half-width of a band, in codes."""
    number = whole(value)
    if number < 0:
        what = "a half-width must be a number of bins, 0 or more"
        raise UsageError("negative-half-width", what, "try half_width=2")
    return number


@register_kind
class BandSpec(GammaSpec, frozen=True, tag="band", tag_field="kind", kw_only=True):
    """The record of a band in a sidecar: gamma and the half-width in codes."""

    about = (
        "Keeps the neighbourhood of a bin of numbers or times rather than the exact bin. At the same "
        "gamma, ranges and trees are more accurate."
    )
    options: ClassVar[Mapping[str, Callable[[object], object]]] = {"half_width": read_half_width}

    half_width: Annotated[
        list[Annotated[int, Meta(ge=1, le=MOST_ORDERED // 2)]], Meta(min_length=1, max_length=1)
    ]

    def matrix(self, domain: Domain) -> Band:
        return Band.of(self.exact, domain.ordinary, self.half_width[0], domain.nulls)

    @property
    def decides(self) -> dict[str, object]:
        return {"kind": self.kind, "gamma": self.gamma, "half_width": self.half_width[0]}

    def published(self, domain: Domain, matrix: Matrix, beyond: Beyond | UnsetType) -> Domain:
        if beyond is UNSET:
            raise ValueError("a band needs 'beyond'")
        found = within(domain, beyond, len(beyond.below))
        if found.size != matrix.outputs:
            raise ValueError("the codes are not the ones that its matrix publishes")
        return found

    def described(self) -> str:
        return f"gamma {self.gamma} (band, half-width {self.half_width[0]})"

    def short(self) -> str:
        return f"band +-{self.half_width[0]}"

    def figures(self, matrix: Matrix, domain: Domain) -> dict[str, Any]:
        assert isinstance(matrix, Band)
        return {"half_width": matrix.half_width, "neighbourhood": matrix.neighbourhood}

    @classmethod
    def remarks(cls, channels: Sequence[Channel]) -> list[str]:
        """Compare in one sentence what bands and gamma-diagonal matrices reveal."""
        alike: dict[Matrix, list[str]] = {}
        for channel in channels:
            alike.setdefault(channel.matrix, []).append(channel.name)
        parts = [f"{', '.join(n)} {_compared(band)}" for band, n in alike.items() if isinstance(band, Band)]
        return [
            "A band reveals more about a value's neighbourhood, and less about the exact value, than a "
            "gamma-diagonal matrix with the same gamma and N (in brackets): " + "; ".join(parts) + "."
        ]

    @classmethod
    def missed(cls, channels: Sequence[Channel]) -> list[str]:
        plain = [c.name for c in channels if not isinstance(c.spec, cls) and isinstance(c.domain, Bins)]
        if channels and not any(isinstance(c.spec, cls) for c in channels):
            return [
                "No attribute got a band: bands are for bins of numbers and times, and for declared ranges. "
                "With few values the gamma-diagonal matrix is better."
            ]
        return [
            f"Without a band: {', '.join(plain)}. With that many bins at that gamma, a gamma-diagonal "
            "matrix is more informative, or a band is not possible."
        ] * bool(plain)

    @classmethod
    def suits(cls, domain: Domain, ordered: bool) -> bool:
        return ordered

    @classmethod
    def asked(cls, name: str, domain: Domain, request: Request) -> tuple[Spec, Beyond | UnsetType]:
        """Return the channel asked for; half-width 0, best for few values, is the gamma-diagonal matrix."""
        if not domain.ordered:
            what = f"values of type {domain.kind} have no order, so no band"
            raise UsageError("no-order", what, "leave out matrix=band for it")
        gamma, b = request.gamma, request.options.get("half_width")
        assert gamma is not None
        b = best_half_width(gamma, domain.ordinary) if b is None else b
        if b == 0:
            return GammaDiagonalSpec.asked(name, domain, request)
        width = 2 * b + 1
        outputs = domain.ordinary + width - 1 + domain.nulls * width
        exact = gamma if isinstance(gamma, Decimal) else rounded_down(gamma, outputs, width)
        Band.of(exact, domain.ordinary, b, domain.nulls)  # refuses a half-width that cannot be
        return cls(attributes=[name], gamma=json_gamma(exact), half_width=[b]), continued(domain, b)

    @classmethod
    def best_bins(cls, gamma: float, size: float) -> float:
        """Return the best number of bins: bands keep neighbours together, so more bins cost little."""
        return 20 * size**0.1


def _compared(band: Band) -> str:
    """Return the probabilities to publish neighbourhood and value, next to the gamma-diagonal matrix's."""
    b, N, gamma = band.half_width, band.sides[0].ordered, band.amplification
    others = sum(2 * (N - d) / N for d in range(1, b + 1))
    D = gamma + band.inputs - 1
    return (
        f"within {b} of the true one with {percent(band.neighbourhood)} ({percent((gamma + others) / D)}), "
        f"at the true one with {percent(band.staying)} ({percent(gamma / D)})"
    )
