"""The law of one perturbed column given other columns, boosted through its channel (docs/technical/method.md).

It begins with the column's own shares, the same for every record. To their logarithm it adds the effects of
other columns, fitted together, and then small trees of these columns. Effects are tested against chance. A tree
is grown on a half of the records and tested on the other half. Effects and steps are as large as the variance
of their signal. So a column that depends on nothing keeps its law.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ppdm_cli.arrays import Codes, Floats, chi_square_tail
from ppdm_cli.estimating import Tables

COSINES, FEWEST_ORDERED = 5, 12
"""The number of waves that describe an order of at least so many values; slow ones are more likely."""
DEPTH, LEAST = 3, 50
"""The depth of a tree, and the least records in a leaf."""
MOST_TREES, MOST_FAILED = 20, 1
RATE = 0.6
FIRST, LATER = 4 * (MOST_FAILED + 1), 0.05
"""The share of the level at which the first tree is tested (effects take half), and the level of later ones."""
VISIBLE = 2.0
"""The standard deviations by which the strongest possible dependence must stand out for a tree to be tried."""
STRONGEST = 4.0
"""The variance of the strongest dependence, in nats of log p."""
MOST_GROWING = 1 << 14
"""The most records that a tree is grown on."""
MOST_CHANCES = 1 << 25
"""The most probabilities, of records by values; with more, only every k-th record is used."""
RARE = 1e-6
MOST_CODES = 128
"""The most codes without an order of a column that has an effect; trees may still test others."""
SCALES = 2.0 ** np.arange(-12, 3)
"""Factors of the effects' variances. The one with the most evidence is taken in each round of the fit."""
MOST_ROUNDS, LEAST_GAIN = 12, 0.5
"""A fit of effects ends after so many rounds, or when one gains fewer nats of evidence."""
EM_STEPS = 5
"""Steps of EM at the end for the effect of a column with few codes."""

Halves = Callable[[int], np.ndarray]
"""A function from the number of an attempt to the records that a tree is grown on."""


class AskedColumn(NamedTuple):
    """A column that may be tested: its codes, their number, and how many of the first are ordered."""

    codes: Codes
    size: int
    ordered: int


@dataclass(frozen=True, eq=False)
class Splits:
    """A full binary tree: at each node a feature, and the codes of it that go left."""

    feature: np.ndarray
    left: np.ndarray

    def leaves(self, codes: Sequence[Codes]) -> np.ndarray:
        """Return the number of each record's leaf."""
        node, nodes = np.zeros(len(codes[0]), np.uint8), 1
        while nodes <= len(self.feature):
            node = self.children(node, nodes, codes)
            nodes *= 2
        return node

    def children(self, node: np.ndarray, nodes: int, codes: Sequence[Codes]) -> np.ndarray:
        """Return the nodes that records go to from those of a level, which has so many."""
        right = np.zeros(len(node), bool)
        for own in range(nodes):
            split = nodes - 1 + own
            right |= (node == own) & ~self.left[split].take(codes[self.feature[split]])
        return 2 * node + right


@dataclass(frozen=True, eq=False)
class Boosted:
    """The law log p(original value | other columns): a part for all records, and additions by trees."""

    start: Tables
    basis: Tables
    effects: dict[int, Tables]
    """The addition of each code of a column, in terms of the basis, by column."""
    trees: tuple[tuple[Splits, Tables], ...]
    """The trees, each with its leaves' steps, in terms of the basis."""

    def chances(self, codes: Sequence[Codes], records: int) -> Tables:
        """Return p(original value | other columns), (records, values)."""
        steps = np.zeros((records, self.basis.shape[1]), np.float32)
        for number, effect in self.effects.items():
            steps += effect[codes[number]]
        for splits, leaves in self.trees if records else ():
            steps += leaves[splits.leaves(codes)]
        return _chances(self.start, self.basis, steps)

    @property
    def asked(self) -> set[int]:
        """Return the numbers of the columns that the law depends on."""
        return {*self.effects, *(int(f) for splits, _ in self.trees for f in np.unique(splits.feature))}


