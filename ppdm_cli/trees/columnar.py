"""A tree as a columnar table: a row a node, and a sidecar at stage "tree" with attributes and class."""

from __future__ import annotations

import json
import uuid
from typing import Any

from ppdm_cli import sidecar as sidecars
from ppdm_cli.errors import PpdmError, UsageError
from ppdm_cli.releases import decode
from ppdm_cli.sidecar import Attribute, Sidecar
from ppdm_cli.trees.labels import cut_text
from ppdm_cli.trees.tree import Feature, Tree


def as_frame(tree: Tree) -> Any:
    """Return a polars frame of the flat arrays, one row for each node.

    `cut` is for people, `threshold` for programs; the root's row has the options of the training.
    """
    import polars as pl

    tests = [None if f < 0 else tree.features[f] for f in tree.feature.tolist()]
    tested = list(zip(tests, tree.threshold.tolist(), strict=True))
    columns: dict[str, tuple[Any, Any]] = {
        "node": (range(tree.size), pl.Int64),
        "test": ([None if f is None else f.name for f in tests], pl.String),
        "cut": ([cut_text(f, t) if f and f.numeric else None for f, t in tested], pl.String),
        "threshold": ([t if f and f.numeric else None for f, t in tested], pl.Float64),
        "child": ([c if c > 0 else None for c in tree.first_child.tolist()], pl.Int64),
        "label": ([str(tree.labels[i]) for i in tree.label.tolist()], pl.String),
        "options": ([json.dumps(dict(tree.options))] + [None] * (tree.size - 1), pl.String),
    }
    columns |= {f"count_{i}": (tree.counts[:, i], pl.Float64) for i in range(len(tree.labels))}
    return pl.DataFrame({n: pl.Series(values, dtype=kind) for n, (values, kind) in columns.items()})


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
        sidecar = sidecars.new("tree", str(uuid.uuid4()), tree.size, attributes, class_=tree.class_name)
        decode(sidecar.encode(), "of the tree")
    except (ValueError, PpdmError):
        raise UsageError("a name or a category of the tree fits no sidecar", "store it as .json") from None
    return sidecar
