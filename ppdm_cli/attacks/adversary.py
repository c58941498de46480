"""Adversaries for all attacks: what a release shows to each, such as priors and counts, and how records are
read.

Nothing of it is from the original, which only `Records.truths` has. An attacked attribute turns beliefs over
codes into guesses, each the best for its own measure: the most likely code, the code whose neighbourhood is
most likely, and the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.arrays import Addresses, Codes, Floats
from ppdm_cli.attacks.pairing import ORIGINAL, PUBLISHED, Paired
from ppdm_cli.channels import Channel, Matrix
from ppdm_cli.domain import Bins, Domain, unit
from ppdm_cli.engine import Batch
from ppdm_cli.errors import DataError, listed
from ppdm_cli.estimating import MOST_CELLS, Coverage, count, estimated_tables, maximum_likelihood
from ppdm_cli.releases import OWN, Exposures, Strata, axes_of, encoded, opened
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import Table

if TYPE_CHECKING:
    from ppdm_cli.attacks.report import ClassFigures

BELIEFS_AT_ONCE = 1 << 22
"""The most beliefs (rows are answers, columns values) that are held at a time."""
MOST_ENTRIES, LARGEST_DOMAIN = 1 << 23, 1024
"""The most entries of laws that are written out, and values of an attribute that isn't published separately."""
MOST_CLASS_VALUES = 32
"""The most published values of an attribute that may take the place of a missing class."""
RECORDS_AT_ONCE = 1 << 13
"""The most records that are guessed at a time."""
LEAST_WIDTH = 1e-70
"""The least width of a domain: the fourth powers of errors, which intervals need, must be finite and not 0."""


Knowledge = TypeVar("Knowledge")


class Guess(NamedTuple):
    """The guesses for each record: the code to name, the code whose neighbourhood to name, the number to name.

    Where the adversary has beliefs, also how likely they hold the code and the neighbourhood, and the
    squared error that they expect of the number.
    """

    exact: np.ndarray
    near: np.ndarray
    value: Floats
    belief: Floats | None = None
    near_belief: Floats | None = None
    variance: Floats | None = None
    rows: np.ndarray | None = None
    """The records that the guesses are about; all by default."""

    def of(self, which: slice | np.ndarray) -> Guess:
        """Return the guesses at some places of each array."""
        return Guess(*(np.asarray(part)[which] for part in self if part is not None))

    @classmethod
    def joined(cls, parts: Sequence[Guess]) -> Guess:
        """Return the guesses of parts, one after the other; all parts have the same arrays."""
        return cls(*(np.concatenate(c) for c in zip(*parts, strict=True) if c[0] is not None))


class Truth(NamedTuple):
    """The original's code and number of each record (NaN where it has none)."""

    codes: Codes
    numbers: Floats

    def part(self, which: slice | np.ndarray | None) -> Truth:
        return self if which is None else Truth(self.codes[which], self.numbers[which])


@dataclass(frozen=True)
class Records:
    """Some records as the attacks see them."""

    recipes: np.ndarray
    lam: Floats
    """The probability for each record that its values are revealed together, and are not noise."""
    codes: dict[str, Codes]
    """The codes over all exposures, of perturbed columns and of kept ones that take part."""
    noisy: dict[str, Floats]
    """The published numbers of attributes with additive noise."""
    truths: dict[str, Truth] | None
    first_row: int
    fitting: np.ndarray | None = None
    """A number for the values of the kept columns that someone knows, equal for equal ones."""

    def part(self, which: slice | np.ndarray) -> Records:
        """Return some of the records; their addresses are not theirs any more."""
        return self.made(lambda arrays: arrays[0][which], [self])

    @classmethod
    def made(cls, make: Callable[[Sequence[Any]], Any], parts: Sequence[Records]) -> Records:
        """Return records of which each array is made from the same array of some others."""
        one = parts[0]
        truths = None
        if one.truths is not None:
            each = {n: zip(*(p.known[n] for p in parts), strict=True) for n in one.truths}
            truths = {n: Truth(*map(make, arrays)) for n, arrays in each.items()}
        return cls(
            make([p.recipes for p in parts]),
            make([p.lam for p in parts]),
            {n: make([p.codes[n] for p in parts]) for n in one.codes},
            {n: make([p.noisy[n] for p in parts]) for n in one.noisy},
            truths,
            one.first_row,
            None if one.fitting is None else make([p.fitting for p in parts]),
        )

    @property
    def count(self) -> int:
        return len(self.recipes)

    @property
    def addresses(self) -> Addresses:
        return np.arange(self.first_row, self.first_row + self.count, dtype=np.uint64)

    @property
    def known(self) -> dict[str, Truth]:
        assert self.truths is not None
        return self.truths


