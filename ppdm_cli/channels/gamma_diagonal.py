"""The gamma-diagonal matrix, the default kind: stay with probability gamma/(gamma+N-1), else any other alike.

Dowd et al. section 4, from Agrawal & Haritsa; closed forms in docs/technical/method.md. With lam =
(gamma-1)/(gamma+N-1), M = lam I + (1-lam)/N J, so nothing of size N x N is ever built.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from math import prod

import numpy as np
from msgspec import UNSET, UnsetType

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.channels.base import Beyond, GammaSpec, Request, Spec, json_gamma, register_kind
from ppdm_cli.channels.exact_draw import LARGEST_RANGE, ExactDraw, rounded_down
from ppdm_cli.channels.matrix import repeated_row
from ppdm_cli.channels.mixture import Blur
from ppdm_cli.domain import Domain
from ppdm_cli.errors import UsageError


@dataclass(frozen=True)
class GammaDiagonal(ExactDraw):
    """A gamma-diagonal matrix over N codes, drawn exactly."""

    diagonal = True
    plain = True

    gamma: Decimal | Fraction
    N: int

    def __post_init__(self) -> None:
        Blur(self.N)  # refuses a domain of one value
        if self.range > LARGEST_RANGE:
            raise UsageError(
                "gamma-too-fine",
                f"gamma {self.gamma} has too many decimals for {self.N} values: the sampler can't draw it "
                "exactly",
                "round gamma down to fewer digits",
            )

    @cached_property
    def _ratio(self) -> tuple[int, int]:
        return self.gamma.as_integer_ratio()

    @cached_property
    def range(self) -> int:
        """Return R = a + b (N-1), with gamma = a/b in lowest terms."""
        a, b = self._ratio
        return a + b * (self.N - 1)

    @property
    def inputs(self) -> int:
        return self.N

    @property
    def outputs(self) -> int:
        return self.N

    @property
    def amplification(self) -> float:
        return float(self.gamma)

    @property
    def own_outputs(self) -> tuple[float, float]:
        return 1.0, float(self.N - 1)

    @property
    def coin(self) -> tuple[float, tuple[Blur, ...]]:
        return self.lam, (Blur(self.N),)

    @cached_property
    def lam(self) -> float:
        """Return the share of values that are kept; the others are drawn uniformly from all N."""
        g = float(self.gamma)
        return (g - 1) / (g + self.N - 1)

    @property
    def staying(self) -> float:
        g = float(self.gamma)
        return g / (g + self.N - 1)

    @property
    def condition_number(self) -> float:
        return 1 / self.lam

    def replace(self, codes: Codes, numbers: np.ndarray, out: Codes) -> None:
        """Replace each code k by h with probability exactly M[h, k].

        Proof. gamma = a/b in lowest terms, R = a + b(N-1), u uniform on 0..R-1 (`uniform_below`, which
        says what it assumes): u < a-b keeps the code; the other R-(a-b) = bN values of u give every
        code exactly b times. So Pr(k -> k) = (a-b+b)/R = gamma/(gamma+N-1) and Pr(k -> h) = b/R =
        1/(gamma+N-1). No floating-point number takes part.
        """
        a, b = self._ratio
        stay, u = a - b, numbers
        stays = (u < stay).astype(out.dtype)
        u -= u.dtype.type(stay)  # wraps around where the code stays
        if b > 1:
            u //= u.dtype.type(b)
        # out = codes where it stays, else u: by masks, as a branch would be guessed wrong half the time
        np.negative(stays, out=stays)
        out[:] = u
        stays &= out ^ codes
        out ^= stays

    def starts(self, code: int) -> np.ndarray:
        a, b = self._ratio
        return np.append(0, a - b + b * np.arange(self.N))

    @property
    def alike(self) -> list[tuple[int, int]]:
        a, b = self._ratio
        return [(a, 1), (b, self.N - 1)]

    def entropy(self, prior: Floats | None = None) -> float:
        """Return the entropy, which is the same for every prior, as all columns have the same."""
        g, D = float(self.gamma), float(self.gamma) + self.N - 1
        return float(-(g / D) * np.log2(g / D) + (self.N - 1) / D * np.log2(D))

    def forward(self, original: Floats, axis: int = 0) -> Floats:
        spread: Floats = (1 - self.lam) / self.N * original.sum(axis=axis, keepdims=True)
        return self.lam * original + spread

    def backward(self, values: Floats, axis: int = 0) -> Floats:
        return self.forward(values, axis)  # symmetric

    def solve(self, observed: Floats, axis: int = 0) -> Floats:
        g = float(self.gamma)
        total = observed.sum(axis=axis, keepdims=True)
        estimate: Floats = ((g + self.N - 1) * observed - total) / (g - 1)
        return estimate

    def solve_power(self, observed: Floats, power: int, axis: int = 0) -> Floats:
        g = float(self.gamma)  # A has (D-1)/(gamma-1) on its diagonal, -1/(gamma-1) elsewhere
        itself, other = ((g + self.N - 2) / (g - 1)) ** power, (-1 / (g - 1)) ** power
        solved: Floats = (itself - other) * observed + other * observed.sum(axis=axis, keepdims=True)
        return solved

    def own_variance(self) -> Floats:
        g, N = float(self.gamma), self.N
        own = ((g + N - 2) ** 2 * g + N - 1) / ((g + N - 1) * (g - 1) ** 2)
        return np.full(N, own)

    def dense(self) -> Floats:
        g = float(self.gamma)
        matrix: Floats = np.full((self.N, self.N), 1 / (g + self.N - 1))
        np.fill_diagonal(matrix, self.staying)
        return matrix

    def scores(self, values: Floats, axis: int = 0) -> Floats:
        return self.solve(values, axis)  # symmetric

    def repeated(self, times: int) -> list[dict[str, float]]:
        """Return M^t = lam^t I + (1 - lam^t)/N J."""
        found = []
        for t in range(1, times + 1):
            kept = self.lam**t
            staying = kept + (1 - kept) / self.N
            gamma = (1 + (self.N - 1) * kept) / (1 - kept)
            found.append(repeated_row(t, gamma, staying, self.entropy_of(staying), self.N))
        return found

    def entropy_of(self, staying: float) -> float:
        # gains of log2(N), each exact where the two are nearly equal: - sum m log2(N m) = H - log2 N
        N = self.N
        parts = [(staying, 1), ((1 - staying) / (N - 1), N - 1)]
        away = sum(k * m * np.log1p(N * m - 1) for m, k in parts if m > 0) / np.log(2)
        return float(np.log2(N) - away)

    @property
    def closed_form(self) -> Callable[[Floats, float], Floats]:
        return self._most_likely

    def _most_likely(self, observed: Floats, n: float) -> Floats:
        """Return X_i = max(0, s y_i - n/(gamma-1)), with s, by the number above 0, such that they sum to n."""
        if n == 0:
            return np.zeros(len(observed))
        gamma = float(self.gamma)
        falling = np.sort(observed)[::-1]
        sizes = np.arange(1, len(observed) + 1)
        scales = n * (1 + sizes / (gamma - 1)) / np.cumsum(falling)
        positive = np.flatnonzero(scales * falling - n / (gamma - 1) > 0)
        return np.maximum(scales[positive[-1]] * observed - n / (gamma - 1), 0.0)

    def marginal(
        self, places: Sequence[int], inputs: Sequence[int] = (), outputs: Sequence[int] = ()
    ) -> GammaDiagonal:
        """Return the same mixture: an answer that is drawn anew has each of their combinations as often."""
        N = prod(inputs[p] for p in places)
        return GammaDiagonal(1 + (Fraction(self.gamma) - 1) / (self.N // N), N)

    def expected_error(self, records: float, prior: Floats | None = None) -> float:
        """Return the expected error, which is the same for every distribution."""
        g, N = float(self.gamma), self.N
        return float(np.sqrt(records * (N - 1) * (N + 2 * (g - 1))) / (g - 1))

    def kang_bound(self, records: float) -> float:
        """Return Kang's bound on the relative error; it is attained when X is uniform."""
        return self.expected_error(records) * float(np.sqrt(self.N)) / records


@register_kind
class GammaDiagonalSpec(GammaSpec, frozen=True, tag="gamma-diagonal", tag_field="kind", kw_only=True):
    """The record of a gamma-diagonal channel in a sidecar: its gamma."""

    about = (
        "Keeps a value with probability gamma/(gamma+N-1) and otherwise replaces it by one of the others, "
        "all equally likely."
    )

    def matrix(self, domain: Domain) -> GammaDiagonal:
        return GammaDiagonal(self.exact, domain.size)

    def described(self) -> str:
        return f"gamma {self.gamma}"

    @classmethod
    def asked(cls, name: str, domain: Domain, request: Request) -> tuple[Spec, Beyond | UnsetType]:
        gamma = request.gamma
        assert gamma is not None
        exact = gamma if isinstance(gamma, Decimal) else rounded_down(gamma, domain.size)
        spec = cls(attributes=[name], gamma=json_gamma(exact))
        spec.law(domain)
        return spec, UNSET
