"""T: for each class a forest over all attributes, from tables of pairs (maths 10; Chow and Liu 1968).

An edge is as heavy as the likelihood of held-out published pairs rises over independence; the heaviest
forest stays. Reading published records is passing messages along it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.joint.joint_table import Uniform, picked
from ppdm_cli.joint.sample import Sample
from ppdm_cli.joint.tables import Steps, Tables, shares

EDGE = 2.0
"""Nats that an edge must be worth."""
MARGINAL_STEPS = 50
"""From equal shares; the end of EM, the most likely distribution, is jagged and cost two points on spambase."""
PAIR_STEPS = 300
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
    ) -> tuple[dict[int, Floats], Floats]:
        """What each attribute and all that hangs on it say of its original value; the log-likelihood."""
        said = {b.place: self.matrices[b.place][codes[b.place]] for b in branches}
        for place in unseen:
            said[place] = np.ones_like(said[place])
        log = np.zeros(len(codes[0]))
        for branch in reversed(branches):
            up = said[branch.place] @ branch.chances.T
            largest = np.maximum(up.max(axis=1), 1e-300)
            log += np.log(largest)
            if branch.parent >= 0:
                said[branch.parent] = said[branch.parent] * (up / largest[:, None])
        return said, log

    def log_likelihood(self, codes: Sequence[Codes], unseen: Collection[int] = ()) -> Floats:
        """log p(published codes | class), (records, classes); what is unseen says nothing."""
        logs = np.empty((len(codes[0]), len(self.classes)))
        for start in range(0, len(logs), ROWS):
            part = [c[start : start + ROWS] for c in codes]
            for c, branches in enumerate(self.classes):
                logs[start : start + ROWS, c] = self._messages(branches, part, unseen)[1]
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
                said, _ = self._messages(branches, [code[part] for code in codes])
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
    """EM for pairs of like shapes at once, each stopped by its own held-out likelihood."""
    counts = np.stack([sample.counts(p) for p in pairs])  # (pairs, folds, classes, cells, cells)
    held = counts[:, fold].astype(np.float32)
    seen = counts.sum(axis=1) - counts[:, fold]

    def stacked(place: int) -> Tables:
        return np.stack([sample.matrices[p[place]] for p in pairs]).astype(np.float32)[:, None]

    left, right = stacked(0), stacked(1)
    left_back, right_back = left.swapaxes(-1, -2), right.swapaxes(-1, -2)
    start = np.stack([marginals[a][:, :, None] * marginals[b][:, None, :] for a, b in pairs])

    def expected(table: Tables, which: np.ndarray) -> Tables:
        return left[which] @ table @ right_back[which]

    def scores(table: Tables, which: np.ndarray) -> Floats:
        logs = np.log(np.maximum(expected(table, which), 1e-30))
        return np.asarray((held[which] * logs).sum(axis=(-1, -2), dtype=np.float64))

    def step(table: Tables, observed: Tables, which: np.ndarray) -> Tables:
        ratio = observed / np.maximum(expected(table, which), 1e-30)
        return np.asarray(table * (left_back[which] @ ratio @ right[which]))

    observed = _pair_shares(seen)
    active = np.arange(len(pairs))
    table = start.astype(np.float32)
    base = scores(table, active)
    gain, best = np.zeros_like(base), table.copy()
    stop, bad, steps, more = np.zeros(base.shape, int), np.zeros(base.shape, int), 0, 5
    while active.size and steps < PAIR_STEPS:
        for _ in range(more):
            table = step(table, observed[active], active)
        steps += more
        risen = scores(table, active) - base[active]
        better = (risen > gain[active] + 1e-3) & (bad[active] < 2)
        now = gain[active]
        now[better] = risen[better]
        gain[active] = now
        kept = best[active]
        kept[better] = table[better]
        best[active] = kept
        stops = stop[active]
        stops[better] = steps
        stop[active] = stops
        worse = bad[active]
        worse[~better] += 1
        worse[better] = 0
        bad[active] = worse
        going = (worse < 2).any(axis=1)
        active, table = active[going], table[going]
        more = max(5, steps // 4)
    if whole:  # a few more steps with the records that were held back
        which = np.arange(len(pairs))
        observed = _pair_shares(counts.sum(axis=1))
        for _ in range(max(3, int(np.median(stop)) // 4)):
            best = np.where((gain > EDGE)[:, :, None, None], step(best, observed, which), best)
    return gain, best


def _pair_shares(counts: np.ndarray) -> Tables:
    sums = np.maximum(counts.sum(axis=(-1, -2), keepdims=True), 1)
    return np.asarray((counts / sums).astype(np.float32))


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
