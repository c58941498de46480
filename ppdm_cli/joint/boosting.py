"""The law of one perturbed column given other columns, boosted through its channel (docs/method.md).

It begins with what the published counts say of the column alone, the same for every record, and adds small
trees of the other columns to its logarithm. Each tree is grown on a half of the records; on the other half it
is tested against chance, and its steps are as large as the variance of the signal that is found there. So a
column that hangs on nothing keeps its law, and one of which too little shows is not even tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ppdm_cli.arrays import Codes, Floats, chi_square_tail
from ppdm_cli.estimating import Tables

COSINES, FEWEST_ORDERED = 5, 12
"""An order of at least so many values is known by so many waves, the slow ones likelier."""
DEPTH, LEAST = 3, 50
"""Of a tree, and the records in a leaf."""
MOST_TREES, MOST_FAILED = 40, 2
RATE = 0.6
FIRST, LATER = 0.004, 0.05
"""The level at which the first tree is tested, and those that follow it."""
VISIBLE = 2.0
"""By so many standard deviations must a dependence as strong as any stand out for a tree to be tried."""
STRONGEST = 4.0
"""The variance of the strongest dependence, in nats of log p."""
MOST_GROWING, DECIDING = 1 << 16, 1 << 13
"""So many records are what a tree is grown on, and so many decide which contrast of the values it is for."""
MOST_CHANCES = 1 << 25
"""Of more chances, of records by values, every so many-th record is learnt from."""
RARE = 1e-6

Halves = Callable[[int], np.ndarray]
"""Which records a tree is grown on, by the number of the attempt."""


class AskedColumn(NamedTuple):
    """The codes of a column that may be asked, how many there are, and whether they have an order."""

    codes: Codes
    size: int
    ordered: bool


@dataclass(frozen=True, eq=False)
class Splits:
    """A full binary tree: at each node a feature, and which of its codes go left."""

    feature: np.ndarray
    left: np.ndarray

    def leaves(self, codes: Sequence[Codes]) -> np.ndarray:
        """Return the number of each record's leaf."""
        node, first = np.zeros(len(codes[0]), np.intp), 0
        while first < len(self.feature):
            node = _children(
                self, first, node, dict.fromkeys(self.feature[first : 2 * first + 1].tolist()), codes
            )
            first = 2 * first + 1
        return node


@dataclass(frozen=True, eq=False)
class Boosted:
    """log p(original value | other columns): of all records, and what each tree adds."""

    start: Tables
    basis: Tables
    trees: tuple[tuple[Splits, Tables], ...]
    """Each with its leaves' steps, in terms of the basis."""

    def chances(self, codes: Sequence[Codes], records: int) -> Tables:
        """Return p(original value | other columns), (records, values)."""
        steps = np.zeros((records, self.basis.shape[1]), np.float32)
        for splits, leaves in self.trees if records else ():
            steps += leaves[splits.leaves(codes)]
        return _chances(self.start, self.basis, steps)

    @property
    def asked(self) -> set[int]:
        """Return the numbers of the columns that its trees ask."""
        return {int(f) for splits, _ in self.trees for f in np.unique(splits.feature)}


