"""Laws for estimates and answers: of the records of a stratum, and of several strata together.

Inputs are the combinations of the attributes' values, and outputs those of revealed codes, one stratum after
the other. A left inverse is weighted as its outputs' own marginal has them, and an attribute that is published
separately is a factor of its own (docs/technical/method.md). Strata that reveal all attributes are weighed by
how certain each makes equal counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import comb, prod

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.channels import Channel, Law, WrittenLaw, applied, blended, left_inverse, likeliest
from ppdm_cli.errors import UsageError, listed
from ppdm_cli.releases import Exposure, Stratum

MOST_WORK = 1 << 35
"""The most multiplications that the left inverses of all laws take together, about."""
MOST_STRATA = 256
"""The most strata that one table is estimated from: each makes a step of EM longer."""
MOST_WEIGHED = 1 << 20
"""The most entries of a law whose outputs are weighed as they were published."""
MOST_WRITTEN = 1 << 16
"""The most entries of a pooled law that is written out."""


def check_work(names: Iterable[str], tables: Sequence[Sequence[Stratum]]) -> None:
    """Refuse tables whose strata have so many values or laws that estimates would take minutes."""
    if (most := max(map(len, tables))) > MOST_STRATA:
        what = f"records publish {listed(names)} by {most:,} different laws, more than {MOST_STRATA}"
        raise UsageError("too-many-strata", what, "ask the owner for a release of fewer recipes")
    exposures = [e for strata in tables for s in strata for e in s.exposures]
    work = sum(e.outputs * e.inputs**2 for e in exposures if e.alone is None and not e.plain)
    if work > MOST_WORK:
        raise UsageError(
            "laws-too-large",
            f"estimates of {listed(names)} need {work:.1e} multiplications, more than {MOST_WORK:.1e}: too "
            "many values or laws",
            "name fewer attributes, or ones of fewer values",
        )


@dataclass(frozen=True, eq=False)
class Side:
    """One attribute of a stratum: its exposure, and the left inverse of its law U."""

    exposure: Exposure
    inverse: Floats | None
    """The inverse; None if U publishes each value as itself, or answers separately."""
    constant: Floats
    """The inverse applied to noise; 1 without noise."""

    @classmethod
    def of(cls, exposure: Exposure, lam: float, observed: Floats | None = None) -> Side:
        """Return the side with weights for the observed counts of the attribute, or for equal counts."""
        noise, size = exposure.noise, exposure.outputs * exposure.inputs
        if observed is not None and (exposure.outputs == exposure.inputs or size > MOST_WEIGHED):
            observed = None
        ones = np.ones(exposure.inputs)
        if exposure.plain or (noise is None and observed is None):
            return cls(exposure, None, ones if noise is None else noise)
        law = exposure.mixed(lam)
        whole = left_inverse(law, None if observed is None else law @ likeliest(law, observed))
        if noise is None:
            return cls(exposure, whole, ones)
        constant = whole @ noise
        return cls(exposure, blended(lam, whole, constant[:, None]), constant)

    def solve(self, table: Floats, axis: int, power: int, whole: int) -> Floats:
        """Apply the inverse, with its entries to a power, along an axis; to `whole` if it has no noise."""
        alone = self.exposure.alone
        if self.inverse is not None:
            return applied(self.inverse ** (power if alone is None else whole), table, axis)
        if alone is not None:
            return alone.solve_power(table, whole, axis)
        return table if power else _sums(table, axis)

    def scores(self, table: Floats, axis: int, power: int) -> Floats:
        """Return the transposed inverse, with its entries to a power, along an axis."""
        alone = self.exposure.alone
        if self.inverse is not None:
            return applied((self.inverse ** (power if alone is None else 1)).T, table, axis)
        if alone is not None:
            return alone.scores(table, axis)
        return table if power else _sums(table, axis)

    def own_variance(self) -> tuple[Floats, Floats]:
        """Return what a record of each value adds to the square of its own count, by U and as noise."""
        noise, alone = self.exposure.noise, self.exposure.alone
        if self.inverse is None:
            own = np.ones(self.exposure.inputs) if alone is None else alone.own_variance()
            return own, own if noise is None else noise
        squares = self.inverse**2
        own = np.einsum("xy,yx->x", squares, self.exposure.matrix)
        return own, own if noise is None else squares @ noise


def _sums(table: Floats, axis: int) -> Floats:
    """Apply a matrix of ones to a table along an axis."""
    return np.broadcast_to(table.sum(axis=axis, keepdims=True), table.shape)


@dataclass(frozen=True, eq=False)
class StratumLaw:
    sizes: tuple[int, ...]
    stratum: Stratum
    lam: float
    observed: tuple[Floats | None, ...] = ()
    """The published counts of each attribute, if the left inverses are weighted by them."""

    @classmethod
    def weighed(cls, sizes: tuple[int, ...], stratum: Stratum, lam: float, observed: Floats) -> StratumLaw:
        """Return the law with weights for the published counts, flat after any leading axes."""
        table, axes = observed.reshape(-1, *stratum.shape).sum(axis=0), range(len(stratum.shape))
        margins = (table.sum(axis=tuple(i for i in axes if i != axis)) for axis in axes)
        return cls(sizes, stratum, lam, tuple(margins))

    @property
    def whole(self) -> bool:
        return len(self.stratum.axes) == len(self.sizes)

    @property
    def inputs(self) -> int:
        return prod(self.sizes)

    @property
    def outputs(self) -> int:
        return prod(self.stratum.shape)

    @cached_property
    def variance(self) -> float:
        """Return the contribution of a record to the squared errors of all counts, if all counts are equal."""
        equal = np.full(self.inputs, 1 / self.inputs)
        return max(float(self.solve_power(self.forward(equal), 2).sum()), 1e-300)

    @cached_property
    def sides(self) -> list[Side]:
        observed = self.observed or (None,) * len(self.stratum.exposures)
        return [Side.of(e, self.lam, y) for e, y in zip(self.stratum.exposures, observed, strict=True)]

    @cached_property
    def _noisy(self) -> tuple[int, ...]:
        return tuple(i for i, e in enumerate(self.stratum.exposures) if e.noise is not None)

    @cached_property
    def _noise(self) -> Floats:
        outputs: Floats = np.ones(())
        for exposure in self.stratum.exposures:
            outputs = np.multiply.outer(outputs, np.ones(1) if exposure.noise is None else exposure.noise)
        return outputs

    def _along(self, table: Floats, how: str, noisy: bool) -> Floats:
        """Apply the laws to a table along each axis, without those that may be `noisy`."""
        for axis, exposure in enumerate(self.stratum.exposures):
            if noisy or axis not in self._noisy:
                table = getattr(exposure.law, how)(table, axis)
        return table

    def dense(self) -> Floats:
        """Return the law of a stratum that reveals all; for small ones."""
        law: Floats = np.ones((1, 1))
        noise = law
        for exposure in self.stratum.exposures:
            law = np.asarray(np.kron(law, exposure.matrix), np.float64)
            noise = np.asarray(np.kron(noise, exposure.mixed(0.0)), np.float64)
        return blended(self.lam, law, noise)

    def forward(self, original: Floats) -> Floats:
        hidden = tuple(i for i in range(len(self.sizes)) if i not in self.stratum.axes)
        table = original.reshape(self.sizes).sum(axis=hidden)
        found = self._along(table, "forward", noisy=True)
        if self._noisy:
            rest = self._along(table.sum(axis=self._noisy, keepdims=True), "forward", noisy=False)
            found = blended(self.lam, found, self._noise * rest)
        return np.asarray(found.ravel())

    def backward(self, values: Floats) -> Floats:
        table = values.reshape(self.stratum.shape)
        found = self._along(table, "backward", noisy=True)
        if self._noisy:
            rest = (self._noise * table).sum(axis=self._noisy, keepdims=True)
            found = blended(self.lam, found, self._along(rest, "backward", noisy=False))
        sizes = [size if i in self.stratum.axes else 1 for i, size in enumerate(self.sizes)]
        return np.asarray(np.broadcast_to(found.reshape(sizes), self.sizes).ravel())

    @cached_property
    def constant(self) -> Floats:
        """Return (1-lam) prod c_j; 0 if nothing is noise."""
        found: Floats = np.ones(())
        for side in self.sides:
            found = np.multiply.outer(found, side.constant)
        return (1 - self._lam) * found.ravel()

    @property
    def _lam(self) -> float:
        return self.lam if self._noisy else 1.0

    def solve(self, observed: Floats) -> Floats:
        """Return A y for published tables, flat after any leading axes."""
        return self.solve_power(observed, 1)

    def solve_power(self, observed: Floats, power: int) -> Floats:
        """Apply A with its entries to a power to published tables, flat after any leading axes."""
        lead = observed.shape[:-1]
        table, found = observed.reshape((*lead, *self.stratum.shape)), np.zeros((*lead, self.inputs))
        for i in range(power + 1) if self._noisy else [power]:
            own = table
            for axis, side in enumerate(self.sides):
                own = side.solve(own, len(lead) + axis, i, power)
            found += comb(power, i) * (-self.constant) ** (power - i) * own.reshape(found.shape)
        return np.asarray(found / self._lam**power)

    def scores(self, values: Floats) -> Floats:
        """Return A^T v for tables of the values, flat after any leading axes, of a whole stratum."""
        lead = values.shape[:-1]

        def of(table: Floats, power: int) -> Floats:
            table = table.reshape((*lead, *self.sizes))
            for axis, side in enumerate(self.sides):
                table = side.scores(table, len(lead) + axis, power)
            return table

        found = of(values, 1)
        if self._noisy:
            found = (found - of(values * self.constant, 0)) / self.lam
        return np.asarray(found.reshape((*lead, self.outputs)))

    def seen(self, observed: np.ndarray) -> np.ndarray:
        """Return the number of records published as each combination."""
        places = [e.unchanged for e in self.stratum.exposures]
        return np.asarray(observed.reshape(self.stratum.shape)[np.ix_(*places)].ravel())

    def own_variance(self) -> Floats:
        """Return the contribution of a record of each combination to its own E(A y)^2."""
        law, noise, alone = np.ones(()), np.ones(()), np.ones(())
        for side in self.sides:
            own, of_noise = side.own_variance()
            law, noise = np.multiply.outer(law, own), np.multiply.outer(noise, of_noise)
            alone = np.multiply.outer(alone, own if side.exposure.noise is None else np.ones(len(own)))
        c, raw, factor = self.constant, self.constant / max(1 - self._lam, 1e-300), alone.ravel()
        found = self._lam * (law.ravel() - (2 * c - c**2) * factor)
        found += (1 - self._lam) * (noise.ravel() - (2 * c * raw - c**2) * factor)
        return np.asarray(found / self._lam**2)


class PooledLaw(Law):
    """The law of the records of several strata together, of so many of each."""

    def __init__(self, strata: Sequence[StratumLaw], records: Floats) -> None:
        self.strata = list(strata)
        self._shares = records / max(records.sum(), 1)
        self._ends = np.cumsum([s.outputs for s in self.strata])
        each = zip(self.strata, self._shares, strict=True)
        weights = np.array([share / s.variance if s.whole and share else 0.0 for s, share in each])
        self._known = bool(weights.any())
        self._weights = weights / max(weights.sum(), 1e-300) / np.maximum(self._shares, 1e-300)

    @cached_property
    def inverse(self) -> Floats:
        """Return A with A M = I, by the strata that reveal all; for small ones."""
        return np.stack([self.solve(unit) for unit in np.eye(self.outputs)], axis=1)

    def dense(self) -> Floats:
        return np.stack([self._forward(unit) for unit in np.eye(self.inputs)], axis=1)

    @cached_property
    def _written(self) -> Floats | None:
        """Return the law itself if it is small: EM takes thousands of steps."""
        return self.dense() if self.inputs * self.outputs <= MOST_WRITTEN else None

    def alone(self, axis: int, observed: Floats) -> tuple[PooledLaw, Floats]:
        """Return the law of one of the attributes, and its own counts."""
        laws, counts = [], []
        for law, values in zip(self.strata, self._split(observed), strict=True):
            own = law.stratum
            if axis in own.axes:
                place = own.axes.index(axis)
                single = replace(own, axes=(0,), exposures=(own.exposures[place],), first=(own.first[place],))
                laws.append(StratumLaw((law.sizes[axis],), single, law.lam))
                others = tuple(i for i in range(len(own.axes)) if i != place)
                counts.append(values.reshape(own.shape).sum(axis=others))
        return PooledLaw(laws, np.array([c.sum() for c in counts])), np.concatenate(counts)

    @property
    def invertible(self) -> bool:
        return self._known

    @property
    def stop_gain(self) -> float:
        """Return the gain at which EM stops: early if values are blurred, or attributes several."""
        blurred = any(e.outputs > e.inputs for s in self.strata for e in s.stratum.exposures)
        return 0.01 if blurred or len(self.strata[0].sizes) > 1 else 0.0

    @property
    def inputs(self) -> int:
        return self.strata[0].inputs

    @property
    def outputs(self) -> int:
        return int(self._ends[-1])

    def forward(self, original: Floats, axis: int = 0) -> Floats:
        return self._forward(original) if self._written is None else self._written @ original

    def _forward(self, original: Floats) -> Floats:
        return np.concatenate([a * s.forward(original) for s, a in zip(self.strata, self._shares, strict=True)])

    def _split(self, values: Floats) -> list[Floats]:
        return np.split(values, self._ends[:-1])

    def backward(self, values: Floats, axis: int = 0) -> Floats:
        if self._written is not None:
            return np.asarray(values @ self._written)
        each = zip(self.strata, self._shares, self._split(values), strict=True)
        return np.asarray(sum(a * s.backward(v) for s, a, v in each))

    def solve(self, observed: Floats, axis: int = 0) -> Floats:
        return self.solve_power(observed, 1)

    def solve_power(self, observed: Floats, power: int, axis: int = 0) -> Floats:
        each = zip(self.strata, self._weights, self._split(observed), strict=True)
        return np.asarray(sum(w**power * s.solve_power(y, power) for s, w, y in each if w))

    def own_variance(self) -> Floats:
        each = zip(self.strata, self._weights, self._shares, strict=True)
        return np.asarray(sum(w**2 * a * s.own_variance() for s, w, a in each if w))


@dataclass(frozen=True, eq=False)
class SummedLaw(WrittenLaw):
    """Law of a subset of a channel's attributes; the others are summed out with their estimated shares."""

    one: Law
    members: np.ndarray
    """The code of the attributes' combination, by code of the channel."""
    within: Floats
    """The share of each code of the channel in its combination."""

    @cached_property
    def entries(self) -> Floats:
        return (self.one.dense() * self.within) @ self._sums.T

    @cached_property
    def _sums(self) -> Floats:
        return np.asarray(self.members == np.arange(self.members.max() + 1)[:, None], np.float64)

    @cached_property
    def inverse(self) -> Floats:
        return self._sums @ self.one.inverse

    @property
    def invertible(self) -> bool:
        return self.one.invertible


