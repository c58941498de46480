"""Strata for all learning from a release: estimates, joint models, answers, trees, attacks and reports.

A release has one or more recipes. The law by which a record's published cell reveals an attribute is an
*exposure*: with probability lam it is U, else noise; for a separately published cell lam is 1, and there is no
noise. Records that reveal the same attributes by the same exposures are a *stratum*. Every marginal of a box
has the box's lam, so a stratum's records make one table of counts, whatever else they reveal.

`Strata.of(sidecar, names)` gives the strata of some attributes, `read` the codes of a batch, and `grouped` the
records that belong together. With one recipe there is one stratum: lam is 1, nothing is withheld, and
attributes that were perturbed together have one axis. Only this module asks whether there are several recipes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.arrays import Codes, Floats, code_type
from ppdm_cli.channels import Blur, Channel, Law, Matrix, blended
from ppdm_cli.domain import Domain
from ppdm_cli.errors import MismatchError, RefusedError, listed, quoted
from ppdm_cli.releases.opened_release import RecipeInUse, WideColumn, opened
from ppdm_cli.sidecar import COLUMN, Sidecar

CHANGED = "fetch both again: the data or the sidecar was changed"


class BatchRows(Protocol):
    """The protocol of batches: the parts that are read."""

    @property
    def rows(self) -> int: ...
    def coded(self, name: str) -> pa.Array: ...
    def column(self, name: str) -> pa.Array: ...
    def where(self, row: int) -> str: ...


@dataclass(frozen=True)
class Unchanged(Law):
    """The law of kept columns: each code is published as itself."""

    size: int

    @property
    def inputs(self) -> int:
        return self.size

    @property
    def outputs(self) -> int:
        return self.size

    def forward(self, original: Floats, axis: int = 0) -> Floats:
        return original

    def backward(self, values: Floats, axis: int = 0) -> Floats:
        return values

    def solve_power(self, observed: Floats, power: int, axis: int = 0) -> Floats:
        return observed

    def scores(self, values: Floats, axis: int = 0) -> Floats:
        return values

    def own_variance(self) -> Floats:
        return np.ones(self.size)


@dataclass(frozen=True, eq=False)
class Exposure:
    """The law by which published cells reveal an attribute: U, or U with the record's lam and else noise."""

    law: Blur | Unchanged | Matrix
    """The law U. A blur goes with its record's lam; any other law is for separately published cells."""

    @classmethod
    def of(cls, channel: Channel) -> Exposure:
        """Return the exposure of a channel's attributes, in every record that goes through it."""
        return cls(Unchanged(channel.domain.size) if channel.law is None else channel.law)

    @cached_property
    def key(self) -> object:
        """Return a key that is equal for equal laws."""
        return self.matrix.tobytes() if type(self.law).__eq__ is object.__eq__ else self.law

    @property
    def inputs(self) -> int:
        return self.law.inputs

    @property
    def outputs(self) -> int:
        return self.law.outputs

    @cached_property
    def matrix(self) -> Floats:
        """Return U itself, p(published code | original code); for small ones."""
        return self.law.dense()

    @property
    def alone(self) -> Unchanged | Matrix | None:
        """Return the law of separately published cells; None if the record's lam counts."""
        return None if isinstance(self.law, Blur) else self.law

    @property
    def noise(self) -> Floats | None:
        """Return the noise, p(published code); None for separately published cells."""
        return self.law.noise if isinstance(self.law, Blur) else None

    def mixed(self, lam: float) -> Floats:
        """Return the whole law, p(published code | original code); for small ones."""
        return self.matrix if self.noise is None else blended(lam, self.matrix, self.noise[:, None])

    @property
    def unchanged(self) -> np.ndarray:
        """Return the published code that shows the same value, for each original code."""
        return self.law.unchanged

    @property
    def plain(self) -> bool:
        """Return whether U publishes each value as itself."""
        return self.law.plain if isinstance(self.law, Blur) else isinstance(self.law, Unchanged)