def boosted(
    features: Sequence[AskedColumn],
    published: Codes,
    matrix: Floats,
    alone: Floats,
    ordered: int,
    halves: Halves,
    certain: int,
) -> Boosted:
    """Learn the law of a column from its published codes, by p(published code | original value).

    `alone` are the shares of the original values, of which the first so many are `ordered`. As many of the
    features as are `certain` are asked first, and the others for what those leave to say.
    """
    every = slice(None, None, max(1, -(-len(published) * len(alone) // MOST_CHANCES)))
    some = [f._replace(codes=f.codes[every]) for f in features]
    law = _Boosting(some, published[every], matrix.astype(np.float32), alone, _basis(len(alone), ordered))
    number = 0
    for may_ask in sorted({certain, len(features)} - {0}):
        failed, proven = 0, False
        while failed <= MOST_FAILED and len(law.trees) < MOST_TREES:
            found = law.attempt(may_ask, halves(number)[every], failed, LATER if proven else FIRST)
            if found is None:
                break
            failed, proven, number = 0 if found else failed + 1, proven or found, number + 1
    law.polish()
    return Boosted(law.start, law.basis, tuple(law.trees))


def _basis(values: int, ordered: int) -> Tables:
    """Return what a law is made of, (values, terms): slow waves of an order, or each value by itself."""
    if ordered < FEWEST_ORDERED:
        return np.eye(values, dtype=np.float32)
    waves = np.arange(1, COSINES + 1)
    places = (np.arange(ordered) + 0.5) / ordered
    found = np.zeros((values, COSINES + values - ordered), np.float32)
    found[:ordered, :COSINES] = np.sqrt(2) * np.cos(np.pi * places[:, None] * waves) / waves
    found[ordered:, COSINES:] = np.eye(values - ordered)
    return found


def _chances(start: Tables, basis: Tables, steps: Tables) -> Tables:
    found = steps @ basis.T
    found += start
    np.exp(found, out=found)
    return _divided(found)


def _divided(rows: Tables) -> Tables:
    """Divide each row by its sum, in place; a product is quicker than a sum of short rows."""
    rows /= (rows @ np.ones(rows.shape[1], rows.dtype))[:, None]
    return rows


@dataclass(eq=False)
class _Boosting:
    """A law in the making, and what it says of the records that it is learnt from."""

    features: list[AskedColumn]
    published: Codes
    matrix: Tables
    alone: Floats
    basis: Tables
    trees: list[tuple[Splits, Tables]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start = np.log(np.maximum(self.alone, RARE)).astype(np.float32)
        self._steps = np.zeros((len(self.published), self.basis.shape[1]), np.float32)
        self._scores = self._slopes()

    def attempt(self, may_ask: int, half: np.ndarray, contrast: int, level: float) -> bool | None:
        """Add a tree of the first features if it is beyond chance at a level; return whether it was.

        None where none could be.
        """
        growing, testing = np.flatnonzero(half)[:MOST_GROWING], np.flatnonzero(~half)
        asked = [n for n, f in enumerate(self.features[:may_ask]) if f.size > 1]
        if not asked or not len(growing):
            return None
        scores = self._scores
        information, axes = np.linalg.eigh((scores.T @ scores).astype(np.float64) / len(scores))
        information = np.maximum(information, 0.0)
        total, squares = float(information.sum()), float((information**2).sum())
        visible = len(testing) * np.sqrt(squares / 2) / VISIBLE
        depth = min(DEPTH, int(2 * np.log2(max(visible, 1e-9))))  # so many leaves that each tells enough
        if depth < 1:
            return None
        splits = self._grown(asked, scores, growing, depth, contrast)
        leaf = splits.leaves([f.codes for f in self.features])
        records, sums = _by_leaf(leaf[testing], scores[testing], 1 << depth)
        there = records > 0
        found = float(((sums**2).sum(axis=1)[there] / records[there]).sum()) * total / squares
        expected = total**2 / squares * (there.sum() - 0.5)
        if there.sum() < 2 or chi_square_tail(found, expected) > level:
            return False
        beyond = (found - expected) / np.sqrt(2 * expected)
        variance = ((sums**2).sum() - records.sum() * total) / (
            (records.astype(np.float64) ** 2).sum() * squares
        )
        variance = float(np.clip(variance * (1 - 1 / beyond), 1e-9, STRONGEST))
        steps = RATE * (sums @ axes) / (records[:, None] * information + 1 / variance) @ axes.T
        self.trees.append((splits, steps.astype(np.float32)))
        self._steps += self.trees[-1][1][leaf]
        self._scores = self._slopes()
        return True

    def polish(self) -> None:
        """Take one step of EM in the leaves of each tree: what never occurs comes down to nothing.

        Such a step is as small as little is known.
        """
        columns = [f.codes for f in self.features]
        for number, (splits, steps) in enumerate(self.trees):
            leaf = splits.leaves(columns)
            before, after = self._believed()
            _, known = _by_leaf(leaf, before, len(steps))
            _, seen = _by_leaf(leaf, after, len(steps))
            common = known.sum(axis=0) / max(known.sum(), 1.0)
            weights = common[:, None] * self.basis
            more = np.log((seen + common) / (known + common)) @ weights
            more = np.linalg.lstsq(self.basis.T @ weights, more.T)[0].T.astype(np.float32)
            self.trees[number] = splits, steps + more
            self._steps += more[leaf]

    def _believed(self) -> tuple[Tables, Tables]:
        """Return the chances of values before and after what was published, (records, values)."""
        before = _chances(self.start, self.basis, self._steps)
        after = self.matrix[self.published]
        after *= before
        return before, _divided(after)

    def _slopes(self) -> Tables:
        """Return the slope of log p(published code) by term, (records, terms)."""
        before, after = self._believed()
        after -= before
        return np.asarray(after @ self.basis)

    def _grown(self, may_ask: list[int], scores: Tables, rows: np.ndarray, depth: int, contrast: int) -> Splits:
        """Return a tree grown on some records for the contrast of values that other columns say most of."""
        some = rows[:: max(1, len(rows) // DECIDING)]
        tables = []
        for number in may_ask:
            feature = self.features[number]
            records, sums = _by_leaf(feature.codes[some], scores[some], feature.size)
            tables.append(sums / np.sqrt(np.maximum(records, 1))[:, None])
        contrasts = np.linalg.svd(np.concatenate(tables), full_matrices=False)[2]
        score = (scores[rows] @ contrasts[min(contrast, len(contrasts) - 1)]).astype(np.float64)
        codes = {n: self.features[n].codes[rows] for n in may_ask}
        width = max(f.size for f in self.features)
        asked = np.full((1 << depth) - 1, may_ask[0], np.intp)
        left = np.ones((len(asked), width), bool)
        splits, node = Splits(asked, left), np.zeros(len(rows), np.intp)
        for level in range(depth):
            first, nodes = (1 << level) - 1, 1 << level
            best = np.zeros(nodes)
            for number, own in codes.items():
                feature = self.features[number]
                gains, goes = _best_cuts(node * feature.size + own, score, nodes, feature)
                better = np.flatnonzero(gains > best)
                best[better] = gains[better]
                asked[first + better] = number
                left[first + better] = False
                left[first + better, : feature.size] = goes[better]
            node = _children(splits, first, node, codes, codes)
        return splits


def _children(
    splits: Splits,
    first: int,
    node: np.ndarray,
    asked: Iterable[int],
    codes: Mapping[int, Codes] | Sequence[Codes],
) -> np.ndarray:
    """Return where records go from the nodes of a level, of which `first` is the number of the first."""
    here, right = splits.feature[first + node], np.empty(len(node), np.intp)
    for number in asked:
        rows = np.flatnonzero(here == number)
        right[rows] = ~splits.left[first + node[rows], codes[number][rows]]
    return 2 * node + right


def _by_leaf(leaf: np.ndarray, scores: Tables, leaves: int) -> tuple[np.ndarray, Floats]:
    """Return how many records each leaf has, and the sums of their scores."""
    from scipy.sparse import csr_array

    ones = np.ones(len(leaf), np.float32)
    sums = csr_array((ones, (leaf, np.arange(len(leaf)))), (leaves, len(leaf))) @ scores
    return np.bincount(leaf, minlength=leaves), sums.astype(np.float64)


def _best_cuts(cell: np.ndarray, score: Floats, nodes: int, feature: AskedColumn) -> tuple[Floats, np.ndarray]:
    """Return for each node what the best cut of a feature gains, and which codes go left."""
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
