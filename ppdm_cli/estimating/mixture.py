"""The law of records of several kinds: each shows some attributes by one coin, and they are estimated together.

Inputs are the combinations of the attributes' values; outputs those of what is shown, one kind after the other.
With U_j the law of an attribute where the coin tells and n_j where it says noise, a kind's is
M = lam prod U_j + (1-lam) prod n_j 1' (maths 11). G_j is a left inverse of U_j that weighs outputs as their
own marginal has them, c_j = G_j n_j; then A = (prod G_j - (1-lam) prod c_j 1') / lam has A M = I. Whatever is
under no coin is a factor of its own. Kinds that show all attributes are weighed by how certain each makes equal
counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb, prod

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.channels import Law, applied, left_inverse, likeliest
from ppdm_cli.channels import Mixture as Coin
from ppdm_cli.errors import UsageError, listed
from ppdm_cli.estimating.recipes import Kind, Way

MOST_WORK = 1 << 35
"""The most multiplications that the left inverses of all laws take together, about."""


MOST_KINDS = 256
"""The most kinds of records that one table is estimated from: each costs a step of EM as much."""


def check_work(names: Iterable[str], tables: Sequence[Sequence[Kind]]) -> None:
    """Refuse kinds of records, by table, of so many values or laws that estimates would take minutes."""
    if (most := max(map(len, tables))) > MOST_KINDS:
        raise UsageError(
            f"records show {listed(names)} in {most:,} ways, more than {MOST_KINDS}",
            "ask the owner for a release of fewer recipes",
        )
    kinds = [k for own in tables for k in own]
    work = sum(w.outputs * w.inputs**2 for k in kinds for w in k.ways if not closed(w))
    if work > MOST_WORK:
        raise UsageError(
            f"estimates of {listed(names)} need {work:.1e} multiplications, more than {MOST_WORK:.1e}: they "
            "are blurred among too many values, or in too many ways",
            "name fewer attributes, or ones of fewer values",
        )


def closed(way: Way) -> bool:
    """Return whether a way's left inverse has a closed form."""
    return way.plain or (isinstance(way.law, Coin) and way.law.plain)


@dataclass(frozen=True, eq=False)
class Side:
    """One attribute of a kind: its way, and the left inverse of its law where the coin tells."""

    way: Way
    inverse: Floats | None
    """None where each value is published as itself, or where the law has closed forms."""
    constant: Floats
    """What the inverse makes of noise; 1 where there is no coin."""

    @classmethod
    def of(cls, way: Way, lam: float, observed: Floats | None = None) -> Side:
        """Return it with weights for what was observed of the attribute, or for equal counts."""
        noise = way.noise
        if closed(way):
            return cls(way, None, np.ones(way.inputs) if noise is None else noise)
        law = way.told if noise is None else lam * way.told + (1 - lam) * noise[:, None]
        square = way.outputs == way.inputs
        whole = left_inverse(law, None if observed is None or square else law @ likeliest(law, observed))
        if noise is None:
            return cls(way, whole, np.ones(way.inputs))
        constant = whole @ noise
        return cls(way, lam * whole + (1 - lam) * constant[:, None], constant)

    def solve(self, table: Floats, axis: int, power: int, of: int) -> Floats:
        """Return the inverse, with its entries to a power, along an axis; under no coin always to `of`."""
        if self.way.noise is None:
            power = of
        if self.inverse is not None:
            return applied(self.inverse**power, table, axis)
        if isinstance(self.way.law, Coin):
            return self.way.law.solve_power(table, power, axis)
        return table if power else _sums(table, axis)

    def scores(self, table: Floats, axis: int, power: int) -> Floats:
        """Return the transposed inverse, with its entries to a power, along an axis."""
        if self.way.noise is None:
            power = 1
        if self.inverse is not None:
            return applied((self.inverse**power).T, table, axis)
        if isinstance(self.way.law, Coin):
            return self.way.law.scores(table, axis)
        return table if power else _sums(table, axis)

    def own_variance(self) -> tuple[Floats, Floats]:
        """Return what a record of each value adds to the square of its own count, told and as noise."""
        if self.inverse is None:
            law = self.way.law
            own = law.own_variance() if isinstance(law, Coin) else np.ones(law.inputs)
            return own, own if self.way.noise is None else self.way.noise
        squares = self.inverse**2
        own = np.einsum("xy,yx->x", squares, self.way.told)
        return own, own if self.way.noise is None else squares @ self.way.noise


