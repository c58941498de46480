"""Prediction as a map: the chances of every class for the records of a batch, level by level.

As J48: the shares of the leaf that a record comes to (a leaf without records uses its parent's); a
record with a missing value goes to all children, with chances proportional to the training records
that went there. Neither many labels nor many missing values make memory grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.arrays import code_type
from ppdm_cli.domain import OTHER
from ppdm_cli.engine import Batch, scan
from ppdm_cli.errors import MismatchError, quoted
from ppdm_cli.tables import Table
from ppdm_cli.trees.records import floats
from ppdm_cli.trees.tree import Feature, Tree, majority

CELLS = 1 << 22
"""The most class probabilities that are held at a time."""
PLACES = 1 << 18
"""The most places in the tree that are held at a time, of records that are in several."""
Outcomes = Mapping[int, np.ndarray]
"""The numbers of each tested attribute, NaN where missing; or its categories' places, -1 where missing."""


@dataclass(frozen=True)
class Predicted:
    """The likeliest class of each record (of equally likely ones the first), and how likely it is."""

    label: np.ndarray
    confidence: np.ndarray

    @classmethod
    def of(cls, chances: np.ndarray) -> Predicted:
        return cls(majority(chances), np.asarray(chances.max(axis=1)))


def check_columns(tree: Tree, schema: pa.Schema) -> None:
    """Raise a MismatchError unless the data has the attributes that the tree tests, with fitting types."""
    for number in np.unique(tree.feature[tree.feature >= 0]):
        feature = tree.features[number]
        if feature.name not in schema.names:
            raise MismatchError(
                f"the data has no column {quoted(feature.name)}, which the tree tests",
                "give data with the columns that the tree was trained on",
            )
        found = dtypes.normal(schema.field(feature.name).type, feature.name)
        wanted = dtypes.parse(feature.dtype)
        if found != wanted and not (feature.numeric and _both_plain(found, wanted)):
            raise MismatchError(
                f"the column {quoted(feature.name)} is of type {found}, in the tree {wanted}",
                "cast it, or for CSV say its type with --type",
            )


