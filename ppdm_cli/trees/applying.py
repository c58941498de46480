"""A tree applied to a table, as a map: every record with its predicted label and its confidence.

Opens what a tree may be trained on or applied to: an original, or a reconstructed data set; never a
release, whose single values lie. Memory does not grow with the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.engine import Batch, Progress, map_partitions
from ppdm_cli.errors import MismatchError, RefusedError, UsageError, listed, quoted
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.tables import (
    CsvOptions,
    Output,
    Table,
    is_stream,
    open_release,
    open_releases,
    open_table,
    read_sidecar,
    sidecar_path,
)
from ppdm_cli.trees.measuring import Measured
from ppdm_cli.trees.predicting import as_columns, check_columns, predict_batch
from ppdm_cli.trees.tree import Feature, Tree

PREDICTED, CONFIDENCE = "predicted", "confidence"


def open_data(
    source: str | Path,
    csv: CsvOptions | None = None,
    from_: Literal["arrow", "csv"] | None = None,
    like: Tree | Table | None = None,
    releases: bool = False,
) -> tuple[Table, Sidecar | None]:
    """A data set and its sidecar, where it has one; a CSV's columns have the types of those that it is like.

    A release, whose single values lie, only where `releases` are welcome.
    """
    csv = csv or CsvOptions()
    if like is not None:
        if isinstance(like, Tree):
            known = {f.name: dtypes.parse(f.dtype) for f in [*like.features, _class(like)]}
        else:
            known = {f.name: f.type for f in like.schema if not pa.types.is_dictionary(f.type)}
        csv = CsvOptions(csv.delimiter, csv.encoding, csv.nulls, csv.types, known | dict(csv.known))
    said: Sidecar | None = None
    beside = None if is_stream(source) else sidecar_path(Path(source))
    if beside is not None and beside.exists() and Path(source).exists():
        table, said = _accepted(*open_release(source, stages=None), releases)
        if said.stage == "perturbed":
            return open_releases(source)
        known = {a.name: a.kind for a in said.attributes}
        csv = CsvOptions(csv.delimiter, csv.encoding, csv.nulls, csv.types, dict(csv.known) | known)
    table = open_table(source, csv=csv, standard_format=from_)
    if said is None and table.sidecar is not None:
        table, said = _accepted(table, read_sidecar(None, table.sidecar, table.name), releases)
        if said.stage == "perturbed" and not is_stream(source):
            return open_releases(source)
    return table, said


def _accepted(table: Table, said: Sidecar, releases: bool) -> tuple[Table, Sidecar]:
    if said.stage == "perturbed" and releases:
        return table, said
    if said.stage == "perturbed":
        raise RefusedError(
            f"{quoted(table.name)} is a release: its single values are not the original ones",
            "reconstruct first: ppdm reconstruct RELEASE -o usable.parquet",
        )
    if said.stage != "reconstructed":
        raise MismatchError(
            f"{quoted(table.name)} is at stage {said.stage!r}, a table of results",
            "give an original or a reconstructed data set",
        )
    return table, said


def named_class(class_: str | None, said: Sidecar | None) -> str:
    """The class, as asked for or as the sidecar says."""
    if class_ is not None:
        return class_
    if said is None or said.class_ is msgspec.UNSET:
        raise UsageError("no class is named, and no sidecar names one", "say --class COL")
    return said.class_


def _class(tree: Tree) -> Feature:
    return Feature(tree.class_name, tree.class_dtype, False, tree.labels)


class Labeller:
    """Adds the predicted label and its confidence to batches, and measures where the class is there.

    Where nothing is written only the columns that the tree tests are looked at, and the class.
    """

    def __init__(self, tree: Tree, table: Table, written: bool = True) -> None:
        self.tree = tree
        check_columns(tree, table.schema)
        used = {tree.class_name, *(tree.features[i].name for i in tree.feature[tree.feature >= 0])}
        names = table.schema.names
        self.columns = names if written else [n for n in names if n in used] or names[:1]
        found = [n for n in (PREDICTED, CONFIDENCE) if n in names]
        if found and written:
            raise UsageError(
                f"{quoted(table.name)} has columns of the names {listed(found)} already",
                "rename them: those names are for what the tree says",
            )
        fields = [pa.field(n, dtypes.normal(table.schema.field(n).type, n)) for n in self.columns]
        self._kind = dtypes.parse(tree.class_dtype)
        added = [pa.field(PREDICTED, self._kind), pa.field(CONFIDENCE, pa.float64())]
        self.schema = pa.schema(fields + added)
        self.has_class = tree.class_name in table.schema.names
        values = [dtypes.from_json(v, self._kind) for v in tree.labels]
        if dtypes.is_discrete(self._kind):
            self._labels = pa.array(values, self._kind)
        else:
            self._labels = dtypes.from_carrier(np.array(values), self._kind)

    def __call__(self, batch: Batch) -> tuple[pa.RecordBatch, Measured | None]:
        predicted = predict_batch(self.tree, batch)
        columns = [*batch.columns.columns, *as_columns(self.tree, predicted).values()]
        names = [*batch.columns.schema.names, PREDICTED, CONFIDENCE]
        measured = None
        if self.has_class:
            measured = Measured.of(self.tree.labels, self._true(batch), predicted.label)
        return pa.RecordBatch.from_arrays(columns, names=names), measured

    def _true(self, batch: Batch) -> np.ndarray:
        """The codes of the class: -1 where the tree does not know the label, -2 where there is none."""
        array = batch.column(self.tree.class_name)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
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
    tree: Tree,
    table: Table,
    output: Output | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Measured | None:
    """Predict every record, and fill an output where there is one; what it measured, where it could."""
    work = Labeller(tree, table, written=output is not None)
    none = np.zeros((len(tree.labels),) * 2, np.int64)
    total = Measured(tree.labels, none) if work.has_class else None

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal total
        for batch, measured in map_partitions(
            table, work, columns=work.columns, threads=threads, progress=progress, doing="predicting"
        ):
            if total is not None and measured is not None:
                total = total + measured
            yield batch

    if output is not None:
        output.fill(batches(), work.schema)
    else:
        for _ in batches():
            pass
    return total


def figures(tree: Tree) -> dict[str, Any]:
    """What --json says of the tree itself."""
    return {"size": tree.size, "leaves": tree.leaves, "depth": tree.depth, "class": tree.class_name}
