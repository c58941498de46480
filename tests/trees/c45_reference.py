"""C4.5 record by record in plain Python, from Quinlan's text (1993, chapters 2 to 4; 1996 for release 8).

Slow and simple, to check the fast one by. Where Quinlan leaves freedom it follows Weka's J48, as
ppdm does: the tolerance of 1e-6, which branch counts as the largest, and cuts between values, not at one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import log2, sqrt
from statistics import NormalDist
from typing import Any

SMALL = 1e-6
Case = tuple[int, float]
"""A record and its weight."""


@dataclass
class Node:
    counts: list[float]
    label: int
    test: int = -1
    threshold: float = 0.0
    inner: list[Node] = field(default_factory=list)

    @property
    def errors(self) -> float:
        return sum(self.counts) - max(self.counts)


def info(weights: list[float]) -> float:
    """Weight times entropy, in bits."""
    total = sum(weights)
    return -sum(w * log2(w / total) for w in weights if w > SMALL)


class Learner:
    """One table: columns of numbers (None is missing) or of category numbers, and the classes."""

    def __init__(
        self,
        columns: list[list[Any]],
        categories: list[int],
        classes: list[int],
        number: int,
        mdl: bool = True,
        least: float = 2,
    ) -> None:
        self.columns, self.categories, self.classes, self.number = columns, categories, classes, number
        self.mdl, self.least = mdl, least
        self.distinct = [sorted({v for v in c if v is not None}) for c in columns]

    def counted(self, cases: list[Case]) -> list[float]:
        found = [0.0] * self.number
        for record, weight in cases:
            found[self.classes[record]] += weight
        return found

    def grow(self, cases: list[Case], parent: int = 0) -> Node:
        counts = self.counted(cases)
        total = sum(counts)
        node = Node(counts, counts.index(max(counts)) if total > 0 else parent)
        if total < 2 * self.least - SMALL or node.errors < SMALL:
            return node
        tests = [self.judged(place, cases, total) for place in range(len(self.columns))]
        usual = [not k or k < 0.3 * len(self.classes) for k in self.categories]
        usual = usual if any(usual) else [True] * len(usual)
        gains = [t[0] for t, u in zip(tests, usual, strict=True) if t and u]
        highest = 0.0
        for place, test in enumerate(tests):
            if gains and test and test[0] >= sum(gains) / len(gains) - 1e-3 and test[1] > highest + SMALL:
                highest, node.test, node.threshold = test[1], place, test[2]
        if node.test >= 0:
            node.inner = [self.grow(part, node.label) for part in self.parts(node, cases)]
        return node

    def judged(self, place: int, cases: list[Case], total: float) -> tuple[float, float, float] | None:
        """Gain, gain ratio and threshold of the best test of an attribute."""
        column = self.columns[place]
        if len(self.distinct[place]) < 2:
            return None
        known = [(r, w) for r, w in cases if column[r] is not None]
        sure = sum(w for _, w in known)
        before = info(self.counted(known))
        if self.categories[place]:
            parts = [[c for c in known if column[c[0]] == v] for v in self.distinct[place]]
            heavy = [sum(w for _, w in p) for p in parts]
            if sum(h >= self.least - SMALL for h in heavy) < 2:
                return None
            gain = (before - sum(info(self.counted(p)) for p in parts)) / total
            gain = 0.0 if abs(gain * sure) < SMALL else gain
            return gain, self.ratio(gain, heavy, total), 0.0
        least = 0.1 * sure / self.number
        least = self.least if least <= self.least + SMALL else min(least, 25.0)
        values = sorted({column[r] for r, _ in known})
        tried = []
        for low, high in pairwise(values):
            parts = [[c for c in known if (column[c[0]] > low) == side] for side in (False, True)]
            heavy = [sum(w for _, w in p) for p in parts]
            if min(heavy) >= least - SMALL:
                gain = before - sum(info(self.counted(p)) for p in parts)
                gain = 0.0 if abs(gain * sure / total) < SMALL else gain / total
                tried.append((gain, (low + high) / 2, heavy))
        top = max((t[0] for t in tried), default=0.0)
        if top <= SMALL:
            return None
        gain, middle, heavy = next(t for t in tried if t[0] >= top - SMALL)
        gain -= log2(len(tried)) / total if self.mdl else 0.0
        if gain < SMALL:
            return None
        last = max(v for v in self.distinct[place] if v <= middle)
        return gain, self.ratio(gain, heavy, total), self.halfway(place, last)

    def halfway(self, place: int, last: float) -> float:
        """J48's -doNotMakeSplitPointActualValue: C4.5 itself cuts at the value below."""
        return (last + min(v for v in self.distinct[place] if v > last)) / 2

    def ratio(self, gain: float, heavy: list[float], total: float) -> float:
        """Records with a missing value count as one more branch (Quinlan 1993, 3.2)."""
        split = info([*heavy, max(total - sum(heavy), 0.0)])
        return 0.0 if abs(split) < SMALL else gain * total / split

    def parts(self, node: Node, cases: list[Case]) -> list[list[Case]]:
        """The cases at each branch; those with a missing value at all, in parts."""
        column = self.columns[node.test]
        branches = len(self.distinct[node.test]) if self.categories[node.test] else 2
        found: list[list[Case]] = [[] for _ in range(branches)]
        for record, weight in cases:
            value = column[record]
            if value is not None:
                place = (
                    self.distinct[node.test].index(value)
                    if self.categories[node.test]
                    else int(value > node.threshold)
                )
                found[place].append((record, weight))
        heavy = [sum(w for _, w in part) for part in found]
        for record, weight in cases:
            if column[record] is None:
                for part, h in zip(found, heavy, strict=True):
                    share = h / sum(heavy) if sum(heavy) else 1 / branches
                    if share > SMALL:
                        part.append((record, weight * share))
        return found

    def collapse(self, node: Node) -> float:
        """Leaves instead of subtrees that save no training error; the errors below."""
        below = sum(self.collapse(child) for child in node.inner) if node.inner else node.errors
        if node.inner and below >= node.errors - 1e-3:
            node.inner, node.test = [], -1
        return below

    def prune(self, node: Node, cases: list[Case], confidence: float) -> None:
        """A leaf, or the largest branch, instead of a subtree that is not clearly better (4.2)."""
        if not node.inner:
            return
        for child, part in zip(node.inner, self.parts(node, cases), strict=True):
            self.prune(child, part, confidence)
        leaf = limit(node.counts, confidence)
        tree = below(node, confidence)
        sizes = [sum(child.counts) for child in node.inner]
        largest = max(i for i, s in enumerate(sizes) if s >= max(sizes) - SMALL)
        branch = self.filled(node.inner[largest], cases)
        raised = below(branch, confidence)
        if leaf <= tree + 0.1 + SMALL and leaf <= raised + 0.1 + SMALL:
            node.inner, node.test = [], -1
        elif raised <= tree + 0.1 + SMALL:
            node.test, node.threshold, node.inner = branch.test, branch.threshold, branch.inner
            self.prune(node, cases, confidence)

    def filled(self, node: Node, cases: list[Case]) -> Node:
        """A copy of a subtree with the counts of other cases."""
        counts = self.counted(cases)
        copy = Node(counts, counts.index(max(counts)) if sum(counts) else node.label, node.test, node.threshold)
        if node.inner:
            parts = self.parts(node, cases)
            copy.inner = [self.filled(c, p) for c, p in zip(node.inner, parts, strict=True)]
        return copy


def below(node: Node, confidence: float) -> float:
    if node.inner:
        return sum(below(child, confidence) for child in node.inner)
    return limit(node.counts, confidence)


def limit(counts: list[float], confidence: float) -> float:
    """Errors times the upper limit, as `AddErrs` of C4.5's source has it."""
    n, e = sum(counts), sum(counts) - max(counts)
    if n <= 0:
        return 0.0
    none = n * (1 - confidence ** (1 / n))
    if e < SMALL:
        return e + none
    if e < 1:
        return e + none + e * (upper(n, 1, NormalDist().inv_cdf(1 - confidence)) - 1 - none)
    return max(upper(n, e, NormalDist().inv_cdf(1 - confidence)), e)


def upper(n: float, e: float, z: float) -> float:
    if e + 0.5 >= n:
        return max(n, e)
    z2 = z * z
    middle = e + 0.5 + z2 / 2
    return n * (middle + sqrt(z2 * ((e + 0.5) * (1 - (e + 0.5) / n) + z2 / 4))) / (n + z2)
