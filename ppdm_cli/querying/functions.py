"""Functions for answers: means, shares, quantiles, tests as sums over records, and numbers made of them.

Figures know how they move with each sum: standard errors are by the delta method, and the interval of a ratio
of two sums is Fieller's. That of a variance covers all means and mean squares that are together at most as far
as a single number by chance; it exists whenever the variance does. Tests are Rao and Scott's (1981), quantiles
have Woodruff's intervals (1952), made to rise. Inside a bin values are assumed to be spread evenly
(docs/technical/method.md, "Answers").
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isnan, nan, sqrt
from typing import Any

import numpy as np

from ppdm_cli import dtypes
from ppdm_cli.arrays import Floats, chi_square_tail
from ppdm_cli.channels import Channel
from ppdm_cli.domain import Bins, Domain, unit
from ppdm_cli.errors import UsageError, quoted
from ppdm_cli.querying.question import (
    REGRESSIONS,
    TESTS,
    Aggregate,
    Answer,
    Both,
    Column,
    Combined,
    Condition,
    Not,
    Number,
    Predicate,
)
from ppdm_cli.querying.scope import Scope, Value, numeric, too_large

SURE = 3.0
"""The number of its own standard errors that a divisor must be away from 0."""
STEP = 0.1
"""The number of standard errors by which sums are moved to measure a function's curvature."""


@dataclass(frozen=True, eq=False)
class Figure:
    """A number computed from sums."""

    value: float
    gradient: Floats
    linear: bool = True
    """True if it is a sum of sums."""
    ratio: tuple[Figure, Figure] | None = None
    divided: tuple[Figure, ...] = ()
    """The divisors on the way."""
    limits: tuple[float, float] = (-inf, inf)
    """The limits of the number, whatever the records are."""
    about: tuple[Figure, Figure] | None = None
    """The variance, with its bias, and the mean about which it is taken, if it is one."""
    square: Figure | None = None
    """The figure whose root it is, if any."""

    @classmethod
    def of(cls, sums: Floats, place: int) -> Figure:
        gradient = np.zeros(len(sums))
        gradient[place] = 1.0
        return cls(float(sums[place]), gradient)

    @classmethod
    def constant(cls, value: float, sums: Floats) -> Figure:
        return cls(value, np.zeros(len(sums)))

    @property
    def _fixed(self) -> bool:
        return self.linear and not self.gradient.any()

    def within(self, least: float, most: float) -> Figure:
        return replace(self, limits=(least, most))

    def __add__(self, other: Figure) -> Figure:
        linear, divided = self.linear and other.linear, self.divided + other.divided
        return Figure(self.value + other.value, self.gradient + other.gradient, linear, None, divided)

    def __sub__(self, other: Figure) -> Figure:
        linear, divided = self.linear and other.linear, self.divided + other.divided
        return Figure(self.value - other.value, self.gradient - other.gradient, linear, None, divided)

    def __mul__(self, other: Figure) -> Figure:
        gradient = self.gradient * other.value + other.gradient * self.value
        linear = (self._fixed and other.linear) or (self.linear and other._fixed)
        return Figure(self.value * other.value, gradient, linear, None, self.divided + other.divided)

    def __truediv__(self, other: Figure) -> Figure:
        divided = self.divided + other.divided
        if other._fixed:
            by = 1 / other.value if other.value else nan
            return Figure(self.value * by, self.gradient * by, self.linear, None, divided)
        value = self.value / other.value if other.value else nan
        gradient = (self.gradient - value * other.gradient) / (other.value or nan)
        ratio = (self, other) if self.linear and other.linear else None
        return Figure(value, gradient, False, ratio, (*divided, other))

    def root(self) -> Figure:
        value = sqrt(self.value) if self.value > 0 else nan
        return Figure(value, self.gradient / (2 * value), False, None, self.divided, square=self)

    # -- how certain it is

    def variance(self, covariance: Floats) -> float:
        return max(float(self.gradient @ covariance @ self.gradient), 0.0)

    def sure(self, covariance: Floats) -> bool:
        """Return whether no divisor may be 0, and no number of records that divides is below 0."""
        if self.square is not None:
            return self.square.sure(covariance)
        return bool(np.isfinite(self.value)) and all(
            (d.value if d.limits[0] >= 0 else abs(d.value)) > SURE * sqrt(d.variance(covariance))
            for d in self.divided
        )

    def interval(self, covariance: Floats, z: float) -> tuple[float, float]:
        """Return all values from which the answer is at most z standard errors away.

        An answer further than that beyond its limits has larger errors than it seems: half the width remains.
        """
        reach = z * sqrt(self.variance(covariance))
        low, high = self.value - reach, self.value + reach
        if self.ratio is not None:
            low, high = _fieller(*self.ratio, covariance, z)
        elif self.about is not None:
            low, high = _variances(*self.about, covariance, z)
        elif self.square is not None:
            low, high = (sqrt(max(end, 0.0)) for end in self.square.interval(covariance, z))
        least, most = self.limits
        if high < least:
            low, high = least, least + (high - low) / 2
        elif low > most:
            low, high = most - (high - low) / 2, most
        return max(low, least), min(high, most)


