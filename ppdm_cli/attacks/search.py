"""The pass in which every row of a release is weighed for each person who is looked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.attacks.adversary import AttackedAttribute, Reader, Records
from ppdm_cli.attacks.likelihood import STEP, CellReader, Likelihoods, Scores, ShownCells
from ppdm_cli.attacks.population import Population
from ppdm_cli.channels import Channel
from ppdm_cli.engine import Batch

PAIRS_AT_ONCE, ROWS_AT_ONCE = 1 << 20, 1 << 14
"""The most pairs of a row and a person, and the most rows, that are weighed at a time."""
FIRST = 10
"""A row is also found if it is among so many: a person with so many above is looked for no longer."""


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

    def add(self, who: np.ndarray, scores: Scores, own: Scores, values: Sequence[Scores]) -> None:
        """Count rows for some of the people; `values` are the chances of each row's values."""
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
    """The attributes that are guessed, perturbed and kept ones: their evidence is in all rows, for everyone."""
    sought: np.ndarray
    """The people who are still looked for."""

    def __call__(self, batch: Batch) -> RowRanks:
        return self.ranks(self.reader.published(batch))

    def ranks(self, records: Records) -> RowRanks:
        """Return the ranks among some rows; people who are looked for no longer have at least `FIRST` above."""
        found = RowRanks.nothing(len(self.own), [a.domain.size for a in self.read])
        found.above[~self.sought] = FIRST
        for rows, who in self._pairs(records):
            found.fits[who] += len(rows)
            left, start, people = who[self.sought[who]], 0, self.aim.people
            while len(left) and start < len(rows):
                if people.candidates > len(left):
                    people = self.aim.people.of_some(left)
                stop = start + max(1, min(PAIRS_AT_ONCE // len(left), ROWS_AT_ONCE))
                part, start = records.part(rows[start:stop]), stop
                cells = self.cells([part.codes[n] for n in self.names], part.recipes)
                values = [_values(a, part) for a in self.read]
                found.add(left, self.aim.scores(cells, people), self.own[left], values)
                left = left if self.read else left[found.above[left] < FIRST]
        return found

    def narrowed(self, records: Records) -> Search:
        """Return the search for those who are still to be found, given some of the rows."""
        return self if self.read else replace(self, sought=self.ranks(records).above < FIRST)

    def _pairs(self, records: Records) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield rows, with the people whose known kept columns they fit."""
        if self.fitting is None or records.fitting is None:
            yield np.arange(records.count), np.arange(len(self.own))
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
