"""What the order of the rows gives back: neighbours are alike in a file that was sorted by a private column.

The published codes of blocks of rows are compared with those of the whole file; where they differ more
than chance allows, the adversary takes each block's own estimated distribution as the prior of its rows.
With the original also the measure that `perturb` has: how alike true neighbours are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from ppdm_cli.arrays import Codes, Floats, chi_square_tail
from ppdm_cli.attacks.attacked_attribute import Guess, Rows, Target
from ppdm_cli.attacks.posterior import answers
from ppdm_cli.estimating import maximum_likelihood
from ppdm_cli.perturbing import RowBlocks, telling

BLOCK_ROWS = 1000
FALSE_ALARM = 1e-6
"""The probability that an uninformative order is reported, over all attributes together."""
LEAST_EXPECTED = 10.0
"""The least expected number of records of a code in a block; rarer codes are counted together."""
MOST_GUESSED = 1 << 10
"""The most codes of an attribute that is guessed by blocks; of more, a block would know too little."""


def blocks(rows: int) -> Iterator[slice]:
    """Return runs of about `BLOCK_ROWS` rows."""
    parts = max(1, rows // BLOCK_ROWS)
    edges = [rows * i // parts for i in range(parts + 1)]
    return (slice(a, b) for a, b in pairwise(edges))


class State:
    """The counts of one attribute by block, merged in the order of the rows."""

    def __init__(self, drift: Floats, neighbours: RowBlocks) -> None:
        self.drift, self.neighbours = drift, neighbours

    def __add__(self, after: State) -> State:
        self.neighbours.merge(after.neighbours)
        return State(self.drift + after.drift, self.neighbours)


class Order:
    """The test of every perturbed attribute, as a fold, and the guesses where it finds something."""

    name = "order"

    def __init__(self, targets: list[Target], counts: Mapping[str, Floats]) -> None:
        self._targets = {t.name: t for t in targets}
        self._columns = {t.name: _columns(counts[t.name]) for t in targets}
        self.telling: set[str] = set()

    def counted(self, rows: Rows) -> dict[str, State]:
        found = {}
        for name in self._targets:
            known = rows.codes[name] if rows.truths is None else rows.truths[name].codes
            neighbours = RowBlocks.of(rows.first_row, len(known), {name: known})
            found[name] = State(self._drift(name, rows.codes[name]), neighbours)
        return found

    def _drift(self, name: str, codes: Codes) -> Floats:
        """Return statistic, degrees of freedom and variance of the blocks' counts against the file's shares."""
        column, shares = self._columns[name]
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

    def rows(self, states: Mapping[str, State], known: bool) -> list[dict[str, Any]]:
        """Return for each attribute whether the order reveals it; with the original, whether neighbours do."""
        found = []
        for name, state in states.items():
            statistic, freedom, variance = map(float, state.drift)
            p = 1.0
            if freedom:
                scale = variance / (2 * freedom)
                p = chi_square_tail(statistic / scale, freedom / scale)
            if p < FALSE_ALARM / len(states):
                self.telling.add(name)
            row = {"attribute": name, "blocks_p": p, "published_tells": name in self.telling}
            if known:
                row["neighbours_tell"] = bool(telling(state.neighbours, [name]))
            found.append(row)
        return found

    def guesses(self, rows: Rows) -> dict[str, Guess]:
        return {n: self._guessed(self._targets[n], rows.codes[n]) for n in self.targets}

    @property
    def targets(self) -> list[str]:
        """Return the attributes that are guessed by blocks."""
        return [n for n, t in self._targets.items() if n in self.telling and t.matrix.outputs <= MOST_GUESSED]

    def _guessed(self, target: Target, codes: Codes) -> Guess:
        parts = []
        for part in blocks(len(codes)):
            own = codes[part]
            counts = np.bincount(own, minlength=target.matrix.outputs).astype(np.float64)
            local = maximum_likelihood(counts, [target.matrix]) / max(len(own), 1)
            parts.append(answers(target, local).guesses(own))
        return Guess(*(np.concatenate(c) for c in zip(*parts, strict=True)))


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
