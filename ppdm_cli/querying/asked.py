"""What a question is made of: conditions, numbers, and answers that are computed from sums over records.

Conditions have three values, as in SQL: what is asked of null is neither true nor false.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

Literals = str | int | float | bool
Sign = Literal["+", "-", "*", "/"]
TESTS = ("independent", "trend", "same", "fits")
REGRESSIONS = ("linear", "ridge")


@dataclass(frozen=True)
class Predicate:
    """What is asked of one column: whether it is below a value, at most it, among some, or null."""

    column: str
    asks: Literal["below", "up to", "among", "null"]
    values: tuple[Literals, ...] = ()


@dataclass(frozen=True)
class Not:
    of: Condition


@dataclass(frozen=True)
class Both:
    """Two conditions, both of which hold."""

    one: Condition
    other: Condition


Condition = Predicate | Not | Both


def either(one: Condition, other: Condition) -> Condition:
    return Not(Both(Not(one), Not(other)))


@dataclass(frozen=True)
class Column:
    name: str


@dataclass(frozen=True)
class Combined:
    """Two numbers, or two answers, with a sign between."""

    sign: Sign
    one: Any
    other: Any


Number = Column | Combined | float


@dataclass(frozen=True)
class Aggregate:
    """A function of all records, or of those for which a condition holds."""

    function: str
    arguments: tuple[Any, ...]
    where: Condition | None = None


Answer = Aggregate | Combined | float


@dataclass(frozen=True)
class Item:
    """One answer that is asked for, and what it is called."""

    title: str
    answer: Answer


@dataclass(frozen=True)
class Question:
    items: tuple[Item, ...]
    where: Condition | None
    by: tuple[Column | Condition, ...]
    titles: tuple[str, ...]
    """What the groups are called."""


def parts(of: Any) -> Iterator[Any]:
    """Yield a question's part and all parts of it."""
    yield of
    inner: tuple[Any, ...] = ()
    if isinstance(of, (Both, Combined)):
        inner = of.one, of.other
    elif isinstance(of, Not):
        inner = (of.of,)
    elif isinstance(of, Aggregate):
        inner = (*of.arguments, of.where)
    for each in inner:
        yield from parts(each)


def named(of: Any) -> list[str]:
    """Return the columns that a part names, each once."""
    found = (
        p.name if isinstance(p, Column) else p.column for p in parts(of) if isinstance(p, (Column, Predicate))
    )
    return list(dict.fromkeys(found))
