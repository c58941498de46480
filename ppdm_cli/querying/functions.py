"""The functions of a question: each as sums over records, and a number computed from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isnan, sqrt
from typing import Any

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.channels import Channel
from ppdm_cli.errors import UsageError, quoted
from ppdm_cli.querying.asked import (
    REGRESSIONS,
    TESTS,
    Aggregate,
    Answer,
    Both,
    Column,
    Combined,
    Condition,
    Not,
    Predicate,
)
from ppdm_cli.querying.quantiles import Quantile
from ppdm_cli.querying.scope import Scope, Value, numeric, too_large
from ppdm_cli.querying.testing import FLOOR, Test
from ppdm_cli.querying.told import Told

MOST_TESTED = 1 << 11
"""The most counts that a test is of."""

Computed = Callable[[Floats], Told]
"""What makes a number of the sums of one group."""


@dataclass(frozen=True)
class Compiler:
    """Turns answers into numbers computed from the sums of a scope, which it adds."""

    scope: Scope
    where: Condition | None
    records: float
    """How many the release has."""
    published: Mapping[str, Channel] = field(default_factory=dict)
    """The channels of the scope's columns, where it counts what was published itself."""

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
            return lambda sums: Told.constant(value, sums)
        if isinstance(answer, Combined):
            one, other, sign = self._computed(answer.one), self._computed(answer.other), answer.sign
            return lambda sums: _signed(one(sums), sign, other(sums))
        if answer.function == "quantile" or answer.function in (*TESTS, *REGRESSIONS):
            raise UsageError(
                f"{quoted(answer.function)} is no smooth function of what is counted, to be computed with",
                "ask for it by itself",
            )
        made: Computed = getattr(self, f"_{answer.function}")(self._chosen(answer.where), *answer.arguments)
        return made

    def _chosen(self, where: Condition | None) -> np.ndarray:
        """Return where the question's condition and a function's own hold."""
        both = where if self.where is None else self.where if where is None else Both(self.where, where)
        return self.scope.truth(both).true

    # -- the functions

    def _count(self, chosen: np.ndarray, of: Any = None) -> Computed:
        known = chosen if of is None else chosen & self._known(of)
        place, most = self.scope.sum(known, ()), self.records
        return lambda sums: Told.of(sums, place).within(0, most)

    def _known(self, of: Any) -> np.ndarray:
        """Return where a number, or any column, has a value."""
        if isinstance(of, Column) and of.name in self.scope.axes:
            domain = self.scope.axes[of.name]
            return self.scope.over(of.name, np.arange(domain.size) < domain.ordinary)
        if isinstance(of, Column):
            return self.scope.null(of.name).false
        return self.scope.value(of).known

    def _sum(self, chosen: np.ndarray, of: Any) -> Computed:
        value = self.scope.value(of)
        return self._total(value, chosen & value.known)

    def _total(self, value: Value, chosen: np.ndarray) -> Computed:
        places = [self.scope.sum(np.where(chosen, t, 0.0), f) for f, t in value.terms.items()]

        return lambda sums: added(sums, [Told.of(sums, place) for place in places])

    def _mean(self, chosen: np.ndarray, of: Any) -> Computed:
        value = self.scope.value(of)
        return self._mean_of(value, chosen & value.known)

    def _mean_of(self, value: Value, chosen: np.ndarray) -> Computed:
        above, below = self._total(value, chosen), self.scope.sum(chosen, ())
        least, most = -inf, inf
        if list(value.terms) == [()]:
            table = np.broadcast_to(value.terms[()], np.broadcast_shapes(value.terms[()].shape, chosen.shape))
            inside = table[np.broadcast_to(chosen, table.shape)]
            least, most = (float(inside.min()), float(inside.max())) if inside.size else (0.0, 0.0)
        return lambda sums: (above(sums) / Told.of(sums, below)).within(least, most)

    def _share(self, chosen: np.ndarray, of: Condition) -> Computed:
        one = self._number(of)
        made = self._mean_of(one, chosen & one.known)
        return lambda sums: made(sums).within(0.0, 1.0)

    def _variance(self, chosen: np.ndarray, of: Any) -> Computed:
        value = self.scope.value(of)
        known = chosen & value.known
        mean, square, below = (
            self._mean_of(value, known),
            self._mean_of(value * value, known),
            self.scope.sum(known, ()),
        )

        def variance(sums: Floats) -> Told:
            n, m = Told.of(sums, below), mean(sums)
            one = Told.constant(1.0, sums)
            return ((square(sums) - m * m) * (n / (n - one))).within(0.0, inf)

        return variance

    def _stddev(self, chosen: np.ndarray, of: Any) -> Computed:
        variance = self._variance(chosen, of)
        return lambda sums: variance(sums).root().within(0.0, inf)

    def _corr(self, chosen: np.ndarray, one: Any, other: Any) -> Computed:
        return self._together(chosen, self._number(one), self._number(other))[1]

    def _together(self, chosen: np.ndarray, x: Value, y: Value) -> tuple[Computed, Computed]:
        """Return the covariance and the correlation of two numbers."""
        known = chosen & x.known & y.known
        means = [self._mean_of(v, known) for v in (x, y, x * y, x * x, y * y)]

        def covariance(sums: Floats) -> Told:
            mx, my, xy = (m(sums) for m in means[:3])
            return xy - mx * my

        def correlation(sums: Floats) -> Told:
            mx, my, _, xx, yy = (m(sums) for m in means)
            return (covariance(sums) / ((xx - mx * mx) * (yy - my * my)).root()).within(-1.0, 1.0)

        return covariance, correlation

    def _number(self, of: Any) -> Value:
        """Return a number of each record, or 1 where a condition holds and 0 where not."""
        if isinstance(of, (Predicate, Not, Both)):
            truth = self.scope.truth(of)
            return Value({(): np.where(truth.true, 1.0, 0.0)}, truth.true | truth.false)
        return self.scope.value(of)

    # -- tests

    def _trend(self, chosen: np.ndarray, one: Any, other: Any) -> Test:
        covariance, correlation = self._together(chosen, self._number(one), self._number(other))
        return Test(lambda sums: ([covariance(sums)], np.ones(1)), correlation)

    def _codes(self, name: str, other: str | None = None) -> list[np.ndarray]:
        """Return where a column has each of its values but null; they are tested beside those of another."""
        domain = self.scope.axes[name]
        tested = domain.ordinary * (1 if other is None else self.scope.axes[other].ordinary)
        if tested > MOST_TESTED:
            raise too_large(f"a test of {tested:,} counts, more than {MOST_TESTED:,}")
        return [self.scope.over(name, row) for row in np.eye(domain.size, dtype=bool)[: domain.ordinary]]

    def _independent(self, chosen: np.ndarray, one: Column, other: Column) -> Test:
        rows, columns = self._codes(one.name, other.name), self._codes(other.name)
        places = [[self.scope.sum(chosen & r & c, ()) for c in columns] for r in rows]

        def compared(sums: Floats) -> tuple[list[Told], Floats]:
            cells = [[Told.of(sums, p) for p in line] for line in places]
            n = added(sums, [c for line in cells for c in line])
            across = [added(sums, line) for line in cells]
            down = [added(sums, [line[j] for line in cells]) for j in range(len(columns))]
            apart = [c - a * d / n for line, a in zip(cells, across, strict=True)
                     for c, d in zip(line, down, strict=True)]  # fmt: skip
            by = np.outer([a.value for a in across], [d.value for d in down])
            return apart, by.ravel() / (n.value or 1.0)

        return Test(compared, kept=self._kept(one.name, other.name, np.array(places)))

    def _kept(self, one: str, other: str, places: np.ndarray) -> Callable[[Floats], float] | None:
        """Return how much of a dependence is published, where the counts are of what was published itself.

        The mean share of chi-square that each channel leaves, for fewer degrees of freedom than there are then.
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

    def _fits(self, chosen: np.ndarray, of: Column, *told: Any) -> Test:
        shares = np.array(told[1::2], float)
        truths = [self.scope.truth(Predicate(of.name, "among", (v,))) for v in told[::2]]
        places = [self.scope.sum(chosen & t.true, ()) for t in truths]

        def compared(sums: Floats) -> tuple[list[Told], Floats]:
            cells = [Told.of(sums, p) for p in places]
            n = added(sums, cells)
            return [c - n * Told.constant(s, sums) for c, s in zip(cells, shares, strict=True)], shares

        return Test(compared)

    def _same(self, chosen: np.ndarray, of: Answer, by: Column) -> Test:
        if not isinstance(of, Aggregate) or of.function in (*TESTS, "quantile"):
            raise UsageError("same compares one function over groups", "such as same(mean(age), sex)")
        own = chosen & self._chosen(of.where)
        each = [getattr(self, f"_{of.function}")(own & code, *of.arguments) for code in self._codes(by.name)]
        sizes = [self.scope.sum(own & code, ()) for code in self._codes(by.name)]

        def compared(sums: Floats) -> tuple[list[Told], Floats]:
            told, n = [e(sums) for e in each], np.maximum(sums[sizes], 0.0)
            ratios = [t.ratio for t in told if t.ratio is not None]
            if len(ratios) == len(told):  # nothing is divided by a group that may be empty
                below = [b for _, b in ratios]
                middle = added(sums, [a for a, _ in ratios]) / added(sums, below)
                return [a - b * middle for a, b in ratios], np.array([b.value for b in below])
            n = np.maximum(n, FLOOR * n.mean()) / max(n.sum(), 1e-300)
            middle = added(sums, [t * Told.constant(float(s), sums) for t, s in zip(told, n, strict=True)])
            return [t - middle for t in told], 1 / np.maximum(n, 1e-300)

        return Test(compared)

    def _quantile(self, answer: Aggregate) -> Quantile:
        column, share = answer.arguments
        if not isinstance(column, Column):
            raise UsageError("a quantile is of a column", "such as quantile(age, .5)")
        numeric(column.name, self.scope.kinds[column.name])
        chosen = self._chosen(answer.where)
        domain = self.scope.axes[column.name]
        places = [
            self.scope.sum(chosen & self.scope.over(column.name, np.arange(domain.size) == code), ())
            for code in range(domain.ordinary)
        ]
        return Quantile(domain, tuple(places), share)


def added(sums: Floats, several: Sequence[Told]) -> Told:
    found = Told.constant(0.0, sums)
    for each in several:
        found += each
    return found


def _signed(one: Told, sign: str, other: Told) -> Told:
    if sign == "+":
        return one + other
    if sign == "-":
        return one - other
    return one * other if sign == "*" else one / other


def possible(number: float) -> float | None:
    """Return a number, None where there is none."""
    return None if isnan(number) or number in (inf, -inf) else number
