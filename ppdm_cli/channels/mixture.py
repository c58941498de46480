"""Mixtures for bands, boxes and their marginals: with chance lam values are blurred, else all are replaced.

Attribute j has a `Blur` U_j with w_j of T_j outputs for each value; w and T are the products, and M = lam prod
U_j + (1-lam)/T (docs/technical/method.md). An entry is gamma c or c with c = 1/((gamma-1) w + T). A band is the
mixture of one attribute, a box that of several. Of N ordered codes, value k is blurred to the outputs k..k+2b
of N + 2b; without an order b is 0. Null is one more input with 2b+1 outputs of its own, shown as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import product
from math import prod

import numpy as np

from ppdm_cli.arrays import Codes, Floats, split
from ppdm_cli.channels.matrix import Matrix
from ppdm_cli.errors import RefusedError, UsageError


def blended(lam: Floats | float, law: Floats, noise: Floats | float) -> Floats:
    """Return lam U + (1-lam) noise: the law of values that are published by U or replaced by noise."""
    return np.asarray(lam * law + (1 - lam) * noise)


def revealing(gamma: Decimal, sides: Sequence[Blur]) -> float:
    """Return lam, the chance that a record reveals anything, of the mixture of amplification gamma."""
    p, s = gamma.as_integer_ratio()
    w, T = prod(b.width for b in sides), prod(b.all_outputs for b in sides)
    return (p - s) * w / ((p - s) * w + s * T)


@dataclass(frozen=True)
class Blur:
    """The law U: each of the 2b+1 outputs of a value has the same probability."""

    ordered: int
    half_width: int = 0
    nulls: bool = False

    def __post_init__(self) -> None:
        if self.inputs < 2:
            what = "a domain of one value has nothing to perturb"
            raise RefusedError("one-value", what, "drop the column, or keep it if it is public")
        if not 0 <= self.half_width <= self.ordered // 2:
            what = f"the half-width must be from 0 to half the values, here {self.ordered // 2}"
            raise UsageError("half-width-too-large", what, "leave it out to get the most informative one")

    @property
    def plain(self) -> bool:
        """Return whether each value is published as itself."""
        return not self.half_width

    @property
    def width(self) -> int:
        """Return w = 2b+1, the number of a value's outputs."""
        return 2 * self.half_width + 1

    @property
    def null_output(self) -> int:
        """Return the output that shows null; the ordered ones come before it."""
        return self.ordered + self.width - 1

    @property
    def all_outputs(self) -> int:
        """Return T, with the outputs of null counted singly."""
        return self.null_output + self.nulls * self.width

    @property
    def inputs(self) -> int:
        return self.ordered + self.nulls

    @property
    def outputs(self) -> int:
        return self.null_output + self.nulls

    @cached_property
    def unchanged(self) -> np.ndarray:
        """Return for each input the output that shows the same value."""
        places = np.arange(self.inputs) + self.half_width
        places[self.ordered :] = self.null_output
        return places

    @cached_property
    def noise(self) -> Floats:
        """Return the law of an output that is drawn from all T alike."""
        found = np.full(self.outputs, 1 / self.all_outputs)
        found[self.null_output :] = self.width / self.all_outputs
        return found

    def forward(self, original: Floats, axis: int = 0) -> Floats:
        """Return U X along one axis."""
        moved = np.moveaxis(original, axis, 0)
        sums = np.zeros((self.outputs, *moved.shape[1:]))
        running = np.cumsum(moved[: self.ordered], axis=0)
        sums[: self.ordered] = running
        sums[self.ordered : self.null_output] = running[-1]
        sums[self.width : self.null_output] -= running[: self.ordered - 1]
        sums /= self.width
        if self.nulls:
            sums[-1] = moved[-1]
        return np.moveaxis(sums, 0, axis)

    def backward(self, values: Floats, axis: int = 0) -> Floats:
        """Return U^T v along one axis."""
        moved = np.moveaxis(values, axis, 0)
        running = np.zeros((self.null_output + 1, *moved.shape[1:]))
        np.cumsum(moved[: self.null_output], axis=0, out=running[1:])
        sums = np.empty((self.inputs, *moved.shape[1:]))
        sums[: self.ordered] = (running[self.width :] - running[: self.ordered]) / self.width
        if self.nulls:
            sums[-1] = moved[-1]
        return np.moveaxis(sums, 0, axis)

    def dense(self) -> Floats:
        """Return U itself, outputs by inputs."""
        return self.forward(np.eye(self.inputs))

    def near(self, codes: Codes, offsets: np.ndarray) -> np.ndarray:
        """Return the offset-th output of each code; whatever is null's is shown as one."""
        places = codes.astype(np.int64) + offsets.astype(np.int64)
        if self.nulls:
            places[codes == self.ordered] = self.null_output
        return places

    def as_published(self, numbers: np.ndarray) -> np.ndarray:
        """Return outputs numbered from 0 to T-1, those of null as one."""
        found: np.ndarray = np.minimum(numbers, self.outputs - 1).astype(np.int64)
        return found


