"""How much of one tree another has: the papers' "are the trees similar", as numbers.

Islam and Brankovic compare trees by their logic rules. A rule is the conjunction of the tests on the way to a
leaf, and the leaf's label. It is kept where the other tree has a rule of the same tests, whatever their order
and their thresholds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ppdm_cli.arrays import wilson
from ppdm_cli.display import Displayed
from ppdm_cli.engine import Batch, fold
from ppdm_cli.errors import MismatchError, quoted
from ppdm_cli.files import one_run
from ppdm_cli.tables import CsvOptions, Table
from ppdm_cli.trees.predicting import Descent, check_tested, open_records
from ppdm_cli.trees.records import floats
from ppdm_cli.trees.storing import load_tree
from ppdm_cli.trees.tree import Tree


@dataclass(frozen=True)
class Moved:
    """The thresholds of an attribute: each of the other tree's, and the nearest one here."""

    attribute: str
    thresholds: tuple[float, ...]
    """The other tree's, in units of the column's carrier."""
    nearest: tuple[float, ...]
    records: int | None = None
    """How many records lie between, summed over the thresholds; None without records."""

    @property
    def distances(self) -> list[float]:
        return [abs(a - b) for a, b in zip(self.thresholds, self.nearest, strict=True)]


@dataclass(frozen=True, eq=False, repr=False)
class Compared(Displayed):
    """A tree, another, and what of the other one it keeps."""

    tree: Tree
    other: Tree
    kept: frozenset[int]
    """The other tree's leaves whose rules are kept."""
    moved: tuple[Moved, ...]
    agreeing: int = 0
    records: int = 0
    """The records that both trees were asked about, and on how many they agree."""

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

    @property
    def cases(self) -> float:
        """Return the share of the other tree's training records that are under rules that are kept."""
        held = self.other.counts.sum(axis=1)
        return float(held[sorted(self.kept)].sum() / max(held[self.other.is_leaf].sum(), 1e-300))

    def figures(self) -> dict[str, Any]:
        """Return what --json says of the comparison."""
        shared, lost = self.attributes
        low, high = wilson(self.agreeing, self.records)
        found: dict[str, Any] = {
            "same_root": self.same_root,
            "attributes": {"shared": shared, "only_other": lost, "only_here": self.new},
            "rules": {"other": self.other.leaves, "here": self.tree.leaves, "kept": len(self.kept)},
            "cases_under_kept_rules": self.cases,
            "thresholds": [self._figures(m) for m in self.moved],
        }
        share = self.agreeing / self.records if self.records else None
        return found | {"agreement": share, "low": low, "high": high, "records": self.records}

    def _figures(self, moved: Moved) -> dict[str, Any]:
        between = None
        if moved.records is not None and self.records:
            between = moved.records / (self.records * len(moved.thresholds))
        return {
            "attribute": moved.attribute,
            "thresholds": len(moved.thresholds),
            "mean_distance": float(np.mean(moved.distances)),
            "largest_distance": max(moved.distances),
            "records_between": between,
        }

    def _words(self) -> list[str]:
        agree = [f"they agree on {self.agreeing} of {self.records} records"] * bool(self.records)
        return [f"{len(self.kept)} of {self.other.leaves} rules kept", *agree]

    def _body(self) -> list[str]:
        return self.tree._body()


@one_run()
def compare(tree: Any, other: Any, data: Any = None, *, csv: CsvOptions | None = None) -> Compared:
    """Say how much of `other` a tree keeps; both are trees, what training gave, or files.

    `data` are records, an original or a reconstruction, on which their predictions are compared.
    """
    tree, other = as_tree(tree), as_tree(other)
    return compared(tree, other, None if data is None else open_records(data, tree, csv))


def as_tree(tree: Any) -> Tree:
    """Return the tree that is meant: itself, one that was trained, or one in a file."""
    if isinstance(tree, (str, Path)):
        return load_tree(tree)
    found: Tree = tree if isinstance(tree, Tree) else tree.tree
    return found


def compared(tree: Tree, other: Tree, table: Table | None) -> Compared:
    """Compare two trees, and what they predict of a table's records."""
    if tree.class_name != other.class_name:
        raise MismatchError(
            f"one tree predicts {quoted(tree.class_name)}, the other {quoted(other.class_name)}",
            "name two trees of one class",
        )
    moved = _moved(tree, other)
    kept = _kept(tree, other)
    if table is None:
        return Compared(tree, other, kept, tuple(moved))
    for one in (tree, other):
        check_tested(one, table.schema)
    work = _Agreeing(tree, other, moved)
    counts = fold(table, work, np.add, columns=work.columns or table.schema.names[:1], doing="comparing")
    if counts is None:
        return Compared(tree, other, kept, tuple(moved))
    ends = np.cumsum([2, *(len(m.thresholds) for m in moved)])
    between = [int(counts[a:b].sum()) for a, b in pairwise(ends)]
    moved = [Moved(m.attribute, m.thresholds, m.nearest, n) for m, n in zip(moved, between, strict=True)]
    return Compared(tree, other, kept, tuple(moved), int(counts[1]), int(counts[0]))


def _tested(tree: Tree) -> list[str]:
    return [tree.features[f].name for f in tree.feature.tolist() if f >= 0]


def _moved(tree: Tree, other: Tree) -> list[Moved]:
    here, found = _cuts(tree), []
    for name, cuts in _cuts(other).items():
        if name in here:
            nearest = tuple(min(here[name], key=lambda c, t=t: abs(c - t)) for t in cuts)  # type: ignore[misc]
            found.append(Moved(name, cuts, nearest))
    return found


def _cuts(tree: Tree) -> dict[str, tuple[float, ...]]:
    """Return the distinct thresholds of each numeric attribute, in order."""
    numeric = {i: f.name for i, f in enumerate(tree.features) if f.numeric}
    tested = [(numeric[i], tuple(np.unique(tree.threshold[tree.feature == i]).tolist())) for i in numeric]
    return {name: cuts for name, cuts in tested if cuts}


def _kept(tree: Tree, other: Tree) -> frozenset[int]:
    """Return the other tree's leaves whose rules this one has; a rule of this one keeps one of the other."""
    left = Counter(rules(tree).values())
    kept = []
    for leaf, rule in rules(other).items():
        if left[rule]:
            left[rule] -= 1
            kept.append(leaf)
    return frozenset(kept)


def rules(tree: Tree) -> dict[int, tuple[Hashable, Any]]:
    """Return each leaf's label and the tests on its way: an attribute, and which side of a cut or category."""
    parent = tree.parent
    found: dict[int, tuple[Hashable, Any]] = {}
    tests: list[frozenset[Hashable]] = [frozenset()]
    for node in range(1, tree.size):
        above = int(parent[node])
        feature, branch = tree.features[int(tree.feature[above])], node - int(tree.first_child[above])
        side = ("<=", ">")[branch] if feature.numeric else ("=", feature.categories[branch])
        tests.append(tests[above] | {(feature.name, side)})
    for node in np.flatnonzero(tree.is_leaf).tolist():
        found[node] = (tests[node], tree.labels[int(tree.label[node])])
    return found


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
