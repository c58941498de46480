"""Tables of counts for `estimate`, and for attacks, reports and networks: counted in one pass, and estimated.

If all records reveal the same, and none are noise, the laws act along the axes of one table, and closed forms
hold (Dowd 3.2 and 3.3). Else each table is estimated from the strata that reveal its attributes: an estimate
from these m records holds for all n, with the error of a sample, f(1-f)(1/m - 1/n). With rounds, intervals and
unbiased estimates are from the last one that reveals a table: the recipes of records in earlier ones were
chosen by them. The most likely counts also use records that reveal only some of the attributes, of all rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np

from ppdm_cli.arrays import Codes, Floats, Z, code_counts, joined
from ppdm_cli.channels import Channel
from ppdm_cli.display import Displayed
from ppdm_cli.domain import Domain
from ppdm_cli.engine import Batch, fold
from ppdm_cli.errors import UsageError, counted, listed, quoted
from ppdm_cli.estimating.estimators import (
    ESTIMATORS,
    Coverage,
    Interval,
    Matrices,
    expectation_maximisation,
    intervals,
    maximum_likelihood,
    no_intervals,
)
from ppdm_cli.estimating.laws import PooledLaw, StratumLaw, by_attribute, check_work, law_of
from ppdm_cli.releases import Grouped, Strata, axes_of, encoded, never_together
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Table

ALIKE = 1.02
"""The factor of lam within which records belong to one stratum."""
MOST_CELLS = 1 << 21
"""The most cells of all tables of several attributes; estimates take 150 bytes each."""

FETCH_AGAIN = "fetch both again: the data or the sidecar was changed"
Group = tuple[Channel, ...]


@dataclass(frozen=True, repr=False)
class EstimatedTable(Displayed):
    """The estimate of one table of counts: of an attribute, by class, or of several jointly."""

    axes: Group
    names: tuple[str, ...]
    """The attributes; some may share an axis."""
    published: np.ndarray
    """The number of records published as each value itself, without those beyond the domain."""
    estimate: np.ndarray
    interval: Interval
    records: int
    all_records: int
    """The number of records that the table is estimated from."""
    sampled: np.ndarray | None = None
    """The number of records that each count is estimated from, if records withhold attributes."""
    observed: np.ndarray | None = None
    """The counts by published code if the laws act along the axes; None if strata are pooled."""
    by: bool = False
    """True if the first attribute is the class."""
    truth: np.ndarray | None = None

    @property
    def domains(self) -> list[Domain]:
        known = {n: p for c in self.axes for n, p in c.each()}
        return [known[n] for n in self.names]

    def _words(self) -> list[str]:
        by = [f"by {quoted(self.names[0])}"] if self.by else []
        return [self.name, *by, counted(self.estimate.size, "count")]

    @property
    def name(self) -> str:
        return " x ".join(self.names[self.by :])

    @property
    def error(self) -> float | None:
        """Return the paper's E: sum |Xhat - X| / sum X."""
        if self.truth is None or not self.truth.any():
            return None
        return float(np.abs(self.estimate - self.truth).sum() / self.truth.sum())

    @property
    def too_wide(self) -> bool:
        """Return whether the intervals are wider than the counts that they are about."""
        # by their standard errors: cut to [0, n], an interval of two values could never be so wide
        known = self.interval.std_error[~np.isnan(self.interval.std_error)]
        return known.size > 0 and Z * float(known.mean()) > self.records / self.estimate.size


# -- counting


def count(
    table: Table, groups: Sequence[Group], *, original: bool = False, outside: str = FETCH_AGAIN
) -> list[Floats]:
    """Return a table of counts for each group of channels: of published codes, or of `original` values."""
    channels = {a.name: a for group in groups for a in group}
    shapes = [tuple((a.domain if original else a.published).size for a in group) for group in groups]
    check_cells(channels, shapes)
    names = [[a.name for a in group] for group in groups]
    task = partial(_count, channels, original, names, shapes, outside)
    found = fold(table, task, _added, columns=columns_of(channels.values()))
    return [np.zeros(s) for s in shapes] if found is None else [counts.astype(np.float64) for counts in found]


