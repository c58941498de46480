"""EM for estimates and joint models: steps towards the most likely counts, and the rule when to stop.

Tables have leading axes, each entry of which is a problem of its own (a class, a fold, a pair of attributes),
then one axis an attribute. The matrices act along the axes, one after the other, so the product of several
domains costs one matrix product an axis and is never built (docs/technical/method.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_cli.arrays import Floats, of_small_products

Tables = npt.NDArray[Any]
"""Arrays of single or double precision."""
Axes = tuple[int, ...]
TINY = 1e-30


def forward(table: Tables, matrices: Sequence[Tables]) -> Tables:
    """Return the published table to expect: each matrix along its axis, in turn; leading axes stay."""
    head = table.shape[: table.ndim - len(matrices)]
    rows = prod(head)
    for matrix in matrices:
        own, *rest = table.shape[len(head) :]
        flat = table.reshape(rows, own, prod(rest)).swapaxes(1, 2)
        table = (flat @ matrix.swapaxes(-1, -2)).reshape(*head, *rest, matrix.shape[-2])
    return table


def summed(table: Tables, axis: int) -> Tables:
    """Return the sums along an axis; numpy's own take several times as long along one of the last."""
    before, own, *after = prod(table.shape[:axis]), *table.shape[axis:]
    if after:
        found: Tables = np.einsum("bia->ba", table.reshape(before, own, prod(after)))
    else:
        found = table.reshape(before, own) @ np.ones(own, table.dtype)
    return found.reshape(*table.shape[:axis], *after)


def shares(counts: Tables, lead: int = 1) -> Tables:
    """Return each entry of the leading axes as shares of its own sum."""
    return counts / np.maximum(counts.sum(axis=tuple(range(lead, counts.ndim)), keepdims=True), TINY)


def better(table: Tables, observed: Tables, expected: Tables, backward: Callable[[Tables], Tables]) -> Tables:
    """Return the more likely table after one step, from observed and expected counts."""
    ratio = np.maximum(expected, TINY)
    np.divide(observed, ratio, out=ratio)
    return table * backward(ratio)


@dataclass(frozen=True)
class Stop:
    """The rule when EM ends: as soon as held-out records stop profiting."""

    enough: float
    """Nats by which a held-out likelihood must rise to count as risen."""
    patience: int
    """The number of times in turn that it may fail to rise."""
    more: int
    """The least number of steps from one judgement to the next."""
    most: int


@dataclass(frozen=True, eq=False)
class Fit:
    """Estimated tables, their held-out scores (entry, part), and the number of steps of each."""

    scores: Floats
    steps: np.ndarray
    table: Tables


@dataclass(frozen=True, eq=False)
class Part:
    """The published counts of records that show the same axes of a table, and the law between.

    With probability `lam` the matrices act along the axes, otherwise outputs that may be noise are noise. A
    matrix of three axes has one for each entry of the tables' first axis.
    """

    matrices: Sequence[Tables]
    observed: Tables
    """The observed counts: leading axes as those of the table, then one for each matrix."""
    axes: Axes | None = None
    """The axes of the table that the matrices act along, without the leading ones; None for all."""
    noise: Sequence[Tables | None] = ()
    """The probability of each output as noise, for each matrix whose outputs may be noise."""
    lam: Tables | float = 1.0
    """The probability lam: one number, or one for each entry of the last leading axis, or of all of them."""

    def ready(self) -> Part:
        """Return the part in single precision: counts are far less certain, and memory is what steps cost."""
        matrices = [m.astype(np.float32, copy=False) for m in self.matrices]
        return replace(self, matrices=matrices, observed=self.observed.astype(np.float32, copy=False))

    def of_all(self, axes: int) -> Axes:
        """Return the axes, of so many, that the matrices act along."""
        return tuple(range(axes)) if self.axes is None else self.axes

    def of(self, which: np.ndarray | None) -> Part:
        if which is None:
            return self
        matrices = [m if m.ndim == 2 else m[which] for m in self.matrices]
        lam = np.asarray(self.lam)
        lam = lam[which] if lam.ndim == self._lead else lam
        return replace(self, matrices=matrices, observed=self.observed[which], lam=lam)

    @cached_property
    def _lead(self) -> int:
        return self.observed.ndim - len(self.matrices)

    @cached_property
    def _back(self) -> list[Tables]:
        return [np.ascontiguousarray(m.swapaxes(-1, -2)) for m in self.matrices]

    @cached_property
    def _noisy(self) -> tuple[int, ...]:
        return tuple(self._lead + i for i, n in enumerate(self.noise) if n is not None)

    @cached_property
    def _chances(self) -> tuple[Tables, Tables]:
        """Return lam, and (1-lam) times the chance of each output as noise."""
        lam = np.asarray(self.lam, np.float32)
        lam = lam.reshape(lam.shape + (1,) * (len(self.matrices) if lam.ndim else 0))
        outputs: Tables = np.ones((), np.float32)
        for noise in self.noise:
            outputs = np.multiply.outer(outputs, np.ones(1) if noise is None else noise)
        return lam, ((1 - lam) * outputs).astype(np.float32)

    def expected(self, table: Tables) -> Tables:
        """Return the expected published counts of a table of the own axes alone."""
        law = forward(table, self.matrices)
        if not self._noisy:
            return law
        lam, noise = self._chances
        return lam * law + noise * self._rest(table.sum(axis=self._noisy, keepdims=True), self.matrices)

    def backward(self, ratio: Tables, axes: int) -> Tables:
        """Return the transposed law applied to values of the outputs, along so many axes of a table."""
        found = forward(ratio, self._back)
        if self._noisy:
            lam, noise = self._chances
            found = lam * found + self._rest((noise * ratio).sum(axis=self._noisy, keepdims=True), self._back)
        if self.axes is None:
            return found
        sizes = dict(zip(self.axes, found.shape[self._lead :], strict=True))
        return found.reshape(*found.shape[: self._lead], *(sizes.get(i, 1) for i in range(axes)))

    def _rest(self, table: Tables, matrices: Sequence[Tables]) -> Tables:
        """Return a table in which those matrices act whose outputs are never noise."""
        if len(self._noisy) == len(matrices):
            return table
        one = np.ones((1, 1), np.float32)
        return forward(table, [one if self._lead + i in self._noisy else m for i, m in enumerate(matrices)])


