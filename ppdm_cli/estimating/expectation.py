"""Expectation maximisation: the step that every estimate of original counts is made of, and when to stop.

Tables have leading axes, each entry of which is a problem of its own (a class, a fold, a pair of attributes),
then one axis an attribute. The matrices act along the axes, one after the other, so the product of several
domains costs one matrix product an axis and is never built (maths 3 and 10).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_cli.arrays import Floats

Tables = npt.NDArray[Any]
"""Of single or double precision."""
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


def shares(counts: Tables, lead: int = 1) -> Tables:
    """Return each entry of the leading axes as shares of its own sum."""
    return counts / np.maximum(counts.sum(axis=tuple(range(lead, counts.ndim)), keepdims=True), TINY)


def better(table: Tables, observed: Tables, expected: Tables, backward: Callable[[Tables], Tables]) -> Tables:
    """Return the likelier table of one step, from what is observed and what was to be expected."""
    ratio = np.maximum(expected, TINY)
    np.divide(observed, ratio, out=ratio)
    return table * backward(ratio)


@dataclass(frozen=True)
class Stop:
    """When EM ends that held-out records judge: where they stop profiting."""

    enough: float
    """Nats by which a held-out likelihood must rise to count as risen."""
    patience: int
    """How many times in turn it may fail to."""
    more: int
    """The least number of steps from one judgement to the next."""
    most: int


@dataclass(frozen=True, eq=False)
class Fit:
    """Estimated tables, the held-out scores that they reached (entry, part), and after how many steps each."""

    scores: Floats
    steps: np.ndarray
    table: Tables


class Steps:
    """EM for dense matrices: better and better tables of what was observed, counts or shares.

    A matrix of three axes has one for each entry of the tables' only leading axis.
    """

    def __init__(self, matrices: Sequence[Tables], observed: Tables) -> None:
        self._lead = observed.ndim - len(matrices)
        # single precision: the counts are far less certain, and memory is what the steps cost
        self._matrices = [m.astype(np.float32, copy=False) for m in matrices]
        self._back = [np.ascontiguousarray(m.swapaxes(-1, -2)) for m in self._matrices]
        self._observed = observed.astype(np.float32, copy=False)

    def __call__(self, table: Tables, steps: int, which: np.ndarray | None = None) -> Tables:
        """Return the tables after so many steps; `which` are the entries of the first axis that they are of."""
        table = start = table.astype(np.float32, copy=False)
        forwards, backwards = _chosen(self._matrices, which), _chosen(self._back, which)
        observed = self._observed if which is None else self._observed[which]
        for _ in range(steps):
            table = better(table, observed, forward(table, forwards), lambda r: forward(r, backwards))
        # where there are no records nothing is learnt: the table stays as it was
        empty = ~observed.any(axis=tuple(range(self._lead, observed.ndim)))
        table[empty] = start[empty]
        return table

    def expected(self, table: Tables, which: np.ndarray | None = None) -> Tables:
        return forward(table, _chosen(self._matrices, which))

    def stopped(self, start: Tables, judge: Callable[[Tables, np.ndarray], Floats], stop: Stop) -> Fit:
        """Return for each entry of the first axis the table with the best score.

        `judge` scores what is to be expected of some entries, which it is told: (entry, part).
        """
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


def _chosen(matrices: Sequence[Tables], which: np.ndarray | None) -> list[Tables]:
    """Return the matrices of some entries of the first axis."""
    return [m if m.ndim == 2 or which is None else m[which] for m in matrices]
