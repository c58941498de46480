"""Growing trees for releases: on the estimated joint distribution, not on any record.

The cells of J are weighted records; with a forest the values of each record are drawn from their posterior,
some times, for C4.5 as it is. A threshold of a table's tree that falls within a bin is found from the class
shares of the bins beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, floor, log10
from typing import Any

import numpy as np

from ppdm_cli import dtypes
from ppdm_cli.arrays import Floats, code_type
from ppdm_cli.channels import Channel
from ppdm_cli.domain import Bins, Categories
from ppdm_cli.joint import LABEL, GivenKept, Law, LearnedModel, Model
from ppdm_cli.repeatable import hashed, uniform
from ppdm_cli.trees.ensembles import ONE, Ensemble, distilled, ensemble, generator, part, rightly
from ppdm_cli.trees.growing import Grown, Options, descended, grow, packed
from ppdm_cli.trees.pruning import c45, landed, prune, totalled
from ppdm_cli.trees.records import CodedColumn, CodedRecords
from ppdm_cli.trees.tree import Feature, Tree, majority

LEAST_BRANCH = 1e-3
"""The share of the records that two branches need when growing on a table."""
MOST_DRAWS, HELD_DRAWS, MOST_DRAWN = 5, 2, 500_000
"""The number of draws of each record's values from a forest, and the most records that these make."""
MOST_DEALT = 2_500_000
"""The most drawn records that are dealt between the trees of an ensemble."""
BRANCH, LEAST_IN_BRANCH = 50, 5
"""The drawn records that two branches need in an ensemble, divided by the number of classes, and at least."""
DISTILLED = Options("gain", 10, mdl=False)
"""The options of a tree that imitates them and stays readable."""
MADE_UP = 20_000
"""The number of records by which a model judges a tree."""
SEED = 20061
"""The seed of the records that a forest gives, fixed so that a release has one tree."""
APART = 0.5
"""The difference of the classes' shares on both sides of a bin above which a threshold moves into it."""


@dataclass(frozen=True, eq=False)
class DrawnRecords:
    """Records with class and values drawn from a model, and those that a tree should learn from."""

    records: CodedRecords
    taught: CodedRecords
    """The same, with the drawn class or with the one that the model gives the drawn values."""
    by_class: Any
    """The records' weights by class, (records, classes)."""