@dataclass(frozen=True, eq=False)
class Exposures:
    """All exposures of an axis, their codes numbered one exposure after the other; *withheld* comes last."""

    each: tuple[Exposure, ...]
    withholds: bool
    """True if some records withhold it; otherwise *withheld* is not a code."""

    @cached_property
    def first(self) -> np.ndarray:
        """Return the first code of each exposure, and the end of the last."""
        return np.cumsum([0, *(e.outputs for e in self.each)])

    @property
    def withheld(self) -> int:
        """Return the code of withheld cells: the number of published codes."""
        return int(self.first[-1])

    @property
    def codes(self) -> int:
        return self.withheld + self.withholds

    @property
    def values(self) -> int:
        return self.each[0].inputs

    @cached_property
    def matrix(self) -> Floats:
        """Return U, p(code | original code), for small ones; withheld cells reveal nothing."""
        return np.concatenate([*(e.matrix for e in self.each), np.ones((int(self.withholds), self.values))])

    @cached_property
    def noise(self) -> Floats:
        """Return p(code) as noise; 1 for cells that are published separately, or withheld."""
        own = [np.ones(e.outputs) if e.noise is None else e.noise for e in self.each]
        return np.concatenate([*own, np.ones(int(self.withholds))])

    @cached_property
    def noisy(self) -> np.ndarray:
        """Return whether each code is noise whenever its record's others are."""
        sizes = [*np.diff(self.first), int(self.withholds)]
        return np.repeat([*(e.noise is not None for e in self.each), False], sizes)

    @cached_property
    def as_noise(self) -> Floats:
        """Return p(code | original code) of records whose values were replaced by noise."""
        return np.where(self.noisy[:, None], self.noise[:, None], self.matrix)

    def mixed(self, codes: np.ndarray, lam: Floats) -> Floats:
        """Return p(code | original code) by record, for codes in records of these lam."""
        return blended(lam[:, None], self.matrix[codes], self.as_noise[codes])


@dataclass(frozen=True, eq=False)
class Stratum:
    """Records that reveal the same of some axes, and are alike in lam."""

    axes: tuple[int, ...]
    exposures: tuple[Exposure, ...]
    first: tuple[int, ...]
    """The first code of each exposure."""
    round: int = 0
    """The round of the records, if rounds are counted separately."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(e.outputs for e in self.exposures)

    @property
    def noisy(self) -> bool:
        """Return whether any of the codes may be noise."""
        return any(e.noise is not None for e in self.exposures)

    def codes(self, columns: Sequence[Codes], rows: slice | np.ndarray = slice(None)) -> list[Codes]:
        """Return the revealed codes of records, axis by axis, as codes of the exposures alone."""
        each = zip(self.axes, self.first, strict=True)
        return [columns[a][rows] - columns[a].dtype.type(f) if f else columns[a][rows] for a, f in each]


class Grouped(NamedTuple):
    """The strata of some axes, and the number of each recipe's."""

    strata: list[Stratum]
    which: np.ndarray

    def rows(self, recipes: np.ndarray, stratum: int) -> slice | np.ndarray:
        """Return the records of a stratum, of records of these recipes."""
        return slice(None) if len(self.strata) == 1 else np.flatnonzero(self.which[recipes] == stratum)

    def complete(self, axes: int) -> list[int]:
        """Return the strata that reveal all of so many axes, of the last round that has any.

        Earlier rounds influenced which attributes the last one reveals: given them, it is a fair sample. If all
        records reveal the axes, such as a class inside the budget, all strata are.
        """
        whole = [i for i, s in enumerate(self.strata) if len(s.axes) == axes]
        last = max((self.strata[i].round for i in whole), default=0)
        return whole if len(whole) == len(self.strata) else [i for i in whole if self.strata[i].round == last]


@dataclass(frozen=True, eq=False)
class WithheldCells:
    """The rules for reading a column that some records withhold."""

    column: Domain
    codes: np.ndarray
    """The code over all exposures, by exposure and code of the column; past the last for unpublished cells."""

    @classmethod
    def of(cls, wide: WideColumn, exposures: Exposures, channels: Sequence[Channel]) -> WithheldCells:
        """Return the rules for a column; `channels` has one for each exposure."""
        column, wrong = wide.domain, exposures.withheld + 1
        codes = np.full((1 + len(channels), column.size), wrong, code_type(wrong + 1))
        codes[0, column.null_code] = exposures.withheld
        for number, (first, channel) in enumerate(zip(exposures.first, channels, strict=False), 1):
            possible, own = wide.maps(channel)
            codes[number, possible] = first + own[possible]
        return cls(column, codes)

    def read(self, batch: BatchRows, name: str, numbers: np.ndarray) -> Codes:
        """Return the codes of a batch over all exposures; cells that don't fit their records are refused."""
        cells = self.column.encode(batch.coded(name))
        cells.codes[cells.outside] = 0
        found: Codes = self.codes[numbers, cells.codes]
        wrong = np.union1d(np.flatnonzero(found == self.codes.max()), cells.outside)
        if wrong.size:
            row = int(wrong[0])
            what = "a value that its recipe withholds"
            if numbers[row]:
                null = cells.codes[row] == self.column.null_code
                what = (
                    "no value, which its recipe publishes"
                    if null
                    else "a value that its recipe never publishes"
                )
            what = f"the column {quoted(name)} has {what}, in {batch.where(row)}"
            raise MismatchError("cell-of-another-recipe", what, CHANGED)
        return found


