"""Comparison of trees for train-tree --compare: the papers' "are the trees similar", as numbers.

Islam and Brankovic compare trees by their logic rules. A rule is the conjunction of the tests on the way to a
leaf, and the leaf's label. It is kept if the other tree has a rule with the same tests, whatever their order
and thresholds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Protocol, TypedDict

import numpy as np

from ppdm_cli.arrays import wilson
from ppdm_cli.display import Displayed
from ppdm_cli.engine import Batch, fold
from ppdm_cli.errors import MismatchError, quoted
from ppdm_cli.files import one_run
from ppdm_cli.tables import CsvOptions, Table, TableLike
from ppdm_cli.trees.predicting import Descent, check_tested, open_records
from ppdm_cli.trees.records import floats
from ppdm_cli.trees.storing import load_tree
from ppdm_cli.trees.tree import Tree


class HasTree(Protocol):
    """The protocol of results of training."""

    @property
    def tree(self) -> Tree: ...


TreeLike = Tree | HasTree | str | Path
"""A tree, the result of training, or the file of a tree."""


class MovedFigures(TypedDict):
    """The figures of an attribute's thresholds for --json."""

    attribute: str
    thresholds: int
    mean_distance: float
    largest_distance: float
    records_between: float | None


class ComparedFigures(TypedDict):
    """The figures of a comparison for --json."""

    same_root: bool
    attributes: dict[str, list[str]]
    rules: dict[str, int]
    cases_under_kept_rules: float
    thresholds: list[MovedFigures]
    agreement: float | None
    low: float | None
    high: float | None
    records: int


@dataclass(frozen=True)
class Moved:
    """The thresholds of an attribute: each of the other tree's, and the nearest one here."""

    attribute: str
    thresholds: tuple[float, ...]
    """The other tree's thresholds, in units of the column's carrier."""
    nearest: tuple[float, ...]
    records: int | None = None
    """The number of records between, summed over the thresholds; None without records."""

    def figures(self, records: int) -> MovedFigures:
        """Return the figures for --json, for so many records."""
        distances = [abs(a - b) for a, b in zip(self.thresholds, self.nearest, strict=True)]
        between = None
        if self.records is not None and records:
            between = self.records / (records * len(self.thresholds))
        return {
            "attribute": self.attribute,
            "thresholds": len(self.thresholds),
            "mean_distance": float(np.mean(distances)),
            "largest_distance": max(distances),
            "records_between": between,
        }


@dataclass(frozen=True, eq=False, repr=False)
class Compared(Displayed):
    """The result of `compare`: how much of another tree a tree keeps."""

    tree: Tree
    other: Tree
    kept: frozenset[int]
    """The other tree's leaves whose rules are kept."""
    moved: tuple[Moved, ...]
    agreeing: int = 0
    records: int = 0
    """The records on which both trees were compared, and the number on which they agree."""

    @property
    def same_root(self) -> bool:
        return _tested(self.tree)[:1] == _tested(self.other)[:1]

    @property
    def attributes(self) -> tuple[list[str], list[str]]:
        """Return the other tree's attributes that are tested here too, and those that are not."""
        here, there = set(_tested(self.tree)), list(dict.fromkeys(_tested(self.other)))
        return [n for n in there if n in here], [n for n in there if n not in here]

    @property
    def new(self) -> list[str]:
        """Return the attributes that only this tree tests."""
        return sorted(set(_tested(self.tree)) - set(_tested(self.other)))

    def figures(self) -> ComparedFigures:
        """Return the figures of the comparison for --json."""
        shared, lost = self.attributes
        low, high = wilson(self.agreeing, self.records)
        held = self.other.counts.sum(axis=1)
        under_kept = float(held[sorted(self.kept)].sum() / max(held[self.other.is_leaf].sum(), 1e-300))
        return {
            "same_root": self.same_root,
            "attributes": {"shared": shared, "only_other": lost, "only_here": self.new},
            "rules": {"other": self.other.leaves, "here": self.tree.leaves, "kept": len(self.kept)},
            "cases_under_kept_rules": under_kept,
            "thresholds": [m.figures(self.records) for m in self.moved],
            "agreement": self.agreeing / self.records if self.records else None,
            "low": low,
            "high": high,
            "records": self.records,
        }

    def _words(self) -> list[str]:
        agree = [f"they agree on {self.agreeing} of {self.records} records"] * bool(self.records)
        return [f"{len(self.kept)} of {self.other.leaves} rules kept", *agree]

    def _body(self) -> list[str]:
        return self.tree._body()


