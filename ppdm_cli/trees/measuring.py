"""How good a tree is: accuracy with its interval, the confusion matrix, and what each attribute is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ppdm_cli.arrays import wilson
from ppdm_cli.display import Displayed
from ppdm_cli.trees.tree import Tree


@dataclass(frozen=True, eq=False, repr=False)
class Measured(Displayed):
    """Counts by (true label, predicted label), and how many true labels the tree does not know."""

    labels: tuple[Any, ...]
    confusion: np.ndarray
    unknown: int = 0
    unlabelled: int = 0
    """Records without a class; they are not counted."""

    @classmethod
    def of(cls, labels: tuple[Any, ...], true: np.ndarray, predicted: np.ndarray) -> Measured:
        """Compare codes of labels; a true code of -1 is a label that the tree does not know, -2 is no label."""
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
        share = "no records" if self.accuracy is None else f"{100 * self.accuracy:.1f} % right"
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

    def figures(self) -> dict[str, Any]:
        """Return the figures that --json prints, as fractions, not percentages."""
        low, high = wilson(self.right, self.records)
        found: dict[str, Any] = {
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


def _plain(count: float) -> int | float:
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
    if tree.size > 1:
        np.add.at(below, tree.parent[1:], bits[1:])
    np.add.at(gains, tree.feature[inner], np.maximum(bits - below, 0.0)[inner])
    total = gains.sum()
    found = {f.name: float(g / total) if total > 0 else 0.0 for f, g in zip(tree.features, gains, strict=True)}
    return dict(sorted(found.items(), key=lambda item: -item[1]))
