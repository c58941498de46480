"""Linear and ridge regression from moments of what was published, debiased record by record.

Each record gets a matrix M with E M = x x', where x are its numbers (docs/technical/method.md, "Answers"). The
block of a channel in M has the scores of products. Every other block has the products of the scores of two
numbers, if the record publishes both. Records that publish a block weigh more, because others don't.

A ridge raises the eigenvalues of the columns' covariance to a least value. Each column is scaled to a variance
of 1 for equal shares of its values. Directions that the release shows well are not shrunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np

from ppdm_cli import dtypes
from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.channels import Channel, left_inverse
from ppdm_cli.domain import unit
from ppdm_cli.engine import Batch, fold
from ppdm_cli.errors import RefusedError, UsageError, quoted
from ppdm_cli.estimating import check_work
from ppdm_cli.querying.functions import SURE
from ppdm_cli.querying.question import Aggregate, Column, Condition, columns_in
from ppdm_cli.querying.scope import Scope, nulls, numeric
from ppdm_cli.releases import Exposure, Grouped, Strata, never_together
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Table

ROWS = 1 << 14
"""The rows of a block, whose scores fit a cache."""
MOST, MOST_PRODUCTS = 500, 1 << 24
"""The most coefficients, and products of two numbers by code and stratum."""
SAME = 1 + 1e-9
"""The factor of lam within which recipes share their weights."""
NULLS = "use a column without nulls, or one of text, whose nulls are a value"


@dataclass(frozen=True, eq=False)
class Regressor:
    """The numbers of columns that are published through one channel, or kept."""

    name: str
    """The name of a kept column of numbers, which has no codes; empty for the constant."""
    labels: tuple[str, ...]
    spread: Floats
    """The variance of each number if all codes have equal shares; NaN for a kept column of numbers."""
    axis: Channel | None = None
    numbers: Floats | None = None
    """The numbers by original code."""


@dataclass(frozen=True, eq=False)
class Scores:
    single: Floats
    squares: Floats
    """The scores of the products of each two."""
    noise: Floats | None = None
    """The scores of noise, if a coin decides."""

    @classmethod
    def of(cls, source: Regressor, undone: Callable[[Floats], Floats], noise: Floats | None = None) -> Scores:
        """Return the unbiased scores of the source's numbers."""
        assert source.numbers is not None
        x, m = source.numbers, len(source.labels)
        products = undone(np.einsum("ci,cj->cij", x, x).reshape(len(x), -1))
        single = undone(x)
        return cls(single, products.reshape(-1, m, m), None if noise is None else noise @ single)

    @classmethod
    def exposed(cls, source: Regressor, exposure: Exposure, lam: float) -> Scores:
        noise, law = exposure.noise, exposure.alone
        if law is not None:
            return cls.of(source, law.scores)
        assert noise is not None
        if exposure.plain:
            return cls.of(source, lambda h: (h - (1 - lam) * (noise @ h)) / lam, noise)
        A = left_inverse(exposure.mixed(lam))
        return cls.of(source, lambda h: A.T @ h, noise)


@dataclass(frozen=True, eq=False)
class ScoredStratum:
    """A stratum with the scores of each source, None if its records withhold it."""

    lam: float
    round: int
    scores: list[Scores | None]
    first: list[int]
    """The first code of each source's exposure."""