@one_run()
def compare(
    tree: TreeLike, other: TreeLike, data: TableLike | None = None, *, csv: CsvOptions | None = None
) -> Compared:
    """Measure how much of another tree a tree keeps.

    Parameters
    ----------
    tree, other : Tree, Fitted, FromRelease, str or Path
        Trees, results of training, or files of trees, of one class.
    data : table, str or Path, optional
        Records, an original or a reconstruction, on which their predictions are compared.
    csv : CsvOptions, optional
        The options for reading a CSV.

    Returns
    -------
    Compared
        The kept rules, the moves of thresholds, and the number of records on which the trees agree.
    """
    tree, other = as_tree(tree), as_tree(other)
    return compared(tree, other, None if data is None else open_records(data, tree, csv))


def as_tree(tree: TreeLike) -> Tree:
    """Return the tree that is meant: itself, one that was trained, or one in a file."""
    if isinstance(tree, (str, Path)):
        return load_tree(tree)
    return tree if isinstance(tree, Tree) else tree.tree


def compared(tree: Tree, other: Tree, table: Table | None) -> Compared:
    """Compare two trees, and their predictions for a table's records."""
    tree.check_single()
    other.check_single()
    if tree.class_name != other.class_name:
        what = f"one tree predicts {quoted(tree.class_name)}, but the other {quoted(other.class_name)}"
        raise MismatchError("trees-of-two-classes", what, "name two trees of one class")
    here, there = _cuts(tree), _cuts(other)
    moved = [
        Moved(name, cuts, tuple(min(here[name], key=lambda c, t=t: abs(c - t)) for t in cuts))  # type: ignore[misc]
        for name, cuts in there.items()
        if name in here
    ]
    found = Compared(tree, other, _kept(tree, other), tuple(moved))
    if table is None:
        return found
    for one in (tree, other):
        check_tested(one, table.schema)
    work = _Agreeing(tree, other, moved)
    counts = fold(table, work, np.add, columns=work.columns or table.schema.names[:1], doing="comparing")
    if counts is None:
        return found
    ends = np.cumsum([2, *(len(m.thresholds) for m in moved)])
    between = [int(counts[a:b].sum()) for a, b in pairwise(ends)]
    moved = [replace(m, records=n) for m, n in zip(moved, between, strict=True)]
    return replace(found, moved=tuple(moved), agreeing=int(counts[1]), records=int(counts[0]))


def _tested(tree: Tree) -> list[str]:
    return [tree.features[f].name for f in tree.feature.tolist() if f >= 0]


def _cuts(tree: Tree) -> dict[str, tuple[float, ...]]:
    """Return the distinct thresholds of each numeric attribute, in order."""
    numeric = {i: f.name for i, f in enumerate(tree.features) if f.numeric}
    tested = [(numeric[i], tuple(np.unique(tree.threshold[tree.feature == i]).tolist())) for i in numeric]
    return {name: cuts for name, cuts in tested if cuts}


def _kept(tree: Tree, other: Tree) -> frozenset[int]:
    """Return the other tree's leaves whose rules this one has; a rule of this one keeps one of the other."""
    left = Counter(_rules(tree).values())
    kept = []
    for leaf, rule in _rules(other).items():
        if left[rule]:
            left[rule] -= 1
            kept.append(leaf)
    return frozenset(kept)


def _rules(tree: Tree) -> dict[int, Hashable]:
    """Return each leaf's label and its path's tests: an attribute, and the side of a cut or the category."""
    tests: list[frozenset[Hashable]] = [frozenset()]
    for _, above, feature, branch in tree.branches():
        side = ("<=", ">")[branch] if feature.numeric else ("=", feature.categories[branch])
        tests.append(tests[above] | {(feature.name, side)})
    leaves = np.flatnonzero(tree.is_leaf).tolist()
    return {node: (tests[node], tree.labels[int(tree.label[node])]) for node in leaves}


class _Agreeing:
    """Counts of a batch: its records, those on which both trees agree, and those between thresholds."""

    def __init__(self, tree: Tree, other: Tree, moved: Sequence[Moved]) -> None:
        self._descents = Descent(tree), Descent(other)
        self._moved = moved
        ranks = {v: i for i, v in enumerate(other.labels)}
        self._same = np.array([ranks.get(v, -1) for v in tree.labels])
        self.columns = list(dict.fromkeys([*_tested(tree), *_tested(other)]))

    def __call__(self, batch: Batch) -> np.ndarray:
        one, two = (d.predicted(d.outcomes(batch), batch.rows).label for d in self._descents)
        counts = [batch.rows, int((self._same[one] == two).sum())]
        for moved in self._moved:
            values = floats(batch.column(moved.attribute))
            for a, b in zip(moved.thresholds, moved.nearest, strict=True):
                counts.append(int(((values > min(a, b)) & (values <= max(a, b))).sum()))
        return np.array(counts, np.int64)
