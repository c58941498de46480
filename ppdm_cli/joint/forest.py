"""T: for each class a forest over all attributes, from tables of pairs (maths 10; Chow and Liu 1968).

An edge is as heavy as the likelihood of held-out published pairs rises over independence; the heaviest
forest stays. Reading published records is passing messages along it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.estimating import TINY, Steps, Stop, Tables, shares
from ppdm_cli.joint.joint_table import Uniform, picked
from ppdm_cli.joint.sample import Sample

EDGE = 2.0
"""Nats that an edge must be worth."""
MARGINAL_STEPS = 50
"""From equal shares; the end of EM, the most likely distribution, is jagged and cost two points on spambase."""
STOP = Stop(enough=1e-3, patience=2, more=5, most=300)
PAIR_CELLS = 1 << 16
BATCH_CELLS = 1 << 21
ALL_PAIRS_CELLS = 1 << 22
"""Of all pairs and classes together."""
PAIR_COST = 1 << 9
"""Cells that a pair counts as at least: its overhead."""
ROWS = 1 << 13
"""Records that pass messages at a time."""


@dataclass(frozen=True, eq=False)
class Branch:
    """An attribute, what it hangs on (-1: nothing), and its distribution given that (parent, own)."""

    place: int
    parent: int
    chances: Floats


@dataclass(frozen=True, eq=False)
class Forest:
    """For each published class the branches, parents first."""

    matrices: tuple[Floats, ...]
    classes: tuple[tuple[Branch, ...], ...]

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(range(len(self.matrices)))

    def _messages(
        self, branches: Sequence[Branch], codes: Sequence[Codes], unseen: Collection[int] = ()
    ) -> tuple[dict[int, Floats], dict[int, Floats], Floats]:
        """What each attribute and all that hangs on it say of its original value.

        What it says to its parent, both up to factors; the log-likelihood.
        """
        said = {b.place: self.matrices[b.place][codes[b.place]] for b in branches}
        for place in unseen:
            said[place] = np.ones_like(said[place])
        log, up = np.zeros(len(codes[0])), {}
        for branch in reversed(branches):
            told = said[branch.place] @ branch.chances.T
            largest = np.maximum(told.max(axis=1), 1e-300)
            log += np.log(largest)
            if branch.parent >= 0:
                up[branch.place] = told / largest[:, None]
                said[branch.parent] = said[branch.parent] * up[branch.place]
        return said, up, log

    def marginals(self, codes: Sequence[Codes], labels: Codes) -> list[Floats]:
        """For each place the posterior of its original codes, up to a factor a record (Pearl 1988)."""
        found = [np.zeros((len(labels), m.shape[1])) for m in self.matrices]
        for c, branches in enumerate(self.classes):
            rows = np.flatnonzero(labels == c)
            said, up, _ = self._messages(branches, [code[rows] for code in codes])
            down: dict[int, Floats] = {}
            for b in branches:
                if b.parent < 0:
                    down[b.place] = b.chances
                else:
                    rest = down[b.parent] * said[b.parent] / np.maximum(up[b.place], 1e-300)
                    down[b.place] = (
                        rest / np.maximum(rest.max(axis=1, initial=0, keepdims=True), 1e-300) @ b.chances
                    )
                found[b.place][rows] = said[b.place] * down[b.place]
        return found

    @cached_property
    def priors(self) -> list[Floats]:
        """For each place the distribution of its original codes, by class."""
        found = [np.empty((len(self.classes), m.shape[1])) for m in self.matrices]
        for c, branches in enumerate(self.classes):
            for b in branches:
                found[b.place][c] = (np.ones(1) if b.parent < 0 else found[b.parent][c]) @ b.chances
        return found

    def log_likelihood(self, codes: Sequence[Codes], unseen: Collection[int] = ()) -> Floats:
        """log p(published codes | class), (records, classes); what is unseen says nothing."""
        logs = np.empty((len(codes[0]), len(self.classes)))
        for start in range(0, len(logs), ROWS):
            part = [c[start : start + ROWS] for c in codes]
            for c, branches in enumerate(self.classes):
                logs[start : start + ROWS, c] = self._messages(branches, part, unseen)[2]
        return logs

    def likelihood(self, codes: Sequence[Codes]) -> Floats:
        """p(published codes | class), (records, classes), up to a factor a record."""
        logs = self.log_likelihood(codes)
        return np.exp(logs - logs.max(axis=1, keepdims=True))

    def draw(self, codes: Sequence[Codes], labels: Codes, uniform: Uniform) -> list[np.ndarray]:
        """Original codes of all attributes, from their posterior given the published codes and the label."""
        drawn = [np.zeros(len(labels), np.int64) for _ in self.matrices]
        for c, branches in enumerate(self.classes):
            rows = np.flatnonzero(labels == c)
            for start in range(0, len(rows), ROWS):
                part = rows[start : start + ROWS]
                said, *_ = self._messages(branches, [code[part] for code in codes])
                for branch in branches:
                    parent = drawn[branch.parent][part] if branch.parent >= 0 else np.zeros(len(part), np.int64)
                    weights = branch.chances[parent] * said[branch.place]
                    drawn[branch.place][part] = picked(weights, uniform(branch.place, part))
        return drawn

    def density(self, originals: Sequence[np.ndarray]) -> Floats:
        """p(original codes of the places | class), (records, classes), up to a factor a record."""
        logs = np.zeros((len(originals[0]), len(self.classes)))
        for c, branches in enumerate(self.classes):
            for b in branches:
                parent = originals[b.parent] if b.parent >= 0 else np.zeros(len(logs), np.int64)
                logs[:, c] += np.log(np.maximum(b.chances[parent, originals[b.place]], 1e-300))
        return np.exp(logs - logs.max(axis=1, keepdims=True))

    def sampled(self, label: int, records: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Records of one class as the forest has them."""
        drawn = [np.zeros(records, np.int64) for _ in self.matrices]
        for branch in self.classes[label]:
            for start in range(0, records, ROWS):
                part = slice(start, min(start + ROWS, records))
                parent = drawn[branch.parent][part] if branch.parent >= 0 else None
                rows = part.stop - part.start
                weights = branch.chances[np.zeros(rows, np.int64) if parent is None else parent]
                drawn[branch.place][part] = picked(weights, rng.random(rows))
        return drawn


