"""The attack by the order of the rows: neighbours are alike in a file that was sorted by a private column.

The published codes of blocks of rows are compared with those of the whole file; where they differ more
than chance allows, the adversary takes each block's own estimated distribution as the prior of its rows.
With the original also the measure that `perturb` has: how alike true neighbours are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np

from ppdm_cli.arrays import Codes, Floats, chi_square_tail
from ppdm_cli.attacks.adversary import Adversary, AttackedAttribute, Guess, Records
from ppdm_cli.attacks.posterior import best_guesses
from ppdm_cli.attacks.report import Attacked, OrderFigures
from ppdm_cli.attacks.run import Attack, SumsByAttribute
from ppdm_cli.engine import Batch, fold
from ppdm_cli.estimating import maximum_likelihood
from ppdm_cli.perturbing import RowBlocks, revealed_columns

BLOCK_ROWS = 1000
FALSE_ALARM = 1e-6
"""The probability that an uninformative order is reported, over all attributes together."""
LEAST_EXPECTED = 10.0
"""The least expected number of records of a code in a block; rarer codes are counted together."""
MOST_GUESSED = 1 << 10
"""The most codes of an attribute that is guessed by blocks; with more, a block would show too little."""


def blocks(rows: int) -> Iterator[slice]:
    """Return runs of about `BLOCK_ROWS` rows."""
    parts = max(1, rows // BLOCK_ROWS)
    edges = [rows * i // parts for i in range(parts + 1)]
    return (slice(a, b) for a, b in pairwise(edges))


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The likeness of neighbouring rows by attribute; merged in the order of the rows."""

    samples: dict[str, RowBlocks]

    def __add__(self, after: Neighbours) -> Neighbours:
        for name, sample in self.samples.items():
            sample.merge(after.samples[name])
        return self


class Order(Attack):
    """The test of every perturbed attribute, and the guesses where it finds something."""

    name = "order"
    about = "The order of the rows."
    needs_every_attribute = True
    needs_every_record = True

    def __init__(self, adversary: Adversary) -> None:
        self._targets = adversary.targets
        self._columns = {n: _columns(c) for n, c in adversary.counts.items()}
        self._reader, self._known = adversary.reader(), adversary.known
        self.closed = [*adversary.targets]
        self.p: dict[str, float] = {}
        """The p-value of the blocks' counts, by attribute."""

    @classmethod
    def learn(cls, adversary: Adversary) -> Self:
        """Compare blocks of rows with the whole file, in one pass."""
        found = cls(adversary)
        counted = fold(
            adversary.released, found._drifting, SumsByAttribute.__add__, doing="comparing blocks of rows"
        )
        assert counted is not None
        found.p = {n: drift_p(sums) for n, sums in counted.sums.items()}
        return found

    def _drifting(self, batch: Batch) -> SumsByAttribute:
        """Return the statistic, degrees of freedom and variance of the blocks' counts."""
        codes = self._reader.published(batch).codes
        return SumsByAttribute({n: drift(*self._columns[n], codes[n]) for n in self._targets})

    @property
    def revealed(self) -> list[str]:
        """Return the attributes that the published order reveals."""
        return [n for n, p in self.p.items() if p < FALSE_ALARM / len(self.p)]

    def counted(self, records: Records) -> Neighbours:
        known = records.codes if records.truths is None else {n: t.codes for n, t in records.truths.items()}
        first, n = records.first_row, records.count
        return Neighbours({a: RowBlocks.of(first, n, {a: known[a]}) for a in self._targets})

    def conclude(self, counted: object, done: Attacked) -> None:
        assert isinstance(counted, Neighbours)
        revealed = self.revealed
        for name, sample in counted.samples.items():
            neighbours = bool(revealed_columns(sample, [name])) if self._known else None
            done.order.append(OrderFigures(name, self.p[name], name in revealed, neighbours))

    def guesses(self, records: Records) -> dict[str, Guess]:
        guessed = [n for n in self.revealed if self._targets[n].matrix.outputs <= MOST_GUESSED]
        return {n: self._guessed(self._targets[n], records.codes[n]) for n in guessed}

    def _guessed(self, target: AttackedAttribute, codes: Codes) -> Guess:
        parts = []
        for part in blocks(len(codes)):
            own = codes[part]
            counts = np.bincount(own, minlength=target.matrix.outputs).astype(np.float64)
            local = maximum_likelihood(counts, [target.matrix]) / max(len(own), 1)
            parts.append(best_guesses(target, local).guesses(own)._replace(belief=None))
        return Guess.joined(parts)


def drift(column: np.ndarray, shares: Floats, codes: Codes) -> Floats:
    """Return statistic, degrees of freedom and variance of the blocks' counts against the file's shares."""
    k, total = len(shares), np.zeros(3)
    if k < 2:
        return total
    for part in blocks(len(codes)):
        rows = part.stop - part.start
        if rows < BLOCK_ROWS // 2:
            continue
        counts = np.bincount(column[codes[part]], minlength=k)
        wanted = rows * shares
        excess = (float((1 / shares).sum()) - k**2 - 2 * k + 2) / rows
        total += float(((counts - wanted) ** 2 / wanted).sum()), k - 1, 2 * (k - 1) + excess
    return total


def drift_p(sums: Floats) -> float:
    """Return the p-value of such statistics, added up."""
    statistic, freedom, variance = map(float, sums)
    scale = variance / (2 * freedom) if freedom else 1.0
    return chi_square_tail(statistic / scale, freedom / scale) if freedom else 1.0


def _columns(counts: Floats) -> tuple[np.ndarray, Floats]:
    """Return the column of each published code, rare ones together in the last, and the columns' shares."""
    shares = counts / max(counts.sum(), 1.0)
    common = shares * BLOCK_ROWS / 2 >= LEAST_EXPECTED
    column = np.cumsum(common) - 1
    column[~common] = common.sum()
    sums = np.bincount(column, weights=shares)
    if len(sums) > 1 and sums[-1] * BLOCK_ROWS / 2 < LEAST_EXPECTED:  # too few even together: with the first
        column[column == len(sums) - 1] = 0
        sums = np.bincount(column, weights=shares)
    return column, np.asarray(sums, np.float64)
