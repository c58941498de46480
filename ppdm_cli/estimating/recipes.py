"""Several recipes: what each record shows of each attribute, and which records make a table of counts together.

A record shows some attributes by one coin, which either blurs all of them or makes all of them noise, and
withholds the others. Codes of an attribute count over all the ways in which it is shown, one after the other;
the last is *withheld*. Every marginal of a box is a mixture with its lam, so records that show the same of some
attributes make one table of counts, whatever else they show (maths 11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.channels import Blur, Channel, Matrix
from ppdm_cli.releases import Unchanged


@dataclass(frozen=True, eq=False)
class Way:
    """A way to show an attribute: the law between its codes, alone or where the record's coin tells."""

    law: Blur | Unchanged | Matrix
    """A blur is under the record's coin, and what is published where it says noise is its own."""

    @classmethod
    def of(cls, channel: Channel) -> Way:
        """Return the way in which all records show what goes through a channel."""
        return cls(Unchanged(channel.domain.size) if channel.law is None else channel.law)

    @cached_property
    def key(self) -> object:
        """Return what is equal for equal laws."""
        return self.told.tobytes() if type(self.law).__eq__ is object.__eq__ else self.law

    @property
    def inputs(self) -> int:
        return self.law.inputs

    @property
    def outputs(self) -> int:
        return self.law.outputs

    @cached_property
    def told(self) -> Floats:
        """Return p(published code | original code) where the coin tells; for small ones."""
        return self.law.dense()

    @property
    def noise(self) -> Floats | None:
        """Return p(published code) where the coin says noise; None for what is under no coin."""
        return self.law.noise if isinstance(self.law, Blur) else None

    @property
    def unchanged(self) -> np.ndarray:
        """Return for each original code the published one that shows the same value."""
        return self.law.unchanged

    @property
    def plain(self) -> bool:
        """Return whether each value is published as itself where the coin tells."""
        return self.law.plain if isinstance(self.law, Blur) else isinstance(self.law, Unchanged)


@dataclass(frozen=True, eq=False)
class Ways:
    """All the ways in which an attribute is shown, as one law where the coin tells and one where not."""

    each: tuple[Way, ...]

    @cached_property
    def first(self) -> np.ndarray:
        """Return the first code of each way; after the last of them comes *withheld*."""
        return np.cumsum([0, *(w.outputs for w in self.each)])

    @property
    def withheld(self) -> int:
        return int(self.first[-1])

    @property
    def values(self) -> int:
        """Return how many values the attribute has."""
        return self.each[0].inputs

    @cached_property
    def told(self) -> Floats:
        """Return p(code | original) where the coin tells, for small ones; what is withheld says nothing."""
        return np.concatenate([*(w.told for w in self.each), np.ones((1, self.values))])

    @cached_property
    def noise(self) -> Floats:
        """Return p(code) where the coin says noise, of what is under it; else 1."""
        own = [np.ones(w.outputs) if w.noise is None else w.noise for w in self.each]
        return np.concatenate([*own, np.ones(1)])

    @cached_property
    def coin(self) -> np.ndarray:
        """Return whether each code is under the coin."""
        return np.repeat([*(w.noise is not None for w in self.each), False], [*np.diff(self.first), 1])

    @cached_property
    def blind(self) -> Floats:
        """Return p(code | original) where the coin says noise."""
        return np.where(self.coin[:, None], self.noise[:, None], self.told)


@dataclass(frozen=True, eq=False)
class Kind:
    """Records that show the same of some attributes, and are alike in lam."""

    axes: tuple[int, ...]
    """Which of the attributes they show."""
    ways: tuple[Way, ...]
    first: tuple[int, ...]
    """The first code of each way."""
    round: int = 0
    """Which round they are of, where that is told apart."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(w.outputs for w in self.ways)

    def codes(self, columns: Sequence[Codes], start: np.ndarray) -> np.ndarray:
        """Return one code for each combination that is shown, after those of `start`."""
        for axis, first, size in zip(self.axes, self.first, self.shape, strict=True):
            start = start * size + (columns[axis] - first)
        return start


@dataclass(frozen=True, eq=False)
class Recipes:
    """What the recipes of a release show of some attributes."""

    attributes: tuple[Ways, ...]
    ways: np.ndarray
    """(recipes, attributes): which way each takes, counted from 1; 0 where it withholds."""
    lam: Floats
    """The chance that a record of the recipe tells anything of what is under its coin."""
    rounds: np.ndarray
    """The round of each recipe, from 1."""

    def together(self, places: Sequence[int]) -> bool:
        """Return whether some recipe shows all of these."""
        return bool(self.ways[:, list(places)].all(axis=1).any())

    def kinds(
        self, places: Sequence[int], alike: float, by_round: bool = False
    ) -> tuple[list[Kind], np.ndarray]:
        """Return the kinds of records by what they show of some attributes, and each recipe's number of kind.

        The lam of records of one kind differ by less than the factor `alike`.
        """
        rounds = self.rounds if by_round else 0 * self.rounds
        near = np.floor(np.log(np.maximum(self.lam, 1e-30)) / np.log(alike)).astype(np.int64)
        which = np.zeros(len(self.ways), np.int64)
        for column in (*self.ways[:, list(places)].T, rounds, near):  # rows as such take ten times as long
            own, code = np.unique(column, return_inverse=True)
            which = np.unique(which * len(own) + code, return_inverse=True)[1]
        first_of = np.unique(which, return_index=True)[1]
        kinds = []
        for row in np.column_stack([self.ways[:, list(places)], rounds])[first_of]:
            axes = np.flatnonzero(row[:-1]).tolist()
            shown = [(self.attributes[places[a]], row[a] - 1) for a in axes]
            ways, first = tuple(s.each[w] for s, w in shown), tuple(int(s.first[w]) for s, w in shown)
            kinds.append(Kind(tuple(axes), ways, first, int(row[-1])))
        return kinds, which
