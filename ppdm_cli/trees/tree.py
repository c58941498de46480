"""Decision trees and ensembles as flat arrays, for training, prediction and files; and their accuracy.

The roots come first and children come after their parents, next to each other, so a loop over the levels needs
no recursion, and `validate` refuses every cycle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, NotRequired, TypedDict

import msgspec
import numpy as np
from msgspec import Meta

from ppdm_cli import dtypes
from ppdm_cli.arrays import wilson
from ppdm_cli.display import Displayed
from ppdm_cli.domain import MOST_VALUES
from ppdm_cli.errors import PpdmError, UsageError, argument, counted, quoted
from ppdm_cli.sidecar import LONGEST_PREFIX

MOST_WEIGHT = 1e100
"""The largest weight of a record, so that no sum overflows."""
MOST_CLASSES = 1 << 11
"""The most labels of a class: a confusion matrix has the square of their number."""
MOST_SHOWN = 60
"""The most lines of a tree that a notebook shows."""


def majority(weights: np.ndarray) -> np.ndarray:
    """Return the heaviest class of each row; the first of equally heavy ones, whatever the rounding."""
    most = weights.max(axis=-1, keepdims=True)
    return np.asarray((weights >= most * (1 - 1e-9)).argmax(axis=-1))


def spans(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the numbers from each start on, so many of each, one span after the other."""
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())


StoredText = Annotated[str, Meta(max_length=1 << 20)]
StoredValue = int | float | bool | StoredText
"""A category or label as JSON has it."""


