"""Mixtures: with chance lam a record's values are blurred, else all of them are replaced.

Attribute j has a `Blur` U_j with w_j of T_j outputs for each value; w and T are the products, and
M = lam prod U_j + (1-lam)/T (maths 9 and 11). An entry is gamma c or c with c = 1/((gamma-1) w + T). A band is
the mixture of one attribute, a box that of several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import inf, prod
from typing import Any

import numpy as np

from ppdm_cli.arrays import Floats, split
from ppdm_cli.channels.blur import Blur
from ppdm_cli.channels.matrix import Matrix, Substitution


class Mixture(Matrix):
    """lam prod U_j + (1-lam) noise: a box, its marginals, and several boxes pooled."""

    sides: tuple[Blur, ...]
    lam: float
    """The chance that a record tells anything at all."""

    @property
    def stop_gain(self) -> float:  # type: ignore[override]
        return 0.01 if any(s.half_width for s in self.sides) else 0.0

    @cached_property
    def width(self) -> int:
        """Return w, the number of outputs that show the record blurred."""
        return prod(s.width for s in self.sides)

    @cached_property
    def all_outputs(self) -> int:
        """Return T, with null's outputs counted singly."""
        return prod(s.all_outputs for s in self.sides)

    @property
    def inputs(self) -> int:
        return prod(self.shape_in)

    @property
    def outputs(self) -> int:
        return prod(self.shape_out)

    @property
    def shape_in(self) -> tuple[int, ...]:
        return tuple(s.inputs for s in self.sides)

    @property
    def shape_out(self) -> tuple[int, ...]:
        return tuple(s.outputs for s in self.sides)

    @cached_property
    def noise(self) -> Floats:
        """Return the law of a record that tells nothing."""
        found = np.ones(1)
        for side in self.sides:
            found = np.multiply.outer(found, side.noise).ravel()
        return found

    @property
    def _low(self) -> float:
        """Return the smaller entry, of an output that is shown singly."""
        return (1 - self.lam) / self.all_outputs

    @property
    def _high(self) -> float:
        return self._low + self.lam / self.width

    @cached_property
    def unchanged(self) -> np.ndarray:
        grid = np.meshgrid(*(s.unchanged for s in self.sides), indexing="ij")
        return np.ravel_multi_index(grid, self.shape_out).ravel()

    @property
    def amplification(self) -> float:
        return 1 + self.lam * self.all_outputs / ((1 - self.lam) * self.width)

    @property
    def staying(self) -> float:
        return self._high

    def stays(self) -> Floats:
        found = np.full(1, self.staying)
        for side in self.sides:
            of_null = np.where(np.arange(side.inputs) < side.ordered, 1.0, side.width)
            found = np.multiply.outer(found, of_null).ravel()
        return found

    @property
    def coin(self) -> tuple[float, tuple[Blur, ...]]:
        return self.lam, self.sides

    @cached_property
    def plain(self) -> bool:
        """Return whether it is lam I + (1-lam)/T J: then nothing of size T x T is ever built."""
        return all(s.plain for s in self.sides)

    def solve(self, observed: Floats, axis: int = 0) -> Floats:
        return self.solve_power(observed, 1, axis) if self.plain else super().solve(observed, axis)

    def scores(self, values: Floats, axis: int = 0) -> Floats:
        return self.solve(values, axis) if self.plain else super().scores(values, axis)  # symmetric

    def solve_power(self, observed: Floats, power: int, axis: int = 0) -> Floats:
        if not self.plain:
            return super().solve_power(observed, power, axis)
        itself, other = ((1 - self._low) / self.lam) ** power, (-self._low / self.lam) ** power
        return np.asarray((itself - other) * observed + other * observed.sum(axis=axis, keepdims=True))

    def own_variance(self) -> Floats:
        if not self.plain:
            return super().own_variance()
        own = (1 - self._low) ** 2 * self._high + (self.inputs - 1) * self._low**3
        return np.full(self.inputs, own / self.lam**2)

    @cached_property
    def condition_number(self) -> float:
        if self.plain:
            return 1 / self.lam
        if not self.invertible:
            return inf
        values = np.linalg.svd(self.dense(), compute_uv=False)
        return float(values[0] / values[-1])

    def forward(self, original: Floats, axis: int = 0) -> Floats:
        return self._applied(original, axis, self.shape_in, Blur.forward, self._to_noise)

    def backward(self, values: Floats, axis: int = 0) -> Floats:
        return self._applied(values, axis, self.shape_out, Blur.backward, self._from_noise)

    def _applied(self, table: Floats, axis: int, shape: tuple[int, ...], one: Any, rest: Any) -> Floats:
        moved = np.moveaxis(table, axis, 0)
        blurred = moved.reshape(*shape, *moved.shape[1:])
        for place, side in enumerate(self.sides):
            blurred = one(side, blurred, place)
        blurred = blurred.reshape(-1, *moved.shape[1:])
        blurred *= self.lam
        blurred += (1 - self.lam) * rest(moved)
        return np.moveaxis(blurred, 0, axis)

    def _to_noise(self, moved: Floats) -> Floats:
        return np.multiply.outer(self.noise, moved.sum(axis=0))

    def _from_noise(self, moved: Floats) -> Floats:
        flat = moved.reshape(len(moved), -1)
        return (self.noise @ flat).reshape(1, *moved.shape[1:])

    def entropy(self, prior: Floats | None = None) -> float:
        """Return the entropy of what is shown: columns differ in which of their values are null alone."""
        shares = np.full(self.inputs, 1 / self.inputs) if prior is None else prior
        shares = shares.reshape(self.shape_in)
        total, patterns = 0.0, list(product(*((False, True) if s.nulls else (False,) for s in self.sides)))
        for null in patterns:
            parts = zip(self.sides, null, strict=True)
            of_pattern = shares[
                tuple(slice(s.ordered, None) if n else slice(s.ordered) for s, n in parts)
            ].sum()
            total += float(of_pattern) * sum(self._bits(null, shown) for shown in patterns)
        return total

    def _bits(self, null: tuple[bool, ...], shown: tuple[bool, ...]) -> float:
        """Return what outputs with nulls in some places add to the entropy of a record with nulls in some."""
        of_one = prod(s.width for s, n in zip(self.sides, shown, strict=True) if n)
        cells = prod(1 if n else s.place_of_null for s, n in zip(self.sides, shown, strict=True))
        near = prod(1 if n else s.width for s, n in zip(self.sides, shown, strict=True)) * (null == shown)
        low, high = of_one * self._low, of_one * self._high
        return -float(near * high * np.log2(high) + (cells - near) * low * np.log2(low))

    def around(self, original: np.ndarray, published: np.ndarray) -> np.ndarray:
        if not any(s.half_width for s in self.sides):
            return super().around(original, published)
        codes, shown = self.split(original, self.shape_in), self.split(published, self.shape_out)
        found = np.ones(len(original), bool)
        for side, code, output in zip(self.sides, codes, shown, strict=True):
            apart = np.abs(output.astype(np.int64) - side.unchanged[code])
            null, shown_null = code >= side.ordered, output >= side.place_of_null
            found &= np.where(null | shown_null, null & shown_null, apart <= side.half_width)
        return found

    @property
    def own_outputs(self) -> tuple[float, float]:
        return float(self.width), float(self.all_outputs - self.width)

    @staticmethod
    def split(codes: np.ndarray, shape: Sequence[int]) -> list[np.ndarray]:
        """Return the codes of each attribute, of codes of the product."""
        return split(codes, shape)

    def marginal(
        self, places: Sequence[int], inputs: Sequence[int] = (), outputs: Sequence[int] = ()
    ) -> Matrix:
        """Return the law of some of the attributes, the others summed out: the same lam (maths 11)."""
        return Marginal(self.lam, tuple(self.sides[p] for p in places))


@dataclass(frozen=True)
class Marginal(Mixture):
    """A mixture by its lam: a marginal of a box, or several boxes pooled."""

    lam: float
    sides: tuple[Blur, ...]


class Drawn(Mixture, Substitution):
    """A mixture of amplification gamma, drawn exactly.

    With gamma = p/s in lowest terms and R = (p-s) w + s T, (p-s) w of R whole numbers blur the record.
    """

    gamma: Decimal | Fraction

    @cached_property
    def _ratio(self) -> tuple[int, int]:
        return self.gamma.as_integer_ratio()

    @cached_property
    def _range(self) -> int:
        p, s = self._ratio
        return (p - s) * self.width + s * self.all_outputs

    @cached_property
    def lam(self) -> float:  # type: ignore[override]
        p, s = self._ratio
        return (p - s) * self.width / self._range

    @property
    def _low(self) -> float:
        return 1 / ((float(self.gamma) - 1) * self.width + self.all_outputs)

    @property
    def _high(self) -> float:
        return float(self.gamma) * self._low

    @property
    def amplification(self) -> float:
        return float(self.gamma)