def check_cells(names: Iterable[str], shapes: Iterable[Sequence[int]]) -> None:
    """Refuse tables of several attributes that have too many cells together."""
    cells = sum(prod(shape) for shape in shapes if len(shape) > 1)
    if cells > MOST_CELLS:
        what = f"the values of {listed(names)} together make {cells} cells, more than {MOST_CELLS}"
        raise UsageError("too-many-cells", what, "name fewer attributes, or ones of fewer values")


def columns_of(channels: Iterable[Channel]) -> list[str]:
    """Return the columns that have these channels' codes, each once."""
    return list(dict.fromkeys(n for c in channels for n in c.attributes))


def _count(
    channels: Mapping[str, Channel],
    original: bool,
    groups: Sequence[Sequence[str]],
    shapes: Sequence[tuple[int, ...]],
    outside: str,
    batch: Batch,
) -> list[np.ndarray]:
    codes = {n: encoded(batch, c, outside, original=original) for n, c in channels.items()}
    return [tabulated([codes[n] for n in group], shape) for group, shape in zip(groups, shapes, strict=True)]


def _added(a: list[np.ndarray], b: list[np.ndarray]) -> list[np.ndarray]:
    for ours, theirs in zip(a, b, strict=True):
        ours += theirs
    return a


def tabulated(codes: Sequence[Codes], shape: Sequence[int]) -> np.ndarray:
    """Return the number of rows with each combination of codes, with an axis for each."""
    return code_counts(joined(codes, shape), prod(shape)).reshape(shape)


# -- estimating


@dataclass(frozen=True, eq=False)
class Wanted:
    """A table that is wanted: its attributes, and the strata of their axes."""

    names: tuple[str, ...]
    axes: Group
    """The axes, kept ones first."""
    places: tuple[int, ...]
    """The places of the axes among those that are read."""
    grouped: Grouped

    @classmethod
    def of(cls, strata: Strata, sidecar: Sidecar, names: Sequence[str]) -> Wanted:
        axes = tuple(sorted(axes_of(sidecar, names), key=lambda a: not a.kept))
        known = [a.name for a in strata.axes]
        places = tuple(known.index(a.name) for a in axes)
        grouped = strata.grouped(places, ALIKE, by_round=True)
        if not grouped.complete(len(axes)):
            raise never_together([n for n in names if sidecar.by_name[n].role != "kept"])
        return cls(tuple(names), axes, places, grouped)

    @property
    def kept(self) -> tuple[int, ...]:
        """Return the number of values of each kept axis."""
        return tuple(a.domain.size for a in self.axes if a.kept)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of values of each other axis."""
        return tuple(a.domain.size for a in self.axes if not a.kept)

    @property
    def along_axes(self) -> bool:
        """Return whether all records reveal the same, each axis by a law of its own."""
        return len(self.grouped.strata) == 1 and not self.grouped.strata[0].noisy


@dataclass(frozen=True, eq=False)
class CountedTable:
    wanted: Wanted
    cells: list[Floats]
    """The counts of the revealed codes, by stratum."""
    lam: Floats
    """The mean of the records' lam, by stratum."""
    withholds: bool
    """True if some records withhold a column of this table or of another."""

    @property
    def whole(self) -> tuple[PooledLaw, Floats]:
        """Return the law and the counts of the records that reveal all columns, kept ones among them."""
        grouped, sizes = self.wanted.grouped, tuple(a.domain.size for a in self.wanted.axes)
        those = grouped.complete(len(sizes))
        laws = [StratumLaw(sizes, grouped.strata[i], float(self.lam[i]) or 1.0) for i in those]
        counts = [self.cells[i].ravel() for i in those]
        return PooledLaw(laws, np.array([y.sum() for y in counts])), np.concatenate(counts)


