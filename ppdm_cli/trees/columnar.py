"""A tree as a columnar table: a row a node, and a sidecar at stage "tree" with attributes and class."""

from __future__ import annotations

import json
import uuid
from typing import Any

import numpy as np

from ppdm_cli import sidecar as sidecars
from ppdm_cli.errors import PpdmError, UsageError
from ppdm_cli.sidecar import Attribute, Sidecar
from ppdm_cli.trees.labels import cut_text
from ppdm_cli.trees.tree import Feature, Tree


def as_frame(tree: Tree) -> Any:
    """Return a polars frame of the flat arrays, one row for each node.

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
    options = json.dumps(dict(tree.options))
    columns["options"] = pl.Series([options] + [None] * (tree.size - 1), dtype=pl.String)
    for i in range(len(tree.labels)):
        columns[f"count_{i}"] = pl.Series(tree.counts[:, i], dtype=pl.Float64)
    return pl.DataFrame(columns)


def sidecar_of(tree: Tree) -> Sidecar:
    """Return a sidecar for the table, with the attributes in the tree's order and the class last."""
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
        sidecar = Sidecar(
            format="ppdm-sidecar",
            version=1,
            tool=sidecars.tool(),
            stage="tree",
            release=str(uuid.uuid4()),
            records=tree.size,
            class_=tree.class_name,
            attributes=attributes,
        )
        sidecars.decode(sidecar.encode(), "of the tree")
    except (ValueError, PpdmError):
        raise UsageError("a name or a category of the tree fits no sidecar", "store it as .json") from None
    return sidecar
