"""Linear and ridge regression from moments of what was published, debiased record by record.

Each record has for each channel scores z = A'x of its columns' numbers, E z = x, and Q = A'(x x'), E Q = x x'.
Channels are independent given the originals, so a record's matrix M, with Q in the block of each channel and
z z' in the others, has E M = x x': its sums are unbiased for X'X and X'y. Coefficients b solve H b = X'y, and
have the sandwich error H^-1 (sum u u') H^-1, u the record's part of X'y - H b, as ones of a population. A ridge
raises the eigenvalues of the columns' covariance, each column scaled to a variance of 1 for equal shares of its
values, to what they must be at least; what the release shows well is not shrunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np

from ppdm_cli import dtypes
from ppdm_cli.arrays import Floats
from ppdm_cli.channels import Channel
from ppdm_cli.domain import unit
from ppdm_cli.engine import Batch, fold
from ppdm_cli.errors import RefusedError, UsageError, quoted
from ppdm_cli.estimating import axes_of, columns_of, encoded
from ppdm_cli.querying.asked import Aggregate, Column, Condition, named
from ppdm_cli.querying.conditions import nulls
from ppdm_cli.querying.scope import Scope, numeric
from ppdm_cli.querying.told import SURE
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Table

ROWS = 1 << 14
"""Rows of a block, whose scores fit a cache."""
MOST = 500
"""The most coefficients."""
_NONE = np.empty(0), np.empty(0)
NULLS = "name a column without nulls, or a word column, whose nulls are a value"


@dataclass(frozen=True, eq=False)
class Source:
    """What is published through one channel, or kept: the scores of its columns by published code."""

    channel: Channel | None
    name: str
    """Of a kept column of numbers, which has no codes."""
    labels: tuple[str, ...]
    scores: Floats
    """By code and number; of a kept column of numbers none."""
    squares: Floats
    """By code, the scores of the products of each two."""
    spread: Floats
    """The variance of each number where all codes have equal shares; NaN of a kept column of numbers."""

    def blocks(self, batch: Batch) -> tuple[Floats, Floats]:
        """Return each record's scores and products."""
        if self.channel is not None:
            codes = encoded(batch, self.channel)
            return self.scores[codes], self.squares[codes]
        column = dtypes.plain(batch.column(self.name))
        if nulls(column).any():
            raise UsageError(f"{quoted(self.name)} has nulls, and a regression needs all values", NULLS)
        values = (dtypes.carrier(column).astype(np.float64) * unit(column.type))[:, None]
        return values, (values**2)[:, :, None]


@dataclass(frozen=True)
class Coefficient:
    """A coefficient, its standard error, and what it is of."""

    label: str
    value: float
    std_error: float


def regressed(table: Table, sidecar: Sidecar, asked: Aggregate) -> list[Coefficient]:
    """Return the coefficients of the first argument on the others; the intercept's first."""
    ridge = float(asked.arguments[1]) if asked.function == "ridge" else 0.0
    target, *predictors = (a for a in asked.arguments if not isinstance(a, float))
    sources, columns = _sources(sidecar, target, predictors)
    labels = [label for s in sources for label in s.labels]
    y, rest = labels.index(""), [i for i, label in enumerate(labels) if label]
    if len(rest) >= MOST:
        raise UsageError(f"the regression has more than {MOST} coefficients", "name columns of fewer values")
    moments = fold(table, partial(_moments, sources), _added, columns=columns)
    if moments is None or moments[0][0, 0] < len(rest):
        raise RefusedError("the release has fewer records than coefficients", "name fewer columns")
    whole, n = moments[0], float(moments[0][0, 0])
    H, weakest = _solvable(whole[np.ix_(rest, rest)], np.concatenate([s.spread for s in sources])[rest], ridge)
    solved = np.linalg.solve(H, whole[rest, y])
    weights, way = np.zeros((2, len(labels)))
    weights[rest], weights[y], way[rest] = -solved, 1.0, weakest
    parts = fold(table, partial(_errors, sources, weights, way), _added, columns=columns)
    assert parts is not None
    meat, one, sizes = parts
    if not ridge and not sizes[0] > SURE * sqrt(max(sizes[1] - sizes[0] ** 2 / n, 0.0)):
        raise RefusedError(
            "the columns cannot be told apart by what the release shows of them",
            "name fewer columns, or say ridge(y, 1, ...) instead of linear(y, ...)",
        )
    bread, u = np.linalg.inv(H), one[rest]
    covariance = bread @ (meat[np.ix_(rest, rest)] - np.outer(u, u) / n) @ bread
    errors = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    told = [Coefficient(labels[i], float(b), float(e)) for i, b, e in zip(rest, solved, errors, strict=True)]
    order = ["intercept", *(n for p in predictors for n in named(p))]
    return sorted(told, key=lambda c: order.index(_column_of(c.label, order)))


def _column_of(label: str, columns: Sequence[str]) -> str:
    """Return the column that a label is of."""
    return next(n for n in columns if label in (n, f"condition on {n}") or label.startswith(f"{n} = "))