class Steps:
    """EM for dense matrices: better and better tables for observed counts or shares, in parts."""

    def __init__(self, *parts: Part) -> None:
        self._parts = [p.ready() for p in parts]
        self._lead = parts[0].observed.ndim - len(parts[0].matrices)

    @of_small_products
    def __call__(self, table: Tables, steps: int, which: np.ndarray | None = None) -> Tables:
        """Return the tables after so many steps, for the entries `which` of the first axis."""
        table = start = table.astype(np.float32, copy=False)
        parts, axes = [p.of(which) for p in self._parts], table.ndim - self._lead
        sums = self._sums(table)
        for _ in range(steps):
            rises: dict[Axes, Tables] = {}
            for part, own in zip(parts, self._marginals(table, sums), strict=True):
                ratio = np.maximum(part.expected(own), TINY)
                rise, of = part.backward(np.divide(part.observed, ratio, out=ratio), axes), part.of_all(axes)
                rises[of] = rises[of] + rise if of in rises else rise
            for less, source, _ in reversed(sums):  # as the marginals were summed, so their rises are added
                rises[source] = rises[source] + rises.pop(less) if source in rises else rises.pop(less)
            (rise,) = rises.values()
            table = table * rise
        # without records nothing is learned: the table stays as it was
        there = [p.observed.any(axis=tuple(range(self._lead, p.observed.ndim))) for p in parts]
        empty = ~np.logical_or.reduce(there)
        table[empty] = start[empty]
        return table

    def expected(self, table: Tables, which: np.ndarray | None = None) -> list[Tables]:
        """Return the expected counts of each part."""
        each = zip(self._parts, self._marginals(table, self._sums(table)), strict=True)
        return [p.of(which).expected(own) for p, own in each]

    def _sums(self, table: Tables) -> list[tuple[Axes, Axes, int]]:
        """Plan the marginalisations: the smallest larger part to sum each from, and the axes to sum."""
        sizes = table.shape[self._lead :]
        found, sums = {tuple(range(len(sizes)))}, []
        for axes in sorted({p.of_all(len(sizes)) for p in self._parts}, key=len, reverse=True):
            above = (a for a in found if set(axes) <= set(a))
            source = min(above, key=lambda a: (prod(sizes[i] for i in a), len(a)))
            for i in reversed([i for i in source if i not in axes]):
                less = tuple(a for a in source if a != i)
                sums.append((less, source, self._lead + source.index(i)))
                found.add(less)
                source = less
        return sums

    def _marginals(self, table: Tables, sums: Sequence[tuple[Axes, Axes, int]]) -> list[Tables]:
        axes = table.ndim - self._lead
        found: dict[Axes, Tables] = {tuple(range(axes)): table}
        for less, source, axis in sums:
            found[less] = summed(found[source], axis)
        return [found[p.of_all(axes)] for p in self._parts]

    @of_small_products
    def stopped(self, start: Tables, judge: Callable[[list[Tables], np.ndarray], Floats], stop: Stop) -> Fit:
        """Return the table of best score by entry; `judge` scores expected counts of entries, by number."""
        going = np.arange(len(start))
        table = start.astype(np.float32)
        best, taken, bad = table.copy(), np.zeros(len(start), int), np.zeros(len(start), int)
        reached: Floats = np.empty(0)
        steps, more = 0, 5
        while going.size and steps < stop.most:
            table = self(table, more, going)
            steps += more
            scores = judge(self.expected(table, going), going)
            reached = reached if reached.size else np.full_like(scores, -np.inf)
            risen = scores.sum(axis=1) > reached[going].sum(axis=1) + stop.enough
            which = going[risen]
            best[which], reached[which], taken[which] = table[risen], scores[risen], steps
            bad[going] = np.where(risen, 0, bad[going] + 1)
            stays = bad[going] < stop.patience
            going, table = going[stays], table[stays]
            more = max(stop.more, steps // 4)
        return Fit(reached, taken, best)