def learn_forest(sample: Sample, held: int | None, order: Sequence[int]) -> Forest:
    """The forest of all records, or of all folds but the one held.

    `order` has the attributes, those that say most of the class first: when there are too many pairs, the
    last ones have no edges.
    """
    fold = 0 if held is None else held
    marginals = [_marginal(sample, p, held) for p in range(len(sample.channels))]
    weights, tables = _pairs(sample, marginals, _candidates(sample, order), fold, whole=held is None)
    classes = []
    for c in range(sample.classes):
        classes.append(_forest(c, marginals, weights, tables))
    return Forest(tuple(sample.matrices), tuple(classes))


Pair = tuple[int, int]


def _marginal(sample: Sample, place: int, held: int | None) -> Floats:
    """The class-wise distribution of one attribute, of all records or all folds but one."""
    counts, matrix = sample.counts([place]), sample.matrices[place]
    seen = counts.sum(axis=0) - (0 if held is None else counts[held])
    start = np.full((sample.classes, matrix.shape[1]), 1 / matrix.shape[1])
    found = Steps([matrix], seen)(start, MARGINAL_STEPS).astype(np.float64)
    return np.maximum(shares(found), 1e-9)


def _candidates(sample: Sample, order: Sequence[int]) -> list[int]:
    """As many attributes as their pairs can be counted and estimated in a second or so."""
    chosen: list[int] = []
    cells = 0
    for place in order:
        own = len(sample.matrices[place]) * sample.classes
        cells += sum(max(own * len(sample.matrices[c]), PAIR_COST) for c in chosen)
        if cells > ALL_PAIRS_CELLS:
            break
        chosen.append(place)
    return sorted(chosen)


