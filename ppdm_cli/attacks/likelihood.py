"""Likelihoods of published records if they belong to given people, for attacks that look for a person's row.

A candidate is a law of the originals of each attribute: a person whose values are known has one value, a latent
class has shares. A record's log-likelihood under a candidate is a sum over the cells that it shows. Where one
coin decides for several cells, it is the logarithm of lam times their product, plus 1 - lam.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.estimating import TINY
from ppdm_cli.releases import Strata

Scores = npt.NDArray[np.float32]
STEP = 2.0**-10
"""Logarithms are rounded to multiples of this many nats, so that their sums are exact and ties are ties."""


class ShownCells(NamedTuple):
    """Rows of the tables for records' cells: those shown alone, those under one coin, and the coin's lam."""

    alone: np.ndarray
    coined: np.ndarray
    lam: Scores

    def part(self, which: slice | np.ndarray) -> ShownCells:
        return ShownCells(self.alone[which], self.coined[which], self.lam[which])


@dataclass(frozen=True, eq=False)
class CellReader:
    """Finds the rows of the tables for records: a record shows as many cells as its recipe publishes."""

    strata: Strata
    first: np.ndarray
    """The first row of each axis; last the row of what is withheld, which says nothing."""
    picked: tuple[np.ndarray, np.ndarray]
    """(recipes, cells): the axes of the cells shown alone, and under one coin."""

    @classmethod
    def of(cls, strata: Strata) -> Self:
        first = np.cumsum([0, *(len(e.noise) for e in strata.exposures)])
        noisy = np.zeros(strata.numbers.shape, bool)
        for axis, exposures in enumerate(strata.exposures):
            noisy[:, axis] = np.array([False, *(e.noise is not None for e in exposures.each)])[
                strata.numbers[:, axis]
            ]
        published = strata.numbers > 0
        return cls(strata, first, (_picked(published & ~noisy), _picked(noisy)))

    def __call__(self, codes: Sequence[Codes], recipes: np.ndarray) -> ShownCells:
        rows = [c.astype(np.int32) + f for c, f in zip(codes, self.first[:-1], strict=True)]
        every = np.stack([*rows, np.full(len(recipes), self.first[-1])], axis=1).astype(np.int32)
        alone, coined = (np.take_along_axis(every, p[recipes], axis=1) for p in self.picked)
        return ShownCells(alone, coined, self.strata.lam[recipes].astype(np.float32))


def _picked(which: np.ndarray) -> np.ndarray:
    """Return the axes that each recipe has, in order; those that it lacks are one past the last."""
    order = np.argsort(~which, axis=1, kind="stable")
    found = np.where(np.take_along_axis(which, order, axis=1), order, which.shape[1])
    return found[:, : which.sum(axis=1).max(initial=0)]


@dataclass(frozen=True, eq=False)
class Likelihoods:
    """The evidence of each cell about each candidate, (cells of all axes, candidates)."""

    logs: Scores
    """The logarithms of cells shown alone."""
    ratios: Scores | None
    """The likelihood ratios of cells under a coin to noise; None if no record has a coin."""

    @classmethod
    def of(cls, strata: Strata, laws: Sequence[Floats], candidates: int) -> Self:
        """Return the tables; `laws` has for each axis (original codes, candidates)."""
        several, kind = strata.noisy, np.float32
        logs, ratios, nothing = list[Scores](), list[Scores](), np.ones((1, candidates))
        for exposures, law in zip(strata.exposures, laws, strict=True):
            chances = [e.law.forward(law) for e in exposures.each] + [nothing] * exposures.withholds
            found, noisy = np.concatenate(chances), exposures.noisy[:, None]
            logs.append((np.round(np.log(np.maximum(found, TINY)) / STEP) * STEP).astype(kind))
            if several:
                ratios.append(np.where(noisy, found / exposures.noise[:, None], 1.0).astype(kind))
        logs.append(np.zeros(nothing.shape, kind))
        ratios.append(nothing.astype(kind))
        return cls(np.concatenate(logs), np.concatenate(ratios) if several else None)

    @property
    def candidates(self) -> int:
        return self.logs.shape[1]

    def of_some(self, candidates: np.ndarray) -> Likelihoods:
        """Return the tables of some of the candidates."""
        return Likelihoods(
            self.logs[:, candidates], None if self.ratios is None else self.ratios[:, candidates]
        )

    def __call__(self, cells: ShownCells) -> Scores:
        """Return log p(record | candidate), up to what only the record decides: (records, candidates)."""
        found = np.zeros((len(cells.lam), self.candidates), np.float32)
        held = np.empty_like(found)
        for place in range(cells.alone.shape[1]):
            found += np.take(self.logs, cells.alone[:, place], axis=0, out=held, mode="clip")
        if self.ratios is not None:
            found += np.log(self.revealed(cells) + (1 - cells.lam)[:, None])
        return found

    def revealed(self, cells: ShownCells) -> Scores:
        """Return lam times how much likelier than noise the cells under the coin are."""
        assert self.ratios is not None
        found = np.repeat(cells.lam[:, None], self.ratios.shape[1], axis=1)
        for place in range(cells.coined.shape[1]):
            found *= self.ratios[cells.coined[:, place]]
        return found
