"""Moments for answers: sums over the original records, from one pass, with all their covariances.

A pass counts, stratum by stratum, how many records published each combination of codes for each group of kept
values, and where kept numbers take part the sums of their products; records that withhold a column which a
table touches do not count in it, but in its groups' sizes. A sum T = sum of m h(x), m a product of kept numbers
and h a table over what was perturbed, is estimated by sum of m g(y), g = A^T h (docs/technical/method.md,
"Answers").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod

import numpy as np

from ppdm_cli import dtypes
from ppdm_cli.arrays import Codes, Floats, joined
from ppdm_cli.channels import Channel, likeliest
from ppdm_cli.domain import unit
from ppdm_cli.engine import Batch
from ppdm_cli.estimating import MOST_WEIGHED, StratumLaw, columns_of
from ppdm_cli.querying.question import Predicate
from ppdm_cli.querying.scope import OUTCOMES, Factors, Scope, nulls, over_column
from ppdm_cli.releases import Strata, Stratum, encoded


@dataclass(frozen=True, eq=False)
class Reading:
    axes: tuple[Channel, ...]
    places: tuple[int, ...]
    """The places of the axes among those that are read."""
    strata: tuple[Stratum, ...]
    """The strata that reveal all columns of the table."""
    which: np.ndarray
    """The place of each recipe's stratum among them; -1 if it withholds one of the columns."""
    atoms: tuple[Predicate, ...]
    factors: tuple[Factors, ...]

    @property
    def outputs(self) -> list[int]:
        return [prod(s.shape) for s in self.strata]

    def cells(self, groups: int) -> int:
        return groups * OUTCOMES ** len(self.atoms) * sum(self.outputs) * len(self.factors)

    def rows(self, recipes: np.ndarray, stratum: int) -> slice | np.ndarray:
        """Return the records of a stratum, of records of these recipes."""
        return slice(None) if not self.which.any() else np.flatnonzero(self.which[recipes] == stratum)


@dataclass(frozen=True, eq=False)
class TableCounts:
    """The counts of a table: for each stratum by factors, group of kept values, outcomes and codes."""

    cells: list[Floats]
    lam: Floats
    """The sum of lam over each stratum's records."""

    def __add__(self, other: TableCounts) -> TableCounts:
        cells = [a + b for a, b in zip(self.cells, other.cells, strict=True)]
        return TableCounts(cells, self.lam + other.lam)


@dataclass(frozen=True, eq=False)
class CountTask:
    """The task: count for each table, and the records of each group of kept values."""

    strata: Strata
    """The strata of all axes that are read."""
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

    def __call__(self, batch: Batch | None) -> tuple[np.ndarray, list[TableCounts]]:
        if batch is None:  # of no records
            return np.zeros(self.groups), [self._none(r) for r in self.readings]
        group: Codes | None = None
        if self.by:
            group = joined([encoded(batch, c) for c in self.by], [c.domain.size for c in self.by])
        sizes = np.full(1, float(batch.rows)) if group is None else np.bincount(group, minlength=self.groups)
        read = self.strata.read(batch)
        return sizes, [self._counted(r, *read, group, batch) for r in self.readings]

    def _none(self, reading: Reading) -> TableCounts:
        outcomes, factors = OUTCOMES ** len(reading.atoms), len(reading.factors)
        cells = [np.zeros((factors, self.groups, outcomes, size)) for size in reading.outputs]
        return TableCounts(cells, np.zeros(len(cells)))

    def _counted(
        self, reading: Reading, recipes: np.ndarray, codes: Sequence[Codes], group: Codes | None, batch: Batch
    ) -> TableCounts:
        lead = [] if group is None else [group]
        lead += [over_column(a, batch.column(a.column)) for a in reading.atoms]
        sizes = [self.groups] * (group is not None) + [OUTCOMES] * len(reading.atoms)
        weights, found = [_product(f, batch) for f in reading.factors], self._none(reading)
        for number, stratum in enumerate(reading.strata):
            rows = reading.rows(recipes, number)
            of_rows = recipes[rows]
            own = [*(c[rows] for c in lead), *stratum.codes([codes[p] for p in reading.places], rows)]
            joint = joined(own, [*sizes, *stratum.shape]) if own else np.zeros(len(of_rows), np.uint8)
            for cells, weight in zip(found.cells[number], weights, strict=True):
                cells += np.bincount(joint, None if weight is None else weight[rows], cells.size).reshape(
                    cells.shape
                )
            found.lam[number] = self.strata.lam[of_rows].sum() if stratum.noisy else len(of_rows)
        return found