def estimated_tables(
    table: Table, sidecar: Sidecar, asked: Sequence[Sequence[str]], estimator: str, coverage: Coverage
) -> tuple[list[EstimatedTable], int]:
    """Return the estimates of the wanted tables, in one pass, and the number of records."""
    counted, records = counted_tables(table, sidecar, asked)
    done = []
    for c in counted:
        if c.wanted.along_axes:
            done.append(_along_axes(c.wanted, c.cells[0], estimator, coverage))
            if c.withholds:  # others of the tables have fewer records
                done[-1] = replace(done[-1], sampled=_by_slice(c.wanted, c.cells[0]))
            continue
        done.append(_pooled(c.wanted, c.cells, c.lam, estimator, coverage))
    return done, records


def counted_tables(
    table: Table, sidecar: Sidecar, asked: Sequence[Sequence[str]]
) -> tuple[list[CountedTable], int]:
    """Return the published counts of the wanted tables, in one pass, and the number of records."""
    axes = {a.name: a for names in asked for a in axes_of(sidecar, names)}
    strata = Strata.of_axes(sidecar, list(axes.values()))
    wanted = [Wanted.of(strata, sidecar, names) for names in asked]
    check_cells(columns_of(axes.values()), [s.shape for w in wanted for s in w.grouped.strata])
    check_work(columns_of(axes.values()), [w.grouped.strata for w in wanted])
    found = fold(table, partial(_by_stratum, strata, wanted), _added, columns=strata.columns)
    if found is None:
        found = [np.zeros(len(strata.lam)), *(np.zeros(s.shape) for w in wanted for s in w.grouped.strata)]
    recipes, cells, done = found[0], iter(found[1:]), list[CountedTable]()
    for w in wanted:
        own = [next(cells).astype(np.float64) for _ in w.grouped.strata]
        sums, lam = (np.bincount(w.grouped.which, recipes * x, len(own)) for x in (1.0, strata.lam))
        done.append(CountedTable(w, own, lam / np.maximum(sums, 1), strata.withholds))
    return done, int(recipes.sum())


def _by_stratum(strata: Strata, wanted: Sequence[Wanted], batch: Batch) -> list[np.ndarray]:
    """Return the number of records by recipe, and by table, stratum and combination of codes."""
    recipes, codes = strata.read(batch)
    one = len(strata.lam) == 1
    found = [np.array([batch.rows]) if one else np.bincount(recipes, minlength=len(strata.lam))]
    for w in wanted:
        columns = [codes[p] for p in w.places]
        for number, stratum in enumerate(w.grouped.strata):
            rows = w.grouped.rows(recipes, number)
            own = stratum.codes(columns, rows)
            found.append(tabulated(own, stratum.shape) if own else np.array(len(recipes[rows])))
    return found


def _along_axes(w: Wanted, observed: Floats, estimator: str, coverage: Coverage) -> EstimatedTable:
    """Estimate a table from laws along its axes; slices of kept values are tables of their own."""
    matrices: Matrices = [a.law for a in w.axes]
    names = w.names
    estimate = ESTIMATORS[estimator](observed, matrices)
    likeliest = estimate if estimator == "ml" else maximum_likelihood(observed, matrices)
    laws, counts = matrices, likeliest
    if any(len(a.attributes) > 1 for a in w.axes):
        each = (np.moveaxis(likeliest, i, 0).reshape(a.domain.size, -1) for i, a in enumerate(w.axes))
        laws = [law_of(a, names, t.sum(axis=1)) for a, t in zip(w.axes, each, strict=True)]
        known = [n for a in w.axes for n in a.attributes if n in names]
        shape = [prod(p.size for n, p in a.each() if n in names) for a in w.axes]
        counts = by_attribute(likeliest, w.axes, known).reshape(shape)
    interval = intervals(observed, laws, coverage, counts)
    if any(a.noise is not None for a in w.axes):
        # where originals are heaped in their bins all intervals are wrong, not only those that show it; the
        # the most likely counts show it, whichever estimator is used
        usual = intervals(observed, matrices, Coverage(), likeliest)
        if usual.without(likeliest) or usual.without(np.maximum(estimate, 0.0)):
            interval = no_intervals(estimate.shape)
    parts = [by_attribute(part, w.axes, names, names) for part in interval.parts]
    published = observed
    for axis, channel in enumerate(w.axes):
        if channel.law is not None:
            published = channel.law.seen(published, axis)
    estimate, published = (by_attribute(t, w.axes, names) for t in (estimate, published))
    n = int(observed.sum())
    return EstimatedTable(w.axes, names, published, estimate, Interval(*parts), n, n, None, observed)


