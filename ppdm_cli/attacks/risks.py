"""The three risks of anonymisation, as Anonymeter (Giomi et al. 2023) measures them on synthetic data.

Singling out: a combination of values that one published record has, and one person too. Linkability: half of a
person's values and the other half lead to the same published record. Inference: the published record that is
nearest in all other values has the person's value. Each is set against guessing without looking at the person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.arrays import Floats, wilson
from ppdm_cli.attacks.adversary import Adversary
from ppdm_cli.attacks.report import RiskFigures
from ppdm_cli.attacks.run import Attack
from ppdm_cli.engine import step
from ppdm_cli.errors import DataError, UsageError
from ppdm_cli.repeatable import hashed
from ppdm_cli.tables import Table, loaded

if TYPE_CHECKING:
    import polars as pl

ATTEMPTS, MOST_TRIED, COLUMNS = 1000, 20_000, 3
"""The numbers of tries of each risk, of combinations to look at, and of columns in one."""
MOST_MARKS = 1 << 9
"""The most answers of all records to a question about one column that are held, as bits."""
TOLERANCE = 0.05
"""The share by which a guessed number may be wrong."""
Asked = tuple[int, Callable[[Floats, float], np.ndarray], float]
"""A column, and what a combination asks of its values."""


class Risks(Attack):
    """Risks of two tables whose rows need not pair, which `measured_risks` measures."""

    name = "risks"
    about = "Anonymeter's singling out, linkability and inference, on a release or a reconstruction."
    needs_original = of_tables = True

    @classmethod
    def learn(cls, adversary: Adversary) -> None:
        return None


@dataclass(frozen=True, eq=False)
class ComparedColumn:
    """A column of both tables as numbers, for words the same number for the same word; NaN is null."""

    name: str
    ordered: bool
    published: Floats
    original: Floats

    @classmethod
    def of(cls, published: pl.Series, original: pl.Series) -> ComparedColumn:
        import polars as pl

        ordered, both = original.dtype.is_numeric(), [published, original]
        if not ordered:
            words = pl.concat([s.cast(pl.String).alias("") for s in both]).cast(pl.Categorical)
            both = [words.to_physical()[: len(published)], words.to_physical()[len(published) :]]
        return cls(original.name, ordered, *(s.cast(pl.Float64).fill_null(np.nan).to_numpy() for s in both))

    @cached_property
    def width(self) -> float:
        every = np.concatenate([self.published, self.original])
        every = every[~np.isnan(every)]
        return float(np.ptp(every)) or 1.0 if len(every) else 1.0

    @cached_property
    def median(self) -> float:
        known = self.published[~np.isnan(self.published)]
        return float(np.median(known)) if len(known) else 0.0

    @cached_property
    def values(self) -> tuple[Floats, np.ndarray]:
        """Return the published values, each once, and which of them each record has."""
        values, which = np.unique(self.published, return_inverse=True)
        return values, which.astype(np.int32)

    def away(self, value: float) -> np.ndarray:
        """Return the distance of each published value from one: 1 at most, and 0 between two nulls."""
        values, which = self.values
        if np.isnan(value):
            found = ~np.isnan(values)
        elif not self.ordered:
            found = values != value
        else:
            found = np.nan_to_num(abs(values - value) / self.width, nan=1.0)
        return found.astype(np.float32).take(which)

    def right(self, guesses: Floats, value: float) -> np.ndarray:
        """Return whether guesses are right; numbers may be off by a share of the guess."""
        if np.isnan(value):
            return np.isnan(guesses)
        off = TOLERANCE * abs(guesses) if self.ordered else 0.0
        return np.asarray(abs(guesses - value) <= off)


def measured_risks(table: Table, original: Table, names: Sequence[str], purpose: str) -> list[RiskFigures]:
    """Measure the three risks of a release or a reconstruction against its original."""
    if len(names) < 2:
        raise UsageError("one-column", "risks compare columns, and there is one", "name a release of several")
    rng = np.random.default_rng(int(hashed([purpose, "risks"])))
    columns = list(map(ComparedColumn.of, _frame(table, names), _frame(original, names)))
    return [_singled_out(columns, rng), *_by_nearest(columns, rng)]


def _frame(table: Table, names: Sequence[str]) -> list[pl.Series]:
    import polars as pl

    batches = [[dtypes.plain(b.column(n)) for n in names] for _, _, b in loaded(table, names)]
    if not sum(len(columns[0]) for columns in batches):
        raise DataError(
            "no-records", "a table has no records: there is nothing to measure", "give one that has"
        )
    each = zip(*batches, strict=True)
    return [pl.Series(n, pa.chunked_array(list(parts))) for n, parts in zip(names, each, strict=True)]


def _figures(risk: str, hits: float, tried: int, by_guess: float, guessed: int) -> RiskFigures:
    low, high = wilson(hits, tried)
    low_guess, high_guess = wilson(by_guess, guessed)
    share, guess = hits / max(tried, 1), by_guess / max(guessed, 1)
    excess = (share - guess) / (1 - guess) if guess < 1 else 0.0
    return RiskFigures(risk, tried, share, low, high, guess, low_guess, high_guess, excess)


# -- singling out


def _singled_out(columns: Sequence[ComparedColumn], rng: np.random.Generator) -> RiskFigures:
    """Count combinations of one published record that fit one person, equal records and people taken as one."""
    published, original = (
        _distinct(t) for t in zip(*((c.published, c.original) for c in columns), strict=True)
    )
    of_rows, of_people = _marker(published), _marker(original)
    many = min(COLUMNS, len(columns))
    hits = tried = by_guess = 0
    for _ in range(MOST_TRIED):
        row, places = rng.integers(published.shape[1]), rng.choice(len(columns), many, replace=False)
        asked = [(p, _beyond(columns[p], published[p, row]), published[p, row]) for p in places]
        if _fitting(of_rows, asked) == 1:
            tried, hits = tried + 1, hits + (_fitting(of_people, asked) == 1)
        if tried == ATTEMPTS:
            break
    for _ in range(ATTEMPTS):
        places = rng.choice(len(columns), many, replace=False)
        asked = [(p, *_at_random(columns[p], rng)) for p in places]
        by_guess += _fitting(of_people, asked) == 1
    return _figures("singling out", hits, tried, by_guess, ATTEMPTS)


def _distinct(columns: Sequence[Floats]) -> Floats:
    """Return each record once, (columns, records)."""
    found = np.unique(np.nan_to_num(np.stack(columns), nan=-np.inf), axis=1)
    return np.where(np.isneginf(found), np.nan, found)


def _marker(values: Floats) -> Callable[..., np.ndarray]:
    """Return a function for the records that fit what is asked of a column, as bits."""

    @lru_cache(MOST_MARKS)
    def marks(place: int, test: Callable[[Floats, float], np.ndarray], value: float) -> np.ndarray:
        return np.packbits(np.isnan(values[place]) if np.isnan(value) else test(values[place], value))

    return marks


def _fitting(marks: Callable[..., np.ndarray], asked: Sequence[Asked]) -> int:
    return int(np.bitwise_count(np.bitwise_and.reduce([marks(*one) for one in asked])).sum())


def _beyond(column: ComparedColumn, value: float) -> Callable[[Floats, float], np.ndarray]:
    """Return the question that fewest answer: numbers as far from the median, or farther."""
    if not column.ordered:
        return np.equal
    return np.greater_equal if value > column.median else np.less_equal


def _at_random(
    column: ComparedColumn, rng: np.random.Generator
) -> tuple[Callable[[Floats, float], np.ndarray], float]:
    tests = [np.equal, np.not_equal, np.greater, np.less, np.greater_equal, np.less_equal]
    return tests[rng.integers(len(tests) if column.ordered else 2)], rng.choice(column.values[0])


# -- linkability and inference


def _by_nearest(columns: Sequence[ComparedColumn], rng: np.random.Generator) -> Iterator[RiskFigures]:
    """Yield linkability, of every other column with the rest, and inference of each column from all others."""
    people, rows = len(columns[0].original), len(columns[0].published)
    drawn = rng.choice(people, min(ATTEMPTS, people), replace=False)
    linked, hits, by_guess = 0.0, np.zeros(len(columns)), np.zeros(len(columns))
    with step("looking for the nearest rows", len(drawn)) as advance:
        for person in drawn:
            away = [c.away(c.original[person]) for c in columns]
            one, other = (_nearest(sum(away[half::2], np.zeros(rows, np.float32))) for half in (0, 1))
            linked += len(np.intersect1d(one, other)) / (len(one) * len(other))
            total = sum(away, np.zeros(rows, np.float32))
            for place, (column, own) in enumerate(zip(columns, away, strict=True)):
                value = column.original[person]
                hits[place] += column.right(column.published[_nearest(total - own)], value).mean()
                by_guess[place] += column.right(column.published[rng.integers(rows, size=1)], value).mean()
            advance(1)
    yield _figures("linkability", linked, len(drawn), len(drawn) / rows, len(drawn))
    for column, right, guess in zip(columns, hits, by_guess, strict=True):
        yield _figures(f"inference of {column.name}", float(right), len(drawn), float(guess), len(drawn))


def _nearest(away: np.ndarray) -> np.ndarray:
    """Return the rows that are nearest, all that are but for rounding."""
    return np.flatnonzero(away <= away.min() + 1e-5)