def _sources(
    sidecar: Sidecar, target: Column | Condition, predictors: Sequence[Column | Condition]
) -> tuple[list[Source], list[str]]:
    """Return the sources of all numbers, a constant one's first, and the columns that are read."""
    if sidecar.withholding:
        raise RefusedError(
            "the release has several recipes: no record shows all columns of a regression",
            "ask for correlations, two columns at a time, or the owner for a release with --publish all",
        )
    own = {n: (a, a is target) for a in (target, *predictors) for n in named(a)}
    if len(own) != 1 + len(predictors):
        raise UsageError("each column of a regression is named once", "such as linear(income, age, sex)")
    numbers = [n for n, (a, _) in own.items() if isinstance(a, Column) and _plain(sidecar, n)]
    axes = axes_of(sidecar, [n for n in own if n not in numbers])
    found = [Source(None, n, ("" if own[n][1] else n,), *_NONE, np.full(1, np.nan)) for n in numbers]
    found += [_through(axis, own, sidecar) for axis in axes]
    return [_constant(), *found], [*numbers, *columns_of(axes)] or list(own)


def _plain(sidecar: Sidecar, name: str) -> bool:
    """Return whether a column was kept and has numbers."""
    attribute = sidecar.by_name[name]
    if attribute.role != "kept" or dtypes.is_discrete(attribute.kind):
        return False
    numeric(name, attribute.kind)
    return True


def _constant() -> Source:
    return Source(None, "", ("intercept",), np.ones((1, 1)), np.ones((1, 1, 1)), np.ones(1))


def _through(axis: Channel, own: dict[str, tuple[Any, bool]], sidecar: Sidecar) -> Source:
    """Return the scores of all columns of one channel."""
    places, columns, labels = dict(axis.each()), [], []
    scope = Scope({a.name: a.kind for a in sidecar.attributes}, places, [])
    for name in (n for n in places if n in own):
        asked, is_target = own[name]
        for label, values in _numbers(scope, name, asked, is_target):
            labels.append("" if is_target else label)
            columns.append(np.broadcast_to(values, scope.shape).ravel())
    x = np.stack(columns, axis=1).astype(np.float64)
    products = np.einsum("ci,cj->cij", x, x).reshape(len(x), -1)
    spread = x.var(axis=0)
    if axis.law is not None:
        x, products = axis.matrix.scores(x), axis.matrix.scores(products)
    return Source(axis, axis.name, tuple(labels), x, products.reshape(len(x), len(labels), len(labels)), spread)


def _numbers(scope: Scope, name: str, asked: Any, target: bool) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the numbers of a column, with labels: its own, or 1 for each value of words but the first."""
    domain = scope.axes[name]
    if not isinstance(asked, Column):
        yield f"condition on {name}", scope.truth(asked).true
    elif not dtypes.is_discrete(domain.kind):
        value = scope.value(asked)
        if not value.known.all():
            raise UsageError(f"{quoted(name)} may have nulls, and a regression needs all values", NULLS)
        yield name, value.terms[()]
    elif target:
        raise UsageError(f"{quoted(name)} has no numbers", "say for which value: linear(sex = 'F', age)")
    else:
        for code, label in list(enumerate(domain.labels()))[1:]:
            yield f"{name} = {label}", scope.over(name, np.arange(domain.size) == code)


def _added(a: list[Floats], b: list[Floats]) -> list[Floats]:
    return [x + y for x, y in zip(a, b, strict=True)]


def _each(sources: Sequence[Source], batch: Batch) -> Iterator[tuple[Floats, list[Floats], list[slice]]]:
    """Yield blocks of records: all scores, the products of each source, and where each one's scores are."""
    ends = np.cumsum([0, *(len(s.labels) for s in sources)])
    places = [slice(a, b) for a, b in pairwise(ends)]
    for start in range(0, batch.rows, ROWS):
        part = replace(batch, columns=batch.columns.slice(start, ROWS))
        one = np.ones((part.rows, 1)), np.ones((part.rows, 1, 1))
        found = [s.blocks(part) if s.name else one for s in sources]
        yield np.concatenate([z for z, _ in found], axis=1), [q for _, q in found], places


def _moments(sources: Sequence[Source], batch: Batch) -> list[Floats]:
    """Return the sum of the records' M."""
    size = sum(len(s.labels) for s in sources)
    total = np.zeros((size, size))
    for scores, products, places in _each(sources, batch):
        own = scores.T @ scores
        for place, q in zip(places, products, strict=True):
            own[place, place] = q.sum(axis=0)
        total += own
    return [total]


def _errors(sources: Sequence[Source], weights: Floats, way: Floats, batch: Batch) -> list[Floats]:
    """Return the sums of u u', of u, and of way' M way and its square; u = M weights."""
    meat, one, sizes = np.zeros((len(weights),) * 2), np.zeros(len(weights)), np.zeros(2)
    for scores, products, places in _each(sources, batch):
        told, told_way = scores @ weights, scores @ way
        u, along = np.empty_like(scores), told_way**2
        for place, q in zip(places, products, strict=True):
            z = scores[:, place]
            u[:, place] = z * (told - z @ weights[place])[:, None] + q @ weights[place]
            along += np.einsum("rij,i,j->r", q, way[place], way[place]) - (z @ way[place]) ** 2
        meat += u.T @ u
        one += u.sum(axis=0)
        sizes += along.sum(), (along**2).sum()
    return [meat, one, sizes]


def _solvable(H: Floats, spread: Floats, least: float) -> tuple[Floats, Floats]:
    """Return X'X with no eigenvalue below what it must be at least, and the combination that has the lowest."""
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
