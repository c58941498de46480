"""One pass over a release: how many records published each combination of codes, for each group of kept values.

Where kept numbers take part, the sums of their products too. Records of several recipes are counted by what
they show; those that withhold a column which a table touches do not count in it, but in its groups' sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np

from ppdm_cli import dtypes
from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.channels import Channel
from ppdm_cli.domain import unit
from ppdm_cli.engine import Batch
from ppdm_cli.estimating import Kind, Showing, columns_of, encoded, joint_codes
from ppdm_cli.querying.asked import Predicate
from ppdm_cli.querying.conditions import nulls, over_column
from ppdm_cli.querying.scope import OUTCOMES, Factors


@dataclass(frozen=True, eq=False)
class Shown:
    """The kinds of records that show all columns of a table, where records differ in that."""

    showing: Showing
    kinds: tuple[Kind, ...]
    which: np.ndarray
    """By recipe the place of its kind among `kinds`; -1 where it withholds one of the columns."""


@dataclass(frozen=True, eq=False)
class Reading:
    """What is counted for one table."""

    axes: tuple[Channel, ...]
    atoms: tuple[Predicate, ...]
    factors: tuple[Factors, ...]
    shown: Shown | None = None

    @property
    def outputs(self) -> list[int]:
        """Return how many combinations each kind publishes."""
        if self.shown is not None:
            return [prod(k.shape) for k in self.shown.kinds]
        return [prod(a.published.size for a in self.axes)]

    def cells(self, strata: int) -> int:
        return strata * OUTCOMES ** len(self.atoms) * sum(self.outputs) * len(self.factors)

    @property
    def columns(self) -> list[str]:
        kept = [a.column for a in self.atoms] + [n for f in self.factors for n in f]
        return [*kept, *(self.shown.showing.columns if self.shown is not None else columns_of(self.axes))]


@dataclass(frozen=True, eq=False)
class Counted:
    """What was counted for a table: for each kind by factors, group of kept values, outcomes and codes."""

    cells: list[Floats]
    lam: Floats
    """The sum over each kind's records of the chance that their coin tells."""

    def __add__(self, other: Counted) -> Counted:
        cells = [a + b for a, b in zip(self.cells, other.cells, strict=True)]
        return Counted(cells, self.lam + other.lam)


@dataclass(frozen=True, eq=False)
class Tally:
    """The task: count for each table, and the records of each group of kept values."""

    strata: tuple[Channel, ...]
    readings: tuple[Reading, ...]

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys([*columns_of(self.strata), *(n for r in self.readings for n in r.columns)]))

    @property
    def groups(self) -> int:
        return prod(c.domain.size for c in self.strata)

    def __call__(self, batch: Batch | None) -> tuple[np.ndarray, list[Counted]]:
        if batch is None:  # of no records
            found = [_counted(r, self.groups, {}, None, None) for r in self.readings]
            return np.zeros(self.groups), found
        names = {c.name: c for c in [*self.strata, *(a for r in self.readings if not r.shown for a in r.axes)]}
        codes = {name: encoded(batch, channel) for name, channel in names.items()}
        group: Codes | None = None
        if self.strata:
            group = joint_codes([codes[c.name] for c in self.strata], [c.domain.size for c in self.strata])
        sizes = np.full(1, float(batch.rows)) if group is None else np.bincount(group, minlength=self.groups)
        return sizes, [_counted(r, self.groups, codes, group, batch) for r in self.readings]


def merged(
    a: tuple[np.ndarray, list[Counted]], b: tuple[np.ndarray, list[Counted]]
) -> tuple[np.ndarray, list[Counted]]:
    return a[0] + b[0], [x + y for x, y in zip(a[1], b[1], strict=True)]


def _counted(
    reading: Reading, groups: int, codes: Mapping[str, Codes], group: Codes | None, batch: Batch | None
) -> Counted:
    outcomes = OUTCOMES ** len(reading.atoms)
    shapes = [(len(reading.factors), groups, outcomes, size) for size in reading.outputs]
    if batch is None:
        return Counted([np.zeros(s) for s in shapes], np.zeros(len(shapes)))
    lead = [] if group is None else [group]
    lead += [over_column(a, batch.column(a.column)) for a in reading.atoms]
    sizes = [groups] * (group is not None) + [OUTCOMES] * len(reading.atoms)
    weights = [_product(f, batch) for f in reading.factors]
    if reading.shown is None:
        own = [codes[a.name] for a in reading.axes]
        over = [*sizes, *(a.published.size for a in reading.axes)]
        cells = _tables([*lead, *own], over, weights, batch.rows).reshape(shapes[0])
        return Counted([cells], np.full(1, float(batch.rows)))
    numbers, columns = reading.shown.showing(batch)
    of_record, found = reading.shown.which[numbers], []
    for place, (kind, shape) in enumerate(zip(reading.shown.kinds, shapes, strict=True)):
        rows = np.flatnonzero(of_record == place)
        before = [c[rows] for c in lead]
        start = joint_codes(before, sizes) if before else np.zeros(len(rows), np.int64)
        joint = kind.codes([c[rows] for c in columns], start.astype(np.int64))
        own_weights = [None if w is None else w[rows] for w in weights]
        found.append(_tables([joint], [prod(shape[1:])], own_weights, len(rows)).reshape(shape))
    lam = np.bincount(of_record + 1, reading.shown.showing.recipes.lam[numbers], len(found) + 1)
    return Counted(found, np.asarray(lam[1:], np.float64))


def _tables(
    codes: Sequence[Codes], shape: Sequence[int], weights: Sequence[Floats | None], rows: int
) -> Floats:
    joint = joint_codes(codes, shape) if codes else np.zeros(rows, np.uint8)
    size = prod(shape)
    return np.stack([np.bincount(joint, w, size).astype(np.float64) for w in weights])


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