@dataclass(frozen=True, eq=False)
class AttackedAttribute:
    """One perturbed attribute, or several perturbed together, with the prior that the release gives."""

    channel: Channel
    prior: Floats
    """The estimated shares of the original codes."""
    exposures: Exposures
    gamma: float
    """The amplification by which its published value may change a belief."""

    @property
    def separate(self) -> bool:
        return _separate(self.exposures)

    @property
    def name(self) -> str:
        return self.channel.name

    @property
    def domain(self) -> Domain:
        return self.channel.domain

    @property
    def published(self) -> Domain:
        return self.channel.published

    @property
    def matrix(self) -> Matrix:
        return self.channel.matrix

    @cached_property
    def ordered(self) -> int:
        """Return the number of codes in order; 0 if the domain has no order."""
        return self.domain.ordered

    @cached_property
    def values(self) -> Floats:
        """Return the number that each original code represents: a bin's middle; NaN for null and for words."""
        return self.domain.numbers()

    @cached_property
    def measurable(self) -> bool:
        """Return whether the moments of errors can be computed: no width is too large or too small."""
        u = self.values[: self.ordered]
        width = float(u.max() / 2 - u.min() / 2) if self.ordered else 0.0
        return width == 0 or LEAST_WIDTH <= width <= 1 / LEAST_WIDTH

    def nearest(self, numbers_: Floats) -> np.ndarray:
        """Return the codes of numbers: the bin that they are in, or the nearest one."""
        if isinstance(self.domain, Bins):
            edges = self.domain.edges.astype(np.float64) - dtypes.is_whole(self.domain.kind) / 2
            places = np.searchsorted(edges * unit(self.domain.kind), numbers_, side="right") - 1
            return np.clip(places, 0, self.ordered - 1)
        known = self.values[: self.ordered]
        return np.searchsorted((known[1:] + known[:-1]) / 2, numbers_)

    def guessed_by(self, codes: Codes, lam: Floats) -> Guess:
        """Return the best guesses from the prior and the own published code, in records of these lam."""
        step, parts = max(1, min(RECORDS_AT_ONCE, BELIEFS_AT_ONCE // self.domain.size)), []
        for start in range(0, max(len(codes), 1), step):
            part = slice(start, start + step)
            parts.append(self.guessed(self.exposures.mixed(codes[part], lam[part]) * self.prior))
        return Guess.joined(parts)

    def guessed(self, beliefs: Floats) -> Guess:
        """Return the best guesses from beliefs, one row per record, which need not sum to 1."""
        exact = beliefs.argmax(axis=1)
        rows, total = np.arange(len(beliefs)), np.maximum(beliefs.sum(axis=1), 1e-300)
        belief = beliefs[rows, exact] / total
        if not self.ordered:
            nothing = np.full(len(beliefs), np.nan)
            return Guess(exact, exact, nothing, belief, belief, nothing)
        windows = self.windows(beliefs)
        near = windows.argmax(axis=1)
        if not self.measurable:
            nothing = np.full(len(beliefs), np.nan)
            return Guess(exact, near, nothing, belief, windows[rows, near] / total, nothing)
        u, ordinary = self.values[: self.ordered], beliefs[:, : self.ordered]
        middle, sums = u.mean(), np.maximum(ordinary.sum(axis=1), 1e-300)
        value = ordinary @ (u - middle) / sums
        variance = np.maximum(ordinary @ (u - middle) ** 2 / sums - value**2, 0.0)
        return Guess(exact, near, value + middle, belief, windows[rows, near] / total, variance)

    def windows(self, beliefs: Floats) -> Floats:
        """Return the belief in each code and its neighbours together; null has no neighbours."""
        windows = beliefs.copy()
        last = self.ordered
        windows[:, 1:last] += beliefs[:, : last - 1]
        windows[:, : last - 1] += beliefs[:, 1:last]
        return windows

    def is_near(self, guess: np.ndarray, true: np.ndarray) -> np.ndarray:
        apart = np.abs(guess.astype(np.int64) - true.astype(np.int64))
        both = (guess < self.ordered) & (true < self.ordered)
        return (apart == 0) | ((apart == 1) & both)

    @cached_property
    def by_prior(self) -> Guess:
        """Return the guess from the prior alone, in arrays of one."""
        return self.guessed(self.prior[None, :])

    def rows(self, start: int, stop: int) -> Floats:
        """Return rows of the matrix: for some published codes the chance of each under every original code."""
        unit = np.zeros((self.matrix.outputs, stop - start))
        unit[np.arange(start, stop), np.arange(stop - start)] = 1
        return np.ascontiguousarray(self.matrix.backward(unit).T)


def as_numbers(array: pa.Array, kind: pa.DataType) -> Floats:
    """Return a column as numbers; NaN where it is null."""
    if dtypes.is_discrete(kind):
        return np.full(len(array), np.nan)
    array = dtypes.plain(array)
    found = dtypes.carrier(array).astype(np.float64) * unit(kind)
    if array.null_count:
        found[array.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return found


class _Side:
    """The columns of one side of a paired batch."""

    def __init__(self, batch: Batch, side: str) -> None:
        self._batch, self._side, self.rows = batch, side, batch.rows

    def column(self, name: str) -> pa.Array:
        return self._batch.column(self._side + name)

    def coded(self, name: str) -> pa.Array:
        return self._batch.coded(self._side + name)

    def where(self, row: int) -> str:
        if self._side == ORIGINAL:
            return f"row {self._batch.first_row + row + 1} of the original"
        return self._batch.where(row)


@dataclass(frozen=True, eq=False)
class Reader:
    """Reads batches of a paired table as records."""

    strata: Strata
    targets: Mapping[str, AttackedAttribute]
    known: bool
    fitting: tuple[str, ...] = ()
    """The kept columns that someone knows."""

    def __call__(self, batch: Batch) -> Records:
        """Return the records, with their originals where those are known."""
        records, side, truths = self.published(batch), _Side(batch, ORIGINAL), dict[str, Truth]()
        for name, target in self.targets.items() if self.known else ():
            numbers = np.full(batch.rows, np.nan)  # words have none, nor have combinations
            if target.ordered:
                numbers = as_numbers(side.column(name), target.domain.kind)
            truths[name] = Truth(encoded(side, target.channel, OWN, original=True), numbers)
        return replace(records, truths=truths) if self.known else records

    def published(self, batch: Batch) -> Records:
        side = _Side(batch, PUBLISHED)
        recipes, codes = self.strata.read(side)
        noisy = {
            n: as_numbers(side.column(n), t.published.kind)
            for n, t in self.targets.items()
            if t.channel.noise is not None
        }
        named = {a.name: c for a, c in zip(self.strata.axes, codes, strict=True)}
        fitting = _hashes([side.column(n) for n in self.fitting]) if self.fitting else None
        return Records(recipes, self.strata.lam[recipes], named, noisy, None, batch.first_row, fitting)


def _hashes(columns: Sequence[pa.Array]) -> np.ndarray:
    """Return a number for each row of some columns, equal for equal values."""
    import polars as pl

    each = [pl.Series(str(i), dtypes.plain(c)) for i, c in enumerate(columns)]
    return pl.DataFrame(each).hash_rows().to_numpy()


class Adversary:
    """The knowledge that a release gives to everyone who knows the method, the basis of attacks."""

    def __init__(
        self,
        table: Table,
        sidecar: Sidecar,
        asked: Sequence[str],
        named: Sequence[str],
        known: bool,
        knows: Sequence[str] = (),
    ) -> None:
        """Take the attacks that may run, those that were named, and whether the originals are known.

        `knows` are the attributes of a person that someone who looks for their row knows; all by default.
        """
        self.table, self.sidecar, self.named, self.known, self.knows = table, sidecar, named, known, knows
        self.released = Paired(table, None, sidecar)
        self.remarks: list[str] = []
        self.kept: tuple[Channel, ...] = ()
        """Kept columns that attacks read."""
        self.fitting: tuple[str, ...] = ()
        """Kept columns that someone knows of the person whose row they look for."""
        self.class_figures: list[ClassFigures] = []
        self._knowledge: dict[object, Any] = {}
        axes = self._studied(axes_of(sidecar, [a.name for a in sidecar.perturbed]))
        self.label = self._class(axes, "record" in asked)
        """The class, or an attribute with few values that takes its place for the attack on records."""
        exposures = dict(zip((a.name for a in axes), Strata.of_axes(sidecar, axes).exposures, strict=True))
        separate = [a for a in axes if _separate(exposures[a.name])]
        priors = self._count(separate)
        if rest := [a.name for a in axes if a not in separate]:
            found, self.records = estimated_tables(table, sidecar, [(n,) for n in rest], "ml", Coverage())
            raised = [np.maximum(d.estimate, 0) + 1e-9 for d in found]
            priors |= {n: p / p.sum() for n, p in zip(rest, raised, strict=True)}
        if not self.records:
            raise DataError(
                "no-records", "the release has no records: there is nothing to attack", "give one that has"
            )
        gammas = self._gammas()
        self.targets = {
            a.name: AttackedAttribute(a, priors[a.name], exposures[a.name], gammas[a.attributes[0]])
            for a in axes
        }

    def __getstate__(self) -> dict[str, object]:
        """Return the state that tasks take along: not the tables, which may be elsewhere or large."""
        return {n: v for n, v in vars(self).items() if n not in ("table", "released", "_learnt")}

    def _studied(self, axes: Sequence[Channel]) -> tuple[Channel, ...]:
        """Return the axes whose beliefs can be computed; for the others no law is written out."""
        found, fits = dict[str, Channel](), MOST_ENTRIES
        each = list(zip(axes, Strata.of_axes(self.sidecar, axes).exposures, strict=True))
        for axis, exposures in sorted(each, key=lambda e: e[1].withheld):
            entries = 0 if _separate(exposures) else 2 * exposures.withheld * exposures.values
            if entries <= fits and (not entries or axis.matrix.outputs <= LARGEST_DOMAIN):
                found[axis.name], fits = axis, fits - entries
        if left := [a.name for a in axes if a.name not in found]:
            self.remarks.append(f"Not attacked, because they have too many values: {listed(left)}.")
        return tuple(a for a in axes if a.name in found)

    def _class(self, axes: Sequence[Channel], needed: bool) -> Channel | None:
        named = self.sidecar.by_name.get(str(self.sidecar.class_))
        if named is not None and named.has_domain:
            label = next((a for a in axes if named.name in a.attributes), None) or opened(self.sidecar).axis(
                named.name
            )
            if label.published.size * sum(a.matrix.outputs for a in axes) <= MOST_CELLS:
                return label
        few = [a for a in axes if a.matrix.outputs <= MOST_CLASS_VALUES]
        if not needed or not few or len(self.sidecar.attributes) < 2:
            return None
        label = min(few, key=lambda a: a.matrix.outputs)
        lists = "no class" if named is None or not named.has_domain else "too many labels of the class"
        self.remarks.append(
            f"The attack record needs a class. The sidecar lists {lists}, so it takes {label.name}, which has "
            "few values."
        )
        return label

    def _count(self, axes: Sequence[Channel]) -> dict[str, Floats]:
        """Count what was published, with a kept class by label; return the shares of the original values."""
        label = self.label
        others = [a for a in axes if a is not label] if label is not None and label.kept else []
        by_class = [(label, a) for a in others if label is not None]
        found = count(self.table, [*((a,) for a in axes), *by_class]) if axes else []
        self.counts = dict(zip((a.name for a in axes), found, strict=False))
        """The number of records that published each code, of attributes with one law for all records."""
        self.by_class = dict(zip((a.name for a in others), found[len(axes) :], strict=False))
        """The same counts by attribute, (labels, codes)."""
        self.records = int(found[0].sum()) if axes else 0
        n = max(self.records, 1)
        return {a.name: maximum_likelihood(self.counts[a.name], [a.matrix]) / n for a in axes}

    def _gammas(self) -> dict[str, float]:
        """Return each attribute's gamma: that of its channel, over all copies that are read."""
        release, found = opened(self.sidecar), dict[str, float]()
        for recipe in release.recipes:
            for name, channel in recipe.through.items():
                found[name] = max(found.get(name, 1.0), channel.matrix.amplification)
        return {n: g**release.copies for n, g in found.items()}

    def once(self, learn: Callable[[Adversary], Knowledge]) -> Knowledge:
        """Return what several attacks learn alike; only the first of them computes it."""
        if learn not in self._knowledge:
            self._knowledge[learn] = learn(self)
        found: Knowledge = self._knowledge[learn]
        return found

    @cached_property
    def gamma(self) -> float:
        """Return the gamma of a whole record."""
        release = opened(self.sidecar)
        each = [prod(c.matrix.amplification for c in d.channels) for d in release.recipes]
        return float(max(each) ** release.copies)

    @property
    def noisy(self) -> bool:
        """Return whether the published values are numbers with noise, not values of domains."""
        return any(t.channel.noise is not None for t in self.targets.values())

    @property
    def separate(self) -> bool:
        """Return whether every record publishes every attribute, each separately from the others."""
        return len(self.targets) == len(self.counts)

    def reader(self) -> Reader:
        """Return a reader of the records, with the kept columns that attacks asked for so far."""
        channels = {t.name: t.channel for t in self.targets.values()}
        channels |= {c.name: c for c in (*([self.label] if self.label else []), *self.kept)}
        strata = Strata.of_axes(self.sidecar, list(channels.values()))
        return Reader(strata, self.targets, self.known, self.fitting)


def _separate(exposures: Exposures) -> bool:
    """Return whether every record publishes an axis by the same law, separately from all else."""
    return len(exposures.each) == 1 and not (exposures.withholds or exposures.noisy.any())
