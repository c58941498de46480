"""A tree as a columnar table: a row a node, and a sidecar at stage "tree" with attributes and class."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UNSET

from ppdm_cli import dtypes
from ppdm_cli import sidecar as sidecars
from ppdm_cli.errors import MismatchError, PpdmError, UsageError, quoted
from ppdm_cli.sidecar import Attribute, Sidecar
from ppdm_cli.tables import CsvOptions, open_table, read_sidecar, sidecar_path
from ppdm_cli.trees.tree import Feature, Tree
from ppdm_cli.trees.wording import cut_text

AGAIN = "train it again with ppdm train-tree"


def invalid(where: str, what: str) -> MismatchError:
    return MismatchError(f"{quoted(where)} is not a valid tree: {what}", AGAIN)


def no_tree(path: Path) -> MismatchError:
    return MismatchError(f"{quoted(path)} is not a tree", "name one that train-tree wrote, with its sidecar")


def checked(
    features: tuple[Feature, ...],
    class_: tuple[str, str, tuple[Any, ...]],
    feature: np.ndarray,
    threshold: np.ndarray,
    child: np.ndarray,
    counts: np.ndarray,
    label: np.ndarray,
    options: Mapping[str, Any],
) -> Tree:
    """The tree of these parts; ValueError where there is none."""
    outcomes = np.array([2 if f.numeric else len(f.categories) for f in features] + [0], np.int32)
    tree = Tree(features, *class_, feature, threshold, child, outcomes[feature], counts, label, dict(options))
    tree.validate()
    return tree


def as_frame(tree: Tree) -> Any:
    """A polars frame of the flat arrays, a row a node.

    `cut` is for people, `threshold` for programs; the root's row has the options of the training.
    """
    import polars as pl

    tests = [None if f < 0 else tree.features[f] for f in tree.feature.tolist()]
    numeric = [f is not None and f.numeric for f in tests]
    columns: dict[str, Any] = {
        "node": pl.Series(np.arange(tree.size), dtype=pl.Int64),
        "test": pl.Series([None if f is None else f.name for f in tests], dtype=pl.String),
        "cut": pl.Series(
            [cut_text(f, t) if f and f.numeric else None for f, t in zip(tests, tree.threshold, strict=True)],
            dtype=pl.String,
        ),
        "threshold": pl.Series(
            [t if n else None for n, t in zip(numeric, tree.threshold.tolist(), strict=True)],
            dtype=pl.Float64,
        ),
        "child": pl.Series([c if c > 0 else None for c in tree.first_child.tolist()], dtype=pl.Int64),
        "label": pl.Series([str(tree.labels[i]) for i in tree.label.tolist()], dtype=pl.String),
    }
    said = json.dumps(dict(tree.options))
    columns["options"] = pl.Series([said] + [None] * (tree.size - 1), dtype=pl.String)
    for i in range(len(tree.labels)):
        columns[f"count_{i}"] = pl.Series(tree.counts[:, i], dtype=pl.Float64)
    return pl.DataFrame(columns)


def sidecar_of(tree: Tree) -> Sidecar:
    """What the table speaks of: attributes in the tree's order, the class last."""
    columns = [*tree.features, Feature(tree.class_name, tree.class_dtype, False, tree.labels)]
    try:
        attributes = [
            Attribute(name=f.name, role="kept", type="continuous", dtype=f.dtype)
            if f.numeric
            else Attribute(
                name=f.name,
                role="kept",
                type="discrete",
                dtype=f.dtype,
                N=len(f.categories),
                categories=list(f.categories),
                nulls=False,
            )
            for f in columns
        ]
        said = Sidecar(
            format="ppdm-sidecar",
            version=1,
            tool=sidecars.tool(),
            stage="tree",
            release=str(uuid.uuid4()),
            records=tree.size,
            class_=tree.class_name,
            attributes=attributes,
        )
        sidecars.decode(said.encode(), "of the tree")
    except (ValueError, PpdmError):
        raise UsageError("a name or a category of the tree fits no sidecar", "store it as .json") from None
    return said


def from_table(path: Path) -> Tree:
    known = {n: dtypes.parse("string") for n in ("test", "cut", "label", "options")}
    known |= {"child": dtypes.parse("int64"), "threshold": dtypes.parse("double")}
    csv = CsvOptions(known=known)
    table = open_table(path, csv=csv)
    if table.sidecar is None and not sidecar_path(path).exists():
        raise no_tree(path)
    said = read_sidecar(sidecar_path(path), table.sidecar, str(path))
    try:
        if said.stage != "tree" or not said.attributes or said.class_ != said.attributes[-1].name:
            raise ValueError("its sidecar is not that of a tree")
        features = tuple(_feature(a) for a in said.attributes)
        labels = features[-1].categories
        names = ["test", "threshold", "child", "label", "options", *(f"count_{i}" for i in range(len(labels)))]
        if any(n not in table.schema.names for n in names):
            raise ValueError("a column is missing")
        columns: dict[str, list[Any]] = {n: [] for n in names}
        for partition in table.partitions(names):
            batch = partition.load()
            for name in names:
                columns[name] += batch.column(name).to_pylist()
        if said.records != len(columns["test"]):
            raise ValueError("its sidecar says another number of nodes")
        return _from_columns(columns, features[:-1], features[-1])
    except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        what = str(error) if type(error) is ValueError else "a cell is not of the right kind"
        raise invalid(str(path), what) from None


def _feature(attribute: Attribute) -> Feature:
    if attribute.categories is UNSET:
        return Feature(attribute.name, attribute.dtype, True)
    return Feature(attribute.name, attribute.dtype, False, tuple(attribute.categories))


def _from_columns(columns: dict[str, list[Any]], features: tuple[Feature, ...], class_: Feature) -> Tree:
    places = {f.name: i for i, f in enumerate(features)} | {None: -1}
    ranks = {str(v): i for i, v in enumerate(class_.categories)}
    counts = [columns[f"count_{i}"] for i in range(len(ranks))]
    return checked(
        features,
        (class_.name, class_.dtype, class_.categories),
        np.array([places[t] for t in columns["test"]], np.int32),
        np.array([np.nan if t is None else float(t) for t in columns["threshold"]], np.float64),
        np.array([-1 if c is None else c for c in columns["child"]], np.int32),
        np.array(counts, np.float64).T.reshape(-1, len(ranks)),
        np.array([ranks[v] for v in columns["label"]], np.int32),
        _options(columns["options"][0]),
    )


def _options(said: str | None) -> dict[str, Any]:
    """As written; ValueError otherwise."""
    try:
        found = json.loads(said or "")
    except RecursionError:
        raise ValueError("its options are not readable") from None
    plain = (int, float, str, bool, type(None))
    if not isinstance(found, dict) or not all(isinstance(v, plain) for v in found.values()):
        raise ValueError("its options are not readable")
    return found