@dataclass(frozen=True, eq=False)
class ScoreReader:
    """A reader of the scores of a batch's records, stratum by stratum."""

    sources: list[Regressor]
    strata: Strata
    grouped: Grouped
    scored: list[ScoredStratum]

    @property
    def columns(self) -> list[str]:
        return [*(s.name for s in self.sources if s.axis is None and s.name), *self.strata.columns]

    @property
    def places(self) -> list[slice]:
        ends = np.cumsum([0, *(len(s.labels) for s in self.sources)])
        return [slice(a, b) for a, b in pairwise(ends)]

    def __call__(self, batch: Batch) -> Iterator[tuple[int, Floats, Floats, list[Floats]]]:
        """Yield blocks of a stratum's records: its number, z, (z - k) sqrt(1-lam), and each source's Q."""
        for start in range(0, batch.rows, ROWS):
            part = replace(batch, columns=batch.columns.slice(start, ROWS))
            plain = {i: _numbers_of(s, part) for i, s in enumerate(self.sources) if s.axis is None}
            coded = [i for i, s in enumerate(self.sources) if s.axis is not None]
            recipes, codes = self.strata.read(part)
            for number, stratum in enumerate(self.scored):
                rows = self.grouped.rows(recipes, number)
                if size := len(recipes[rows]):
                    own = {i: c[rows] - stratum.first[i] for i, c in zip(coded, codes, strict=True)}
                    yield number, *self._scored(stratum, own, {i: v[rows] for i, v in plain.items()}, size)

    def _scored(
        self, stratum: ScoredStratum, codes: dict[int, Codes], plain: dict[int, Floats], rows: int
    ) -> tuple[Floats, Floats, list[Floats]]:
        size = sum(len(s.labels) for s in self.sources)
        z, t, products = np.zeros((rows, size)), np.zeros((rows, size)), []
        for i, place in enumerate(self.places):
            scores = stratum.scores[i]
            if i in plain:
                z[:, place] = plain[i]
                products.append((plain[i] ** 2)[:, :, None])
            elif scores is None:
                products.append(np.zeros((rows, place.stop - place.start, place.stop - place.start)))
            else:
                z[:, place] = scores.single[codes[i]]
                products.append(scores.squares[codes[i]])
                if scores.noise is not None:
                    t[:, place] = (z[:, place] - scores.noise) * sqrt(1 - stratum.lam)
        return z, t, products

    def weights(self, records: Floats) -> Floats:
        """Return the weight of a record in the sums of each two sources, by stratum, to make up for others."""
        shows = np.array([[s is not None for s in k.scores] for k in self.scored])
        shows |= np.array([s.axis is None for s in self.sources])
        free = [i for i, s in enumerate(self.sources) if s.axis is None or s.axis.kept]
        pairs = shows[:, :, None] & shows[:, None, :] & (records[:, None, None] > 0)
        rounds = np.array([k.round for k in self.scored])[:, None, None]
        # earlier rounds had a say in what the last one shows: given them, it is a fair sample
        last = np.where(pairs, rounds, -1).max(axis=0)
        pairs &= rounds == last
        pairs[np.ix_(range(len(self.scored)), free, free)] = True
        factors = (
            np.repeat(np.array([k.lam**2 for k in self.scored])[:, None, None], len(self.sources), 1) * pairs
        )
        factors[np.ix_(range(len(self.scored)), free, free)] = 1.0
        sums = np.tensordot(records, factors, 1)
        if not (sums > 0).all():
            one, other = (self.sources[i] for i in np.argwhere(sums <= 0)[0])
            raise never_together([*dict.fromkeys([one.name, other.name])])
        return np.asarray(factors * records.sum() / sums)


def regressed(table: Table, sidecar: Sidecar, asked: Aggregate) -> list[tuple[str, float, float]]:
    """Return the coefficients of the first argument on the others, with labels and standard errors."""
    ridge = float(asked.arguments[1]) if asked.function == "ridge" else 0.0
    target, *predictors = (a for a in asked.arguments if not isinstance(a, float))
    reader = _reader(sidecar, target, predictors)
    labels = [label for s in reader.sources for label in s.labels]
    y, rest = labels.index(""), [i for i, label in enumerate(labels) if label]
    if len(rest) >= MOST:
        what = f"the regression has more than {MOST} coefficients"
        raise UsageError("too-many-coefficients", what, "use columns with fewer values")
    columns = reader.columns or [n for a in (target, *predictors) for n in columns_in(a)]
    sums = fold(table, partial(_moments, reader), _added, columns=columns)
    if sums is None or sums[1].sum() < len(rest):
        what = "the release has fewer records than coefficients"
        raise RefusedError("fewer-records-than-coefficients", what, "use fewer columns")
    records = sums[1]
    weights, spread = reader.weights(records), np.concatenate([s.spread for s in reader.sources])
    each = np.repeat(np.arange(len(reader.sources)), [len(s.labels) for s in reader.sources])
    whole = (sums[0] * weights[:, each][:, :, each]).sum(axis=0)
    H, weakest = _solvable(whole[np.ix_(rest, rest)], spread[rest], ridge)
    solved = np.linalg.solve(H, whole[rest, y])
    factors, way = np.zeros((2, len(labels)))
    factors[rest], factors[y], way[rest] = -solved, 1.0, weakest
    parts = fold(table, partial(_errors, reader, weights, factors, way), _added, columns=columns)
    assert parts is not None
    meat, one, sizes = parts
    known = records > 0
    noise = float(sizes[known, 1].sum() - (sizes[known, 0] ** 2 / records[known]).sum())
    if not ridge and not sizes[:, 0].sum() > SURE * sqrt(max(noise, 0.0)):
        what = "the release can't distinguish the effects of these columns"
        step = "use fewer columns, or ridge(y, 1, ...) instead of linear(y, ...)"
        raise RefusedError("columns-not-told-apart", what, step)
    scaled = one[known][:, rest] / np.sqrt(records[known, None])
    bread = np.linalg.inv(H)
    covariance = bread @ (meat[np.ix_(rest, rest)] - scaled.T @ scaled) @ bread
    errors = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    found = [(labels[i], float(b), float(e)) for i, b, e in zip(rest, solved, errors, strict=True)]
    order = ["intercept", *(n for p in predictors for n in columns_in(p))]
    return sorted(
        found, key=lambda c: next(i for i, n in enumerate(order) if c[0] in (n, f"condition on {n}")
                                  or c[0].startswith(f"{n} = "))
    )  # fmt: skip


