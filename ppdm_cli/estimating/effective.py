"""Estimates from a release with several recipes: each table by the records that show its attributes.

How many records show them does not depend on their values, so it is taken as given (maths 11). What is
estimated of these m records holds for all n, with the error of a sample: f(1-f)(1/m - 1/n). The likeliest
counts also hear the records that show only some of the attributes.

Where there are rounds this is so of the last that shows a table, given what earlier rounds published: its
recipes were chosen by that, and records that chose them are no fair sample any more. So intervals and unbiased
estimates are from that round alone; the likelihood is that of all records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from operator import attrgetter
from typing import Any

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.engine import Batch, fold
from ppdm_cli.errors import UsageError, listed
from ppdm_cli.estimating.estimators import ESTIMATORS, expectation_maximisation
from ppdm_cli.estimating.intervals import Coverage, Interval, intervals
from ppdm_cli.estimating.mixture import Mixture, Several, check_work
from ppdm_cli.estimating.recipes import Kind, fair, never_together
from ppdm_cli.estimating.shown import Showing, axis_of
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Table

ALIKE = 1.02
"""Records whose lam differs by no more than this factor count as one kind."""
MOST_CELLS = 1 << 22
"""Cells of all tables of all kinds."""


@dataclass(frozen=True, eq=False)
class Wanted:
    """A table that is wanted: its attributes, what was kept first, and the kinds of records."""

    names: tuple[str, ...]
    places: tuple[int, ...]
    kept: int
    """How many of them were kept."""
    sizes: tuple[int, ...]
    """How many values each has."""
    kinds: list[Kind]
    which: np.ndarray
    """The kind of each recipe."""

    @classmethod
    def of(cls, showing: Showing, names: Sequence[str]) -> Wanted:
        known = [a.name for a in showing.axes]
        places = sorted((known.index(n) for n in names), key=lambda p: not showing.axes[p].kept)
        sizes = tuple(showing.recipes.attributes[p].values for p in places)
        kinds, which = showing.recipes.kinds(places, ALIKE, by_round=True)
        kept = sum(showing.axes[p].kept for p in places)
        return cls(tuple(known[p] for p in places), tuple(places), kept, sizes, kinds, which)

    @property
    def used(self) -> list[int]:
        """Return the kinds that show anything that was not kept."""
        return [i for i, k in enumerate(self.kinds) if any(a >= self.kept for a in k.axes)]

    def turned(self, table: Floats, names: Sequence[str]) -> Floats:
        """Return a table with its axes in another order."""
        return table.reshape(self.sizes).transpose([self.names.index(n) for n in names])


@dataclass(frozen=True, eq=False)
class Counted:
    """What was counted of a table: for each kind that is used, and of all records by what was kept."""

    cells: list[np.ndarray]
    lam: np.ndarray
    """The sum of lam over the records of each kind."""
    kept: np.ndarray

    def __add__(self, other: Counted) -> Counted:
        cells = [a + b for a, b in zip(self.cells, other.cells, strict=True)]
        return Counted(cells, self.lam + other.lam, self.kept + other.kept)


@dataclass(frozen=True, eq=False)
class FromSeveral:
    """An estimate: counts of all records, and how many records each is from."""

    observed: Floats
    estimate: Floats
    interval: Interval
    records: Floats
    """The records that showed all attributes, in the last round that does, by cell of what was kept."""
    all_records: int


def estimates(
    table: Table, sidecar: Sidecar, asked: Sequence[Sequence[str]], estimator: str, coverage: Coverage
) -> tuple[list[FromSeveral], int]:
    """Return the estimates of the tables asked for, in one pass, and how many records there are."""
    names = dict.fromkeys(n for group in asked for n in group)
    showing = Showing.of(sidecar, [axis_of(sidecar, n) for n in names])
    wanted = [Wanted.of(showing, group) for group in asked]
    for w in wanted:
        if not fair(w.kinds, len(w.places)):
            raise never_together(w.names[w.kept :])
    cells = sum(prod(w.kinds[i].shape) for w in wanted for i in w.used)
    if cells > MOST_CELLS:
        raise UsageError(
            f"the values of {listed(names)} together make {cells} cells, more than {MOST_CELLS}",
            "name fewer attributes, or ones of fewer values",
        )
    check_work(names, [[w.kinds[i] for i in w.used] for w in wanted])
    found = fold(table, partial(_count, showing, wanted), _added, columns=showing.columns)
    counts = found if found is not None else _count(showing, wanted, None)
    done = [_estimated(w, c, g, estimator, coverage) for w, c, g in zip(wanted, counts, asked, strict=True)]
    return done, int(counts[0].kept.sum())


def _added(a: list[Counted], b: list[Counted]) -> list[Counted]:
    return [x + y for x, y in zip(a, b, strict=True)]


def _count(shown: Showing, wanted: Sequence[Wanted], batch: Batch | None) -> list[Counted]:
    numbers: np.ndarray = np.zeros(0, np.intp)
    codes: list[Any] = [numbers] * len(shown.axes)
    found = []
    if batch is not None:
        numbers, codes = shown(batch)
    for w in wanted:
        columns, of_record = [codes[p] for p in w.places], w.which[numbers]
        cells = []
        for i in w.used:
            rows, shape = np.flatnonzero(of_record == i), w.kinds[i].shape
            joint = w.kinds[i].codes([c[rows] for c in columns], np.zeros(len(rows), np.int64))
            cells.append(np.bincount(joint, minlength=prod(shape)).reshape(shape))
        lam = np.bincount(of_record, shown.recipes.lam[numbers], len(w.kinds))[w.used]
        kept = np.zeros(len(numbers), np.int64)
        for column, size in zip(columns[: w.kept], w.sizes, strict=False):
            kept = kept * size + column
        found.append(Counted(cells, lam, np.bincount(kept, minlength=prod(w.sizes[: w.kept]))))
    return found


def _estimated(
    wanted: Wanted, counts: Counted, names: Sequence[str], estimator: str, coverage: Coverage
) -> FromSeveral:
    """Return the estimate of a table with its axes in this order, slice by slice of what was kept."""
    slices = [_slice(wanted, counts, place, estimator, coverage) for place in range(counts.kept.size)]

    def whole(part: Callable[[FromSeveral], Floats]) -> Floats:
        return wanted.turned(np.stack([np.broadcast_to(part(s), s.estimate.shape) for s in slices]), names)

    ends = [whole(attrgetter(f"interval.{end}")) for end in ("std_error", "low", "high")]
    observed, estimate, records = (whole(attrgetter(n)) for n in ("observed", "estimate", "records"))
    return FromSeveral(observed, estimate, Interval(*ends), records, sum(s.all_records for s in slices))


def _slice(wanted: Wanted, counts: Counted, place: int, estimator: str, coverage: Coverage) -> FromSeveral:
    """Return the estimate of one combination of what was kept, flat."""
    kept, sizes = wanted.kept, wanted.sizes[wanted.kept :]
    kinds = [wanted.kinds[i] for i in wanted.used]
    n = float(counts.kept[place])
    own = [c.reshape(-1, prod(c.shape[kept:]))[place] for c in counts.cells]
    lams = counts.lam / np.maximum([c.sum() for c in counts.cells], 1)
    laws = [
        Mixture(sizes, Kind(tuple(a - kept for a in k.axes[kept:]), k.ways[kept:], k.first[kept:]), float(lam))
        for k, lam in zip(kinds, lams, strict=True)
    ]
    shown = [wanted.used.index(i) for i in fair(wanted.kinds, len(wanted.places))]
    law = Several([laws[i] for i in shown], np.array([own[i].sum() for i in shown], float))
    observed = np.concatenate([own[i] for i in shown]).astype(np.float64)
    m = float(observed.sum())
    likeliest = np.full(law.inputs, m / law.inputs)
    if m:
        every = Several(laws, np.array([y.sum() for y in own], float))
        likeliest = _likeliest(every, np.concatenate(own).astype(np.float64), sizes)
        likeliest = likeliest * m / max(likeliest.sum(), 1e-300)
    estimate = likeliest if estimator == "ml" else ESTIMATORS[estimator](observed, [law])
    found = intervals(observed, [law], coverage, likeliest, m / max(n, 1.0))
    scale = n / max(m, 1.0)
    ends = (found.std_error * scale, found.low * scale, found.high * scale)
    seen = sum(laws[i].seen(own[i]) for i in shown)
    return FromSeveral(np.asarray(seen, np.float64), estimate * scale, Interval(*ends), np.array(m), int(m))


def _likeliest(law: Several, observed: Floats, sizes: tuple[int, ...]) -> Floats:
    """Return the likeliest counts; of several attributes from those of each, as if they were independent.

    Records that show one attribute alone tell no more of it than that: what the likeliest table says beyond
    comes from those that show several.
    """
    start: Floats | None = None
    if len(sizes) > 1:
        start = np.full(1, float(observed.sum()))
        for axis in range(len(sizes)):
            single, counts = law.alone(axis, observed)
            own = np.maximum(expectation_maximisation(counts, [single]), 1e-9)
            start = np.multiply.outer(start, own / own.sum())
        start = start.ravel()
    return expectation_maximisation(observed, [law], start)
