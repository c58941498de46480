"""What a sample's records show of attributes and class: sub-tables of counts for EM, and each record's coin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.estimating import Part, Recipes, Tables, Way, Ways

if TYPE_CHECKING:
    from ppdm_cli.joint.sample import Sample

FOLDS = 4
ALIKE = 2.0
"""Records whose lam differs by a larger factor are counted apart: .6 and .2 pooled lose a fifth."""


@dataclass(frozen=True, eq=False)
class Coins:
    """The coin of each record: whether what is under it tells anything, or is noise (maths 11)."""

    lam: Floats
    """By recipe."""
    attributes: tuple[Ways, ...]
    label: Ways

    @cached_property
    def alone(self) -> bool:
        """Return whether all that is ever shown of attributes is under the coin."""
        return all(w.coin[: w.withheld].all() for w in self.attributes)

    def noise(self, codes: Sequence[Codes], places: Sequence[int]) -> Floats:
        """Return the chance that a record's coin says noise, and noise its codes."""
        found: Floats = 1 - self.lam[codes[-1]]
        for place in places:
            found = found * self.attributes[place].noise[codes[place]]
        return found

    def blind(self, codes: Sequence[Codes], which: Any = True) -> list[Codes]:
        """Return what is left of records, or of `which`, where the coin says noise."""
        *own, numbers = codes
        each = zip(self.attributes, own, strict=True)
        return [*(np.where(which & w.coin[c], w.withheld, c) for w, c in each), numbers]


@dataclass(frozen=True, eq=False)
class Seen:
    """The counts of records that showed the same of some attributes and the class, and their law."""

    counts: np.ndarray
    """(folds, published labels, cells ...); without the labels where the class is withheld."""
    axes: tuple[int, ...] | None
    """Which axes of a table of the class (where it was perturbed) and all the attributes; None for all."""
    ways: Sequence[Way]
    kept: bool
    """Whether the class was kept: then it has no way."""
    lam: Floats | float = 1.0

    @property
    def labelled(self) -> bool:
        return self.kept or self.axes is None or self.axes[0] == 0

    def part(self, observed: Tables) -> Part:
        """Return what EM needs, of counts as `counts` or shares of them."""
        return Part([w.told for w in self.ways], observed, self.axes, [w.noise for w in self.ways], self.lam)


def seen(recipes: Recipes, sample: Sample, places: Sequence[int]) -> list[Seen]:
    """Return the sub-tables of some attributes and the class: those of records that show any of them."""
    columns, kept = [sample.labels, *(sample.codes[p] for p in places)], sample.label.kept
    kinds, which = recipes.kinds([len(sample.channels), *places], ALIKE)
    of_record, found = which[sample.codes[-1]], []
    showing = [i for i, kind in enumerate(kinds) if any(kind.axes)]
    there = [i for i in showing if (of_record == i).any()]
    for number in there or showing[:1]:  # an attribute that no record happens to show has an empty table
        kind, rows = kinds[number], np.flatnonzero(of_record == number)
        shape = (FOLDS, *kind.shape)
        codes = kind.codes([c[rows] for c in columns], sample.folds[rows].astype(np.int64))
        counts = np.bincount(codes, minlength=int(np.prod(shape))).reshape(shape)
        lam: Floats = recipes.lam[sample.codes[-1][rows]]
        if kept:
            labels = sample.labels[rows]
            records = np.bincount(labels, minlength=shape[1])
            by_class = np.bincount(labels, lam, shape[1]) / np.maximum(records, 1)
            found.append(Seen(counts, tuple(a - 1 for a in kind.axes[1:]), kind.ways[1:], True, by_class))
        else:
            found.append(Seen(counts, kind.axes, kind.ways, False, float(lam.mean()) if len(rows) else 1.0))
    return found
