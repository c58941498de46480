"""Trees in files: JSON with one node a line, which is read back, or a columnar table for other programs.

JSON is versioned and decoded strictly: a tree that no training gives is refused with one line, and no
number in a file decides how much is allocated.
"""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType

from ppdm_cli import dtypes, files
from ppdm_cli import sidecar as sidecars
from ppdm_cli.domain import MOST_VALUES
from ppdm_cli.errors import DataError, MismatchError, PpdmError, UsageError, quoted
from ppdm_cli.sidecar import LONGEST_PREFIX, explained
from ppdm_cli.tables import Output, PendingFile, suffixes
from ppdm_cli.trees.columnar import as_frame, sidecar_of
from ppdm_cli.trees.labels import cut
from ppdm_cli.trees.tree import Feature, Tree

FORMAT, VERSION = "ppdm-tree", 1
LARGEST = 64 << 20
"""Bytes of JSON that are read at most."""
AGAIN = "train it again with ppdm train-tree"
_TABLES = suffixes()

_BEYOND_ASCII = re.compile("[^\n -~]")
Text = Annotated[str, Meta(max_length=1 << 20)]
Value = int | float | bool | Text


class StoredFeature(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    name: Text
    dtype: Annotated[str, Meta(max_length=128)]
    numeric: bool
    categories: Annotated[list[Value], Meta(max_length=MOST_VALUES)] = []
    prefix: Annotated[int, Meta(ge=0, le=LONGEST_PREFIX)] = 0


class StoredClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Text
    dtype: Annotated[str, Meta(max_length=128)]
    labels: Annotated[list[Value], Meta(min_length=1, max_length=MOST_VALUES)]


class StoredNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A node; a leaf has no test. `cut` is in original units, children are numbered from `child` on."""

    label: Value
    counts: Annotated[list[float], Meta(max_length=MOST_VALUES)]
    test: Text | UnsetType = UNSET
    cut: int | float | Text | UnsetType = UNSET
    child: Annotated[int, Meta(ge=1, lt=1 << 31)] | UnsetType = UNSET


class StoredTree(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: Literal["ppdm-tree"]
    version: Literal[1]
    tool: Annotated[str, Meta(max_length=128)]
    options: dict[Annotated[str, Meta(max_length=128)], Value | None]
    class_: StoredClass = msgspec.field(name="class")
    features: Annotated[list[StoredFeature], Meta(max_length=1 << 16)]
    nodes: Annotated[list[StoredNode], Meta(min_length=1, max_length=1 << 24)]


def encode(tree: Tree) -> bytes:
    """Return the JSON of a tree, one attribute or node on each line."""
    head = {"format": FORMAT, "version": VERSION, "tool": sidecars.TOOL, "options": dict(tree.options)}
    head["class"] = StoredClass(tree.class_name, tree.class_dtype, list(tree.labels))
    features = [StoredFeature(f.name, f.dtype, f.numeric, list(f.categories), f.prefix) for f in tree.features]
    dump = msgspec.json.Encoder().encode
    parts = [b"  %s: %s" % (dump(k), dump(v)) for k, v in head.items()]
    for name, rows in (("features", features), ("nodes", [_stored(tree, i) for i in range(tree.size)])):
        listed = b",\n    ".join(map(dump, rows))
        parts.append(b"  %s: [%s]" % (dump(name), b"\n    " + listed + b"\n  " if listed else b""))
    whole = b"{\n" + b",\n".join(parts) + b"\n}\n"
    return _BEYOND_ASCII.sub(_printable, whole.decode()).encode()


def _printable(found: re.Match[str]) -> str:
    """Write out what a terminal may obey, or show in another order."""
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


def _stored(tree: Tree, node: int) -> StoredNode:
    label, counts = tree.labels[int(tree.label[node])], [_short(c) for c in tree.counts[node].tolist()]
    if tree.feature[node] < 0:
        return StoredNode(label, counts)
    feature, child = tree.features[int(tree.feature[node])], int(tree.first_child[node])
    at = cut(feature, float(tree.threshold[node])) if feature.numeric else UNSET
    return StoredNode(label, counts, feature.name, at, child)


def _short(count: float) -> float:
    return int(count) if count.is_integer() and count < 2**53 else count


def decode(data: bytes, where: str) -> Tree:
    """Read a tree strictly; `where` names the file for the error."""
    if len(data) > LARGEST:
        raise MismatchError(f"the tree {quoted(where)} is larger than {LARGEST >> 20} MiB", AGAIN)
    try:
        stored = msgspec.json.decode(data, type=StoredTree)
        return _built(stored)
    except (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError, TypeError, PpdmError) as error:
        what = error.what if isinstance(error, PpdmError) else explained(data, error, FORMAT, VERSION)
        raise MismatchError(f"{quoted(where)} is not a valid tree: {what}", AGAIN) from None


def _built(stored: StoredTree) -> Tree:
    features = tuple(
        Feature(f.name, f.dtype, f.numeric, tuple(f.categories), f.prefix) for f in stored.features
    )
    if any(f.prefix and f.dtype != "string" for f in features):
        raise ValueError("an attribute that is no text has a prefix")
    labels = tuple(stored.class_.labels)
    places, ranks = {f.name: i for i, f in enumerate(features)}, {v: i for i, v in enumerate(labels)}
    nodes = stored.nodes
    if any(len(n.counts) != len(labels) for n in nodes):
        raise ValueError("a node has not one count for each label")
    if any(n.label not in ranks for n in nodes):
        raise ValueError("a node's label is none of the class's")
    if any(n.test is not UNSET and n.test not in places for n in nodes):
        raise ValueError("a node tests an attribute that is not listed")
    if any((n.test is UNSET) != (n.child is UNSET) for n in nodes):
        raise ValueError("a node has a test without children, or children without a test")
    feature = np.array([-1 if n.test is UNSET else places[n.test] for n in nodes], np.int32)
    threshold = np.full(len(nodes), np.nan)
    for i, node in enumerate(nodes):
        if node.cut is not UNSET:
            if feature[i] < 0 or not features[feature[i]].numeric:
                raise ValueError("a node has a cut without a numeric test")
            threshold[i] = _threshold(node.cut, features[feature[i]])
    child = np.array([-1 if n.child is UNSET else n.child for n in nodes], np.int32)
    counts = np.array([n.counts for n in nodes], np.float64)
    label = np.array([ranks[n.label] for n in nodes], np.int32)
    class_ = (stored.class_.name, stored.class_.dtype, labels)
    children = np.array([2 if f.numeric else len(f.categories) for f in features] + [0], np.int32)[feature]
    tree = Tree(features, *class_, feature, threshold, child, children, counts, label, dict(stored.options))
    tree.validate()
    return tree


def _threshold(value: int | float | str, feature: Feature) -> float:
    if isinstance(value, str):
        return float(dtypes.from_json(value, dtypes.parse(feature.dtype)))
    return float(value)


class TreeFile:
    """Where a tree goes, in the format of the suffix; checked before any work, whole or not at all."""

    def __init__(self, stack: ExitStack, path: Path, force: bool = False) -> None:
        table = path.name.lower().endswith(_TABLES)
        if not table and path.suffix.lower() != ".json":
            raise UsageError(
                f"the suffix of {quoted(path.name)} names no format of a tree",
                f"name a file that ends in .json, {', '.join(_TABLES)}",
            )
        self.into: Output | PendingFile = (
            Output(stack, path, force=force) if table else stack.enter_context(PendingFile(path, force))
        )

    def fill(self, tree: Tree) -> None:
        if isinstance(self.into, Output):
            self.into.fill_frame(as_frame(tree), sidecar_of(tree))
        else:
            data = encode(tree)
            if len(data) > LARGEST:
                raise UsageError(
                    f"the tree has {tree.size} nodes: as .json it is larger than {LARGEST >> 20} MiB",
                    "grow a smaller one with --max-depth or --min-records, or store its arrays as .parquet",
                )
            self.into.put(data)


def load(path: str | Path) -> Tree:
    """Read a tree from its JSON file."""
    path = Path(path)
    if path.suffix.lower() != ".json":
        raise UsageError(
            f"{quoted(path.name)} cannot be read as a tree: trees are read from .json files only",
            "name the .json file that train-tree wrote (-o tree.json)",
        )
    if not path.is_file():
        raise DataError(f"{quoted(path)} does not exist, or is not a file", "name a tree that train-tree wrote")
    files.reading(path)
    with files.readable(path), path.open("rb") as file:
        data = file.read(LARGEST + 1)
    return decode(data, str(path))