@dataclass(frozen=True)
class Mixture(Matrix):
    """The law of some attributes of a box: lam prod U_j + (1-lam) noise."""

    lam: float
    """The probability that a record reveals anything at all."""
    sides: tuple[Blur, ...]
    gamma: Decimal | None = None
    """The exact amplification, if it is drawn: then lam follows from it."""

    @property
    def stop_gain(self) -> float:
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
        found = np.ones(1)
        for side in self.sides:
            found = np.multiply.outer(found, side.noise).ravel()
        return found

    @property
    def _low(self) -> float:
        """Return the smaller entry, of an output that is shown singly."""
        if self.gamma is None:
            return (1 - self.lam) / self.all_outputs
        return 1 / ((float(self.gamma) - 1) * self.width + self.all_outputs)

    @property
    def _high(self) -> float:
        return self._low + self.lam / self.width if self.gamma is None else float(self.gamma) * self._low

    @cached_property
    def ratio(self) -> tuple[int, int]:
        """Return p and s, with gamma = p/s in lowest terms."""
        assert self.gamma is not None, "a marginal is not drawn"
        return self.gamma.as_integer_ratio()

    @cached_property
    def range(self) -> int:
        """Return R = (p-s) w + s T, the range of whole numbers, of which (p-s) w blur a record."""
        p, s = self.ratio
        return (p - s) * self.width + s * self.all_outputs

    @cached_property
    def unchanged(self) -> np.ndarray:
        grid = np.meshgrid(*(s.unchanged for s in self.sides), indexing="ij")
        return np.ravel_multi_index(grid, self.shape_out).ravel()

    @property
    def amplification(self) -> float:
        if self.gamma is None:
            return 1 + self.lam * self.all_outputs / ((1 - self.lam) * self.width)
        return float(self.gamma)

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
    def plain(self) -> bool:  # then nothing of size T x T is ever built
        return all(s.plain for s in self.sides)

    def starts(self, code: int) -> np.ndarray:
        """Return the same as a draw does."""
        p, s = self.ratio
        return np.append(
            (p - s) * np.arange(self.width), (p - s) * self.width + s * np.arange(self.all_outputs)
        )

    @property
    def alike(self) -> list[tuple[int, int]]:
        """Return the same as a draw does; the outputs of null, which are shown as one, count singly."""
        p, s = self.ratio
        return [(p, self.width), (s, self.all_outputs - self.width)]

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
        values = np.linalg.svd(self.dense(), compute_uv=False)
        return float(values[0] / values[-1])

    def forward(self, original: Floats, axis: int = 0) -> Floats:
        return self._applied(original, axis, self.shape_in, Blur.forward, self._to_noise)

    def backward(self, values: Floats, axis: int = 0) -> Floats:
        return self._applied(values, axis, self.shape_out, Blur.backward, self._from_noise)

    def _applied(
        self,
        table: Floats,
        axis: int,
        shape: tuple[int, ...],
        one: Callable[[Blur, Floats, int], Floats],
        rest: Callable[[Floats], Floats],
    ) -> Floats:
        moved = np.moveaxis(table, axis, 0)
        blurred = moved.reshape(*shape, *moved.shape[1:])
        for place, side in enumerate(self.sides):
            blurred = one(side, blurred, place)
        blurred = blurred.reshape(-1, *moved.shape[1:])
        return np.moveaxis(blended(self.lam, blurred, rest(moved)), 0, axis)

    def _to_noise(self, moved: Floats) -> Floats:
        return np.multiply.outer(self.noise, moved.sum(axis=0))

    def _from_noise(self, moved: Floats) -> Floats:
        flat = moved.reshape(len(moved), -1)
        return (self.noise @ flat).reshape(1, *moved.shape[1:])

    def entropy(self, prior: Floats | None = None) -> float:
        """Return the entropy of the published values: columns differ only in which of their values are null."""
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
        """Return what outputs with nulls in some places add to the entropy of records with nulls in some."""
        of_one = prod(s.width for s, n in zip(self.sides, shown, strict=True) if n)
        cells = prod(1 if n else s.null_output for s, n in zip(self.sides, shown, strict=True))
        near = prod(1 if n else s.width for s, n in zip(self.sides, shown, strict=True)) * (null == shown)
        low, high = of_one * self._low, of_one * self._high
        return -float(near * high * np.log2(high) + (cells - near) * low * np.log2(low))

    def around(self, original: np.ndarray, published: np.ndarray) -> np.ndarray:
        if not any(s.half_width for s in self.sides):
            return super().around(original, published)
        codes, shown = split(original, self.shape_in), split(published, self.shape_out)
        found = np.ones(len(original), bool)
        for side, code, output in zip(self.sides, codes, shown, strict=True):
            apart = np.abs(output.astype(np.int64) - side.unchanged[code])
            null, shown_null = code >= side.ordered, output >= side.null_output
            found &= np.where(null | shown_null, null & shown_null, apart <= side.half_width)
        return found

    @property
    def own_outputs(self) -> tuple[float, float]:
        return float(self.width), float(self.all_outputs - self.width)

    def marginal(
        self, places: Sequence[int], inputs: Sequence[int] = (), outputs: Sequence[int] = ()
    ) -> Matrix:
        """Return the law of some of the attributes, the others summed out: the same lam."""
        return Mixture(self.lam, tuple(self.sides[p] for p in places))
