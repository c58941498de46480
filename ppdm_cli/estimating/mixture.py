"""The law of records of several kinds: each shows some attributes by one coin, and they are estimated together.

Inputs are the combinations of the attributes' values; outputs those of what is shown, one kind after the other.
With U_j the law of an attribute where the coin tells and n_j where it says noise, a kind's is
M = lam prod U_j + (1-lam) prod n_j 1' (maths 11). G_j is a left inverse of U_j that weighs outputs as their
own marginal has them, c_j = G_j n_j; then A = (prod G_j - (1-lam) prod c_j 1') / lam has A M = I. Whatever is
under no coin is a factor of its own. Kinds that show all attributes are weighed by how certain each makes equal
counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb, prod

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.channels import Law, left_inverse, likeliest
from ppdm_cli.estimating.expectation import Part, forward
from ppdm_cli.estimating.recipes import Kind


@dataclass(frozen=True, eq=False)
class Side:
    """One attribute of a kind: its law, and the left inverse of it where the coin tells."""

    told: Floats
    noise: Floats | None
    inverse: Floats
    constant: Floats
    """What the inverse makes of noise; 1 where there is no coin."""

    @classmethod
    def of(cls, told: Floats, noise: Floats | None, lam: float, observed: Floats | None = None) -> Side:
        """Return it with weights for what was observed of the attribute, or for equal counts."""
        law = told if noise is None else lam * told + (1 - lam) * noise[:, None]
        square = law.shape[0] == law.shape[1]
        whole = left_inverse(law, None if observed is None or square else law @ likeliest(law, observed))
        if noise is None:
            return cls(told, None, whole, np.ones(told.shape[1]))
        constant = whole @ noise
        return cls(told, noise, lam * whole + (1 - lam) * constant[:, None], constant)

    def power(self, power: int, of: int) -> Floats:
        """Return the inverse with its entries to a power; what is under no coin has them always to `of`."""
        return self.inverse ** (of if self.noise is None else power)


@dataclass(frozen=True, eq=False)
class Mixture:
    """The law of one kind."""

    sizes: tuple[int, ...]
    """How many values each attribute has."""
    kind: Kind
    lam: float
    observed: tuple[Floats | None, ...] = ()
    """What was published of each attribute, where the left inverses are weighed by it."""

    @classmethod
    def weighed(cls, sizes: tuple[int, ...], kind: Kind, lam: float, observed: Floats) -> Mixture:
        """Return the law with weights for what was published, flat after any leading axes."""
        table, places = observed.reshape(-1, *kind.shape).sum(axis=0), range(len(kind.shape))
        margins = (table.sum(axis=tuple(i for i in places if i != place)) for place in places)
        return cls(sizes, kind, lam, tuple(margins))

    @property
    def whole(self) -> bool:
        """Return whether the kind shows all values of all attributes."""
        return len(self.kind.axes) == len(self.sizes) and not self.kind.unites

    @property
    def outputs(self) -> int:
        return prod(self.kind.shape)

    @cached_property
    def sides(self) -> list[Side]:
        observed = self.observed or (None,) * len(self.kind.ways)
        return [Side.of(w.told, w.noise, self.lam, y) for w, y in zip(self.kind.ways, observed, strict=True)]

    @cached_property
    def part(self) -> Part:
        told, noise = [w.told for w in self.kind.ways], [w.noise for w in self.kind.ways]
        return Part(told, np.zeros(self.kind.shape), self.kind.axes, noise, self.lam)

    def dense(self) -> Floats:
        """Return the law of a whole kind itself; for small ones."""
        told: Floats = np.ones((1, 1))
        blind = told
        for way in self.kind.ways:
            told = np.asarray(np.kron(told, way.told), np.float64)
            noise = way.told if way.noise is None else np.broadcast_to(way.noise[:, None], way.told.shape)
            blind = np.asarray(np.kron(blind, noise), np.float64)
        return np.asarray(self.lam * told + (1 - self.lam) * blind)

    def forward(self, original: Floats) -> Floats:
        hidden = tuple(i for i in range(len(self.sizes)) if i not in self.kind.axes)
        return np.asarray(self.part.expected(original.reshape(self.sizes).sum(axis=hidden)).ravel())

    def backward(self, values: Floats) -> Floats:
        found = self.part.backward(values.reshape(self.kind.shape), len(self.sizes))
        return np.asarray(np.broadcast_to(found, self.sizes).ravel())

    @cached_property
    def constant(self) -> Floats:
        """Return (1-lam) prod c_j."""
        found = np.ones(())
        for side in self.sides:
            found = np.multiply.outer(found, side.constant)
        return (
            (1 - self.lam) * found.ravel()
            if any(s.noise is not None for s in self.sides)
            else 0 * found.ravel()
        )

    @property
    def _lam(self) -> float:
        return self.lam if any(s.noise is not None for s in self.sides) else 1.0

    def solve_power(self, observed: Floats, power: int) -> Floats:
        """Return what A with its entries to a power makes of an observed table."""
        table, found = observed.reshape(self.kind.shape), np.zeros(prod(self.sizes))
        for i in range(power + 1):
            own = forward(table, [s.power(i, power) for s in self.sides])
            found += comb(power, i) * (-self.constant) ** (power - i) * own.ravel()
        return np.asarray(found / self._lam**power)

    def scores(self, values: Floats) -> Floats:
        """Return A^T v for tables of the attributes' values, flat after any leading axes, of a whole kind."""
        lead = values.shape[: values.ndim - 1]
        tables = (values.reshape(*lead, *self.sizes), (values * self.constant).reshape(*lead, *self.sizes))
        told, blind = (
            forward(table, [s.power(power, 1).T for s in self.sides])
            for table, power in zip(tables, (1, 0), strict=True)
        )
        return np.asarray(((told - blind) / self._lam).reshape(*lead, self.outputs))

    def seen(self, observed: np.ndarray) -> np.ndarray:
        """Return how many records were published as each combination."""
        ways = self.kind.ways
        places = [np.arange(len(w.told)) if w.unchanged is None else w.unchanged for w in ways]
        return np.asarray(observed.reshape(self.kind.shape)[np.ix_(*places)].ravel())

    def own_variance(self) -> Floats:
        """Return for each combination what a record of it adds to E(A y)^2 of its own."""
        told, noise = np.ones(()), np.ones(())
        for side in self.sides:
            squares = side.inverse**2
            own = np.einsum("xy,yx->x", squares, side.told)
            told = np.multiply.outer(told, own)
            noise = np.multiply.outer(noise, own if side.noise is None else squares @ side.noise)
        c, raw = self.constant, self.constant / max(1 - self._lam, 1e-300)
        found = self._lam * (told.ravel() - 2 * c + c**2)
        return np.asarray((found + (1 - self._lam) * (noise.ravel() - 2 * c * raw + c**2)) / self._lam**2)