def _reader(
    sidecar: Sidecar, target: Column | Condition, predictors: Sequence[Column | Condition]
) -> ScoreReader:
    """Return a reader of all numbers, the constant first."""
    own = {n: (a, a is target) for a in (target, *predictors) for n in columns_in(a)}
    if len(own) != 1 + len(predictors):
        raise UsageError(
            "column-named-twice", "each column of a regression is named once", "try linear(income, age, sex)"
        )
    kept = [n for n, (a, _) in own.items() if isinstance(a, Column) and _plain(sidecar, n)]
    plain = [Regressor("", ("intercept",), np.ones(1))]
    plain += [Regressor(n, ("" if own[n][1] else n,), np.full(1, np.nan)) for n in kept]
    coded = [n for n in own if n not in kept]
    strata = Strata.of(sidecar, coded)
    sources = [*plain, *(_through(axis, own, sidecar) for axis in strata.axes)]
    grouped = strata.grouped(range(len(strata.axes)), SAME, by_round=True)
    check_work(coded, [grouped.strata])
    _check_products(sources, len(grouped.strata))
    scored = []
    for number, stratum in enumerate(grouped.strata):
        lam = float(strata.lam[np.argmax(grouped.which == number)])
        scores: list[Scores | None] = [None] * len(sources)
        first = [0] * len(sources)
        for axis, exposure, start in zip(stratum.axes, stratum.exposures, stratum.first, strict=True):
            place = len(plain) + axis
            scores[place], first[place] = Scores.exposed(sources[place], exposure, lam), start
        scored.append(ScoredStratum(lam, stratum.round, scores, first))
    return ScoreReader(sources, strata, grouped, scored)


def _check_products(sources: Sequence[Regressor], strata: int) -> None:
    """Refuse columns whose products, of each two of their numbers, would not fit the memory."""
    products = strata * sum(s.numbers.size * len(s.labels) for s in sources if s.numbers is not None)
    if products > MOST_PRODUCTS:
        what = f"the regression needs {products:,} products, more than {MOST_PRODUCTS:,}"
        raise UsageError("too-many-products", what, "use fewer columns, or columns of fewer values")


def _plain(sidecar: Sidecar, name: str) -> bool:
    """Return whether a column was kept and has numbers."""
    attribute = sidecar.by_name[name]
    if attribute.role != "kept" or dtypes.is_discrete(attribute.kind):
        return False
    numeric(name, attribute.kind)
    return True


def _through(axis: Channel, own: dict[str, tuple[Any, bool]], sidecar: Sidecar) -> Regressor:
    """Return the numbers of all columns of one channel."""
    places, columns, labels = dict(axis.each()), [], []
    scope = Scope({a.name: a.kind for a in sidecar.attributes}, places, [])
    for name in (n for n in places if n in own):
        asked, is_target = own[name]
        for label, values in _numbers(scope, name, asked, is_target):
            labels.append("" if is_target else label)
            columns.append(np.broadcast_to(values, scope.shape).ravel())
    x = np.stack(columns, axis=1).astype(np.float64)
    return Regressor(axis.name, tuple(labels), x.var(axis=0), axis, x)


