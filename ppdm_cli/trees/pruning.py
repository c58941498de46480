"""Pruning of grown trees: as in C4.5 release 8 (J48), and by the certainty of an estimated table.

C4.5 collapses, then replaces and raises by pessimistic error. The error of a leaf is the upper limit of its
training errors at a confidence (Quinlan 1993, 4.2). A subtree is replaced by a leaf, or by its largest branch
with all its records sent down again, if that is at most 0.1 errors worse.

A table of a release was also learned without each of the folds. How much a subtree's saving differs between
these tables gives its standard error (the delete-a-group jackknife, Kott 2001); a subtree that saves less
than half of it, or for each leaf less than a ten-thousandth of the records, with two classes, becomes a leaf
(docs/technical/method.md).
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.trees.growing import Grown, Options, class_counts, descended, grow, send_down
from ppdm_cli.trees.histograms import TINY, Entries
from ppdm_cli.trees.records import CodedRecords
from ppdm_cli.trees.tree import majority, spans

FEWEST_TRIED = 512
"""The number of records that are tried before all of them are sent down a branch."""
STANDARD_ERRORS = 0.5
"""The standard errors that a subtree of an estimated table must save."""
LEAF_SHARE = 2e-4
"""The share of the records, by the number of classes, that each more leaf of a table must save."""


def c45(records: CodedRecords, options: Options) -> Grown:
    """Grow a tree and prune it as C4.5 does."""
    grown = grow(records, options, options.prune)
    collapse(grown)
    if options.prune:
        Pruner(records, grown, options.confidence).run()
        grown.entries.clear()
    return grown


def errors(counts: np.ndarray) -> np.ndarray:
    """Return the weight of the records outside the majority class."""
    return np.asarray(counts.sum(axis=-1) - counts.max(axis=-1))


def pessimistic(counts: np.ndarray, confidence: float) -> np.ndarray:
    """Return the errors plus those of C4.5's `AddErrs`, from (nodes, classes) weights."""
    total, wrong = counts.sum(axis=-1), errors(counts)
    n = np.maximum(total, 1e-12)
    none = n * (1 - confidence ** (1 / n))
    z = NormalDist().inv_cdf(1 - confidence)

    def added(e: np.ndarray) -> np.ndarray:
        f = (e + 0.5) / n
        inside = np.maximum(f / n - f * f / n + z * z / (4 * n * n), 0.0)
        limit = (f + z * z / (2 * n) + z * np.sqrt(inside)) / (1 + z * z / n)
        return np.where(e + 0.5 >= n, np.maximum(n - e, 0.0), limit * n - e)

    few = none + wrong * (added(np.ones_like(n)) - none)
    extra = np.where(wrong < TINY, none, np.where(wrong < 1, few, added(wrong)))
    return np.where(total > 0, wrong + extra, 0.0)


def collapse(grown: Grown) -> None:
    """Make leaves of inner nodes whose subtrees have no fewer training errors than they."""
    own = errors(grown.counts)
    below = own.copy()
    for node in np.flatnonzero(grown.feature >= 0)[::-1]:
        first = grown.first_child[node]
        below[node] = below[first : first + grown.children[node]].sum()
    grown.feature[(grown.feature >= 0) & (below >= own - 1e-3)] = -1


