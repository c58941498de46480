"""Estimators for tables of counts, and their intervals: original counts from observed ones, along any axes.

A table has one axis an attribute. The matrices act along the axes and are never multiplied out. An axis without
a matrix was not perturbed: its slices are problems of their own, each with its records. Dowd 3.2 and 3.3;
docs/technical/method.md.

Intervals always belong to the unbiased estimate. Its error follows from the most likely counts: Var(Xhat_i) =
[(A o A) M X]_i - X_i, which is linear in X_i. The score interval holds the X_i from which Xhat_i is at most as
far as by chance, after a correction for the skewness of its law.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ppdm_cli.arrays import Floats, normal_quantile
from ppdm_cli.channels import Law
from ppdm_cli.display import Displayed
from ppdm_cli.errors import UsageError, argument, counted
from ppdm_cli.estimating.em import better

Matrices = Sequence[Law | None]
EM_STEPS = 20_000
EM_TOLERANCE = 1e-9
"""EM ends when a step adds less log-likelihood a record than this."""


def inverse(observed: Floats, matrices: Matrices) -> Floats:
    """Return the unbiased estimate, which may be negative (Dowd, eq. 1)."""
    for axis, matrix in enumerate(matrices):
        if matrix is not None:
            observed = matrix.solve(observed, axis)
    return observed


def set_scale(observed: Floats, matrices: Matrices) -> Floats:
    """Return the paper's heuristic: negatives to zero, then scaled to all records; large counts get too low."""
    raised = np.maximum(inverse(observed, matrices), 0.0)
    axes = perturbed_axes(matrices)
    sums, totals = (t.sum(axis=axes, keepdims=True) for t in (raised, observed))
    return raised * np.divide(totals, sums, out=np.zeros_like(sums), where=sums > 0)


def simplex(observed: Floats, matrices: Matrices) -> Floats:
    """Return the nearest table to the inverse with no negative count and the right number of records."""
    return _by_slice(inverse(observed, matrices), observed, matrices, project)


def maximum_likelihood(observed: Floats, matrices: Matrices) -> Floats:
    """Return the most likely original counts: in closed form, or by EM, which ends early if a matrix blurs."""
    perturbed = [m for m in matrices if m is not None]
    if len(perturbed) == 1 and (closed := perturbed[0].closed_form) is not None:
        return _by_slice(observed, observed, matrices, closed)
    return expectation_maximisation(observed, matrices)


ESTIMATORS: dict[str, Callable[[Floats, Matrices], Floats]] = {
    "inverse": inverse,
    "set-scale": set_scale,
    "simplex": simplex,
    "ml": maximum_likelihood,
}
DEFAULT = "ml"


def perturbed_axes(matrices: Matrices) -> tuple[int, ...]:
    return tuple(i for i, m in enumerate(matrices) if m is not None)


def _by_slice(
    table: Floats, observed: Floats, matrices: Matrices, work: Callable[[Floats, float], Floats]
) -> Floats:
    """Apply `work` to each slice along the axes that were not perturbed, flattened."""
    axes = perturbed_axes(matrices)
    first = range(len(axes))
    moved = np.moveaxis(table, axes, first)
    shape = moved.shape
    flat = moved.reshape(int(np.prod(shape[: len(axes)])), -1)
    records = np.moveaxis(observed, axes, first).reshape(-1, flat.shape[1]).sum(axis=0)
    done = np.stack([work(column, n) for column, n in zip(flat.T, records, strict=True)], axis=1)
    return np.moveaxis(done.reshape(shape), first, axes)


def project(values: Floats, n: float) -> Floats:
    """Project on the counts that sum to n, in the Euclidean norm: one constant off all, negatives to zero."""
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - n) / np.arange(1, len(values) + 1)
    above = np.flatnonzero(falling - excess > 0)
    return np.maximum(values - excess[above[-1]], 0.0) if above.size else np.zeros(len(values))


def expectation_maximisation(
    observed: Floats, matrices: Matrices, start: Floats | None = None, least: float = 0.0
) -> Floats:
    """Run EM from equal shares (or `start`), until a step adds fewer than `least` nats or the tolerance."""
    axes = perturbed_axes(matrices)
    cells = int(np.prod([m.inputs for m in matrices if m is not None]))
    shape = tuple(observed.shape[i] if m is None else m.inputs for i, m in enumerate(matrices))
    totals = observed.sum(axis=axes, keepdims=True)
    estimate = np.broadcast_to(totals / cells, shape) if start is None else start
    tolerance, before = EM_TOLERANCE * max(observed.sum(), 1.0), -np.inf
    least = max(least, *(m.stop_gain for m in matrices if m is not None), 0.0)
    tolerance = max(tolerance, least * int((totals > 0).sum()))
    for _ in range(EM_STEPS):
        expected = _along(estimate, matrices, "forward")
        likelihood = float((observed * np.log(np.where(expected > 0, expected, 1.0))).sum())
        estimate = better(estimate, observed, expected, lambda r: _along(r, matrices, "backward"))
        if likelihood - before < tolerance:
            break
        before = likelihood
    return estimate