def _by_slice(w: Wanted, observed: Floats) -> Floats:
    own = observed.sum(axis=tuple(range(len(w.kept), observed.ndim)), keepdims=True)
    return by_attribute(np.broadcast_to(own, (*w.kept, *w.sizes)), w.axes, w.names)


def _pooled(
    w: Wanted, cells: Sequence[Floats], lam: Floats, estimator: str, coverage: Coverage
) -> EstimatedTable:
    """Estimate a table from the strata that reveal it, slice by slice of kept values."""
    slices, kept = prod(w.kept), len(w.kept)
    own = [c.reshape(slices, -1) for c in cells]
    records = np.sum([c.sum(axis=1) for c in own], axis=0)
    there = [i for i, s in enumerate(w.grouped.strata) if len(s.axes) > kept]
    whole = [there.index(i) for i in w.grouped.complete(len(w.axes))]
    laws = []
    for number in there:
        one = w.grouped.strata[number]
        left = tuple(a - kept for a in one.axes[kept:])
        one = replace(one, axes=left, exposures=one.exposures[kept:], first=one.first[kept:])
        laws.append(StratumLaw(w.sizes, one, float(lam[number])))
    each = (([own[i][place] for i in there], float(n)) for place, n in enumerate(records))
    coverage = replace(coverage, tables=max(int((records > 0).sum()), 1))
    done = [_slice(cells, laws, whole, n, estimator, coverage) for cells, n in each]
    published, estimate, *parts, sampled = (
        by_attribute(np.stack(of), w.axes, w.names) for of in zip(*done, strict=True)
    )
    m, n = int(sum(d[-1][0] for d in done)), int(records.sum())
    return EstimatedTable(w.axes, w.names, published, estimate, Interval(*parts), n, m, sampled)


def _slice(
    cells: Sequence[Floats],
    laws: list[StratumLaw],
    whole: Sequence[int],
    n: float,
    estimator: str,
    coverage: Coverage,
) -> list[Floats]:
    """Return published counts, estimate, interval, and the number of its records out of n, each flat."""
    law = PooledLaw([laws[i] for i in whole], np.array([cells[i].sum() for i in whole]))
    observed = np.concatenate([cells[i] for i in whole])
    m = float(observed.sum())
    likeliest = np.full(law.inputs, m / law.inputs)
    if m:
        likeliest = likeliest_counts(PooledLaw(laws, np.array([y.sum() for y in cells])), np.concatenate(cells))
        likeliest *= m / max(likeliest.sum(), 1e-300)
    estimate = likeliest if estimator == "ml" else ESTIMATORS[estimator](observed, [law])
    interval = intervals(observed, [law], coverage, likeliest, m / max(n, 1.0))
    if n and not m:
        interval = no_intervals(estimate.shape)
    published = np.sum([laws[i].seen(cells[i]) for i in whole], axis=0)
    scale = n / max(m, 1.0)
    return [published, estimate * scale, *(part * scale for part in interval.parts), np.full(law.inputs, m)]


def likeliest_counts(law: PooledLaw, observed: Floats, least: float = 0.0) -> Floats:
    """Return the most likely counts; of several attributes from those of each, as if they were independent.

    Records that reveal one attribute alone only inform about that. The rest of the most likely table comes from
    those that reveal several. EM ends when a step adds fewer than `least` nats.
    """
    sizes, start = law.strata[0].sizes, np.full(1, float(observed.sum()))
    if len(sizes) == 1:
        return expectation_maximisation(observed, [law], None, least)
    for axis in range(len(sizes)):
        single, counts = law.alone(axis, observed)
        own = np.maximum(expectation_maximisation(counts, [single], None, least), 1e-9)
        start = np.multiply.outer(start, own / own.sum())
    return expectation_maximisation(observed, [law], start.ravel(), least)