class Feature(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An attribute that a tree was trained on; `categories` in domain order where it is nominal."""

    name: StoredText
    dtype: Annotated[str, Meta(max_length=128)]
    numeric: bool
    categories: Annotated[tuple[StoredValue, ...], Meta(max_length=MOST_VALUES)] = ()
    prefix: Annotated[int, Meta(ge=0, le=LONGEST_PREFIX)] = 0
    """The number of first characters of text that the categories are; 0: all."""


@dataclass(frozen=True, eq=False, repr=False)
class Tree(Displayed):
    """A tree, or several whose shares of the classes are averaged.

    A numeric test sends carrier values <= threshold to the first child.
    """

    features: tuple[Feature, ...]
    class_name: str
    class_dtype: str
    labels: tuple[StoredValue, ...]
    feature: np.ndarray
    """The attribute tested at each node (int32), -1 at leaves."""
    threshold: np.ndarray
    """The thresholds (float64) in carrier units, NaN if the test is not numeric."""
    first_child: np.ndarray
    children: np.ndarray
    counts: np.ndarray
    """The weight of the training records at each node, float64 (nodes, classes)."""
    label: np.ndarray
    """The majority class (int32); without records the parent's."""
    options: Mapping[str, StoredValue | None] = field(default_factory=dict)
    roots: int = 1
    """The number of trees: the first so many nodes are their roots."""

    def _words(self) -> list[str]:
        grown = [f"{self.leaves} leaves", f"depth {self.depth}", counted(len(self.features), "attribute")]
        several = [f"{self.roots} trees"] * (self.roots > 1)
        return [f"of {quoted(self.class_name)}", *several, *grown]

    def _body(self) -> list[str]:
        from ppdm_cli.trees.exporting import outlined  # it words trees, so it knows them

        lines = [line for _, line in islice(outlined(self), MOST_SHOWN)]
        return [*lines, *["..."] * (self.size > MOST_SHOWN)]

    @property
    def size(self) -> int:
        return len(self.feature)

    @property
    def is_leaf(self) -> np.ndarray:
        return np.asarray(self.feature < 0)

    @property
    def leaves(self) -> int:
        return int(self.is_leaf.sum())

    @property
    def parent(self) -> np.ndarray:
        """Return each node's parent, -1 for a root."""
        return np.concatenate([np.full(self.roots, -1), np.repeat(*self._brood)]).astype(np.int32)

    @property
    def root(self) -> np.ndarray:
        """Return the root above each node."""
        root, parent = np.arange(self.size), self.parent
        while (below := root >= self.roots).any():
            root[below] = parent[root[below]]
        return root

    @property
    def _brood(self) -> tuple[np.ndarray, np.ndarray]:
        inner = np.flatnonzero(~self.is_leaf)
        inner = inner[np.argsort(self.first_child[inner], kind="stable")]
        return inner, self.children[inner]

    def branches(self) -> Iterator[tuple[int, int, Feature, int]]:
        """Yield each node below a root, its parent, the test there, and the outcome that leads to the node."""
        for node, above in enumerate(self.parent.tolist()[self.roots :], self.roots):
            yield node, above, self.features[int(self.feature[above])], node - int(self.first_child[above])

    @property
    def levels(self) -> np.ndarray:
        """Return the number of tests that lead to each node."""
        level = np.zeros(self.size, np.int32)
        nodes, depth = np.arange(self.roots), 0
        while nodes.size:
            level[nodes] = depth
            nodes = nodes[self.feature[nodes] >= 0]
            nodes, depth = spans(self.first_child[nodes], self.children[nodes].astype(np.int64)), depth + 1
        return level

    @property
    def depth(self) -> int:
        return int(self.levels.max())

    def check_single(self) -> None:
        """Raise a UsageError for an ensemble, where the rules of one tree are needed."""
        if self.roots > 1:
            what = f"this needs one tree, and the file or result given is an ensemble of {self.roots}"
            raise UsageError("several-trees", what, f"train it with {argument('distil', True)}")

    def validate(self) -> None:
        """Raise a ValueError for a tree that training cannot give, so that predicting is safe."""
        self._check_words()
        n, classes = self.size, len(self.labels)
        lengths = {len(a) for a in (self.threshold, self.first_child, self.children, self.counts, self.label)}
        if not 1 <= self.roots <= n or lengths != {n} or self.counts.shape != (n, classes):
            raise ValueError("the arrays of the tree have different lengths")
        if not ((self.counts >= 0) & (self.counts <= MOST_WEIGHT)).all():
            raise ValueError("a count of the tree is negative, too large or not a number")
        if (self.label < 0).any() or (self.label >= classes).any():
            raise ValueError("a node's label isn't one of the classes")
        leaf = self.is_leaf
        if (self.feature < -1).any() or (self.feature >= len(self.features)).any():
            raise ValueError("a node tests an attribute that the tree does not have")
        if (self.first_child[leaf] != -1).any() or (self.children[leaf] != 0).any():
            raise ValueError("a leaf has children")
        numeric = np.array([f.numeric for f in self.features] + [False])[self.feature]
        wanted = np.array([2 if f.numeric else len(f.categories) for f in self.features] + [0])[self.feature]
        if (self.children != wanted).any():
            raise ValueError("a node doesn't have as many children as its test has outcomes")
        if (np.isfinite(self.threshold) != numeric).any() or not np.isnan(self.threshold[~numeric]).all():
            raise ValueError("a node has a threshold without a numeric test, or a test without a threshold")
        inner, brood = self._brood
        starts = self.first_child[inner].astype(np.int64)
        if (starts <= inner).any():
            raise ValueError("a node's children come before it")
        first = self.roots + np.cumsum(brood) - brood
        if (starts != first).any() or self.roots + brood.sum() != n:
            raise ValueError("the children of the nodes overlap, or leave nodes out")

    def _check_words(self) -> None:
        if not self.labels or len(set(self.labels)) != len(self.labels):
            raise ValueError("the class has no labels, or the same one twice")
        if len(self.labels) > MOST_CLASSES:
            raise ValueError(f"the class has {len(self.labels)} labels, more than {MOST_CLASSES}")
        names = [f.name for f in self.features] + [self.class_name]
        if len(set(names)) != len(names):
            raise ValueError("two columns have the same name")
        try:
            for value in self.labels:
                dtypes.from_json(value, dtypes.parse(self.class_dtype))
            for f in self.features:
                kind = dtypes.parse(f.dtype)
                if f.numeric and (f.categories or dtypes.is_discrete(kind)):
                    raise ValueError("a numeric attribute has categories, or a type without numbers")
                if not f.numeric and not f.categories:
                    raise ValueError("a nominal attribute has no categories")
                values = [dtypes.from_json(c, kind) for c in f.categories]
                if len(set(values)) != len(values):
                    raise ValueError("an attribute has the same category twice")
        except PpdmError as error:
            raise ValueError(error.what) from None


class AccuracyFigures(TypedDict):
    """The figures of a tree's accuracy for --json."""

    records: float
    accuracy: float | None
    low: float | None
    high: float | None
    labels: list[StoredValue]
    confusion: list[list[float]]
    """The confusion matrix by true and predicted label."""
    unknown_labels: NotRequired[int]
    unlabelled: NotRequired[int]


@dataclass(frozen=True, eq=False, repr=False)
class Measured(Displayed):
    """Counts by (true label, predicted label), and the number of true labels that the tree does not know."""

    labels: tuple[StoredValue, ...]
    confusion: np.ndarray
    unknown: int = 0
    unlabelled: int = 0
    """The number of records without a class; they are not counted."""

    @classmethod
    def of(cls, labels: tuple[StoredValue, ...], true: np.ndarray, predicted: np.ndarray) -> Measured:
        """Compare codes of labels; a true code of -1 is a label unknown to the tree, -2 means no label."""
        n, known = len(labels), true >= 0
        flat = np.bincount(true[known] * n + predicted[known], minlength=n * n)
        return cls(labels, flat.reshape(n, n), int((true == -1).sum()), int((true == -2).sum()))

    def __add__(self, other: Measured) -> Measured:
        return Measured(
            self.labels,
            self.confusion + other.confusion,
            self.unknown + other.unknown,
            self.unlabelled + other.unlabelled,
        )

    def _words(self) -> list[str]:
        share = "no records" if self.accuracy is None else f"{100 * self.accuracy:.1f}% right"
        return [share, f"{self.records:g} records"]

    @property
    def records(self) -> float:
        return float(self.confusion.sum()) + self.unknown

    @property
    def right(self) -> float:
        return float(np.trace(self.confusion))

    @property
    def accuracy(self) -> float | None:
        return self.right / self.records if self.records else None

    def figures(self) -> AccuracyFigures:
        """Return the figures that --json prints, as fractions, not percentages."""
        low, high = wilson(self.right, self.records)
        found: AccuracyFigures = {
            "records": _plain(self.records),
            "accuracy": self.accuracy,
            "low": low,
            "high": high,
            "labels": list(self.labels),
            "confusion": [[_plain(c) for c in row] for row in self.confusion.tolist()],
        }
        if self.unknown:
            found["unknown_labels"] = self.unknown
        if self.unlabelled:
            found["unlabelled"] = self.unlabelled
        return found


def _plain(count: float) -> float:
    return int(count) if float(count).is_integer() else count


def importance(tree: Tree) -> dict[str, float]:
    """Return each attribute's share of the information gained, weighted by records, largest first."""
    counts = tree.counts
    totals = counts.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(totals > 0, counts / totals, 0.0)
        logs = np.where(shares > 0, np.log2(shares), 0.0)
    bits = -(counts * logs).sum(axis=1)
    gains = np.zeros(len(tree.features))
    inner = np.flatnonzero(tree.feature >= 0)
    below = np.zeros(tree.size)
    if tree.size > tree.roots:
        np.add.at(below, tree.parent[tree.roots :], bits[tree.roots :])
    np.add.at(gains, tree.feature[inner], np.maximum(bits - below, 0.0)[inner])
    total = gains.sum()
    found = {f.name: float(g / total) if total > 0 else 0.0 for f, g in zip(tree.features, gains, strict=True)}
    return dict(sorted(found.items(), key=lambda item: -item[1]))