def corrected(computed: Callable[[Floats], Figure], sums: Floats, covariance: Floats) -> Figure:
    """Return a function of sums, minus the bias from their errors and its curvature; intervals need none."""
    figure = computed(sums)
    if figure.square is not None:
        square = corrected(lambda moved: computed(moved).square or figure, sums, covariance)
        root = square.root()
        return replace(root, value=0.0 if square.value <= 0 else root.value, limits=figure.limits)
    moving = np.flatnonzero(figure.gradient)
    if figure.linear or not len(moving) or not np.isfinite(figure.gradient).all():
        return figure
    spreads, ways = np.linalg.eigh(covariance[np.ix_(moving, moving)])
    bias = 0.0
    for spread, way in zip(spreads, ways.T, strict=True):
        step = np.zeros(len(sums))
        step[moving] = STEP * sqrt(max(float(spread), 0.0)) * way
        there, back = computed(sums + step).value, computed(sums - step).value
        bias += (there + back - 2 * figure.value) / (2 * STEP**2)
    return replace(figure, value=figure.value - bias) if np.isfinite(bias) else figure


def _fieller(above: Figure, below: Figure, covariance: Floats, z: float) -> tuple[float, float]:
    N, D, z2 = above.value, below.value, z**2
    top, bottom = above.variance(covariance), below.variance(covariance)
    both = float(above.gradient @ covariance @ below.gradient)
    a, b = D**2 - z2 * bottom, N * D - z2 * both
    if a <= 0:
        return -inf, inf
    # b^2 - a c without taking N^2 D^2 off itself
    left = D**2 * top - 2 * N * D * both + N**2 * bottom - z2 * (top * bottom - both**2)
    half = sqrt(max(z2 * left, 0.0))
    return (b - half) / a, (b + half) / a


def _variances(variance: Figure, mean: Figure, covariance: Floats, z: float) -> tuple[float, float]:
    """Return the least and the largest variance on an ellipse of z standard errors."""
    error = sqrt(mean.variance(covariance))
    along = float(mean.gradient @ covariance @ variance.gradient) / (error or 1.0)
    rest = sqrt(max(variance.variance(covariance) - along**2, 0.0))
    cosines, sines = np.cos(ANGLES), np.sin(ANGLES)
    found = variance.value + z * (along * cosines + rest * sines) - (z * error * cosines) ** 2
    return float(found.min()), float(found.max())


ANGLES = np.linspace(0, 2 * np.pi, 721)
SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
STEPS = 32
"""The number of steps inside a bin at which shares are computed."""