def _numbers(scope: Scope, name: str, asked: Any, target: bool) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the numbers of a column, with labels: its own, or 1 for each value of words but the first."""
    domain = scope.axes[name]
    if not isinstance(asked, Column):
        yield f"condition on {name}", scope.truth(asked).true
    elif not dtypes.is_discrete(domain.kind):
        value = scope.value(asked)
        if not value.known.all():
            what = f"{quoted(name)} may have nulls, and a regression needs all values"
            raise UsageError("regression-of-nulls", what, NULLS)
        yield name, value.terms[()]
    elif target:
        what = f"{quoted(name)} has no numbers"
        raise UsageError("not-numeric", what, "compare it with a value, such as linear(sex = 'F', age)")
    else:
        for code, label in list(enumerate(domain.labels()))[1:]:
            yield f"{name} = {label}", scope.over(name, np.arange(domain.size) == code)


def _numbers_of(source: Regressor, batch: Batch) -> Floats:
    """Return each record's number of a kept column, or of the constant."""
    if not source.name:
        return np.ones((batch.rows, 1))
    column = dtypes.plain(batch.column(source.name))
    if nulls(column).any():
        raise UsageError(
            "regression-of-nulls", f"{quoted(source.name)} has nulls, and a regression needs all values", NULLS
        )
    return np.asarray((dtypes.carrier(column).astype(np.float64) * unit(column.type))[:, None])


def _added(a: list[Floats], b: list[Floats]) -> list[Floats]:
    return [x + y for x, y in zip(a, b, strict=True)]


def _moments(reader: ScoreReader, batch: Batch) -> list[Floats]:
    """Return the sum of the records' M by stratum, and the number of records."""
    size = reader.places[-1].stop
    total, records = np.zeros((len(reader.scored), size, size)), np.zeros(len(reader.scored))
    for number, z, t, products in reader(batch):
        own = z.T @ z - t.T @ t
        for place, q in zip(reader.places, products, strict=True):
            own[place, place] = q.sum(axis=0)
        total[number] += own
        records[number] += len(z)
    return [total, records]


def _errors(reader: ScoreReader, weights: Floats, solution: Floats, way: Floats, batch: Batch) -> list[Floats]:
    """Return the sums of u u', by stratum of u, and of way' M way and its square; u = M b, b solved."""
    size, strata = len(solution), len(reader.scored)
    meat, one, sizes = np.zeros((size, size)), np.zeros((strata, size)), np.zeros((strata, 2))
    for number, z, t, products in reader(batch):
        u, along = (_times(reader.places, weights[number], v, z, t, products) for v in (solution, way))
        along = along @ way
        meat += u.T @ u
        one[number] += u.sum(axis=0)
        sizes[number] += along.sum(), (along**2).sum()
    return [meat, one, sizes]


def _times(
    places: Sequence[slice], weights: Floats, vector: Floats, z: Floats, t: Floats, products: Sequence[Floats]
) -> Floats:
    """Return M times a vector, for each record; M's blocks with their weights."""
    along, blind = (np.stack([s[:, p] @ vector[p] for p in places], axis=1) for s in (z, t))
    found = np.empty_like(z)
    for i, (place, q) in enumerate(zip(places, products, strict=True)):
        others = weights[i] * (np.arange(len(places)) != i)
        found[:, place] = z[:, place] * (along @ others)[:, None] - t[:, place] * (blind @ others)[:, None]
        found[:, place] += weights[i, i] * (q @ vector[place])
    return found


def _solvable(H: Floats, spread: Floats, least: float) -> tuple[Floats, Floats]:
    """Return X'X with eigenvalues raised to the least allowed, and the combination that has the lowest."""
    n, mean = H[0, 0], H[0, 1:] / H[0, 0]
    covariance = H[1:, 1:] / n - np.outer(mean, mean)
    own = np.where(np.isnan(spread[1:]), np.diagonal(covariance), spread[1:])
    scale = np.sqrt(np.maximum(own, 1e-300))
    values, ways = np.linalg.eigh(covariance / np.outer(scale, scale))
    raised = (ways * np.maximum(values, least or -np.inf)) @ ways.T * np.outer(scale, scale)
    found = H.copy()
    found[1:, 1:] += n * (raised - covariance) * bool(least)
    way = ways[:, 0] / scale
    return found, np.concatenate([[-mean @ way], way])