def merged_counts(
    a: tuple[np.ndarray, list[TableCounts]], b: tuple[np.ndarray, list[TableCounts]]
) -> tuple[np.ndarray, list[TableCounts]]:
    return a[0] + b[0], [x + y for x, y in zip(a[1], b[1], strict=True)]


def _product(factors: Factors, batch: Batch) -> Floats | None:
    """Return the product of kept columns' numbers by record, 0 if one is null; None without columns."""
    if not factors:
        return None
    numbers = []
    for name in factors:
        column = dtypes.plain(batch.column(name))
        values = dtypes.carrier(column).astype(np.float64) * unit(column.type)
        numbers.append(np.where(nulls(column), 0.0, values))
    return reduce(np.multiply, numbers)


LEAST_SHARE = 0.01
"""The even part of the shares by which strata are weighted, so that no share is zero."""
ROUNDING = 1e-10
"""The share of a sum's covariance that may be rounding alone."""


@dataclass(frozen=True, eq=False)
class SumMoments:
    """The estimated sums of each group of kept values (first axis), and their covariances."""

    sums: Floats
    sampling: Floats
    """Their covariance inside each group, if its records are a sample of a population's."""
    clean: Floats
    """The same covariance for originals; it is unknown for these records' sums."""
    records: Floats
    """The number of records of each group of kept values."""
    steps: Floats
    """The number of changed records that the error of each is made of; infinite without an error."""
    groups: int
    """The number of groups over the tables, each with all sums."""

    @cached_property
    def n(self) -> float:
        return float(self.records.sum())

    def within(self, group: int, some: slice, population: bool) -> Floats:
        """Return the covariance of some sums of one group of kept values."""
        found = self.sampling[group, some, some]
        if not population:
            left = found - self.clean[group, some, some]
            mean = self.sums[group, some] ** 2 / max(self.records[group], 1.0)
            scale = np.sqrt(np.maximum(np.diagonal(found), 0.0) + mean)
            left[np.abs(left) <= ROUNDING * np.outer(scale, scale)] = 0.0
            return np.asarray(left)
        return np.asarray(found + self._between(group, some))

    def clean_within(self, group: int, some: slice) -> Floats:
        """Return the covariance that the originals of a sample would have."""
        return np.asarray(self.clean[group, some, some] + self._between(group, some))

    def _between(self, group: int, some: slice) -> Floats:
        """Return the contribution of the number of the group's records, if they are a sample too."""
        records, sums = self.records[group], self.sums[group, some]
        return np.outer(sums, sums) * (1 / records - 1 / self.n if records else 0.0)