def _pairs(
    sample: Sample, marginals: list[Floats], candidates: list[int], fold: int, whole: bool
) -> tuple[dict[Pair, Floats], dict[Pair, Tables]]:
    """Of each pair the gain over independence by class, and the class-wise tables."""
    groups: dict[tuple[tuple[int, ...], ...], list[Pair]] = {}
    for a, b in combinations(candidates, 2):
        shapes = (sample.matrices[a].shape, sample.matrices[b].shape)
        cells = shapes[0][0] * shapes[1][0]
        if cells <= PAIR_CELLS and cells * sample.classes <= BATCH_CELLS:
            groups.setdefault(shapes, []).append((a, b))
    weights: dict[Pair, Floats] = {}
    tables: dict[Pair, Tables] = {}
    for (one, other), pairs in groups.items():
        most = max(1, BATCH_CELLS // (one[0] * other[0] * sample.classes))
        for first in range(0, len(pairs), most):
            some = pairs[first : first + most]
            for pair, weight, table in zip(some, *_fitted(sample, marginals, some, fold, whole), strict=True):
                if (weight > EDGE).any():
                    weights[pair], tables[pair] = weight, table
    return weights, tables


def _fitted(
    sample: Sample, marginals: list[Floats], pairs: list[Pair], fold: int, whole: bool
) -> tuple[Floats, Tables]:
    """EM for pairs of like shapes at once, each class of each stopped by its own held-out likelihood."""
    counts = np.stack([sample.counts(p) for p in pairs])  # (pairs, folds, classes, cells, cells)
    cells = counts.shape[3:]
    held = counts[:, fold].reshape(-1, *cells).astype(np.float32)
    matrices = [
        np.repeat(np.stack([sample.matrices[p[place]] for p in pairs]), sample.classes, axis=0)
        for place in (0, 1)
    ]
    start = np.stack([marginals[a][:, :, None] * marginals[b][:, None, :] for a, b in pairs])
    start = start.reshape(-1, *start.shape[2:])

    def judge(expected: Tables, which: np.ndarray) -> Floats:
        logs = np.log(np.maximum(expected, TINY))
        return np.asarray((held[which] * logs).sum(axis=(-1, -2), dtype=np.float64))[:, None]

    every = counts.sum(axis=1).reshape(held.shape)
    steps = Steps(matrices, every - held)
    fit = steps.stopped(start, judge, STOP)
    base = judge(steps.expected(start.astype(np.float32)), np.arange(len(start)))
    gain, table = (fit.scores - base)[:, 0], fit.table
    if whole:  # a few more steps with the records that were held back
        which = np.flatnonzero(gain > EDGE)
        more = max(3, int(np.median(fit.steps)) // 4)
        table[which] = Steps(matrices, every)(table[which], more, which)
    classes = (len(pairs), sample.classes)
    return gain.reshape(classes), table.reshape(*classes, *table.shape[1:])


def _forest(
    label: int, marginals: list[Floats], weights: dict[Pair, Floats], tables: dict[Pair, Tables]
) -> tuple[Branch, ...]:
    """The heaviest forest: edges from heavy to light, none that closes a circle (Kruskal 1956)."""
    tree = list(range(len(marginals)))
    neighbours: list[list[tuple[int, Tables]]] = [[] for _ in marginals]

    def root(place: int) -> int:
        while tree[place] != place:
            place = tree[place]
        return place

    for pair in sorted(weights, key=lambda p: -weights[p][label]):
        if weights[pair][label] <= EDGE:
            break
        a, b = root(pair[0]), root(pair[1])
        if a != b:
            tree[a] = b
            table = tables[pair][label].astype(np.float64)
            neighbours[pair[0]].append((pair[1], table))
            neighbours[pair[1]].append((pair[0], table.T))
    branches, seen = [], set()
    for start in range(len(marginals)):
        if start in seen:
            continue
        seen.add(start)
        branches.append(Branch(start, -1, _rows(marginals[start][label][None, :])))
        waiting = [start]
        while waiting:
            parent = waiting.pop()
            for place, table in neighbours[parent]:
                if place not in seen:
                    seen.add(place)
                    waiting.append(place)
                    branches.append(Branch(place, parent, _rows(table + 1e-12)))
    return tuple(branches)


def _rows(table: Tables) -> Floats:
    """Each row as shares."""
    return np.asarray(table / table.sum(axis=1, keepdims=True), np.float64)