WRITTEN = 1 << 16
"""A law of no more entries is written out."""


class Several(Law):
    """The law of all kinds together, of so many records of each."""

    def __init__(self, kinds: Sequence[Mixture], records: Floats) -> None:
        self.kinds = list(kinds)
        self._shares = records / max(records.sum(), 1)
        self._ends = np.cumsum([k.outputs for k in self.kinds])
        equal = np.full(self.inputs, 1 / self.inputs)
        weights = np.array(
            [
                share / max(k.solve_power(k.forward(equal), 2).sum(), 1e-300) if k.whole and share else 0.0
                for k, share in zip(self.kinds, self._shares, strict=True)
            ]
        )
        self.invertible = bool(weights.any())
        self._weights = weights / max(weights.sum(), 1e-300) / np.maximum(self._shares, 1e-300)

    @cached_property
    def inverse(self) -> Floats:
        """Return A with A M = I, by the kinds that show all; for small ones."""
        return np.stack([self.solve(unit) for unit in np.eye(self.outputs)], axis=1)

    def dense(self) -> Floats:
        return np.stack([self._forward(unit) for unit in np.eye(self.inputs)], axis=1)

    @cached_property
    def _written(self) -> Floats | None:
        """Return the law itself where it is small: EM takes thousands of steps, and each kind costs calls."""
        return self.dense() if self.inputs * self.outputs <= WRITTEN else None

    def alone(self, axis: int, observed: Floats) -> tuple[Several, Floats]:
        """Return the law of one of the attributes, and its own counts."""
        laws, counts = [], []
        for kind, values in zip(self.kinds, self._split(observed), strict=True):
            if axis in kind.kind.axes:
                place, own = kind.kind.axes.index(axis), kind.kind
                single = Kind((0,), (own.ways[place],), (own.first[place],))
                laws.append(Mixture((kind.sizes[axis],), single, kind.lam))
                others = tuple(i for i in range(len(own.axes)) if i != place)
                counts.append(values.reshape(own.shape).sum(axis=others))
        return Several(laws, np.array([c.sum() for c in counts])), np.concatenate(counts)

    @property
    def stop_gain(self) -> float:  # type: ignore[override]
        """EM ends early where values are blurred, and near the product of the attributes."""
        blurred = any(len(w.told) > w.told.shape[1] for k in self.kinds for w in k.kind.ways)
        return 0.01 if blurred or len(self.kinds[0].sizes) > 1 else 0.0

    @property
    def inputs(self) -> int:
        return prod(self.kinds[0].sizes)

    @property
    def outputs(self) -> int:
        return int(self._ends[-1])

    def forward(self, original: Floats, axis: int = 0) -> Floats:
        return self._forward(original) if self._written is None else self._written @ original

    def _forward(self, original: Floats) -> Floats:
        return np.concatenate([s * k.forward(original) for k, s in zip(self.kinds, self._shares, strict=True)])

    def _split(self, values: Floats) -> list[Floats]:
        return np.split(values, self._ends[:-1])

    def backward(self, values: Floats, axis: int = 0) -> Floats:
        if self._written is not None:
            return np.asarray(values @ self._written)
        each = zip(self.kinds, self._shares, self._split(values), strict=True)
        return np.asarray(sum(s * k.backward(v) for k, s, v in each))

    def solve(self, observed: Floats, axis: int = 0) -> Floats:
        return self.solve_power(observed, 1)

    def solve_power(self, observed: Floats, power: int, axis: int = 0) -> Floats:
        each = zip(self.kinds, self._weights, self._split(observed), strict=True)
        return np.asarray(sum(w**power * k.solve_power(y, power) for k, w, y in each if w))

    def own_variance(self) -> Floats:
        each = zip(self.kinds, self._weights, self._shares, strict=True)
        return np.asarray(sum(w**2 * s * k.own_variance() for k, w, s in each if w))