class ModelTrees:
    """Makes trees of a model; the same way for all records and without a fold."""

    def __init__(self, learned: LearnedModel, class_name: str, wanted: Ensemble = ONE) -> None:
        self._learned, self._sample = learned, learned.sample
        self._label, self._class = learned.sample.label, class_name
        self.wanted = wanted
        self._domains = {n: p for c in learned.sample.channels for n, p in c.each()}
        label = self._domains.setdefault(self._label.name, self._label.domain)
        assert isinstance(label, Categories)
        self._labels = tuple(label.values)

    @property
    def kept(self) -> list[int]:
        """Return the places of kept columns: trees may test them, whatever the model has."""
        return [p for p, c in enumerate(self._sample.channels) if c.kept]

    def places(self, model: Law) -> tuple[int, ...]:
        """Return the places that a tree may test: kept columns, and those that depend on the class."""
        own, whole = model.places, self._learned.model
        if isinstance(whole, GivenKept):
            own = whole.tested
        return (*own, *(p for p in self.kept if p not in own))

    def on_cells(self, model: Law) -> bool:
        """Return whether the tree is grown on the cells of the model's table, and not on drawn records."""
        return model.table is not None and not self.kept

    @property
    def options(self) -> Options:
        """Return the settings that the tree records about its training."""
        if self.wanted != ONE:
            return DISTILLED if self.wanted.distil else self._in_ensembles
        if self._learned.model is not None and self.on_cells(self._learned.model):
            return Options("gain", max(2.0, LEAST_BRANCH * self._sample.total), None, 0.25, True, False)
        each = self._sample.total / max(self._sample.records, 1) / self._copies
        return Options(min_records=max(2.0, 2 * each))

    @property
    def _in_ensembles(self) -> Options:
        """Return the options for growing an ensemble's trees from drawn records."""
        return Options("gain", max(LEAST_IN_BRANCH, BRANCH / len(self._labels)), prune=False, mdl=False)

    @property
    def _imitates(self) -> bool:
        """Return whether a tree is grown from drawn values with the classes that the model gives them.

        If most cells are withheld, a record adds little to the model: drawn classes are noise.
        """
        return isinstance(self._learned.model, Model) and (self._sample.varies or not self._learned.confirmed)

    @property
    def _copies(self) -> int:
        return max(1, min(MOST_DRAWS, MOST_DRAWN // max(self._sample.records, 1)))

    def leaf(self) -> Tree:
        """Return a tree of one leaf that knows only the classes' shares."""
        counts = self._learned.totals[: len(self._labels)]
        none = np.full(1, -1, np.int32)
        return Tree(
            (), self._class, str(self._label.kind), self._labels, none, np.full(1, np.nan), none,
            np.zeros(1, np.int32), counts[None, :], majority(counts[None, :]).astype(np.int32), {},
        )  # fmt: skip

    def _weights(self, model: Model) -> Floats:
        """Return the weights of records by original class and cell; null is not a class."""
        table = model.table
        assert table is not None
        totals = model.shares * self._sample.total
        return (table * totals.reshape(-1, *(1,) * (table.ndim - 1)))[: len(self._labels)]

    def _cells(self, model: Model) -> tuple[CodedRecords, Floats]:
        """Return every cell that holds anything as a record without a class, and the tables over them.

        The tables are (tables, classes, cells): the model's, then those learned without a fold.
        """
        attributes = self._sample.channels
        tables = np.stack(
            [self._weights(m) for m in (model, *self._learned.held.values()) if isinstance(m, Model)]
        )
        flat = tables.reshape(*tables.shape[:2], -1)
        kept = np.flatnonzero(flat[0].sum(axis=0) > 1e-7 * self._sample.total / flat.shape[2])
        cells = np.unravel_index(kept, tables.shape[2:])
        columns = tuple(
            column
            for p, codes in zip(model.places, cells, strict=True)
            for column in _columns(attributes[p], codes)
        )
        nothing = np.zeros(len(kept), np.intp)
        records = CodedRecords(columns, self._class, str(self._label.kind), self._labels, nothing)
        return records, flat[:, :, kept]

    def trees(self, model: Law, without: int | None = None) -> tuple[CodedRecords, list[Grown]]:
        """Return the tree or trees of a model that was learned from all records, or without a fold."""
        if self.wanted != ONE:
            return self._ensemble(model, without)
        if isinstance(model, Model) and self.on_cells(model):
            records, grown = self._table_tree(model)
        else:
            records, grown = self._drawn_tree(model, without)
        return records, [grown]

    def _ensemble(self, model: Law, without: int | None) -> tuple[CodedRecords, list[Grown]]:
        """Return trees between which draws of all records are dealt, or the one that imitates them."""
        trees = int(self.wanted.trees)
        copies = max(1, min(trees, MOST_DEALT // max(self._sample.records, 1)))
        records = replace(self._drawn(model, without, copies).taught, weights=None)
        order = generator().permutation(records.rows)
        grown = ensemble(records, np.array_split(order, trees), self._in_ensembles)
        if self.wanted.distil:
            some = part(records, order[: self._copies * self._sample.records])
            grown = [distilled(some, packed(records, self._in_ensembles, *grown), self.options)]
        return records, grown

    def packed(self, records: CodedRecords, grown: list[Grown]) -> Tree:
        """Return the grown nodes as a tree that records its options."""
        return packed(records, self.options, *grown)

    def _table_tree(self, model: Model) -> tuple[CodedRecords, Grown]:
        """Return the tree grown from the cells of a joint table."""
        cells, tables = self._cells(model)
        classes = tables.shape[1]
        columns = tuple(replace(c, codes=np.tile(c.codes, classes)) for c in cells.columns)
        labels = np.repeat(np.arange(classes), cells.rows)
        records = replace(cells, columns=columns, classes=labels, weights=tables[0].ravel())
        grown = grow(records, replace(self.options, prune=False), False)
        sums = landed(cells, grown, tables.reshape(-1, cells.rows).T)
        prune(grown, sums.reshape(-1, *tables.shape[:2]))
        return records, grown

    def _drawn_tree(self, model: Law, without: int | None) -> tuple[CodedRecords, Grown]:
        """Return the tree grown from records with class and values drawn from their posterior."""
        drawn = self._drawn(model, without, self._copies)
        grown = c45(drawn.taught, self.options)
        ended = landed(drawn.taught, grown, drawn.by_class)
        if self._imitates:
            grown.counts = totalled(grown, ended.copy())
        if without is None and not self._sample.varies:
            # the same numbers draw from each model: what differs is what the records without a fold say
            held = (self._drawn(m, f, min(HELD_DRAWS, self._copies)) for f, m in self._learned.held.items())
            others = (landed(d.taught, grown, d.by_class) for d in held)
            prune(grown, np.stack([ended, *others], axis=1))
        return drawn.taught, grown

    def _drawn(self, model: Law, without: int | None, copies: int) -> DrawnRecords:
        """Return the records, or those outside a fold, as `_drawn_rows` draws them."""
        folds = self._sample.folds
        return self._drawn_rows(model, np.flatnonzero(folds != (-1 if without is None else without)), copies)

    def _drawn_rows(self, model: Law, rows: np.ndarray, copies: int) -> DrawnRecords:
        """Draw class and values of some records, several times each."""
        sample, places, labels = self._sample, self.places(model), len(self._labels)
        published, published_labels = [c[rows] for c in sample.codes], sample.labels[rows]
        classes, drawn, chances = [], [], []
        for copy in range(copies):
            own, values = model.drawn(published, published_labels, partial(_numbers, rows, copy))
            by_place = dict(zip(model.places, values, strict=True))
            classes.append(own.astype(np.intp))
            drawn.append([by_place.get(p, published[p]) for p in places])
            if self._imitates:
                assert isinstance(model, Model)
                whole = [by_place.get(p, published[p]) for p in range(len(sample.channels))]
                chances.append(model.given_values(whole, labels)[own < labels])
        codes = [np.concatenate(c) for c in zip(*drawn, strict=True)]
        records = self._records(places, codes, np.concatenate(classes))
        if not chances:
            return DrawnRecords(records, records, _by_class(records, labels))
        every = np.concatenate(chances)
        assert records.weights is not None
        return DrawnRecords(
            records, replace(records, classes=every.argmax(axis=1)), every * records.weights[:, None]
        )

    def right_about_held(self, held: Law, fold: int) -> np.ndarray:
        """Return whether a tree grown without a fold is right about its records, as drawn without it."""
        tree = self.packed(*self.trees(held, fold))
        return rightly(self._drawn_rows(held, np.flatnonzero(self._sample.folds == fold), 1).records, tree)

    def _records(
        self, numbers: Sequence[int], codes: Sequence[np.ndarray], classes: np.ndarray
    ) -> CodedRecords:
        """Return records of original codes and classes; null is not a class."""
        known = np.flatnonzero(classes < len(self._labels))
        attributes = self._sample.channels
        columns = tuple(
            column for p, c in zip(numbers, codes, strict=True) for column in _columns(attributes[p], c[known])
        )
        weights = np.full(len(known), self._sample.total / max(len(classes), 1))
        return CodedRecords(columns, self._class, str(self._label.kind), self._labels, classes[known], weights)

    def right(self, model: Model, tree: Tree) -> np.ndarray:
        """Return whether a tree, or an ensemble, is right about each record that a model makes up."""
        rng = np.random.Generator(np.random.SFC64(SEED))
        numbers = np.rint(self._learned.totals / max(self._sample.total, 1) * MADE_UP).astype(int)
        made = [model.within.sampled(c, int(n), rng) for c, n in enumerate(numbers)]
        classes = np.repeat(np.arange(len(numbers)), numbers)
        codes = [np.concatenate(c) for c in zip(*made, strict=True)]
        records = self._records(model.places, codes, classes)
        return rightly(records, tree)

    def refined(self, tree: Tree, model: Model) -> tuple[Tree, float]:
        """Return the tree with thresholds within bins, and the most records that this may set right."""
        cells, tables = self._cells(model)
        cut = np.zeros(tree.size, np.int64)
        for number, column in enumerate(cells.columns):
            if column.feature.numeric:
                here = tree.feature == number
                cut[here] = np.searchsorted(column.values, tree.threshold[here], side="right") - 1
        grown = Grown(tree.feature, cut, tree.first_child, tree.children, tree.counts)
        threshold, gap = tree.threshold.copy(), 0.0
        weight = tables[0].sum(axis=0)
        for entries in descended(cells, grown, weight):
            share = entries.weights() / weight[entries.record]
            for node in np.unique(entries.slot[tree.feature[entries.slot] >= 0]).tolist():
                number = int(tree.feature[node])
                domain = self._domains[cells.columns[number].feature.name]
                if not isinstance(domain, Bins):
                    continue
                here = np.flatnonzero(entries.slot == node)
                record = entries.record[here]
                codes = cells.columns[number].codes[record]
                there = np.stack([np.bincount(codes, t[record] * share[here], domain.size) for t in tables[0]])[
                    :, : domain.ordinary
                ]
                moved, mixed = _within(there.astype(np.float64), domain, int(cut[node]))
                if moved is not None:
                    threshold[node] = moved
                    gap += mixed
        return replace(tree, threshold=threshold), gap / float(weight.sum())


def _columns(channel: Channel, codes: np.ndarray) -> Iterator[CodedColumn]:
    """Yield a column for each of a channel's attributes."""
    for (name, domain), own in zip(channel.each(), channel.domain.split(codes), strict=True):
        numeric = not dtypes.is_discrete(domain.kind)
        categories = () if numeric or not isinstance(domain, Categories) else tuple(domain.values)
        feature = Feature(name, str(domain.kind), numeric, categories)
        narrow = own.astype(code_type(domain.size))
        ends = isinstance(domain, Bins)
        yield CodedColumn(feature, narrow, domain.ordinary, domain.tops(), domain.nulls, ends=ends)


def _within(there: Floats, domain: Bins, cut: int) -> tuple[float | None, float]:
    """Return the point between the two bins beside an edge at which the class changes, and the records that
    this may set right.

    `there` are counts by class and bin. Bins further away show the shares on either side; each of the two is a
    mixture of the sides, and its part on the left follows.
    """
    if cut < 1 or cut + 2 >= there.shape[1]:
        return None, 0.0
    left, right = there[:, max(0, cut - 2) : cut].sum(axis=1), there[:, cut + 2 : cut + 4].sum(axis=1)
    both = there[:, cut : cut + 2]
    if min(left.sum(), right.sum(), both[:, 0].sum(), both[:, 1].sum()) <= 0:
        return None, 0.0
    left, right = left / left.sum(), right / right.sum()
    across = right - left
    if np.abs(across).sum() / 2 < APART:
        return None, 0.0
    mixtures = both / both.sum(axis=0)
    shares = np.clip(across @ (right[:, None] - mixtures) / (across @ across), 0.0, 1.0)
    at = cut + float(shares.sum())
    bin_ = min(int(at), there.shape[1] - 1)
    edges = np.asarray(domain.edges, np.float64)
    width = float(edges[bin_ + 1] - edges[bin_])
    value = float(edges[bin_]) + (at - bin_) * width
    # three digits of a bin's width say more than the estimate does
    value = ceil(value) - 1 if dtypes.is_whole(domain.kind) else round(value, 2 - floor(log10(width)))
    mixed = there[:, bin_]
    return value, float(mixed.sum() - mixed.max())


def _by_class(records: CodedRecords, classes: int) -> Any:
    """Return the records' weights by class, (records, classes)."""
    from scipy.sparse import csr_array

    assert records.weights is not None
    return csr_array((records.weights, (np.arange(records.rows), records.classes)), (records.rows, classes))


def _numbers(rows: np.ndarray, copy: int, number: int, some: np.ndarray) -> Floats:
    """Return repeatable numbers for some of the rows: the same whatever the model."""
    purpose = [SEED, copy] if number == LABEL else [SEED, copy, number]
    return uniform(rows[some], hashed(purpose))