def law_of(axis: Channel, names: Sequence[str], counts: Floats) -> Law | None:
    """Return the law of the chosen attributes of an axis; the rest is summed out.

    `counts` are the most likely of the axis. Only variances depend on their shares, which are assumed to be
    equal in all slices of the other axes (Ma and Sivakumar 5, if the others have no law of their own).
    """
    sizes = axis.domain.sizes
    places = [i for i, n in enumerate(axis.attributes) if n in names]
    if axis.law is None or len(places) == len(sizes):
        return axis.law
    codes = np.unravel_index(np.arange(axis.domain.size), sizes)
    members = np.ravel_multi_index([codes[i] for i in places], [sizes[i] for i in places])
    counts = counts + 1e-9
    return SummedLaw(axis.law, members, counts / np.bincount(members, counts)[members])


def by_attribute(
    table: np.ndarray, axes: Sequence[Channel], names: Sequence[str], having: Sequence[str] = ()
) -> np.ndarray:
    """Return a table over axes as one over these of their attributes; it may be `having` only some of them."""
    known = [(n, p.size) for c in axes for n, p in c.each() if n in (having or c.attributes)]
    places = [[n for n, _ in known].index(name) for name in names]
    table = np.moveaxis(table.reshape([size for _, size in known]), places, range(len(places)))
    return np.asarray(table.sum(axis=tuple(range(len(places), table.ndim))))
