"""The functions of a question: each as sums over records, and a number computed from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isnan
from typing import Any

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.errors import UsageError
from ppdm_cli.querying.asked import Aggregate, Answer, Both, Column, Combined, Condition
from ppdm_cli.querying.quantiles import Quantile
from ppdm_cli.querying.scope import Scope, Truth, Value, numeric
from ppdm_cli.querying.told import Told

Computed = Callable[[Floats], Told]
"""What makes a number of the sums of one group."""


@dataclass(frozen=True)
class Compiler:
    """Turns answers into numbers computed from the sums of a scope, which it adds."""

    scope: Scope
    where: Condition | None
    records: float
    """How many the release has."""

    def answer(self, answer: Answer) -> Computed | Quantile:
        if isinstance(answer, Aggregate) and answer.function == "quantile":
            return self._quantile(answer)
        return self._computed(answer)

    def _computed(self, answer: Answer) -> Computed:
        if isinstance(answer, float):
            value = answer
            return lambda sums: Told.constant(value, sums)
        if isinstance(answer, Combined):
            one, other, sign = self._computed(answer.one), self._computed(answer.other), answer.sign
            return lambda sums: _signed(one(sums), sign, other(sums))
        if answer.function == "quantile":
            raise UsageError(
                "a quantile cannot be computed with: it is no smooth function of what is counted",
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

        def total(sums: Floats) -> Told:
            found = Told.constant(0.0, sums)
            for place in places:
                found += Told.of(sums, place)
            return found

        return total

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
        truth: Truth = self.scope.truth(of)
        one = Value({(): np.where(truth.true, 1.0, 0.0)}, truth.true | truth.false)
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


def _signed(one: Told, sign: str, other: Told) -> Told:
    if sign == "+":
        return one + other
    if sign == "-":
        return one - other
    return one * other if sign == "*" else one / other


def possible(number: float) -> float | None:
    """Return a number, None where there is none."""
    return None if isnan(number) or number in (inf, -inf) else number
