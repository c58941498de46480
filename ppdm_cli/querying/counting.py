"""One pass over a release: how many records published each combination of codes, for each group of kept values.

Where kept numbers take part, the sums of their products too. Records are counted by stratum; those that
withhold a column which a table touches do not count in it, but in its groups' sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np

from ppdm_cli import dtypes
from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.channels import Channel
from ppdm_cli.domain import unit
from ppdm_cli.engine import Batch
from ppdm_cli.estimating import columns_of, joint_codes
from ppdm_cli.querying.asked import Predicate
from ppdm_cli.querying.conditions import nulls, over_column
from ppdm_cli.querying.scope import OUTCOMES, Factors
from ppdm_cli.releases import Strata, Stratum, encoded


@dataclass(frozen=True, eq=False)
class Reading:
    """What is counted for one table."""

    axes: tuple[Channel, ...]
    places: tuple[int, ...]
    """Which of the axes that are read they are."""
    strata: tuple[Stratum, ...]
    """Those that reveal all columns of the table."""
    which: np.ndarray
    """By recipe the place of its stratum among them; -1 where it withholds one of the columns."""
    atoms: tuple[Predicate, ...]
    factors: tuple[Factors, ...]

    @property
    def outputs(self) -> list[int]:
        """Return how many combinations each stratum publishes."""
        return [prod(s.shape) for s in self.strata]

    def cells(self, groups: int) -> int:
        return groups * OUTCOMES ** len(self.atoms) * sum(self.outputs) * len(self.factors)

    def rows(self, recipes: np.ndarray, stratum: int) -> slice | np.ndarray:
        """Return the records of a stratum, of records of these recipes."""
        return slice(None) if not self.which.any() else np.flatnonzero(self.which[recipes] == stratum)


@dataclass(frozen=True, eq=False)
class Counted:
    """What was counted for a table: for each stratum by factors, group of kept values, outcomes and codes."""

    cells: list[Floats]
    lam: Floats
    """The sum of lam over each stratum's records."""

    def __add__(self, other: Counted) -> Counted:
        cells = [a + b for a, b in zip(self.cells, other.cells, strict=True)]
        return Counted(cells, self.lam + other.lam)


@dataclass(frozen=True, eq=False)
class Tally:
    """The task: count for each table, and the records of each group of kept values."""

    strata: Strata
    """Of all axes that are read."""
    by: tuple[Channel, ...]
    """The kept columns that answers are grouped by."""
    readings: tuple[Reading, ...]

    @property
    def columns(self) -> list[str]:
        kept = [
            n for r in self.readings for n in (*(a.column for a in r.atoms), *(n for f in r.factors for n in f))
        ]
        return list(dict.fromkeys([*kept, *self.strata.columns, *columns_of(self.by)]))

    @property
    def groups(self) -> int:
        return prod(c.domain.size for c in self.by)

    def __call__(self, batch: Batch | None) -> tuple[np.ndarray, list[Counted]]:
        if batch is None:  # of no records
            return np.zeros(self.groups), [self._none(r) for r in self.readings]
        group: Codes | None = None
        if self.by:
            group = joint_codes([encoded(batch, c) for c in self.by], [c.domain.size for c in self.by])
        sizes = np.full(1, float(batch.rows)) if group is None else np.bincount(group, minlength=self.groups)
        read = self.strata.read(batch)
        return sizes, [self._counted(r, *read, group, batch) for r in self.readings]

    def _none(self, reading: Reading) -> Counted:
        outcomes, factors = OUTCOMES ** len(reading.atoms), len(reading.factors)
        cells = [np.zeros((factors, self.groups, outcomes, size)) for size in reading.outputs]
        return Counted(cells, np.zeros(len(cells)))

    def _counted(
        self, reading: Reading, recipes: np.ndarray, codes: Sequence[Codes], group: Codes | None, batch: Batch
    ) -> Counted:
        lead = [] if group is None else [group]
        lead += [over_column(a, batch.column(a.column)) for a in reading.atoms]
        sizes = [self.groups] * (group is not None) + [OUTCOMES] * len(reading.atoms)
        weights, found = [_product(f, batch) for f in reading.factors], self._none(reading)
        for number, stratum in enumerate(reading.strata):
            rows = reading.rows(recipes, number)
            of_rows = recipes[rows]
            own = [*(c[rows] for c in lead), *stratum.codes([codes[p] for p in reading.places], rows)]
            joint = joint_codes(own, [*sizes, *stratum.shape]) if own else np.zeros(len(of_rows), np.uint8)
            for cells, weight in zip(found.cells[number], weights, strict=True):
                cells += np.bincount(joint, None if weight is None else weight[rows], cells.size).reshape(
                    cells.shape
                )
            found.lam[number] = self.strata.lam[of_rows].sum() if stratum.noisy else len(of_rows)
        return found


def merged(
    a: tuple[np.ndarray, list[Counted]], b: tuple[np.ndarray, list[Counted]]
) -> tuple[np.ndarray, list[Counted]]:
    return a[0] + b[0], [x + y for x, y in zip(a[1], b[1], strict=True)]


def _product(factors: Factors, batch: Batch) -> Floats | None:
    """Return the product of some kept columns' numbers in each record, 0 where one is null; None of none."""
    if not factors:
        return None
    numbers = []
    for name in factors:
        column = dtypes.plain(batch.column(name))
        values = dtypes.carrier(column).astype(np.float64) * unit(column.type)
        numbers.append(np.where(nulls(column), 0.0, values))
    return reduce(np.multiply, numbers)