@dataclass(frozen=True, eq=False)
class Strata:
    """The exposures of some attributes in the records of a release, by recipe, and how to read codes."""

    axes: tuple[Channel, ...]
    """The axes. Attributes that were perturbed together have one axis, unless they share only their lam."""
    exposures: tuple[Exposures, ...]
    numbers: np.ndarray
    """The number of the exposure of each, (recipes, axes), from 1; 0 if the recipe withholds it."""
    lam: Floats
    """The probability by recipe that jointly exposed attributes are revealed, and not noise."""
    rounds: np.ndarray
    """The round of each recipe, from 1."""
    shares: Floats
    cells: tuple[WithheldCells | None, ...]
    """The rules for reading each axis; None if its cells have the codes of the axis itself."""

    @classmethod
    def of(cls, sidecar: Sidecar, names: Iterable[str]) -> Strata:
        """Return the strata of some attributes; all records reveal kept ones."""
        return cls.of_axes(sidecar, axes_of(sidecar, names))

    @classmethod
    def of_axes(cls, sidecar: Sidecar, axes: Sequence[Channel]) -> Strata:
        """Return the strata of some axes, as `axes_of` or `axis_of` gives them."""
        recipes = opened(sidecar).recipes
        rounds, weights = np.array([d.round for d in recipes]), np.array([float(d.weight) for d in recipes])
        if len(recipes) < 2:
            exposures = tuple(Exposures((Exposure.of(a),), False) for a in axes)
            ones = np.ones((1, len(axes)), np.uint16)
            own = (None,) * len(axes)
            return cls(tuple(axes), exposures, ones, np.ones(1), np.ones(1, int), np.ones(1), own)
        lam, numbers = np.ones(len(recipes)), np.zeros((len(recipes), len(axes)), np.uint16)
        known: list[dict[object, tuple[int, Exposure, Channel]]] = [{} for _ in axes]
        places = {axis.name: place for place, axis in enumerate(axes) if not axis.kept}
        for recipe in recipes:
            lam[recipe.number], revealed = _exposures(recipe)
            for name in revealed.keys() & places:
                found, exposure = known[places[name]], revealed[name]
                new = (1 + len(found), exposure, recipe.through[name])
                numbers[recipe.number, places[name]] = found.setdefault(exposure.key, new)[0]
        exposed, cells = list[Exposures](), list[WithheldCells | None]()
        for place, (axis, found) in enumerate(zip(axes, known, strict=True)):
            if axis.kept:
                exposed.append(Exposures((Exposure.of(axis),), False))
                cells.append(None)
                numbers[:, place] = 1
                continue
            withholds = bool((numbers[:, place] == 0).any())
            exposed.append(Exposures(tuple(e for _, e, _ in found.values()), withholds))
            channels = [c for _, _, c in found.values()]
            cells.append(WithheldCells.of(opened(sidecar).wide[axis.name], exposed[-1], channels))
        shares = weights / weights.sum()
        return cls(tuple(axes), tuple(exposed), numbers, lam, rounds, shares, tuple(cells))

    @property
    def columns(self) -> list[str]:
        """Return the columns that are read, each once."""
        return [*dict.fromkeys(n for a in self.axes for n in a.attributes), *([COLUMN] * (len(self.lam) > 1))]

    @property
    def withholds(self) -> bool:
        """Return whether some records withhold one of the attributes."""
        return any(e.withholds for e in self.exposures)

    @property
    def noisy(self) -> bool:
        """Return whether some records' values are noise together."""
        return any(e.noisy.any() for e in self.exposures)

    def read(self, batch: BatchRows) -> tuple[np.ndarray, list[Codes]]:
        """Return the number of each record's recipe, and its code over all exposures by axis."""
        if len(self.lam) < 2:
            return np.zeros(batch.rows, np.uint16), [encoded(batch, a) for a in self.axes]
        recipes = batch.column(COLUMN).fill_null(len(self.lam)).to_numpy(zero_copy_only=False)
        if (unknown := np.flatnonzero(recipes >= len(self.lam))).size:
            what = f"has a recipe that the sidecar does not list, in {quoted(COLUMN)}"
            raise MismatchError("unknown-recipe", f"{batch.where(int(unknown[0]))} {what}", CHANGED)
        each = zip(self.axes, self.cells, self.numbers.T, strict=True)
        return recipes, [
            encoded(batch, a) if c is None else c.read(batch, a.name, n[recipes]) for a, c, n in each
        ]

    def together(self, places: Sequence[int]) -> bool:
        """Return whether some recipe reveals all of these axes."""
        return bool(self.numbers[:, list(places)].all(axis=1).any())

    def grouped(self, places: Sequence[int], alike: float, by_round: bool = False) -> Grouped:
        """Return the strata of some axes; in each, the lam that count differ by less than `alike`."""
        rounds, noisy = self.rounds if by_round else 0 * self.rounds, np.zeros(len(self.lam), bool)
        for place in places:
            of_exposure = [False, *(e.noise is not None for e in self.exposures[place].each)]
            noisy |= np.array(of_exposure)[self.numbers[:, place]]
        near = np.floor(np.log(np.maximum(self.lam, 1e-30)) / np.log(alike)).astype(np.int64) * noisy
        which = np.zeros(len(self.lam), np.int64)
        columns = (*self.numbers[:, list(places)].T, rounds, near) if len(which) > 1 else ()
        for column in columns:  # rows as such take ten times as long
            own, code = np.unique(column, return_inverse=True)
            which = np.unique(which * len(own) + code, return_inverse=True)[1]
        first_of = np.unique(which, return_index=True)[1]
        strata = []
        for row in np.column_stack([self.numbers[:, list(places)], rounds])[first_of]:
            axes = np.flatnonzero(row[:-1]).tolist()
            those = [(self.exposures[places[a]], row[a] - 1) for a in axes]
            each, first = tuple(e.each[n] for e, n in those), tuple(int(e.first[n]) for e, n in those)
            strata.append(Stratum(tuple(axes), each, first, int(row[-1])))
        return Grouped(strata, which)


