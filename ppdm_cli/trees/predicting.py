"""Prediction as a map: each record's class, for predict, train-tree and noise that keeps a tree.

As J48: the shares of the leaf that a record comes to (a leaf without records uses its parent's); a record
with a missing value goes to all children, with chances proportional to the training records that went there.
The shares of several trees are averaged.
Neither many records nor many labels nor many missing values make memory grow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.arrays import code_type
from ppdm_cli.domain import OTHER
from ppdm_cli.engine import Batch, Made, Writing, map_partitions, scan, write
from ppdm_cli.errors import MismatchError, RefusedError, UsageError, argument, listed, quoted
from ppdm_cli.releases import open_data
from ppdm_cli.tables import CsvOptions, Output, Table, TableLike
from ppdm_cli.trees.records import CodedRecords, floats
from ppdm_cli.trees.tree import Feature, Measured, StoredValue, Tree, majority

MOST_CHANCES = 1 << 22
"""The most class probabilities that are held at a time."""
MOST_POSITIONS = 1 << 18
"""The most positions in the tree that are held at a time, of records that are in several."""
PREDICTED, CONFIDENCE = "predicted", "confidence"
_OTHER_DATA = "use the tree that ppdm train-tree made of this very table, without weights"
Outcomes = Mapping[int, np.ndarray]
"""The numbers of each tested attribute, NaN if missing; or the ranks of its categories, -1 if missing."""


def open_records(
    data: TableLike,
    like: Tree | Table,
    csv: CsvOptions | None = None,
    from_: Literal["arrow", "csv"] | None = None,
) -> Table:
    """Open a table that a tree may be applied to, an original or a reconstruction: a release's single values
    may be false.

    A CSV's columns get the types of those that it is `like`.
    """
    if isinstance(like, Tree):
        types = {**{f.name: f.dtype for f in like.features}, like.class_name: like.class_dtype}
        known = {name: dtypes.parse(dtype) for name, dtype in types.items()}
    else:
        known = {f.name: f.type for f in like.schema if not pa.types.is_dictionary(f.type)}
    csv = csv or CsvOptions()
    table, sidecar = open_data(data, None, replace(csv, known=known | dict(csv.known)), from_)
    if sidecar is not None and sidecar.is_substituted:
        raise RefusedError(
            "records-of-a-release",
            f"{quoted(table.name)} is a release: its single values are not the original ones",
            "reconstruct it first",
        )
    return table


def classify(
    tree: Tree, table: Table, output: Output | None = None, to_heaviest: bool = False
) -> Measured | None:
    """Predict every record, into an output if there is one; return the accuracy if the class is there."""
    work = Labeller(tree, table, output is not None, to_heaviest)
    none = np.zeros((len(tree.labels),) * 2, np.int64)
    total = Measured(tree.labels, none) if work.has_class else None

    def hear(measured: Measured | None) -> None:
        nonlocal total
        if total is not None and measured is not None:
            total = total + measured

    if output is not None:
        writing = Writing(output, work.schema, None, hear, lambda: 0)
        write(table, work, writing, columns=work.columns, doing="predicting")
    else:
        for measured in map_partitions(table, work.measured, columns=work.columns, doing="predicting"):
            hear(measured)
    return total


def predict_table(tree: Tree, table: Table, to_heaviest: bool = False) -> np.ndarray:
    """Return the chances of the classes for a whole table, (records, classes), in its order."""
    check_tested(tree, table.schema)
    descent = Descent(tree, to_heaviest)
    columns = [tree.features[i].name for i in descent.tested] or table.schema.names[:1]
    parts = scan(table, descent, columns=columns, doing="predicting")
    return np.concatenate(parts) if parts else np.empty((0, len(tree.labels)))


def check_unlabelled(table: Table) -> None:
    """Refuse a table with columns of the names that the predictions get."""
    if found := [n for n in (PREDICTED, CONFIDENCE) if n in table.schema.names]:
        raise UsageError(
            "predictions-there-already",
            f"{quoted(table.name)} already has columns named {listed(found)}",
            "rename them, because the tree's predictions get these names",
        )


def predictions(tree: Tree) -> pa.Schema:
    """Return the columns that predictions get."""
    return pa.schema([(PREDICTED, dtypes.parse(tree.class_dtype)), (CONFIDENCE, pa.float64())])


def check_tested(tree: Tree, schema: pa.Schema) -> None:
    """Raise a MismatchError unless the data has the attributes that the tree tests, with fitting types."""
    for number in np.unique(tree.feature[tree.feature >= 0]):
        feature = tree.features[number]
        if feature.name not in schema.names:
            raise MismatchError(
                "tested-column-missing",
                f"the data has no column {quoted(feature.name)}, which the tree tests",
                "use data with the columns that the tree was trained on",
            )
        found = dtypes.normal(schema.field(feature.name).type, feature.name)
        wanted = dtypes.parse(feature.dtype)
        # integers and floats compare by number whatever their widths
        plain = all(pa.types.is_integer(t) or pa.types.is_floating(t) for t in (found, wanted))
        if found != wanted and not (feature.numeric and plain):
            raise MismatchError(
                "tested-column-type",
                f"the column {quoted(feature.name)} is of type {found}, but in the tree of type {wanted}",
                f"cast it, or for a CSV add {argument('types', wanted, feature.name)}",
            )


def label_array(values: Sequence[StoredValue], dtype: str) -> pa.Array:
    """Return labels or categories, as a tree stores them, as a column of their type."""
    kind = dtypes.parse(dtype)
    return dtypes.column([dtypes.from_json(v, kind) for v in values], kind)


@dataclass(frozen=True)
class Predicted:
    """The most likely class of each record (the first of equally likely ones), and its probability."""

    label: np.ndarray
    confidence: np.ndarray

    @classmethod
    def of(cls, chances: np.ndarray) -> Predicted:
        return cls(majority(chances), np.asarray(chances.max(axis=1)))

    def columns(self, tree: Tree) -> dict[str, pa.Array]:
        """Return the columns `predicted` (of the class's type) and `confidence`."""
        labels = label_array(tree.labels, tree.class_dtype)
        return {PREDICTED: labels.take(pa.array(self.label)), CONFIDENCE: pa.array(self.confidence)}


class AddedLabels:
    """The predicted label and its confidence alone, of the columns that the tree tests."""

    def __init__(self, tree: Tree, table: Table, to_heaviest: bool = False) -> None:
        check_tested(tree, table.schema)
        check_unlabelled(table)
        self.tree, self._descent = tree, Descent(tree, to_heaviest)
        self.columns = [tree.features[i].name for i in self._descent.tested]
        self.schema = predictions(tree)

    def __call__(self, batch: Batch) -> Made[None]:
        predicted = self._descent.predicted(self._descent.outcomes(batch), batch.rows)
        return Made(pa.RecordBatch.from_pydict(predicted.columns(self.tree), self.schema), None)


class Labeller:
    """Adds the predicted label and its confidence to batches, and measures accuracy if the class is there.

    If nothing is written, only the columns that the tree tests are read, and the class.
    """

    def __init__(self, tree: Tree, table: Table, written: bool = True, to_heaviest: bool = False) -> None:
        self.tree, self._descent = tree, Descent(tree, to_heaviest)
        check_tested(tree, table.schema)
        used = {tree.class_name, *(tree.features[i].name for i in self._descent.tested)}
        names = table.schema.names
        self.columns = names if written else [n for n in names if n in used] or names[:1]
        if written:
            check_unlabelled(table)
        fields = [pa.field(n, dtypes.normal(table.schema.field(n).type, n)) for n in self.columns]
        self.schema = pa.schema([*fields, *predictions(tree)])
        self.has_class = tree.class_name in names

    def measured(self, batch: Batch) -> Measured | None:
        return self(batch).state

    def __call__(self, batch: Batch) -> Made[Measured | None]:
        predicted = self._descent.predicted(self._descent.outcomes(batch), batch.rows)
        columns = [*map(batch.column, batch.columns.schema.names), *predicted.columns(self.tree).values()]
        names = [*batch.columns.schema.names, PREDICTED, CONFIDENCE]
        measured = None
        if self.has_class:
            measured = Measured.of(self.tree.labels, true_codes(self.tree, batch), predicted.label)
        return Made(pa.RecordBatch.from_arrays(columns, names=names), measured)


def true_codes(tree: Tree, batch: Batch) -> np.ndarray:
    """Return the codes of a batch's class: -1 for labels that the tree does not know, -2 for none."""
    array, kind = dtypes.plain(batch.column(tree.class_name)), dtypes.parse(tree.class_dtype)
    if array.type != kind:
        try:
            if dtypes.is_discrete(kind) != dtypes.is_discrete(array.type):
                raise pa.ArrowInvalid
            array = pc.cast(array, kind)
        except pa.ArrowException:
            raise MismatchError(
                "class-type",
                f"the class {quoted(tree.class_name)} is of type {array.type}, but in the tree of type {kind}",
                f"cast it, or for a CSV add {argument('types', kind, tree.class_name)}",
            ) from None
    ranks = pc.index_in(array, value_set=label_array(tree.labels, tree.class_dtype))
    codes = np.array(ranks.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
    codes[array.is_null().to_numpy(zero_copy_only=False)] = -2
    return codes


class Membership:
    """Finds a batch's leaves and classes, for noise that keeps a tree."""

    def __init__(self, tree: Tree) -> None:
        self.tree, self._descent = tree, Descent(tree)
        self.nodes = np.flatnonzero(tree.is_leaf)
        """The node of each leaf."""
        self._number = np.cumsum(tree.is_leaf) - 1

    def leaves(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of each record's leaf, and whether no value was missing on the path.

        A missing value follows most training records.
        """
        node, sure = self._descent.ends(self._descent.outcomes(batch), np.arange(batch.rows))
        return self._number[node], sure

    def classes(self, batch: Batch) -> np.ndarray:
        """Return the codes of the class, all of which the tree must know."""
        codes = true_codes(self.tree, batch)
        if (codes < 0).any():
            where = batch.where(int(np.flatnonzero(codes < 0)[0]))
            what = (
                f"the class {quoted(self.tree.class_name)} has a value in {where} that the tree does not know"
            )
            raise MismatchError("tree-of-other-data", what, _OTHER_DATA)
        return codes

    def column(self, codes: np.ndarray) -> pa.Array:
        """Return the class's column for codes."""
        return label_array(self.tree.labels, self.tree.class_dtype).take(pa.array(codes))

    def check(self, sure: np.ndarray, unsure: np.ndarray) -> None:
        """Raise an error unless the tree has the counts of its records.

        `sure` counts by (leaf, class) those without a missing value on their way, `unsure` the others by
        class, each of which the tree has in several leaves in part.
        """
        counts = self.tree.counts[self.nodes]
        room = 1e-6 * max(float(sure.sum() + unsure.sum()), 1.0)
        fits = (counts >= sure - room) & (counts <= sure + unsure + room)
        whole = np.abs(counts.sum(axis=0) - sure.sum(axis=0) - unsure) <= room
        if not (fits.all() and whole.all()):
            what = "the tree's leaves don't hold as many records as the data has there"
            raise MismatchError("tree-of-other-data", what, _OTHER_DATA)


class Descent:
    """A tree, and all that follows from it alone, made once for all batches.

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
        """Return the predictions: a leaf's if nothing is missing, else by as many probabilities as fit."""
        complete = np.full(rows, self.tree.roots == 1)
        if not self._to_heaviest:
            for number, values in outcomes.items():
                complete &= ~self._missing(number, values)
        (ends, _), found = self.ends(outcomes, np.flatnonzero(complete)), Predicted.of(self._mixed)
        label, confidence = np.zeros(rows, found.label.dtype), np.zeros(rows)
        label[complete], confidence[complete] = found.label[ends], found.confidence[ends]
        others, step = np.flatnonzero(~complete), max(1, MOST_CHANCES // len(self.tree.labels))
        for some in (others[start : start + step] for start in range(0, len(others), step)):
            mixed = Predicted.of(self.chances({i: v[some] for i, v in outcomes.items()}, len(some)))
            label[some], confidence[some] = mixed.label, mixed.confidence
        return Predicted(label, confidence)

    def _missing(self, number: int, values: np.ndarray) -> np.ndarray:
        return np.isnan(values) if self.tree.features[number].numeric else values < 0

    def ends(self, outcomes: Outcomes, records: np.ndarray, root: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return the node below a root at which each of these records ends, and whether no value was missing.

        A missing value goes to the heaviest branch.
        """
        node, sure = np.full(len(records), root), np.ones(len(records), bool)
        going = np.arange(len(records))
        while (going := going[self.tree.feature[node[going]] >= 0]).size:
            child = self._child(outcomes, records[going], node[going])
            if (missing := child < 0).any():
                sure[going[missing]] = False
                child = np.where(missing, self.heaviest[node[going]], child)
            node[going] = self.tree.first_child[node[going]] + child
        return node, sure

    def chances(self, outcomes: Outcomes, rows: int) -> np.ndarray:
        """Return class probabilities, (records, classes), from the outcomes of the tested attributes."""
        chances = np.zeros((rows, len(self.tree.labels)))
        has = np.zeros(rows, np.uint64)
        for number, values in outcomes.items():
            has[~self._missing(number, values)] |= _bit(number)
        for root in range(self.tree.roots):
            if self._to_heaviest:
                chances += self._mixed[self.ends(outcomes, np.arange(rows), root)[0]]
            else:
                self._descend(chances, outcomes, has, root)
        return chances / self.tree.roots

    def _descend(self, chances: np.ndarray, outcomes: Outcomes, has: np.ndarray, root: int) -> None:
        """Add the records' shares of the leaves of one tree, by the bits of the attributes that they have.

        The records go down level by level. If those with missing values are in too many positions at a time,
        half of the records go first. Below a node that tests nothing that a record has, it has the chances that
        were mixed beforehand.
        """
        tree, rows = self.tree, len(has)
        waiting = [(np.arange(rows), np.full(rows, root), np.ones(rows))]
        while waiting:
            record, node, weight = waiting.pop()
            done = (self._tests[node] & has[record]) == 0
            _add(chances, record[done], node[done], weight[done], self._mixed)
            record, node, weight = record[~done], node[~done], weight[~done]
            if not record.size:
                continue
            child = self._child(outcomes, record, node)
            if child.min() >= 0:
                waiting.append((record, tree.first_child[node] + child, weight))
                continue
            parts = np.where(child < 0, tree.children[node].astype(np.int64), 1)
            if parts.sum() > max(MOST_POSITIONS, rows) and record.min() < record.max():
                low = record <= (int(record.min()) + int(record.max())) // 2
                waiting += [(record[half], node[half], weight[half]) for half in (~low, low)]
                continue
            which = np.repeat(np.arange(len(node)), parts)
            nth = np.arange(len(which)) - np.repeat(np.cumsum(parts) - parts, parts)
            target = tree.first_child[node[which]] + np.maximum(child, 0)[which] + nth
            share = np.where((child < 0)[which], self._shares[target], 1.0)
            waiting.append((record[which], target, weight[which] * share))

    def _child(self, outcomes: Outcomes, record: np.ndarray, node: np.ndarray) -> np.ndarray:
        """Return the child that each record goes to, -1 if its value is missing."""
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
        """Return the branch of each node that most training records went to; the first of equal ones."""
        tree, held = self.tree, self.tree.counts.sum(axis=1)
        found = np.zeros(tree.size, np.int64)
        for node in np.flatnonzero(~tree.is_leaf).tolist():
            first = tree.first_child[node]
            found[node] = held[first : first + tree.children[node]].argmax()
        return found

    @cached_property
    def _shares(self) -> np.ndarray:
        """Return each node's share of the training records that came to its parent.

        If none came to any of the children (a tree by hand, or all weights 0) they share equally.
        """
        tree, parent = self.tree, self.tree.parent[self.tree.roots :]
        held = tree.counts.sum(axis=1)
        below = held[tree.roots :]
        together = np.bincount(parent, below, tree.size)[parent]
        shares = np.where(together > 0, below / np.maximum(together, 1e-300), 1 / tree.children[parent])
        return np.concatenate([np.ones(tree.roots), shares])

    @cached_property
    def _mixed(self) -> np.ndarray:
        """Return the probabilities at each node for a record without any value that is tested below it."""
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


def _bit(number: int | np.ndarray) -> np.ndarray:
    """Return an attribute's bit; one that it shares may keep a record going, which only takes longer."""
    return np.uint64(1) << np.asarray(number % 64).astype(np.uint64)


def _add(
    chances: np.ndarray, record: np.ndarray, node: np.ndarray, weight: np.ndarray, mixed: np.ndarray
) -> None:
    """Add the records' shares of the nodes at which they ended."""
    if (record[1:] < record[:-1]).any():
        order = np.argsort(record, kind="stable")
        record, node, weight = record[order], node[order], weight[order]
    step = max(1, MOST_CHANCES // chances.shape[1])
    for some in (slice(start, start + step) for start in range(0, len(record), step)):
        first = np.flatnonzero(np.diff(record[some], prepend=-1))
        sums = np.add.reduceat(mixed[node[some]] * weight[some, None], first, axis=0)
        chances[record[some][first]] += sums


def coded(records: CodedRecords, tree: Tree) -> Outcomes:
    """Return the outcomes of the tested attributes for records in memory."""
    found = {}
    for number in np.unique(tree.feature[tree.feature >= 0]).tolist():
        column = records.columns[number]
        if column.feature.numeric:
            found[number] = np.append(column.values, np.nan)[column.codes]
        else:
            found[number] = np.where(column.codes == column.size, -1, column.codes.astype(np.int64))
    return found


def _outcome(feature: Feature, array: pa.Array) -> np.ndarray:
    """Return numbers, NaN if missing; or the ranks of categories, -1 if missing or unknown.

    An unknown category belongs to the group of all others, if the categories have one.
    """
    if feature.numeric:
        return floats(array)
    array = dtypes.plain(array)
    if feature.prefix:
        array = pc.utf8_slice_codeunits(array, 0, feature.prefix)
    ranks = pc.index_in(array, value_set=label_array(feature.categories, feature.dtype))
    if OTHER in feature.categories:
        other = pa.scalar(feature.categories.index(OTHER), ranks.type)
        ranks = pc.if_else(pc.and_(pc.is_valid(array), pc.is_null(ranks)), other, ranks)
    return ranks.fill_null(-1).to_numpy(zero_copy_only=False)