def _along(table: Floats, matrices: Matrices, how: str) -> Floats:
    for axis, matrix in enumerate(matrices):
        if matrix is not None:
            table = getattr(matrix, how)(table, axis)
    return table


def largest_remainder(estimate: Floats, total: int) -> np.ndarray:
    """Return the whole numbers nearest to the estimate that sum to exactly `total`."""
    records = float(estimate.sum())
    if records >= 1:
        scaled = estimate * (total / records)
    else:  # hardly anything, or nothing: without a factor that overflows
        scaled = estimate / records * total if records > 0 else np.full(len(estimate), total / len(estimate))
    whole = np.floor(scaled).astype(np.int64)
    missing = total - int(whole.sum())
    # stable, so that equal remainders go to the first: the result is a function of the estimate
    order = np.argsort(-(scaled - whole), kind="stable")
    whole[order[:missing]] += 1
    return whole


FEWEST = 8.0
"""The least number of changed records that an error must be made of, as `tests.experiments.intervals` measures.

With fewer, its steps are so coarse, and its law so far from a normal one, that no interval covers as it should.
"""


@dataclass(frozen=True)
class Coverage:
    level: float = 0.95
    simultaneous: bool = False
    """True if all cells of a table are covered together."""
    population: bool = False
    """True if intervals are about the shares in the population of a sample, times the records."""
    tables: int = 1
    """The number of tables that are covered together, if each kept value has one of its own."""

    def __post_init__(self) -> None:
        if not 0.5 <= self.level <= 0.9999:
            meant = self.level / 100 if 50 <= self.level <= 99.99 else 0.9
            what = f"a level is a share from 0.5 to 0.9999, not {self.level:g}"
            raise UsageError("level-out-of-range", what, f"try {argument('level', float(f'{meant:.6g}'))}")

    def quantile(self, cells: int) -> float:
        """Return the number of standard errors that an interval reaches, in a table of so many cells."""
        # together as if errors were independent, which covers no less (Sidak 1967)
        level = self.level ** (1 / (max(cells, 1) * self.tables)) if self.simultaneous else self.level
        return normal_quantile((1 + level) / 2)

    def __str__(self) -> str:
        """Return a description of `low` and `high`, for people."""
        cells = " for all counts of a table together" if self.simultaneous else ""
        whom = ", of the population that the records are a sample of" if self.population else ""
        return f"{100 * self.level:.6g}% interval{cells}{whom}"


@dataclass(frozen=True, repr=False)
class Interval(Displayed):
    """Standard errors and intervals; NaN for a cell without one."""

    std_error: Floats
    low: Floats
    high: Floats

    def _words(self) -> list[str]:
        return [counted(self.low.size, "interval")]

    @property
    def parts(self) -> tuple[Floats, Floats, Floats]:
        return self.std_error, self.low, self.high

    def possible(self, n: Floats | float) -> Interval:
        """Return the interval cut to [0, n]; a value that nobody has is then covered with 97.5%, not 95."""
        return Interval(self.std_error, np.clip(self.low, 0.0, n), np.clip(self.high, 0.0, n))

    def without(self, estimate: Floats) -> int:
        """Return the number of estimates that lie outside their intervals, by more than rounding shows."""
        return int(((estimate < self.low - 0.5) | (estimate > self.high + 0.5)).sum())

    def far_from(self, counts: Floats) -> bool:
        """Return whether a count lies further from its interval than by chance: 8 standard errors."""
        beyond = np.maximum(self.low - counts, counts - self.high)
        return bool((beyond > 8 * np.maximum(self.std_error, 1.0)).any())

    @property
    def missing(self) -> int:
        return int(np.isnan(self.low).sum())


def no_intervals(shape: Sequence[int]) -> Interval:
    return Interval(*(np.full(shape, np.nan) for _ in range(3)))