def axes_of(sidecar: Sidecar, names: Iterable[str]) -> tuple[Channel, ...]:
    """Return the axes of a table of some attributes; with one recipe those perturbed together have one."""
    names, found = list(names), dict[str, Channel]()
    if len(opened(sidecar).recipes) > 1:
        return tuple(axis_of(sidecar, n) for n in names)
    for name in names:
        channel = opened(sidecar).through(name)
        if channel.name not in found:
            own = [n for n in channel.attributes if n in names]
            found[channel.name] = channel if channel.kept else opened(sidecar).marginal(own) or channel
    return tuple(found.values())


def axis_of(sidecar: Sidecar, name: str) -> Channel:
    """Return the axis of a single attribute; with several recipes that of the first which reveals it."""
    if len(opened(sidecar).recipes) < 2 or sidecar.by_name[name].role == "kept":
        return opened(sidecar).axis(name)
    axis = next(d for d in opened(sidecar).recipes if name in d.through).marginal([name])
    if axis is None:
        raise _not_by_a_box(name)
    return axis


def encoded(batch: BatchRows, axis: Channel, next_step: str = CHANGED, *, original: bool = False) -> Codes:
    """Return the codes of an axis, as published or as `original`; a kept number gets the nearest one."""
    found = (axis.domain if original else axis.published).encode(
        axis.column(batch.coded), clip=axis.kept and not original
    )
    if found.outside.size and (original or not axis.kept or dtypes.is_discrete(axis.kind)):
        where = batch.where(int(found.outside[0]))
        what = f"the column {listed(axis.attributes)} has a value outside its domain in {where}"
        raise MismatchError("value-outside-domain", what, next_step)
    return found.codes


def never_together(names: Sequence[str]) -> RefusedError:
    """Return the error of a question about attributes that no record reveals together."""
    what = f"{listed(names)} was never published"
    if len(names) > 1:
        what = f"{listed(names)} were never published together in one record"
    step = "ask for fewer of them together, or ask the owner for recipes that publish them together"
    return RefusedError("never-published-together", what, step)


def _exposures(recipe: RecipeInUse) -> tuple[float, dict[str, Exposure]]:
    """Return lam, which is 1 if nothing is exposed jointly, and the exposures of the recipe by attribute."""
    lam, found, boxes = 1.0, dict[str, Exposure](), 0
    for channel in recipe.channels:
        if len(channel.attributes) == 1:
            found[channel.name] = Exposure(channel.matrix)
            continue
        coin, boxes = channel.matrix.coin, boxes + 1
        if coin is None or boxes > 1:
            raise _not_by_a_box(f"what recipe {recipe.number} publishes")
        lam = coin[0]
        found |= {n: Exposure(side) for n, side in zip(channel.attributes, coin[1], strict=True)}
    return lam, found


def _not_by_a_box(what: str) -> RefusedError:
    what = f"{what} is published together with others, but not by one box"
    return RefusedError("not-by-one-box", what, "ask the owner for a release whose recipes have one box each")
