"""Scopes for answers: the columns that questions use, and tables of each record's contribution to a sum.

A table has an axis for each condition on a kept column (false, true, null) and one for each column whose values
are estimated; numbers of kept columns are exact, and are factors beside the tables. A condition on a perturbed
column is about whole bins: one that cuts a bin is refused, with the edges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.arrays import Floats
from ppdm_cli.domain import Bins, Domain
from ppdm_cli.errors import RefusedError, UsageError, counted, quoted
from ppdm_cli.querying.question import Both, Column, Combined, Condition, Literals, Not, Number, Predicate

FALSE, TRUE, NULL = 0, 1, 2
"""The values of a condition for a code or a record."""
_EDGES = 24


def resolved_predicate(predicate: Predicate, kind: pa.DataType) -> Predicate:
    """Return the condition with carrier numbers or categories; of whole ones it is below, or among some."""
    name, asks = predicate.column, predicate.asks
    values = [_carrier(v, kind, name) for v in predicate.values]
    if asks in ("below", "up to"):
        if dtypes.is_discrete(kind):
            what = f"{quoted(name)} has no order, so no value is below another"
            raise UsageError("values-without-order", what, "use =, <> or in")
        if dtypes.is_whole(kind):
            edge = math.ceil(values[0]) if asks == "below" else math.floor(values[0]) + 1
            return Predicate(name, "below", (edge,))
        return Predicate(name, asks, (float(values[0]),))
    if dtypes.is_whole(kind):
        low, high = dtypes.limits(kind)
        values = [int(v) for v in values if v.denominator == 1 and low <= v <= high]
    elif not dtypes.is_discrete(kind):
        values = [float(v) for v in values]
    return Predicate(name, asks, tuple(values))


def _carrier(value: Literals, kind: pa.DataType, name: str) -> Any:
    """Return a value in the column's carrier, exactly: numbers as fractions."""
    wrong = UsageError(
        "value-of-another-type",
        f"{quoted(name)} is of type {kind}, but is compared with another type",
        "write text in quotes, dates as '2026-12-31', times as '2026-12-31T12:00:00', numbers as they are",
    )
    if dtypes.is_discrete(kind):
        right = bool if pa.types.is_boolean(kind) else str
        if not isinstance(value, right):
            raise wrong
        return value
    if pa.types.is_temporal(kind):
        try:
            return Fraction(dtypes.from_json(value, kind))
        except ValueError:
            raise wrong from None
    if isinstance(value, (bool, str)) or not math.isfinite(value):
        raise wrong
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    return Fraction(str(value)) * 10**scale


def over_domain(predicate: Predicate, domain: Domain) -> np.ndarray:
    """Return the value of a resolved predicate for each code of a domain: true, false or null."""
    found = np.full(domain.size, NULL, np.uint8)
    if predicate.asks == "null":
        found[:] = FALSE
        found[domain.ordinary :] = TRUE
        return found
    if isinstance(domain, Bins):
        found[: domain.ordinary] = _of_bins(predicate, domain)
        return found
    if predicate.asks == "among":
        missing = sum(v not in domain.marks for v in predicate.values)
        if missing and dtypes.is_discrete(domain.kind):
            what = f"the domain of {quoted(predicate.column)} lacks {counted(missing, 'value')} in the question"
            step = f"use one of {', '.join(map(quoted, domain.labels()[:_EDGES]))}"
            raise UsageError("literal-outside-domain", what, step)
        matches = [mark in predicate.values for mark in domain.marks]
    else:
        edge, strictly = predicate.values[0], predicate.asks == "below"
        matches = [bool(mark < edge if strictly else mark <= edge) for mark in domain.marks]
    found[: domain.ordinary] = matches
    return found


def _of_bins(predicate: Predicate, domain: Bins) -> Sequence[int]:
    """Return the value of a condition for each bin: true or false for all of its values."""
    edges, whole = domain.marks, dtypes.is_whole(domain.kind)
    found = []
    for place, (low, high) in enumerate(pairwise(edges)):
        closed = place == domain.ordinary - 1
        after = high + 1 if whole and closed else high  # where values end: [low, after), or [low, high]
        if predicate.asks == "among":
            inside = sum(low <= v < after or (closed and v == high) for v in set(predicate.values))
            true, false = whole and inside == after - low, not inside
        elif predicate.asks == "below":
            edge = predicate.values[0]
            true, false = after < edge if closed and not whole else after <= edge, low >= edge
        else:
            true, false = high <= predicate.values[0], low > predicate.values[0]
        if true == false:
            texts = [str(dtypes.to_json(e, domain.kind)) for e in edges]
            more = [f"and {len(texts) - _EDGES} more"] * (len(texts) > _EDGES)
            what = f"{quoted(predicate.column)} was published in bins, and the condition cuts one"
            step = f"use < or >= with an edge: {', '.join([*texts[:_EDGES], *more])}"
            raise RefusedError("condition-cuts-a-bin", what, step)
        found.append(TRUE if true else FALSE)
    return found