def intervals(
    observed: Floats,
    matrices: Matrices,
    coverage: Coverage = Coverage(),
    likeliest: Floats | None = None,
    sampled: float = 1.0,
) -> Interval:
    """Return the interval of every cell of a table of counts; NaN if none can be trusted.

    The most likely original counts are given where they are known already. The observed ones are of a share
    `sampled` of the records that the intervals are about.
    """
    sampled = 0.0 if coverage.population else sampled
    if likeliest is None:
        likeliest = maximum_likelihood(observed, matrices)
    if any(m is not None and not m.invertible for m in matrices):
        return no_intervals(likeliest.shape)
    axes = perturbed_axes(matrices)
    records = observed.sum(axis=None if coverage.population else axes, keepdims=True)
    error = Error.of(likeliest, matrices, records, sampled)
    z = coverage.quantile(int(((error.steps >= FEWEST) & (error.variance > 0)).sum()))
    found = error.interval(inverse(observed, matrices), z).possible(records)
    coarse = (error.variance > 0) & (error.steps < FEWEST)
    return Interval(*(np.where(coarse, np.nan, part) for part in found.parts))


def _through(table: Floats, matrices: Matrices, power: int) -> Floats:
    """Return the expectation of a published table under A with its entries to a power: (A^power) M X."""
    for axis, matrix in enumerate(matrices):
        if matrix is not None:
            table = matrix.solve_power(matrix.forward(table, axis), power, axis)
    return table


@dataclass(frozen=True)
class Error:
    """The law of the error of each cell's unbiased estimate, if the cell has x of n records.

    Its variance is at_zero + slope x - curve x^2; `variance`, `skew` (the third moment by the variance) and
    `steps` (how many changed records it is made of) are at the most likely x.
    """

    n: Floats
    at_zero: Floats
    slope: Floats
    curve: Floats
    variance: Floats
    skew: Floats
    steps: Floats

    @classmethod
    def of(cls, possible: Floats, matrices: Matrices, records: Floats, sampled: float) -> Error:
        """Return the errors of estimates about all records of which these are a share `sampled`."""
        n = np.broadcast_to(records, possible.shape)
        own = np.ones((1,) * possible.ndim)
        for axis, matrix in enumerate(matrices):
            if matrix is not None:
                rest = [i for i in range(possible.ndim) if i != axis]
                own = own * np.expand_dims(matrix.own_variance(), rest)
        squared, cubed, fourth = (_through(possible, matrices, power) for power in (2, 3, 4))
        # of `squared` a record of the cell itself adds `own`, any other `others`; where the cell seems to
        # hold all records they are taken from the other cells
        known_others = n - possible > 1e-9 * n
        others = np.divide(
            squared - own * possible, n - possible, out=np.zeros_like(possible), where=known_others
        )
        others = np.maximum(others, 0.0)
        axes = perturbed_axes(matrices)
        mean = others.sum(axis=axes, keepdims=True) / np.maximum(known_others.sum(axis=axes, keepdims=True), 1)
        others = np.where(known_others, others, mean)
        # what is known is taken off: that the cell has x records, or in a population a share x/n of them
        share = np.divide(possible, n, out=np.zeros_like(possible), where=n > 0)
        known = sampled + (1 - sampled) * share
        variance = np.maximum(squared - known * possible, 0.0)
        variance[variance < 1e-9 * squared] = 0.0
        paired = sampled * own * possible + (1 - sampled) * share * squared
        third = cubed - 3 * paired + 2 * known**2 * possible
        positive = variance > 0
        return cls(
            n=n,
            at_zero=n * others,
            slope=own - others - sampled,
            curve=np.divide(1 - sampled, n, out=np.zeros_like(possible), where=n > 0),
            variance=variance,
            skew=np.divide(third, variance, out=np.zeros_like(possible), where=positive),
            steps=np.divide(variance * squared, fourth, out=np.zeros_like(possible), where=positive),
        )

    def at(self, x: Floats) -> Floats:
        """Return the variance if the cells have x records."""
        return np.maximum(self.at_zero + self.slope * x - self.curve * x**2, 0.0)

    def interval(self, estimate: Floats, z: float) -> Interval:
        """Return all x from which the estimate is at most z standard errors away, as those are at x."""
        # Cornish and Fisher: a skewed error's quantiles are those of a normal one, moved
        reach = np.sqrt(self.variance)
        centre = estimate - np.clip((z**2 - 1) / 6 * self.skew, -reach, reach)
        shrink = 1 + z**2 * self.curve
        middle = (centre + z**2 * self.slope / 2) / shrink
        half = np.sqrt(np.maximum(middle**2 - (centre**2 - z**2 * self.at_zero) / shrink, 0.0))
        # an estimate too far below 0, or above n, belongs to no x, even if more spread would allow one
        ends = np.zeros_like(self.n), self.n
        below, above = (z * np.sqrt(self.at(end)) for end in ends)
        nowhere = (centre < -below) | (centre > self.n + above)
        return Interval(
            std_error=np.sqrt(self.at(np.clip(estimate, *ends))),
            low=np.where(nowhere, centre, middle - half),
            high=np.where(nowhere, centre, middle + half),
        )
