"""The pass in which every row of a release is weighed for each person who is looked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.attacks.adversary import AttackedAttribute, Reader, Records
from ppdm_cli.attacks.likelihood import STEP, CellReader, Likelihoods, Scores, ShownCells
from ppdm_cli.attacks.population import Population
from ppdm_cli.channels import Channel
from ppdm_cli.engine import Batch

PAIRS_AT_ONCE = 1 << 20
"""Pairs of a row and a person that are weighed at a time."""


@dataclass(frozen=True, eq=False)
class Aim:
    """The people who are looked for, and everyone else."""

    people: Likelihoods
    anyone: Population

    def scores(self, cells: ShownCells, people: Likelihoods | None = None) -> Scores:
        """Return log p(row | person) - log p(row | anyone), (rows, people)."""
        found = (people or self.people)(cells)
        found -= (np.round(self.anyone.common(cells) / STEP) * STEP).astype(np.float32)[:, None]
        return found


@dataclass
class RowRanks:
    """The numbers of rows that score above a person's own, as much and fit at all, and the rows' evidence about
    attributes.

    Adds up over partitions: `top` is the largest score so far, by which all weights are divided.
    """

    above: np.ndarray
    ties: np.ndarray
    fits: np.ndarray
    top: Floats
    beliefs: list[Floats] = field(default_factory=list)
    """The weights of each attribute's values, (people, values)."""

    @classmethod
    def nothing(cls, people: int, sizes: Sequence[int]) -> RowRanks:
        above, ties, fits = np.zeros((3, people), np.int64)
        return cls(above, ties, fits, np.full(people, -1e30), [np.zeros((people, n)) for n in sizes])

    def __add__(self, other: RowRanks) -> RowRanks:
        top = np.maximum(self.top, other.top)
        one, two = np.exp(self.top - top)[:, None], np.exp(other.top - top)[:, None]
        beliefs = [a * one + b * two for a, b in zip(self.beliefs, other.beliefs, strict=True)]
        counts = self.above + other.above, self.ties + other.ties, self.fits + other.fits
        return RowRanks(*counts, top, beliefs)

    def add(self, who: slice | np.ndarray, scores: Scores, own: Scores, values: Sequence[Scores]) -> None:
        """Count rows for some of the people; `values` are the chances of each row's values."""
        self.fits[who] += len(scores)
        for counts, hits in ((self.above, scores > own), (self.ties, scores == own)):
            counts[who] += np.add.reduce(hits.view(np.uint8), axis=0, dtype=np.uint32)
        if not values:
            return
        top = np.maximum(self.top[who], scores.max(axis=0))
        weights, less = np.exp(scores - top.astype(np.float32)).T, np.exp(self.top[who] - top)[:, None]
        self.top[who] = top
        for belief, chances in zip(self.beliefs, values, strict=True):
            belief[who] = belief[who] * less + weights @ chances


@dataclass(frozen=True, eq=False)
class Search:
    """Run the pass, as a task."""

    reader: Reader
    cells: CellReader
    aim: Aim
    names: Sequence[str]
    own: Scores
    """The score of each person's own row."""
    fitting: np.ndarray | None
    """The kept columns of each person's row, as a number; None if none are known."""
    read: Sequence[AttackedAttribute | Channel]
    """The attributes that are guessed, perturbed and kept ones."""

    def __call__(self, batch: Batch) -> RowRanks:
        records = self.reader.published(batch)
        found = RowRanks.nothing(len(self.own), [a.domain.size for a in self.read])
        for rows, who in self._pairs(records):
            people = self.aim.people if isinstance(who, slice) else self.aim.people.of_some(who)
            own = self.own[who]
            many = max(1, PAIRS_AT_ONCE // len(own))
            for start in range(0, len(rows), many):
                part = records.part(rows[start : start + many])
                cells = self.cells([part.codes[n] for n in self.names], part.recipes)
                found.add(who, self.aim.scores(cells, people), own, [_values(a, part) for a in self.read])
        return found

    def _pairs(self, records: Records) -> Iterator[tuple[np.ndarray, slice | np.ndarray]]:
        """Yield rows, with the people whose known kept columns they fit."""
        if self.fitting is None or records.fitting is None:
            yield np.arange(records.count), slice(None)
            return
        order = np.argsort(records.fitting, kind="stable")
        known, which = np.unique(self.fitting, return_inverse=True)
        ends = [np.searchsorted(records.fitting[order], known, side) for side in ("left", "right")]
        for place, (start, stop) in enumerate(zip(*ends, strict=True)):
            if stop > start:
                yield order[start:stop], np.flatnonzero(which == place)


def _values(axis: AttackedAttribute | Channel, records: Records) -> Scores:
    """Return p(value | what a row shows of an attribute), (rows, values)."""
    codes = records.codes[axis.name]
    if isinstance(axis, Channel):
        return np.eye(axis.domain.size, dtype=np.float32)[codes]
    chances = axis.exposures.mixed(codes, records.lam) * axis.prior
    return (chances / chances.sum(axis=1, keepdims=True)).astype(np.float32)
