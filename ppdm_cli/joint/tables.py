"""Class-wise tables of original values, estimated by EM from tables of published ones.

Axis 0 of a table runs over classes (and folds), the others over attributes. The matrices act along
the axes, one after the other, so the product of several domains costs one matrix product an axis and is
never built. EM stops where the records that were held back stop profiting (maths 10).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ppdm_cli.arrays import Floats

Tables = npt.NDArray[np.floating]
TINY = 1e-30
MOST_STEPS = 400
ENOUGH = 0.05
"""Nats by which a held-out likelihood must rise to count as risen."""
PATIENCE = 3


def forward(table: Tables, matrices: Sequence[Tables]) -> Tables:
    """The published table to expect: each matrix along its axis, in turn; axis 0 stays."""
    for matrix in matrices:
        shape = table.shape
        flat = table.reshape(shape[0], shape[1], -1).transpose(0, 2, 1)
        table = (flat @ matrix.T).reshape(shape[0], *shape[2:], len(matrix))
    return table


def shares(counts: Tables) -> Tables:
    """Each row of axis 0 as shares of its own sum."""
    axes = tuple(range(1, counts.ndim))
    return counts / np.maximum(counts.sum(axis=axes, keepdims=True), TINY)


def outer(one: Tables, other: Tables) -> Tables:
    """Row by row of axis 0 the product of two tables: as if they were independent there."""
    left = one.reshape(*one.shape, *(1,) * (other.ndim - 1))
    return left * other.reshape(other.shape[0], *(1,) * (one.ndim - 1), *other.shape[1:])


@dataclass(frozen=True, eq=False)
class Fit:
    """An estimated table, the held-out scores that it reached, and after how many steps."""

    scores: Floats
    """One a fold."""
    steps: int
    table: Tables


class Steps:
    """EM for one set of attributes: better and better tables of what was observed."""

    def __init__(self, matrices: Sequence[Tables], observed: Tables) -> None:
        # single precision: the counts are far less certain, and memory is what the steps cost
        self._matrices = [m.astype(np.float32) for m in matrices]
        self._back = [np.ascontiguousarray(m.T) for m in self._matrices]
        self._observed = shares(observed).astype(np.float32)
        # of a class without records nothing is learnt: its table stays as it was
        self._empty = ~self._observed.reshape(len(observed), -1).any(axis=1)

    def __call__(self, table: Tables, steps: int) -> Tables:
        table = table.astype(np.float32, copy=False)
        for _ in range(steps):
            expected = self.expected(table)
            np.maximum(expected, TINY, out=expected)
            np.divide(self._observed, expected, out=expected)
            expected[self._empty] = 1
            table = table * forward(expected, self._back)
        return table

    def expected(self, table: Tables) -> Tables:
        return forward(table, self._matrices)

    def stopped(self, start: Tables, judge: Callable[[Tables], Floats]) -> Fit:
        """The table with the best score; `judge` scores what is to be expected of a table."""
        table, steps, bad, more = start, 0, 0, 5
        best: Fit | None = None
        while steps < MOST_STEPS and bad < PATIENCE:
            table = self(table, more)
            steps += more
            scores = judge(self.expected(table))
            if best is None or scores.sum() > best.scores.sum() + ENOUGH:
                best, bad = Fit(scores, steps, table), 0
            else:
                bad += 1
            more = max(10, steps // 4)
        assert best is not None
        return best


def class_likelihood(held: Tables, priors: Floats) -> Callable[[Tables], Floats]:
    """Judges by log p(class | published record) of the held-out counts (fold, class, cells ...).

    `priors` are the classes' shares by fold.
    """
    folds, classes = priors.shape
    flat = held.reshape(folds, classes, -1)
    there = np.flatnonzero(flat.any(axis=(0, 1)))
    counts = flat[:, :, there]

    def judge(expected: Tables) -> Floats:
        parts = expected.reshape(folds, classes, -1)[:, :, there].astype(np.float64) * priors[:, :, None]
        chances = np.maximum(parts, 1e-300) / np.maximum(parts.sum(axis=1, keepdims=True), 1e-300)
        scores: Floats = (counts * np.log(chances)).sum(axis=(1, 2))
        return scores

    return judge