@dataclass(frozen=True, eq=False)
class Quantile:
    """A requested quantile: the sums that count each code of its column."""

    domain: Domain
    places: tuple[int, ...]
    share: float

    def of(self, sums: Floats, covariance: Floats, z: float) -> tuple[float, float, float, Floats]:
        """Return the quantile, its interval, and how the share below moves with each sum.

        NaN if there may be no records at all.
        """
        moves = np.zeros(len(sums))
        own = np.ix_(self.places, self.places)
        counts, covered = sums[list(self.places)], covariance[own]
        n = float(counts.sum())
        if not n > SURE * sqrt(max(covered.sum(), 0.0)):
            return nan, nan, nan, moves
        # at each mark the records below less the share of all, and what chance makes of it
        below = np.tril(np.ones((len(counts) + 1, len(counts))), -1) - self.share
        along = below @ covered
        excess, squares = below @ counts, np.einsum("ij,ij->i", along, below)
        excess, spread = self._inside(excess, squares, np.einsum("ij,ij->i", along[:-1], below[1:]))
        places = [self._crossed(excess + reach) for reach in (0.0, z * spread)]
        places.append(self._crossed(excess - z * spread, last=True))
        whole = int(places[0])
        part = places[0] - whole
        moves[list(self.places)] = (1 - part) * below[whole] + part * below[min(whole + 1, len(counts))]
        value, low, high = np.interp(places, np.arange(len(below)), self._marks)
        return float(value), float(low), float(high), moves

    def _inside(self, excess: Floats, squares: Floats, products: Floats) -> tuple[Floats, Floats]:
        """Return excess and standard error, inside bins too: a value between two marks is a mean of both."""
        if not isinstance(self.domain, Bins):
            return excess, np.sqrt(np.maximum(squares, 0.0))
        part = np.arange(STEPS)[None, :] / STEPS
        first = (1 - part) * excess[:-1, None] + part * excess[1:, None]
        second = (1 - part) ** 2 * squares[:-1, None] + part**2 * squares[1:, None]
        second = second + 2 * part * (1 - part) * products[:, None]
        found = np.append(second.ravel(), squares[-1])
        return np.append(first.ravel(), excess[-1]), np.sqrt(np.maximum(found, 0.0))

    def _crossed(self, curve: Floats, last: bool = False) -> float:
        """Return the mark where a curve, made to rise, becomes 0; of single values the first, or the last."""
        curve, most = np.sort(curve), float(len(self.places))
        place = int(np.searchsorted(curve, 0.0, "right" if last else "left"))
        if not isinstance(self.domain, Bins):
            return min(max(place, 1), most)
        if place in (0, len(curve)):
            return most * (place > 0)
        before, after = curve[place - 1], curve[place]
        return float(place - 1 - before / (after - before)) / STEPS

    @property
    def _marks(self) -> Floats:
        """Return the end of each code, and before them the beginning of the first."""
        scale = unit(self.domain.kind)
        if isinstance(self.domain, Bins):
            half = dtypes.is_whole(self.domain.kind) / 2  # whole numbers count half a step to either side
            edges = self.domain.edges.astype(np.float64) - half
            edges[-1] += 2 * half
            return edges * scale
        return np.asarray([self.domain.marks[0], *self.domain.marks], np.float64) * scale


FLOOR = 0.1
"""The least divisor of Pearson's test, as a share of the mean."""

Compared = Callable[[Floats], tuple[list[Figure], Floats]]
"""A function from a group's sums to the numbers that a test assumes to be 0, and Pearson's divisors."""


@dataclass(frozen=True, eq=False)
class Test:
    compared: Compared
    effect: Callable[[Floats], Figure] | None = None
    """A number to report with the p-value, if there is one that is more useful than the statistic."""
    kept: Callable[[Floats], float] | None = None
    """The share of records that originals would need, for a test of published codes."""

    def of(self, sums: Floats, sampled: Floats, clean: Floats) -> tuple[float, float, float]:
        """Return the statistic, its p-value, and the share of the records that originals would need.

        The statistic is scaled to the mean of a chi-square with as many degrees of freedom.
        """
        apart, pearsons = self.compared(sums)
        if not all(d.sure(sampled) for d in apart):
            return np.nan, np.nan, np.nan
        moves = np.stack([d.gradient for d in apart])
        pearsons = np.maximum(pearsons, FLOOR * np.maximum(pearsons, 0.0).mean())
        spread = moves @ sampled @ moves.T
        own = np.einsum("ij,jk,ik->i", moves, clean, moves)
        noise = np.maximum(np.diagonal(spread) - own, 0.0)
        own = pearsons * max(float(own.sum()), 0.0) / max(float(pearsons.sum()), 1e-300)
        # a weight must not depend on its own cell's chance: noise is a line over what Pearson divides by
        level, size = float(noise.mean()), pearsons / max(float(pearsons.mean()), 1e-300) - 1
        slope = float(size @ noise) / max(float(size @ size), 1e-300)
        noise = level + min(max(slope, 0.0), level) * size
        weights = np.divide(1.0, own + noise, out=np.zeros(len(own)), where=own + noise > 0)
        roots = np.sqrt(weights)
        statistic = float((np.array([d.value for d in apart]) ** 2 * weights).sum())
        laws = np.asarray(np.linalg.eigvalsh(spread * np.outer(roots, roots)), np.float64)
        freedom, whole = np.count_nonzero(laws > 1e-9 * laws.max()), float(laws.sum())
        if self.kept is not None:
            share = self.kept(sums)
        else:  # as far as what is not so moves it, in its own standard deviations
            moved = float((weights * own).sum())
            share = moved / sqrt(freedom * float((laws**2).sum())) if whole > 0 else 1.0
        scale = freedom / whole if whole > 0 else 1.0
        return statistic * scale, tail(statistic, laws), min(max(share, 0.0), 1.0)


