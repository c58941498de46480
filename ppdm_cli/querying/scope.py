"""What questions touch, as tables over it: conditions, numbers and sums become tables of what a record adds.

A table has an axis for each condition on a kept column (false, true, null) and one for each column whose
values are estimated; numbers of kept columns are exact, and are factors beside the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.arrays import Floats
from ppdm_cli.domain import Domain
from ppdm_cli.errors import UsageError, quoted
from ppdm_cli.querying.asked import Both, Column, Combined, Condition, Not, Number, Predicate
from ppdm_cli.querying.conditions import FALSE, TRUE, over_domain, resolved

Factors = tuple[str, ...]
"""Kept columns, sorted, whose numbers are multiplied; one may be there more than once."""
OUTCOMES = 3
MOST_NUMBERS = 1 << 25
"""Numbers that one table's sums are weighed with, and that their covariances have."""


def too_large(what: str) -> UsageError:
    """Return the error of a question that would take minutes, or more memory than there may be."""
    return UsageError(f"the question needs {what}", "touch fewer columns at once, or ask for fewer groups")


@dataclass(frozen=True, eq=False)
class Truth:
    """Where a condition is true, and where it is false; elsewhere it is neither."""

    true: np.ndarray
    false: np.ndarray


@dataclass(frozen=True, eq=False)
class Value:
    """A number of each record: a sum of tables times factors; `known` is where it is no null."""

    terms: dict[Factors, Floats]
    known: np.ndarray

    def __add__(self, other: Value) -> Value:
        terms = dict(self.terms)
        for factors, table in other.terms.items():
            terms[factors] = terms[factors] + table if factors in terms else table
        return Value(terms, self.known & other.known)

    def __mul__(self, other: Value) -> Value:
        found = Value({}, self.known & other.known)
        for one, table in self.terms.items():
            for two, times in other.terms.items():
                found += Value({tuple(sorted(one + two)): table * times}, found.known)
        return found


@dataclass(eq=False)
class Scope:
    """The axes of the tables, and what is summed over records: each a table with its factors."""

    kinds: dict[str, pa.DataType]
    """The type of each column of the release's originals."""
    axes: dict[str, Domain]
    atoms: list[Predicate]
    """What is asked of kept columns, record by record."""
    sums: list[tuple[Factors, Floats]] = field(default_factory=list)
    _known: dict[tuple[Factors, bytes], int] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(d.size for d in self.axes.values())

    @property
    def patterns(self) -> int:
        return int(OUTCOMES ** len(self.atoms))

    @property
    def shape(self) -> tuple[int, ...]:
        return (OUTCOMES,) * len(self.atoms) + self.sizes

    @property
    def everywhere(self) -> np.ndarray:
        return np.ones((1,) * len(self.shape), bool)

    def _along(self, place: int, values: np.ndarray) -> np.ndarray:
        shape = [1] * len(self.shape)
        shape[place] = len(values)
        return values.reshape(shape)

    def over(self, name: str, values: np.ndarray) -> np.ndarray:
        """Return what hangs on the codes of one axis alone, as a table."""
        return self._along(len(self.atoms) + list(self.axes).index(name), values)

    # -- conditions and numbers

    def truth(self, condition: Condition | None) -> Truth:
        if condition is None:
            return Truth(self.everywhere, ~self.everywhere)
        if isinstance(condition, Not):
            inner = self.truth(condition.of)
            return Truth(inner.false, inner.true)
        if isinstance(condition, Both):
            one, other = self.truth(condition.one), self.truth(condition.other)
            return Truth(one.true & other.true, one.false | other.false)
        asked = resolved(condition, self.kinds[condition.column])
        if asked in self.atoms:
            outcomes = self._along(self.atoms.index(asked), np.arange(OUTCOMES))
        else:
            domain = self.axes[asked.column]
            outcomes = self.over(asked.column, over_domain(asked, domain))
        return Truth(outcomes == TRUE, outcomes == FALSE)

    def null(self, name: str) -> Truth:
        """Return where a kept column has no value."""
        return self.truth(Predicate(name, "null"))

    def value(self, number: Number) -> Value:
        if isinstance(number, Column):
            return self._column(number.name)
        if isinstance(number, Combined):
            one, other = self.value(number.one), self.value(number.other)
            if number.sign == "*":
                return one * other
            return one + (other if number.sign == "+" else other * self.value(-1.0))
        return Value({(): np.full(self.everywhere.shape, float(number))}, self.everywhere)

    def _column(self, name: str) -> Value:
        numeric(name, self.kinds[name])
        if Predicate(name, "null") in self.atoms:  # it was kept
            return Value({(name,): np.ones(self.everywhere.shape)}, self.null(name).false)
        numbers = self.over(name, self.axes[name].numbers())
        known = ~np.isnan(numbers)
        return Value({(): np.where(known, numbers, 0.0)}, known)

    # -- sums

    def _check_sums(self, sums: int) -> None:
        """Refuse so many sums that their tables would not fit the memory, before they are made."""
        numbers = sums * max(prod(self.shape), sums)
        if numbers > MOST_NUMBERS:
            raise too_large(f"tables of {numbers:,} numbers, more than {MOST_NUMBERS:,}")

    def sum(self, table: np.ndarray, factors: Factors = ()) -> int:
        """Return the number of a sum: of what each record adds by its codes, times its factors."""
        whole = np.ascontiguousarray(np.broadcast_to(table, self.shape), np.float64)
        key = (factors, whole.tobytes())
        if key not in self._known:
            self._check_sums(len(self.sums) + 1)
            self._known[key] = len(self.sums)
            self.sums.append((factors, whole.reshape(self.patterns, prod(self.sizes))))
        return self._known[key]


def numeric(name: str, kind: pa.DataType) -> None:
    """Raise an error where a column's values are no numbers."""
    if dtypes.is_discrete(kind) or pa.types.is_temporal(kind):
        raise UsageError(
            f"{quoted(name)} is of type {kind}, whose values are no numbers",
            "ask for count, or for the share of a condition on it",
        )


def groups_over(scope: Scope, by: Sequence[Column | Condition]) -> tuple[list[np.ndarray], list[list[str]]]:
    """Return the tables that are 1 in each group, and the groups' labels; of no column one group of all."""
    tables, labels = [scope.everywhere], [list[str]()]
    for each in by:
        if isinstance(each, Column):
            domain = scope.axes[each.name]
            own = [scope.over(each.name, row) for row in np.eye(domain.size, dtype=bool)]
            names = domain.labels()
        else:
            truth = scope.truth(each)
            own, names = [truth.true, truth.false], ["true", "false"]
        tables = [t & o for t in tables for o in own]
        labels = [[*before, name] for before in labels for name in names]
    return tables, labels