def moments(
    scope: Scope, groups: Sequence[np.ndarray], reading: Reading, counted: TableCounts, records: Floats
) -> SumMoments:
    """Return the moments of the scope's sums in each of the groups over its tables, group by group."""
    cells = (scope.patterns, prod(scope.sizes))
    masks = [np.broadcast_to(g, scope.shape).reshape(cells) for g in groups]
    tables = np.stack([np.where(mask, table, 0.0) for mask in masks for _, table in scope.sums])
    factors = [f for _ in masks for f, _ in scope.sums]
    laws = _laws(reading, counted)
    scores = [law.scores(tables) for law in laws]
    shares, best = _together(laws, [c[reading.factors.index(())] for c in counted.cells])
    together = [tables @ G.T for G in best]
    certainty = np.array([1 / law.variance for law in laws]) if len(laws) > 1 else np.ones(1)
    J = len(tables)
    found = SumMoments(
        *(np.zeros((len(records), J)), np.zeros((len(records), J, J)), np.zeros((len(records), J, J))),
        records,
        np.zeros((len(records), J)),
        len(groups),
    )
    places = {f: i for i, f in enumerate(reading.factors)}
    unit = reading.factors.index(())
    for group, n in enumerate(records):
        own = [c[:, group] for c in counted.cells]
        in_unit = np.array([y[unit].sum() for y in own])
        if not in_unit.any():
            found.sums[group] = np.nan if n else 0.0
            continue
        even = weights = certainty * n / (certainty @ in_unit)  # of a record of each stratum, for all n
        own_scores, fourth = scores, np.zeros(J)
        if together and in_unit.all():
            own_scores, weights = together, shares * n / in_unit
        for law, y, g, weight, rest, number in zip(laws, own, own_scores, weights, even, in_unit, strict=True):
            one = np.array([(y[places[f]] * g[j]).sum() for j, f in enumerate(factors)]) * weight
            found.sums[group] += one
            second = _second(factors, places, y, g) * weight**2
            found.sampling[group] += second - np.outer(one, one) / max(number, 1.0)
            found.clean[group] += _second(factors, places, law.solve(y), tables) * rest
            fourth += [weight**4 * (y[unit] * g[j] ** 4).sum() for j in range(J)]
        total = found.sums[group]
        seconds = np.diagonal(found.sampling[group]) + total**2 / in_unit.sum()
        found.clean[group] -= np.outer(total, total) / n
        with np.errstate(divide="ignore", invalid="ignore"):
            found.steps[group] = np.where(fourth > 0, seconds**2 / fourth, np.inf)
    return found


def _laws(reading: Reading, counted: TableCounts) -> list[StratumLaw]:
    unit, found = reading.factors.index(()), []
    for stratum, lam, cells in zip(reading.strata, counted.lam, counted.cells, strict=True):
        sizes = tuple(e.inputs for e in stratum.exposures)
        mean = float(lam / max(cells[unit].sum(), 1.0)) or 1.0
        found.append(StratumLaw.weighed(sizes, stratum, mean, cells[unit]))
    return found


def _together(laws: Sequence[StratumLaw], cells: Sequence[Floats]) -> tuple[Floats, list[Floats]]:
    """Return the shares of several strata, and by stratum G with scores G h of least variance together.

    With M_k the law of a stratum, of the share s_k, D_k = diag(M_k X) and J = sum s_k M_k' D_k^-1 M_k they are
    G_k = D_k^-1 M_k J^-1, as the sum of s_k M_k' G_k is I: strata that blur tell of ranges, others of values.
    """
    inputs, seen = (
        laws[0].inputs,
        [c.reshape(-1, k.outputs).sum(axis=0) for k, c in zip(laws, cells, strict=True)],
    )
    known = len(laws) > 1 and any(y.any() for y in seen)
    if not known or inputs * sum(k.outputs for k in laws) > MOST_WEIGHED:
        return np.ones(1), []
    shares = np.array([y.sum() for y in seen]) / sum(y.sum() for y in seen)
    each = [k.dense() for k in laws]
    x = likeliest(np.concatenate([M * s for M, s in zip(each, shares, strict=True)]), np.concatenate(seen))
    x = (1 - LEAST_SHARE) * x + LEAST_SHARE / inputs
    weighed = [M / (M @ x)[:, None] for M in each]
    J = sum(s * (M.T @ W) for s, M, W in zip(shares, each, weighed, strict=True))
    try:
        solved = np.linalg.inv(J)
    except np.linalg.LinAlgError:  # together they do not tell all values apart
        return np.ones(1), []
    return shares, [W @ solved for W in weighed]


def _second(factors: Sequence[Factors], places: dict[Factors, int], y: Floats, g: Floats) -> Floats:
    """Return the sums of the products of each two, over counted cells."""
    flat, found = g.reshape(len(g), -1), np.zeros((len(g), len(g)))
    alike: dict[Factors, list[int]] = {}
    for place, own in enumerate(factors):
        alike.setdefault(own, []).append(place)
    for one, some in alike.items():
        for two, others in alike.items():
            weights = y[places[tuple(sorted(one + two))]].ravel()
            found[np.ix_(some, others)] = (flat[some] * weights) @ flat[others].T
    return found
