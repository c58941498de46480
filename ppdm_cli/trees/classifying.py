"""A tree applied to a table, as a map: every record with its predicted label and its confidence.

Memory does not grow with the data.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.engine import Batch, Made, Writing, map_partitions, write
from ppdm_cli.errors import MismatchError, RefusedError, UsageError, listed, quoted
from ppdm_cli.releases import open_data
from ppdm_cli.tables import CsvOptions, Output, Table
from ppdm_cli.trees.measuring import Measured
from ppdm_cli.trees.predicting import Descent, as_columns, check_columns
from ppdm_cli.trees.tree import Feature, Tree

PREDICTED, CONFIDENCE = "predicted", "confidence"


def open_records(
    data: Any, like: Tree | Table, csv: CsvOptions | None = None, from_: Literal["arrow", "csv"] | None = None
) -> Table:
    """Open what a tree may be applied to, an original or a reconstruction: a release's single values lie.

    A CSV's columns have the types of those that it is `like`.
    """
    if isinstance(like, Tree):
        known = {f.name: dtypes.parse(f.dtype) for f in [*like.features, _class(like)]}
    else:
        known = {f.name: f.type for f in like.schema if not pa.types.is_dictionary(f.type)}
    csv = csv or CsvOptions()
    table, sidecar = open_data(data, None, replace(csv, known=known | dict(csv.known)), from_)
    if sidecar is not None and sidecar.is_substituted:
        raise RefusedError(
            f"{quoted(table.name)} is a release: its single values are not the original ones",
            "reconstruct first: ppdm reconstruct RELEASE -o usable.parquet",
        )
    return table


def _class(tree: Tree) -> Feature:
    return Feature(tree.class_name, tree.class_dtype, False, tree.labels)


class Labeller:
    """Adds the predicted label and its confidence to batches, and measures where the class is there.

    Where nothing is written only the columns that the tree tests are looked at, and the class.
    """

    def __init__(self, tree: Tree, table: Table, written: bool = True, to_heaviest: bool = False) -> None:
        self.tree, self._descent = tree, Descent(tree, to_heaviest)
        check_columns(tree, table.schema)
        used = {tree.class_name, *(tree.features[i].name for i in tree.feature[tree.feature >= 0])}
        names = table.schema.names
        self.columns = names if written else [n for n in names if n in used] or names[:1]
        found = [n for n in (PREDICTED, CONFIDENCE) if n in names]
        if found and written:
            raise UsageError(
                f"{quoted(table.name)} has columns of the names {listed(found)} already",
                "rename them: those names are for the tree's predictions",
            )
        fields = [pa.field(n, dtypes.normal(table.schema.field(n).type, n)) for n in self.columns]
        self._kind = dtypes.parse(tree.class_dtype)
        added = [pa.field(PREDICTED, self._kind), pa.field(CONFIDENCE, pa.float64())]
        self.schema = pa.schema(fields + added)
        self.has_class = tree.class_name in table.schema.names
        self._labels = dtypes.column([dtypes.from_json(v, self._kind) for v in tree.labels], self._kind)

    def told(self, batch: Batch) -> Measured | None:
        return self(batch).told

    def __call__(self, batch: Batch) -> Made[Measured | None]:
        predicted = self._descent.predicted(self._descent.outcomes(batch), batch.rows)
        columns = [*batch.columns.columns, *as_columns(self.tree, predicted).values()]
        names = [*batch.columns.schema.names, PREDICTED, CONFIDENCE]
        measured = None
        if self.has_class:
            measured = Measured.of(self.tree.labels, self._true(batch), predicted.label)
        return Made(pa.RecordBatch.from_arrays(columns, names=names), measured)

    def _true(self, batch: Batch) -> np.ndarray:
        """Return the codes of the class: -1 where the tree does not know the label, -2 where there is none."""
        array = dtypes.plain(batch.column(self.tree.class_name))
        if array.type != self._kind:
            try:
                if dtypes.is_discrete(self._kind) != dtypes.is_discrete(array.type):
                    raise pa.ArrowInvalid
                array = pc.cast(array, self._kind)
            except pa.ArrowException:
                raise MismatchError(
                    f"the class {quoted(self.tree.class_name)} is of type {array.type}, "
                    f"in the tree {self._kind}",
                    "give it the type that it had in training; for a CSV with --type",
                ) from None
        places = pc.index_in(array, value_set=self._labels)
        codes = np.array(places.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
        codes[array.is_null().to_numpy(zero_copy_only=False)] = -2
        return codes


def classify(
    tree: Tree, table: Table, output: Output | None = None, to_heaviest: bool = False
) -> Measured | None:
    """Predict every record into an output, if there is one; return what was measured if the class is there."""
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
        for measured in map_partitions(table, work.told, columns=work.columns, doing="predicting"):
            hear(measured)
    return total


def figures(tree: Tree) -> dict[str, Any]:
    """Return what --json says of the tree itself."""
    return {"size": tree.size, "leaves": tree.leaves, "depth": tree.depth, "class": tree.class_name}