def boosted(
    features: Sequence[AskedColumn],
    published: Codes,
    matrix: Floats,
    alone: Floats,
    ordered: int,
    halves: Halves,
    certain: int,
    level: float,
) -> Boosted:
    """Learn the law of a column from its published codes, by p(published code | original value).

    `alone` are the shares of the original values, of which the first so many are `ordered`. The first `certain`
    features are tested first, and the others for the rest. `level` is the chance that a column which depends on
    nothing is found to depend on something.
    """
    every = slice(None, None, max(1, -(-len(published) * len(alone) // MOST_CHANCES)))
    some = [f._replace(codes=f.codes[every]) for f in features]
    law = _Boosting(some, published[every], matrix.astype(np.float32), alone, _basis(len(alone), ordered))
    number, proven = 0, law.add_effects(level / 2)
    for may_ask in sorted({certain, len(features)} - {0}):
        failed, beyond = 0, proven
        while failed <= MOST_FAILED and len(law.trees) < MOST_TREES:
            found = law.attempt(may_ask, halves(number)[every], failed, LATER if beyond else level / FIRST)
            if found is None:
                break
            failed, beyond, number = 0 if found else failed + 1, beyond or found, number + 1
    law.polish()
    return Boosted(law.start, law.basis, law.effects, tuple(law.trees))


def _basis(values: int, ordered: int) -> Tables:
    """Return the basis of a law, (values, terms): slow waves of an order, or each value separately."""
    if ordered < FEWEST_ORDERED:
        return np.eye(values, dtype=np.float32)
    waves = np.arange(1, COSINES + 1)
    places = (np.arange(ordered) + 0.5) / ordered
    found = np.zeros((values, COSINES + values - ordered), np.float32)
    found[:ordered, :COSINES] = np.sqrt(2) * np.cos(np.pi * places[:, None] * waves) / waves
    found[ordered:, COSINES:] = np.eye(values - ordered)
    return found


def _moments(values: Tables) -> Floats:
    """Return the sums of the first three powers of eigenvalues."""
    return np.array([(values.astype(np.float64) ** power).sum() for power in (1, 2, 3)])


def _tail(squares: float, moments: Floats) -> float:
    """Return the p-value of a sum of squares, by a chi-square of three moments (Buckley and Eagleson 1988)."""
    mean, square, cube = moments
    freedom = square**3 / cube**2
    return chi_square_tail(freedom + (squares - mean) * np.sqrt(freedom / square), freedom)


def _chances(start: Tables, basis: Tables, steps: Tables) -> Tables:
    found = steps @ basis.T
    found += start
    np.exp(found, out=found)
    found /= (found @ np.ones(found.shape[1], found.dtype))[:, None]  # quicker than a sum of short rows
    return found


@dataclass(eq=False)
class _Boosting:
    """A law while it is learned, with its predictions for the records that it is learned from."""

    features: list[AskedColumn]
    published: Codes
    matrix: Tables
    alone: Floats
    basis: Tables
    effects: dict[int, Tables] = field(default_factory=dict)
    trees: list[tuple[Splits, Tables]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start = np.log(np.maximum(self.alone, RARE)).astype(np.float32)
        self._codes = [f.codes for f in self.features]
        self._steps = np.zeros((len(self.published), self.basis.shape[1]), np.float32)
        self._scores = self._slopes(self._steps, self.published)[1]

    def add_effects(self, level: float) -> bool:
        """Add the main effects of columns if one is beyond chance at a level; return whether it is."""
        every = self._candidates()
        found = {number: terms for number, tail, terms in every if tail <= LATER}
        if not found or min(tail for _, tail, _ in every) * len(every) > level:
            return False
        ends = np.cumsum([terms.shape[1] for terms in found.values()])
        some = slice(None, None, -(-len(self.published) * int(ends[-1]) // MOST_CHANCES))
        design = np.concatenate([terms[self._codes[n][some]] for n, terms in found.items()], axis=1)
        fitted = self._fitted(design, self.published[some]).astype(np.float32)
        for (number, terms), own in zip(found.items(), np.split(fitted, ends[:-1]), strict=True):
            self.effects[number] = terms @ own
            self._steps += self.effects[number][self._codes[number]]
        self._scores = self._slopes(self._steps, self.published)[1]
        return True

    def _candidates(self) -> list[tuple[int, float, Tables]]:
        """Return each column's p-value, and terms of its codes whose coefficients have a variance of one."""
        found, records = [], len(self.published)
        information = _moments(np.linalg.eigvalsh(self._scores.T @ self._scores / max(records, 1)))
        for number, feature in enumerate(self.features if records else ()):
            if feature.size > MOST_CODES and not feature.ordered:
                continue
            terms = _basis(feature.size, feature.ordered)
            terms -= terms[feature.codes].mean(axis=0)
            own = terms[feature.codes]
            moments = _moments(np.linalg.eigvalsh(own.T @ own / records)) * information
            if moments[1] <= 0:
                continue
            squares = float(((own.T @ self._scores).astype(np.float64) ** 2).sum()) / records
            variance = (squares - moments[0] - np.sqrt(2 * moments[1])) / moments[1] / records
            scaled = terms * np.float32(np.clip(variance, 0.0, STRONGEST) ** 0.5)
            found.append((number, _tail(squares, moments), scaled))
        return found

    def _fitted(self, design: Tables, published: Codes) -> Floats:
        """Return the coefficients of a design by penalised quasi-likelihood (Breslow and Clayton 1993)."""
        spread, turns = np.linalg.eigh((design.T @ design).astype(np.float64))
        best = found = np.zeros((design.shape[1], self.basis.shape[1]))
        most, scale = -np.inf, 1.0
        for _ in range(MOST_ROUNDS):
            likely, scores = self._slopes(design @ found.astype(np.float32), published)
            information, axes = np.linalg.eigh((scores.T @ scores).astype(np.float64) / len(scores))
            known = np.maximum(spread, 0.0)[:, None] * np.maximum(information, 0.0)
            likely -= float((found**2).sum() / scale + np.log1p(scale * known).sum()) / 2
            if likely < most + LEAST_GAIN:
                break
            best, most = found, likely
            whole = turns.T @ (design.T @ scores) @ axes + known * (turns.T @ found @ axes)
            evidence = [(s * whole**2 / (1 + s * known) - np.log1p(s * known)).sum() for s in SCALES]
            scale = float(SCALES[np.argmax(evidence)])
            found = found + RATE * (turns @ (scale * whole / (1 + scale * known)) @ axes.T - found)
        return best

    def attempt(self, may_ask: int, half: np.ndarray, contrast: int, level: float) -> bool | None:
        """Add a tree if it is beyond chance at a level; return whether it was, or None if none can be."""
        growing, testing = np.flatnonzero(half)[:MOST_GROWING], np.flatnonzero(~half)
        asked = [n for n, f in enumerate(self.features[:may_ask]) if f.size > 1]
        if not asked or not len(growing):
            return None
        scores = self._scores
        information, axes = np.linalg.eigh((scores.T @ scores).astype(np.float64) / len(scores))
        information = np.maximum(information, 0.0)
        moments = _moments(information)
        total, squares = moments[:2]
        visible = len(testing) * np.sqrt(squares / 2) / VISIBLE
        depth = min(DEPTH, int(2 * np.log2(max(visible, 1e-9))))  # so many leaves that each has enough evidence
        if depth < 1:
            return None
        splits = self._grown(asked, scores, growing, depth, contrast)
        leaf = splits.leaves(self._codes)
        records, sums = _by_leaf(leaf[testing], scores[testing], 1 << depth)
        there = records > 0
        apart = sums[there] - records[there, None] * (sums.sum(axis=0) / max(records.sum(), 1))
        found = float(((apart**2).sum(axis=1) / records[there]).sum())
        moments *= there.sum() - 1
        if there.sum() < 2 or _tail(found, moments) > level:
            return False
        beyond = (found - moments[0]) / np.sqrt(2 * moments[1])
        variance = ((sums**2).sum() - records.sum() * total) / ((records**2.0).sum() * squares)
        variance = float(np.clip(variance * (1 - 1 / beyond), 1e-9, STRONGEST))
        steps = RATE * (sums @ axes) / (records[:, None] * information + 1 / variance) @ axes.T
        self.trees.append((splits, steps.astype(np.float32)))
        self._steps += self.trees[-1][1][leaf]
        self._scores = self._slopes(self._steps, self.published)[1]
        return True

    def polish(self) -> None:
        """Take steps of EM in leaves and in codes of short columns: values that never occur go down to zero."""
        for number in EM_STEPS * [n for n, e in self.effects.items() if len(e) <= 1 << DEPTH]:
            effect = self.effects[number]
            self.effects[number] = effect + self._polished(self._codes[number], len(effect))
        for number, (splits, steps) in enumerate(self.trees):
            self.trees[number] = splits, steps + self._polished(splits.leaves(self._codes), len(steps))

    def _polished(self, leaf: np.ndarray, leaves: int) -> Tables:
        """Return the addition of a step of EM in each leaf."""
        before, _, after = self._believed(self._steps, self.published)
        _, known = _by_leaf(leaf, before, leaves)
        _, seen = _by_leaf(leaf, after, leaves)
        common = known.sum(axis=0) / max(known.sum(), 1.0)
        weights = common[:, None] * self.basis
        more = np.log((seen + common) / (known + common)) @ weights
        more = np.linalg.lstsq(self.basis.T @ weights, more.T)[0].T.astype(np.float32)
        self._steps += more[leaf]
        return np.asarray(more)

    def _believed(self, steps: Tables, published: Codes) -> tuple[Tables, Tables, Tables]:
        """Return the probabilities of values before and after the published code, and that of the code."""
        before = _chances(self.start, self.basis, steps)
        after = self.matrix[published]
        after *= before
        chance = after @ np.ones(after.shape[1], after.dtype)
        after /= chance[:, None]
        return before, chance, after

    def _slopes(self, steps: Tables, published: Codes) -> tuple[float, Tables]:
        """Return log p(published codes), and its slope by term, (records, terms)."""
        before, chance, after = self._believed(steps, published)
        after -= before
        return float(np.log(chance).sum(dtype=np.float64)), np.asarray(after @ self.basis)

    def _grown(self, may_ask: list[int], scores: Tables, rows: np.ndarray, depth: int, contrast: int) -> Splits:
        """Return a tree grown on some records for the contrast of values that other columns predict best."""
        tables = []
        for number in may_ask:
            feature = self.features[number]
            records, sums = _by_leaf(feature.codes[rows], scores[rows], feature.size)
            tables.append(sums / np.sqrt(np.maximum(records, 1))[:, None])
        contrasts = np.linalg.svd(np.concatenate(tables), full_matrices=False)[2]
        score = (scores[rows] @ contrasts[min(contrast, len(contrasts) - 1)]).astype(np.float64)
        codes = [c[rows] for c in self._codes[: may_ask[-1] + 1]]
        width = max(f.size for f in self.features)
        asked = np.full((1 << depth) - 1, may_ask[0], np.intp)
        left = np.ones((len(asked), width), bool)
        splits, node = Splits(asked, left), np.zeros(len(rows), np.uint8)
        for level in range(depth):
            first, nodes = (1 << level) - 1, 1 << level
            best = np.zeros(nodes)
            for number in may_ask:
                feature = self.features[number]
                gains, goes = _best_cuts(node * np.intp(feature.size) + codes[number], score, nodes, feature)
                better = np.flatnonzero(gains > best)
                best[better] = gains[better]
                asked[first + better] = number
                left[first + better] = False
                left[first + better, : feature.size] = goes[better]
            node = splits.children(node, nodes, codes)
        return splits


def _by_leaf(leaf: np.ndarray, scores: Tables, leaves: int) -> tuple[np.ndarray, Floats]:
    """Return the number of records in each leaf, and the sums of their scores."""
    from scipy.sparse import csr_array

    ones = np.ones(len(leaf), np.float32)
    sums = csr_array((ones, (leaf, np.arange(len(leaf)))), (leaves, len(leaf))) @ scores
    return np.bincount(leaf, minlength=leaves), sums.astype(np.float64)


def _best_cuts(cell: np.ndarray, score: Floats, nodes: int, feature: AskedColumn) -> tuple[Floats, np.ndarray]:
    """Return the gain of the best cut of a feature at each node, and the codes that go left."""
    shape = (nodes, feature.size)
    records = np.bincount(cell, minlength=nodes * feature.size).reshape(shape)
    sums = np.bincount(cell, score, nodes * feature.size).reshape(shape)
    order = np.tile(np.arange(feature.size), (nodes, 1))
    if not feature.ordered:  # by their means, drawn towards none where there are few
        order = np.argsort(sums / (records + LEAST), axis=1, kind="stable")
        records, sums = np.take_along_axis(records, order, 1), np.take_along_axis(sums, order, 1)
    left, total = records.cumsum(axis=1), records.sum(axis=1, keepdims=True)
    own, whole = sums.cumsum(axis=1), sums.sum(axis=1, keepdims=True)
    right = total - left
    gains = own**2 / np.maximum(left, 1) + (whole - own) ** 2 / np.maximum(right, 1)
    gains = np.where((left >= LEAST) & (right >= LEAST), gains - whole**2 / np.maximum(total, 1), -np.inf)
    at = gains.argmax(axis=1)
    goes = np.zeros(shape, bool)
    np.put_along_axis(goes, order, np.arange(feature.size) <= at[:, None], 1)
    return gains[np.arange(nodes), at], goes
