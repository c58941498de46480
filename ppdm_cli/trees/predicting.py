"""Prediction as a map: the chances of every class for the records of a batch, level by level.

As J48: the shares of the leaf that a record comes to (a leaf without records uses its parent's); a
record with a missing value goes to all children, with chances proportional to the training records
that went there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.engine import Batch, Progress, map_partitions
from ppdm_cli.errors import MismatchError, quoted
from ppdm_cli.tables import Table
from ppdm_cli.trees.records import floats
from ppdm_cli.trees.tree import Feature, Tree, majority


@dataclass(frozen=True)
class Predicted:
    """The chances of the classes, (records, classes); what follows from them."""

    chances: np.ndarray

    @property
    def label(self) -> np.ndarray:
        """The likeliest class; of equally likely ones the first."""
        return majority(self.chances)

    @property
    def confidence(self) -> np.ndarray:
        return np.asarray(self.chances.max(axis=1))


def check_columns(tree: Tree, schema: pa.Schema) -> None:
    """MismatchError unless the data has the attributes that the tree tests, of fitting types."""
    for number in np.unique(tree.feature[tree.feature >= 0]):
        feature = tree.features[number]
        if feature.name not in schema.names:
            raise MismatchError(
                f"the data has no column {quoted(feature.name)}, which the tree tests",
                "give data with the columns that the tree was trained on",
            )
        found, wanted = (
            dtypes.normal(schema.field(feature.name).type, feature.name),
            dtypes.parse(feature.dtype),
        )
        if found != wanted and not (feature.numeric and _both_plain(found, wanted)):
            raise MismatchError(
                f"the column {quoted(feature.name)} is of type {found}, in the tree {wanted}",
                "cast it, or for CSV say its type with --type",
            )


def _both_plain(one: pa.DataType, other: pa.DataType) -> bool:
    """Integers and floats compare by their numbers, whatever their widths."""
    return all(pa.types.is_integer(t) or pa.types.is_floating(t) for t in (one, other))


def predict_table(
    tree: Tree, table: Table, *, threads: int | None = None, progress: Progress | None = None
) -> Predicted:
    """The predictions for a whole table, in its order."""
    check_columns(tree, table.schema)
    names = [tree.features[i].name for i in np.unique(tree.feature[tree.feature >= 0])]
    parts = list(
        map_partitions(
            table,
            lambda batch: predict_batch(tree, batch).chances,
            columns=names or table.schema.names[:1],
            threads=threads,
            progress=progress,
            doing="predicting",
        )
    )
    return Predicted(np.concatenate(parts) if parts else np.empty((0, len(tree.labels))))


def predict_batch(tree: Tree, batch: Batch) -> Predicted:
    """The predictions for one batch: a pure function of its columns."""
    columns = {
        int(i): _outcome(tree.features[i], batch.column(tree.features[i].name))
        for i in np.unique(tree.feature[tree.feature >= 0])
    }
    return Predicted(chances_of(tree, columns, batch.rows))


def _outcome(feature: Feature, array: pa.Array) -> np.ndarray:
    """Numbers, NaN where missing; or the places of categories, -1 where missing or unknown."""
    if feature.numeric:
        return floats(array)
    kind = dtypes.parse(feature.dtype)
    values = [dtypes.from_json(c, kind) for c in feature.categories]
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if dtypes.is_discrete(kind):
        known = pa.array(values, kind)
    else:
        known = dtypes.from_carrier(np.array(values, dtypes.carrier_type(kind)), kind)
    return pc.index_in(array, value_set=known).fill_null(-1).to_numpy(zero_copy_only=False)


def chances_of(tree: Tree, columns: dict[int, np.ndarray], rows: int) -> np.ndarray:
    """Class chances from the outcomes of the tested attributes."""
    leaf_chances = _leaf_chances(tree)
    chances = np.zeros((rows, len(tree.labels)))
    record, node, weight = np.arange(rows), np.zeros(rows, np.int64), np.ones(rows)
    held = tree.counts.sum(axis=1)
    while record.size:
        tested = tree.feature[node]
        done = tested < 0
        if done.any():
            np.add.at(chances, record[done], leaf_chances[node[done]] * weight[done, None])
            record, node, weight, tested = record[~done], node[~done], weight[~done], tested[~done]
        child = np.full(len(record), -1, np.int64)
        for number in np.unique(tested):
            here = np.flatnonzero(tested == number)
            value = columns[int(number)][record[here]]
            if tree.features[number].numeric:
                child[here] = np.where(np.isnan(value), -1, value > tree.threshold[node[here]])
            else:
                child[here] = value
        known = child >= 0
        gone = np.flatnonzero(~known)
        parts = tree.children[node[gone]].astype(np.int64)
        which = np.repeat(gone, parts)
        nth = np.arange(len(which)) - np.repeat(np.cumsum(parts) - parts, parts)
        target = tree.first_child[node[which]] + nth
        # a tree whose children hold nothing (by hand, or all weights 0) is followed evenly
        together = np.bincount(which, held[target], len(record))[which] if len(which) else np.empty(0)
        share = np.where(
            together > 0, held[target] / np.maximum(together, 1e-300), 1 / tree.children[node[which]]
        )
        used = share > 0
        down = tree.first_child[node[known]] + child[known]
        node = np.concatenate([down, target[used]])
        weight = np.concatenate([weight[known], weight[which[used]] * share[used]])
        record = np.concatenate([record[known], record[which[used]]])
    return chances


def _leaf_chances(tree: Tree) -> np.ndarray:
    total = tree.counts.sum(axis=1, keepdims=True)
    chances = tree.counts / np.maximum(total, 1e-300)
    parent = tree.parent
    for node in np.flatnonzero(total[:, 0] <= 0):
        chances[node] = chances[parent[node]] if node else 1 / len(tree.labels)
    return chances


def as_columns(tree: Tree, predicted: Predicted) -> dict[str, Any]:
    """The columns `predicted` (of the class's type) and `confidence`."""
    kind = dtypes.parse(tree.class_dtype)
    values = [dtypes.from_json(v, kind) for v in tree.labels]
    if dtypes.is_discrete(kind):
        labels = pa.array(values, kind)
    else:
        labels = dtypes.from_carrier(np.array(values, dtypes.carrier_type(kind)), kind)
    return {"predicted": labels.take(pa.array(predicted.label)), "confidence": pa.array(predicted.confidence)}