def _sums(table: Floats, axis: int) -> Floats:
    """Return what a matrix of ones makes of a table along an axis."""
    return np.broadcast_to(table.sum(axis=axis, keepdims=True), table.shape)


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
        return len(self.kind.axes) == len(self.sizes)

    @property
    def outputs(self) -> int:
        return prod(self.kind.shape)

    @cached_property
    def sides(self) -> list[Side]:
        observed = self.observed or (None,) * len(self.kind.ways)
        return [Side.of(w, self.lam, y) for w, y in zip(self.kind.ways, observed, strict=True)]

    @cached_property
    def _coin(self) -> tuple[int, ...]:
        """Return which of the axes that are shown are under the coin."""
        return tuple(i for i, w in enumerate(self.kind.ways) if w.noise is not None)

    @cached_property
    def _noise(self) -> Floats:
        """Return the chance that the coin says noise, and noise each output."""
        outputs = np.full((), 1 - self.lam)
        for way in self.kind.ways:
            outputs = np.multiply.outer(outputs, np.ones(1) if way.noise is None else way.noise)
        return outputs

    def _along(self, table: Floats, how: str, coin: bool) -> Floats:
        """Return what the laws make of a table, along each axis; without those under the `coin`."""
        for axis, way in enumerate(self.kind.ways):
            if coin or axis not in self._coin:
                table = getattr(way.law, how)(table, axis)
        return table

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
        table = original.reshape(self.sizes).sum(axis=hidden)
        told = self._along(table, "forward", coin=True)
        if self._coin:
            rest = self._along(table.sum(axis=self._coin, keepdims=True), "forward", coin=False)
            told = self.lam * told + self._noise * rest
        return np.asarray(told.ravel())

    def backward(self, values: Floats) -> Floats:
        table = values.reshape(self.kind.shape)
        found = self._along(table, "backward", coin=True)
        if self._coin:
            rest = (self._noise * table).sum(axis=self._coin, keepdims=True)
            found = self.lam * found + self._along(rest, "backward", coin=False)
        sizes = [size if i in self.kind.axes else 1 for i, size in enumerate(self.sizes)]
        return np.asarray(np.broadcast_to(found.reshape(sizes), self.sizes).ravel())

    @cached_property
    def constant(self) -> Floats:
        """Return (1-lam) prod c_j."""
        found = np.ones(())
        for side in self.sides:
            found = np.multiply.outer(found, side.constant)
        return (
            (1 - self.lam) * found.ravel()
            if self._coin
            else 0 * found.ravel()
        )

    @property
    def _lam(self) -> float:
        return self.lam if self._coin else 1.0

    def solve_power(self, observed: Floats, power: int) -> Floats:
        """Return what A with its entries to a power makes of an observed table."""
        table, found = observed.reshape(self.kind.shape), np.zeros(prod(self.sizes))
        for i in range(power + 1):
            own = table
            for axis, side in enumerate(self.sides):
                own = side.solve(own, axis, i, power)
            found += comb(power, i) * (-self.constant) ** (power - i) * own.ravel()
        return np.asarray(found / self._lam**power)

    def scores(self, values: Floats) -> Floats:
        """Return A^T v for tables of the attributes' values, flat after any leading axes, of a whole kind."""
        lead = values.shape[: values.ndim - 1]
        told, blind = (t.reshape(*lead, *self.sizes) for t in (values, values * self.constant))
        for axis, side in enumerate(self.sides):
            told, blind = side.scores(told, len(lead) + axis, 1), side.scores(blind, len(lead) + axis, 0)
        return np.asarray(((told - blind) / self._lam).reshape(*lead, self.outputs))

    def seen(self, observed: np.ndarray) -> np.ndarray:
        """Return how many records were published as each combination."""
        places = [w.unchanged for w in self.kind.ways]
        return np.asarray(observed.reshape(self.kind.shape)[np.ix_(*places)].ravel())

    def own_variance(self) -> Floats:
        """Return for each combination what a record of it adds to E(A y)^2 of its own."""
        told, noise, alone = np.ones(()), np.ones(()), np.ones(())
        for side in self.sides:
            own, of_noise = side.own_variance()
            told, noise = np.multiply.outer(told, own), np.multiply.outer(noise, of_noise)
            alone = np.multiply.outer(alone, own if side.way.noise is None else np.ones(len(own)))
        c, raw, factor = self.constant, self.constant / max(1 - self._lam, 1e-300), alone.ravel()
        found = self._lam * (told.ravel() - (2 * c - c**2) * factor)
        found += (1 - self._lam) * (noise.ravel() - (2 * c * raw - c**2) * factor)
        return np.asarray(found / self._lam**2)


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
        blurred = any(w.outputs > w.inputs for k in self.kinds for w in k.kind.ways)
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