def over_column(predicate: Predicate, column: pa.Array) -> np.ndarray:
    """Return the value of a resolved predicate for each record of a kept column: true, false or null."""
    column = dtypes.plain(column)
    null = nulls(column)
    if predicate.asks == "null":
        return np.where(null, TRUE, FALSE).astype(np.uint8)
    if dtypes.is_discrete(column.type):
        among = pc.is_in(column, value_set=pa.array(predicate.values, column.type))
        matches = among.to_numpy(zero_copy_only=False)
    else:
        values = dtypes.carrier(column)
        with np.errstate(invalid="ignore", over="ignore"):  # past the column's largest number is infinity
            if predicate.asks == "among":
                matches = np.isin(values, np.array(predicate.values, values.dtype))
            elif predicate.asks == "below":
                matches = values < predicate.values[0]
            else:
                matches = values <= predicate.values[0]
    return np.where(null, NULL, matches).astype(np.uint8)


def nulls(column: pa.Array) -> np.ndarray:
    """Return the records of a column that have no value; NaN counts as none."""
    found: np.ndarray = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    return found


Factors = tuple[str, ...]
"""Kept columns, sorted, whose numbers are multiplied; one may be there more than once."""
OUTCOMES = 3
MOST_NUMBERS = 1 << 25
"""The most numbers in the weights of one table's sums, and in their covariances."""


def too_large(what: str) -> UsageError:
    """Return the error of a question that would take minutes, or more memory than there may be."""
    return UsageError(
        "question-too-large", f"the question needs {what}", "use fewer columns at once, or fewer groups"
    )


@dataclass(frozen=True, eq=False)
class TruthTable:
    """The cells in which a condition is true, and those in which it is false; in others it is neither."""

    true: np.ndarray
    false: np.ndarray


@dataclass(frozen=True, eq=False)
class Value:
    """A number of each record: a sum of tables times factors; `known` marks values that aren't null."""

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
    """The axes of the tables, and the sums over records: each a table with its factors."""

    kinds: dict[str, pa.DataType]
    """The type of each column of the release's originals."""
    axes: dict[str, Domain]
    atoms: list[Predicate]
    """The conditions on kept columns, record by record."""
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
        """Return a function of the codes of one axis alone, as a table."""
        return self._along(len(self.atoms) + list(self.axes).index(name), values)

    # -- conditions and numbers

    def truth(self, condition: Condition | None) -> TruthTable:
        if condition is None:
            return TruthTable(self.everywhere, ~self.everywhere)
        if isinstance(condition, Not):
            inner = self.truth(condition.of)
            return TruthTable(inner.false, inner.true)
        if isinstance(condition, Both):
            one, other = self.truth(condition.one), self.truth(condition.other)
            return TruthTable(one.true & other.true, one.false | other.false)
        asked = resolved_predicate(condition, self.kinds[condition.column])
        if asked in self.atoms:
            outcomes = self._along(self.atoms.index(asked), np.arange(OUTCOMES))
        else:
            domain = self.axes[asked.column]
            outcomes = self.over(asked.column, over_domain(asked, domain))
        return TruthTable(outcomes == TRUE, outcomes == FALSE)

    def null(self, name: str) -> TruthTable:
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

    def sum(self, table: np.ndarray, factors: Factors = ()) -> int:
        """Return the index of a sum: of each record's contribution by its codes, times its factors."""
        whole = np.ascontiguousarray(np.broadcast_to(table, self.shape), np.float64)
        key = (factors, whole.tobytes())
        if key not in self._known:
            sums = len(self.sums) + 1
            if (numbers := sums * max(prod(self.shape), sums)) > MOST_NUMBERS:
                raise too_large(f"tables of {numbers:,} numbers, more than {MOST_NUMBERS:,}")
            self._known[key] = len(self.sums)
            self.sums.append((factors, whole.reshape(self.patterns, prod(self.sizes))))
        return self._known[key]


def numeric(name: str, kind: pa.DataType) -> None:
    """Raise an error if a column's values aren't numbers."""
    if dtypes.is_discrete(kind) or pa.types.is_temporal(kind):
        what = f"{quoted(name)} is of type {kind}, whose values aren't numbers"
        raise UsageError("not-numeric", what, "use count, or the share of a condition on it")


def groups_over(scope: Scope, by: Sequence[Column | Condition]) -> tuple[list[np.ndarray], list[list[str]]]:
    """Return the tables that are 1 in each group, and the groups' labels; one group of all without columns."""
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