def tail(statistic: float, weights: Floats) -> float:
    """Return the probability that a sum of chi-squares of one degree with these weights exceeds a statistic."""
    one, two, three = (float((np.maximum(weights, 0.0) ** k).sum()) for k in (1, 2, 3))
    if three <= 0:
        return 1.0 if statistic <= 0 else 0.0
    freedom = two**3 / three**2
    return chi_square_tail(max((statistic - one) * two / three + freedom, 0.0), freedom)


def holm(values: Sequence[float]) -> list[float]:
    """Return p-values of several tests that hold together (Holm 1979)."""
    order = np.argsort(values)
    found, least = [1.0] * len(values), 0.0
    for rank, place in enumerate(order):
        least = max(least, min(1.0, values[place] * (len(values) - rank)))
        found[place] = least
    return found


MOST_TESTED = 1 << 11

Computed = Callable[[Floats], Figure]
"""A function from the sums of one group to a number."""


@dataclass(frozen=True)
class Compiler:
    """Turns answers into numbers computed from the sums of a scope, which it adds."""

    scope: Scope
    where: Condition | None
    records: float
    published: Mapping[str, Channel] = field(default_factory=dict)
    """The channels of the scope's columns, if it counts published codes."""

    def answer(self, answer: Answer) -> Computed | Quantile | Test:
        if isinstance(answer, Aggregate) and answer.function == "quantile":
            return self._quantile(answer)
        if isinstance(answer, Aggregate) and answer.function in TESTS:
            made: Test = getattr(self, f"_{answer.function}")(self._chosen(answer.where), *answer.arguments)
            return made
        return self._computed(answer)

    def _computed(self, answer: Answer) -> Computed:
        if isinstance(answer, float):
            value = answer
            return lambda sums: Figure.constant(value, sums)
        if isinstance(answer, Combined):
            one, other, sign = self._computed(answer.one), self._computed(answer.other), answer.sign
            return lambda sums: SIGNS[sign](one(sums), other(sums))
        if answer.function == "quantile" or answer.function in (*TESTS, *REGRESSIONS):
            what = f"{quoted(answer.function)} can't be part of a computation"
            raise UsageError("not-a-smooth-function", what, "ask for it separately")
        made: Computed = getattr(self, f"_{answer.function}")(self._chosen(answer.where), *answer.arguments)
        return made

    def _chosen(self, where: Condition | None) -> np.ndarray:
        """Return the records for which the question's condition and a function's own hold."""
        both = where if self.where is None else self.where if where is None else Both(self.where, where)
        return self.scope.truth(both).true

    # -- the functions

    def _count(self, chosen: np.ndarray, of: Number | None = None) -> Computed:
        known = chosen if of is None else chosen & self._known(of)
        place, most = self.scope.sum(known, ()), self.records
        return lambda sums: Figure.of(sums, place).within(0, most)

    def _known(self, of: Number) -> np.ndarray:
        """Return the records for which a number, or any column, has a value."""
        if isinstance(of, Column) and of.name in self.scope.axes:
            domain = self.scope.axes[of.name]
            return self.scope.over(of.name, np.arange(domain.size) < domain.ordinary)
        if isinstance(of, Column):
            return self.scope.null(of.name).false
        return self.scope.value(of).known

    def _sum(self, chosen: np.ndarray, of: Number) -> Computed:
        value = self.scope.value(of)
        return self._total(value, chosen & value.known)

    def _total(self, value: Value, chosen: np.ndarray) -> Computed:
        places = [self.scope.sum(np.where(chosen, t, 0.0), f) for f, t in value.terms.items()]

        return lambda sums: added(sums, [Figure.of(sums, place) for place in places])

    def _mean(self, chosen: np.ndarray, of: Number) -> Computed:
        value = self.scope.value(of)
        return self._mean_of(value, chosen & value.known)

    def _mean_of(self, value: Value, chosen: np.ndarray) -> Computed:
        above, below = self._total(value, chosen), self.scope.sum(chosen, ())
        least, most = -inf, inf
        if list(value.terms) == [()]:
            table = np.broadcast_to(value.terms[()], np.broadcast_shapes(value.terms[()].shape, chosen.shape))
            inside = table[np.broadcast_to(chosen, table.shape)]
            least, most = (float(inside.min()), float(inside.max())) if inside.size else (0.0, 0.0)
        return lambda sums: (above(sums) / Figure.of(sums, below).within(0, inf)).within(least, most)

    def _share(self, chosen: np.ndarray, of: Condition) -> Computed:
        one = self._number(of)
        made = self._mean_of(one, chosen & one.known)
        return lambda sums: made(sums).within(0.0, 1.0)

    def _variance(self, chosen: np.ndarray, of: Number) -> Computed:
        value = self.scope.value(of)
        known = chosen & value.known
        mean, square, below = (
            self._mean_of(value, known),
            self._mean_of(value * value, known),
            self.scope.sum(known, ()),
        )

        def variance(sums: Floats) -> Figure:
            n, m = Figure.of(sums, below), mean(sums)
            one = Figure.constant(1.0, sums)
            found = (square(sums) - m * m) * (n / (n - one))
            return replace(found, about=(found, m), limits=(0.0, inf))

        return variance

    def _stddev(self, chosen: np.ndarray, of: Number) -> Computed:
        variance = self._variance(chosen, of)

        def deviation(sums: Floats) -> Figure:
            square = variance(sums)
            # what is computed with it is as uncertain as what is divided by a number that may be 0
            return replace(square.root(), divided=(*square.divided, square), limits=(0.0, inf))

        return deviation

    def _corr(self, chosen: np.ndarray, one: Number | Condition, other: Number | Condition) -> Computed:
        return self._together(chosen, self._number(one), self._number(other))[1]

    def _together(self, chosen: np.ndarray, x: Value, y: Value) -> tuple[Computed, Computed]:
        known = chosen & x.known & y.known
        means = [self._mean_of(v, known) for v in (x, y, x * y, x * x, y * y)]

        def covariance(sums: Floats) -> Figure:
            mx, my, xy = (m(sums) for m in means[:3])
            return xy - mx * my

        def correlation(sums: Floats) -> Figure:
            mx, my, _, xx, yy = (m(sums) for m in means)
            return (covariance(sums) / ((xx - mx * mx) * (yy - my * my)).root()).within(-1.0, 1.0)

        return covariance, correlation

    def _number(self, of: Number | Condition) -> Value:
        """Return a number of each record, or 1 if a condition holds and 0 if not."""
        if isinstance(of, (Predicate, Not, Both)):
            truth = self.scope.truth(of)
            return Value({(): np.where(truth.true, 1.0, 0.0)}, truth.true | truth.false)
        return self.scope.value(of)

    # -- tests

    def _trend(self, chosen: np.ndarray, one: Number | Condition, other: Number | Condition) -> Test:
        covariance, correlation = self._together(chosen, self._number(one), self._number(other))
        return Test(lambda sums: ([covariance(sums)], np.ones(1)), correlation)

    def _codes(self, name: str, other: str | None = None) -> list[np.ndarray]:
        """Return the records with each value of a column but null, to be tested with those of another."""
        domain = self.scope.axes[name]
        tested = domain.ordinary * (1 if other is None else self.scope.axes[other].ordinary)
        if tested > MOST_TESTED:
            raise too_large(f"a test of {tested:,} counts, more than {MOST_TESTED:,}")
        return [self.scope.over(name, row) for row in np.eye(domain.size, dtype=bool)[: domain.ordinary]]

    def _independent(self, chosen: np.ndarray, one: Column, other: Column) -> Test:
        rows, columns = self._codes(one.name, other.name), self._codes(other.name)
        places = [[self.scope.sum(chosen & r & c, ()) for c in columns] for r in rows]

        def compared(sums: Floats) -> tuple[list[Figure], Floats]:
            cells = [[Figure.of(sums, p) for p in line] for line in places]
            n = added(sums, [c for line in cells for c in line])
            across = [added(sums, line) for line in cells]
            down = [added(sums, [line[j] for line in cells]) for j in range(len(columns))]
            apart = [c - a * d / n for line, a in zip(cells, across, strict=True)
                     for c, d in zip(line, down, strict=True)]  # fmt: skip
            by = np.outer([a.value for a in across], [d.value for d in down])
            return apart, by.ravel() / (n.value or 1.0)

        return Test(compared, kept=self._kept(one.name, other.name, np.array(places)))

    def _kept(self, one: str, other: str, places: np.ndarray) -> Callable[[Floats], float] | None:
        """Return the share of a dependence that is published, if the counts are of published codes.

        It is the mean share of chi-square that each channel leaves.
        """
        if not self.published:
            return None

        def share(sums: Floats) -> float:
            found, table = 1.0, np.asarray(sums[places], np.float64)
            for name, margin in ((one, table.sum(axis=1)), (other, table.sum(axis=0))):
                law = self.published[name].law
                if law is not None:
                    M = law.dense()
                    x = np.maximum(law.solve(margin), 0.0)
                    x /= x.sum()
                    left = (M**2 * x / (M @ x)[:, None]).sum() - 1
                    found *= left / sqrt((law.inputs - 1) * (law.outputs - 1))
            return found

        return share

    def _fits(self, chosen: np.ndarray, of: Column, *given: Any) -> Test:
        shares = np.array(given[1::2], float)
        truths = [self.scope.truth(Predicate(of.name, "among", (v,))) for v in given[::2]]
        places = [self.scope.sum(chosen & t.true, ()) for t in truths]

        def compared(sums: Floats) -> tuple[list[Figure], Floats]:
            cells = [Figure.of(sums, p) for p in places]
            n = added(sums, cells)
            return [c - n * Figure.constant(s, sums) for c, s in zip(cells, shares, strict=True)], shares

        return Test(compared)

    def _same(self, chosen: np.ndarray, of: Answer, by: Column) -> Test:
        if not isinstance(of, Aggregate) or of.function in (*TESTS, "quantile"):
            raise UsageError(
                "same-of-one-function", "same compares one function over groups", "try same(mean(age), sex)"
            )
        own = chosen & self._chosen(of.where)
        each = [getattr(self, f"_{of.function}")(own & code, *of.arguments) for code in self._codes(by.name)]
        sizes = [self.scope.sum(own & code, ()) for code in self._codes(by.name)]

        def compared(sums: Floats) -> tuple[list[Figure], Floats]:
            figures, n = [e(sums) for e in each], np.maximum(sums[sizes], 0.0)
            ratios = [t.ratio for t in figures if t.ratio is not None]
            if len(ratios) == len(figures):  # nothing is divided by a group that may be empty
                below = [b for _, b in ratios]
                middle = added(sums, [a for a, _ in ratios]) / added(sums, below)
                return [a - b * middle for a, b in ratios], np.array([b.value for b in below])
            n = np.maximum(n, FLOOR * n.mean()) / max(n.sum(), 1e-300)
            middle = added(sums, [t * Figure.constant(float(s), sums) for t, s in zip(figures, n, strict=True)])
            return [t - middle for t in figures], 1 / np.maximum(n, 1e-300)

        return Test(compared)

    def _quantile(self, answer: Aggregate) -> Quantile:
        column, share = answer.arguments
        if not isinstance(column, Column):
            raise UsageError("quantile-of-a-column", "a quantile needs a column", "try quantile(age, .5)")
        numeric(column.name, self.scope.kinds[column.name])
        chosen = self._chosen(answer.where)
        domain = self.scope.axes[column.name]
        places = [
            self.scope.sum(chosen & self.scope.over(column.name, np.arange(domain.size) == code), ())
            for code in range(domain.ordinary)
        ]
        return Quantile(domain, tuple(places), share)


def added(sums: Floats, several: Sequence[Figure]) -> Figure:
    found = Figure.constant(0.0, sums)
    for each in several:
        found += each
    return found


def finite(number: float) -> float | None:
    return None if isnan(number) or number in (inf, -inf) else number