def _both_plain(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether both types are integers or floats, which compare by number whatever their widths."""
    return all(pa.types.is_integer(t) or pa.types.is_floating(t) for t in (one, other))


def predict_table(tree: Tree, table: Table, to_heaviest: bool = False) -> np.ndarray:
    """Return the chances of the classes for a whole table, (records, classes), in its order."""
    check_columns(tree, table.schema)
    descent = Descent(tree, to_heaviest)
    names = [tree.features[i].name for i in descent.tested]
    columns = names or table.schema.names[:1]
    parts = scan(table, descent, columns=columns, doing="predicting")
    return np.concatenate(parts) if parts else np.empty((0, len(tree.labels)))


def _outcome(feature: Feature, array: pa.Array) -> np.ndarray:
    """Return numbers, NaN where missing; or the places of categories, -1 where missing or unknown.

    What is unknown belongs to the group of all others, where the categories have one.
    """
    if feature.numeric:
        return floats(array)
    kind = dtypes.parse(feature.dtype)
    values = [dtypes.from_json(c, kind) for c in feature.categories]
    known = dtypes.column(values, kind)
    array = dtypes.plain(array)
    if feature.prefix:
        array = pc.utf8_slice_codeunits(array, 0, feature.prefix)
    places = pc.index_in(array, value_set=known)
    if OTHER in feature.categories:
        other = pa.scalar(feature.categories.index(OTHER), places.type)
        places = pc.if_else(pc.and_(pc.is_valid(array), pc.is_null(places)), other, places)
    return places.fill_null(-1).to_numpy(zero_copy_only=False)


class Descent:
    """A tree, and what follows from it alone, made once for all batches.

    A missing value goes to all branches in part, or `to_heaviest`.
    """

    def __init__(self, tree: Tree, to_heaviest: bool = False) -> None:
        self.tree, self._to_heaviest = tree, to_heaviest
        self.tested: list[int] = np.unique(tree.feature[tree.feature >= 0]).tolist()

    def __call__(self, batch: Batch) -> np.ndarray:
        return self.chances(self.outcomes(batch), batch.rows)

    def outcomes(self, batch: Batch) -> Outcomes:
        features = {i: self.tree.features[i] for i in self.tested}
        return {i: _outcome(f, batch.column(f.name)) for i, f in features.items()}

    def predicted(self, outcomes: Outcomes, rows: int) -> Predicted:
        """Return the predictions: a leaf's where nothing is missing, else by as many chances as fit."""
        complete = np.full(rows, True)
        if not self._to_heaviest:
            for number, values in outcomes.items():
                complete &= ~self._missing(number, values)
        ends, found = self._ends(outcomes, np.flatnonzero(complete)), Predicted.of(self._mixed)
        label, confidence = np.zeros(rows, found.label.dtype), np.zeros(rows)
        label[complete], confidence[complete] = found.label[ends], found.confidence[ends]
        others, step = np.flatnonzero(~complete), max(1, CELLS // len(self.tree.labels))
        for some in (others[start : start + step] for start in range(0, len(others), step)):
            mixed = Predicted.of(self.chances({i: v[some] for i, v in outcomes.items()}, len(some)))
            label[some], confidence[some] = mixed.label, mixed.confidence
        return Predicted(label, confidence)

    def _missing(self, number: int, values: np.ndarray) -> np.ndarray:
        return np.isnan(values) if self.tree.features[number].numeric else values < 0

    def _ends(self, outcomes: Outcomes, records: np.ndarray) -> np.ndarray:
        """Return the leaf of each of these records, none of which goes to several."""
        node = np.zeros(len(records), np.int64)
        going = np.arange(len(records))
        while (going := going[self.tree.feature[node[going]] >= 0]).size:
            child = self.child(outcomes, records[going], node[going])
            if self._to_heaviest:
                child = np.where(child < 0, self.heaviest[node[going]], child)
            node[going] = self.tree.first_child[node[going]] + child
        return node

    def chances(self, outcomes: Outcomes, rows: int) -> np.ndarray:
        """Return class probabilities, (records, classes), from the outcomes of the tested attributes.

        The records go down level by level. Where those with missing values are in too many places at a
        time, half of the records go first. Below a node that tests nothing that a record has, it has the
        chances that were mixed beforehand.
        """
        tree = self.tree
        has = np.full(rows, ~np.uint64(0) if self._to_heaviest else 0, np.uint64)
        for number, values in outcomes.items():
            has[~self._missing(number, values)] |= _bit(number)
        chances = np.zeros((rows, len(tree.labels)))
        waiting = [(np.arange(rows), np.zeros(rows, np.int64), np.ones(rows))]
        while waiting:
            record, node, weight = waiting.pop()
            done = (self._tests[node] & has[record]) == 0
            _add(chances, record[done], node[done], weight[done], self._mixed)
            record, node, weight = record[~done], node[~done], weight[~done]
            if not record.size:
                continue
            child = self.child(outcomes, record, node)
            if self._to_heaviest:
                child = np.where(child < 0, self.heaviest[node], child)
            if child.min() >= 0:
                waiting.append((record, tree.first_child[node] + child, weight))
                continue
            parts = np.where(child < 0, tree.children[node].astype(np.int64), 1)
            if parts.sum() > max(PLACES, rows) and record.min() < record.max():
                low = record <= (int(record.min()) + int(record.max())) // 2
                waiting += [(record[half], node[half], weight[half]) for half in (~low, low)]
                continue
            which = np.repeat(np.arange(len(node)), parts)
            nth = np.arange(len(which)) - np.repeat(np.cumsum(parts) - parts, parts)
            target = tree.first_child[node[which]] + np.maximum(child, 0)[which] + nth
            share = np.where((child < 0)[which], self._shares[target], 1.0)
            waiting.append((record[which], target, weight[which] * share))
        return chances

    def child(self, outcomes: Outcomes, record: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return the child that each record goes to, -1 where its value is missing."""
        tested = self.tree.feature[node].astype(code_type(len(self.tree.features)))
        child = np.empty(len(record), np.int64)
        order = np.argsort(tested, kind="stable")
        for here in np.split(order, np.flatnonzero(np.diff(tested[order])) + 1):
            number = int(tested[here[0]])
            value = outcomes[number][record[here]]
            if self.tree.features[number].numeric:
                child[here] = np.where(np.isnan(value), -1, value > self.tree.threshold[node[here]])
            else:
                child[here] = value
        return child

    @cached_property
    def heaviest(self) -> np.ndarray:
        """Return which branch of each node most training records went to; of equal ones the first."""
        tree, held = self.tree, self.tree.counts.sum(axis=1)
        found = np.zeros(tree.size, np.int64)
        for node in np.flatnonzero(~tree.is_leaf).tolist():
            first = tree.first_child[node]
            found[node] = held[first : first + tree.children[node]].argmax()
        return found

    @cached_property
    def _shares(self) -> np.ndarray:
        """Return each node's share of the training records that came to its parent.

        Where none came to any of the children (a tree by hand, or all weights 0) they share alike.
        """
        tree, parent = self.tree, self.tree.parent[1:]
        held = tree.counts.sum(axis=1)
        together = np.bincount(parent, held[1:], tree.size)[parent]
        shares = np.where(together > 0, held[1:] / np.maximum(together, 1e-300), 1 / tree.children[parent])
        return np.concatenate([[1.0], shares])

    @cached_property
    def _mixed(self) -> np.ndarray:
        """Return the chances at each node of a record of which nothing is known that is tested below it."""
        tree, parent = self.tree, self.tree.parent
        mixed, total = tree.counts.copy(), tree.counts.sum(axis=1, keepdims=True)
        mixed /= np.maximum(total, 1e-300)
        for nodes in self._levels:
            empty = nodes[total[nodes, 0] <= 0]
            mixed[empty] = mixed[parent[empty]] if nodes[0] else 1 / len(tree.labels)
        inner = np.flatnonzero(tree.feature >= 0)
        mixed[inner] = 0
        for nodes in self._levels[:0:-1]:
            np.add.at(mixed, parent[nodes], mixed[nodes] * self._shares[nodes, None])
        return mixed

    @cached_property
    def _tests(self) -> np.ndarray:
        """Return the attributes that are tested at each node or below it, as bits."""
        parent = self.tree.parent
        tests = np.where(self.tree.feature < 0, np.uint64(0), _bit(self.tree.feature))
        for nodes in self._levels[:0:-1]:
            np.bitwise_or.at(tests, parent[nodes], tests[nodes])
        return tests

    @cached_property
    def _levels(self) -> list[np.ndarray]:
        """Return the nodes of each level."""
        level = self.tree.levels
        order = np.argsort(level, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(level[order])) + 1)


def _bit(number: Any) -> Any:
    """Return an attribute's bit; one that it shares may keep a record on its way, which only takes longer."""
    return np.uint64(1) << np.asarray(number % 64).astype(np.uint64)


def _add(
    chances: np.ndarray, record: np.ndarray, node: np.ndarray, weight: np.ndarray, mixed: np.ndarray
) -> None:
    """Add what records have of the nodes where they ended."""
    if (record[1:] < record[:-1]).any():
        order = np.argsort(record, kind="stable")
        record, node, weight = record[order], node[order], weight[order]
    step = max(1, CELLS // chances.shape[1])
    for some in (slice(start, start + step) for start in range(0, len(record), step)):
        first = np.flatnonzero(np.diff(record[some], prepend=-1))
        sums = np.add.reduceat(mixed[node[some]] * weight[some, None], first, axis=0)
        chances[record[some][first]] += sums


def as_columns(tree: Tree, predicted: Predicted) -> dict[str, Any]:
    """Return the columns `predicted` (of the class's type) and `confidence`."""
    kind = dtypes.parse(tree.class_dtype)
    labels = dtypes.column([dtypes.from_json(v, kind) for v in tree.labels], kind)
    return {"predicted": labels.take(pa.array(predicted.label)), "confidence": pa.array(predicted.confidence)}