class Pruner:
    """Works from the leaves up, on the nodes' own entries."""

    def __init__(self, records: CodedRecords, grown: Grown, confidence: float) -> None:
        self.records, self.grown, self.confidence = records, grown, confidence
        self.leaf_error = pessimistic(grown.counts, confidence)
        self.tree_error = self.leaf_error.copy()

    def run(self) -> None:
        """Prune each node after its children, and again from a branch that was raised."""
        grown = self.grown
        waiting = [(0, False)]
        while waiting:
            node, ready = waiting.pop()
            if grown.feature[node] < 0:
                self.tree_error[node] = self.leaf_error[node]
                continue
            first, last = self._brood(node)
            if not ready:
                waiting.append((node, True))
                waiting.extend((child, False) for child in range(first, last))
                continue
            if self._decide(node, first, last):
                waiting.append((node, False))

    def _brood(self, node: int) -> tuple[int, int]:
        first = int(self.grown.first_child[node])
        return first, first + int(self.grown.children[node])

    def _decide(self, node: int, first: int, last: int) -> bool:
        """Prune one node after its children; return whether its branch was raised."""
        grown = self.grown
        self.tree_error[node] = tree = self.tree_error[first:last].sum()
        leaf = self.leaf_error[node]
        bags = grown.counts[first:last].sum(axis=1)
        largest = last - 1 - int(np.argmax(bags[::-1] >= bags.max() - TINY))
        limit = tree + 0.1 + TINY
        branch = self._branch_error(node, largest, limit if leaf > limit else np.inf)
        if leaf <= limit and leaf <= branch + 0.1 + TINY:
            grown.feature[node] = -1
            self.tree_error[node] = leaf
            return False
        if branch > limit:
            return False
        return self._raise(node, largest)

    def _branch_error(self, node: int, branch: int, limit: float) -> float:
        """Return the pessimistic error of a branch in its parent's place, or a lower bound above the limit."""
        grown, entries = self.grown, self.grown.entries[node]
        if grown.feature[branch] < 0:
            return float(self.leaf_error[node])
        if entries.weight is not None or self.records.has_missing:  # parts depend on who else is there
            counts, touched = self._sent_down(branch, entries)
            return float(pessimistic(counts, self.confidence)[grown.feature[touched] < 0].sum())
        one = slice(node, node + 1)
        test = (grown.feature[one], grown.cut[one], grown.first_child[one], grown.children[one])
        if len(entries.record) >= 8 * FEWEST_TRIED:
            # more records never mean a smaller pessimistic error, so some are a lower bound
            some = entries.at(np.arange(0, len(entries.record), len(entries.record) // FEWEST_TRIED))
            least = self._with(
                branch, some.at(np.flatnonzero(send_down(self.records, some, *test).slot != branch))
            )
            if least > limit:
                return least
        return self._with(
            branch, entries.at(np.flatnonzero(send_down(self.records, entries, *test).slot != branch))
        )

    def _with(self, branch: int, others: Entries) -> float:
        """Return the pessimistic error of a branch that gets records from outside."""
        counts, touched = self._sent_down(branch, others)
        leaves = self.grown.feature[touched] < 0
        return float(pessimistic((counts + self.grown.counts[touched])[leaves], self.confidence).sum())

    def _sent_down(self, root: int, entries: Entries, keep: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the counts that a subtree's nodes would have with these entries, and the nodes."""
        grown = self.grown
        nodes = np.array([root])
        all_counts, all_nodes = [], []
        entries = Entries(entries.record, np.zeros(len(entries.record), np.int64), entries.weight)
        while True:
            all_counts.append(class_counts(self.records, entries, len(nodes)))
            all_nodes.append(nodes)
            split = grown.feature[nodes] >= 0
            if not split.any():
                break
            entries = entries.only(split)
            inner = nodes[split]
            if keep:
                grown.entries.update(zip(inner.tolist(), entries.divided(len(inner)), strict=True))
            kids = grown.children[inner]
            first = np.cumsum(kids) - kids
            entries = send_down(self.records, entries, grown.feature[inner], grown.cut[inner], first, kids)
            nodes = spans(grown.first_child[inner], kids)
        return np.concatenate(all_counts), np.concatenate(all_nodes)

    def _raise(self, node: int, branch: int) -> bool:
        """Put a branch in its parent's place, with the parent's records."""
        grown = self.grown
        for part in (grown.feature, grown.cut, grown.first_child, grown.children):
            part[node] = part[branch]
        counts, nodes = self._sent_down(node, grown.entries[node], keep=True)
        grown.counts[nodes] = counts
        self.leaf_error[nodes] = pessimistic(counts, self.confidence)
        return True


def landed(records: CodedRecords, grown: Grown, weights: Any) -> Floats:
    """Return the sums of weights (records, columns) of the records that end in each leaf, by (leaf, column)."""
    from scipy.sparse import csr_array  # on first use: it costs a tenth of a second

    ends: list[Entries] = []
    for entries in descended(records, grown, np.ones(records.rows)):
        ends.append(entries.at(np.flatnonzero(grown.feature[entries.slot] < 0)))
    share, slot, record = (
        np.concatenate([getattr(e, name) for e in ends]) for name in ("weight", "slot", "record")
    )
    found = csr_array((share, (slot, record)), (len(grown.feature), records.rows)) @ weights
    return np.asarray(found if isinstance(found, np.ndarray) else found.toarray(), np.float64)


def prune(grown: Grown, inside: Floats) -> None:
    """Turn subtrees into leaves, in place.

    `inside` are the weights that end in each leaf, by (node, table, class): the table's own, then those of one
    without each fold.
    """
    total = float(inside[:, 0].sum())
    inside = totalled(grown, inside)
    labels = majority(grown.counts)
    right = np.take_along_axis(inside, labels[:, None, None], axis=2)[:, :, 0]
    leaves = np.ones(len(right))
    folds, least = inside.shape[1] - 1, LEAF_SHARE / inside.shape[2] * total
    for node in np.flatnonzero(grown.feature >= 0)[::-1].tolist():
        children = _children(grown, node)
        below, count = right[children].sum(axis=0), leaves[children].sum()
        saved = below - right[node]
        apart = saved[1:] - saved[1:].mean()
        error = float(np.sqrt((folds - 1) / folds * (apart**2).sum()))
        if saved[0] <= max(STANDARD_ERRORS * error, least * (count - 1)) + 1e-9 * total:
            grown.feature[node] = -1
        else:
            right[node], leaves[node] = below, count


def totalled(grown: Grown, ended: Floats) -> Floats:
    """Return the sums in or below each node, from those in each leaf; in place."""
    for node in np.flatnonzero(grown.feature >= 0)[::-1].tolist():  # children come after their parents
        ended[node] = ended[_children(grown, node)].sum(axis=0)
    return ended


def _children(grown: Grown, node: int) -> slice:
    return slice(grown.first_child[node], grown.first_child[node] + grown.children[node])
