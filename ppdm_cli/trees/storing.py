"""Trees in files: versioned JSON with one node a line, for train-tree, predict and all users of trees.

It is decoded strictly: a tree that no training gives is refused with one line, and no number in a file decides
how much memory is allocated.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType

from ppdm_cli import dtypes, files
from ppdm_cli import sidecar as sidecars
from ppdm_cli.domain import MOST_VALUES
from ppdm_cli.errors import DataError, MismatchError, PpdmError, UsageError, argument, quoted
from ppdm_cli.sidecar import by_line, explained
from ppdm_cli.tables import path_of
from ppdm_cli.trees.exporting import exact_cut
from ppdm_cli.trees.tree import Feature, StoredText, StoredValue, Tree

TREE_FORMAT, TREE_VERSION = "ppdm-tree", 1
LARGEST_TREE = 64 << 20
"""The most bytes of JSON that are written and read."""
_TRAIN_AGAIN = "train it again with ppdm train-tree"
_BEYOND_ASCII = re.compile("[^\n -~]")


class StoredClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: StoredText
    dtype: Annotated[str, Meta(max_length=128)]
    labels: Annotated[list[StoredValue], Meta(min_length=1, max_length=MOST_VALUES)]


class StoredTreeNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A node; a leaf has no test. `cut` is in original units, children are numbered from `child` on."""

    label: StoredValue
    counts: Annotated[list[float], Meta(max_length=MOST_VALUES)]
    test: StoredText | UnsetType = UNSET
    cut: int | float | StoredText | UnsetType = UNSET
    child: Annotated[int, Meta(ge=1, lt=1 << 31)] | UnsetType = UNSET


class StoredTree(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: Literal["ppdm-tree"]
    version: Literal[1]
    tool: Annotated[str, Meta(max_length=128)]
    options: dict[Annotated[str, Meta(max_length=128)], StoredValue | None]
    class_: StoredClass = msgspec.field(name="class")
    features: Annotated[tuple[Feature, ...], Meta(max_length=1 << 16)]
    nodes: Annotated[list[StoredTreeNode], Meta(min_length=1, max_length=1 << 24)]
    roots: Annotated[int, Meta(ge=1, le=1 << 24)] = 1
    """The number of trees: the first so many nodes are their roots."""


def encode_tree(tree: Tree) -> bytes:
    """Return the JSON of a tree, one attribute or node on each line."""
    head = {
        "format": TREE_FORMAT,
        "version": TREE_VERSION,
        "tool": sidecars.TOOL,
        "options": dict(tree.options),
    }
    if tree.roots > 1:
        head["roots"] = tree.roots
    head["class"] = StoredClass(tree.class_name, tree.class_dtype, list(tree.labels))
    dump = msgspec.json.Encoder().encode
    parts = [b"  %s: %s" % (dump(k), dump(v)) for k, v in head.items()]
    for name, rows in (("features", tree.features), ("nodes", [_stored(tree, i) for i in range(tree.size)])):
        parts.append(b"  %s: %s" % (dump(name), by_line(map(dump, rows), b"\n  ")))
    whole = b"{\n" + b",\n".join(parts) + b"\n}\n"
    # what a terminal may obey, or show in another order, is written out
    printable = _BEYOND_ASCII.sub(
        lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], whole.decode()
    )
    if len(data := printable.encode()) > LARGEST_TREE:
        smaller = f"grow a smaller one with {argument('max_depth', 20)} or {argument('min_records', 100)}"
        if tree.roots > 1:
            smaller = f"train fewer trees with {argument('trees', max(2, tree.roots // 4))}"
        what = f"the tree has {tree.size} nodes: as .json it is larger than {LARGEST_TREE >> 20} MiB"
        raise UsageError("tree-too-large", what, smaller)
    return data


def _stored(tree: Tree, node: int) -> StoredTreeNode:
    label = tree.labels[int(tree.label[node])]
    counts = [int(c) if c.is_integer() and c < 2**53 else c for c in tree.counts[node].tolist()]
    if tree.feature[node] < 0:
        return StoredTreeNode(label, counts)
    feature, child = tree.features[int(tree.feature[node])], int(tree.first_child[node])
    at = exact_cut(feature, float(tree.threshold[node])) if feature.numeric else UNSET
    return StoredTreeNode(label, counts, feature.name, at, child)


def decode_tree(data: bytes, where: str) -> Tree:
    """Read a tree strictly; `where` names the file for the error."""
    if len(data) > LARGEST_TREE:
        what = f"the tree {quoted(where)} is larger than {LARGEST_TREE >> 20} MiB"
        raise MismatchError("invalid-tree", what, _TRAIN_AGAIN)
    try:
        stored = msgspec.json.decode(data, type=StoredTree)
        return _built(stored)
    except (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError, TypeError, PpdmError) as error:
        what = error.what if isinstance(error, PpdmError) else explained(data, error, TREE_FORMAT, TREE_VERSION)
        raise MismatchError(
            "invalid-tree", f"{quoted(where)} is not a valid tree: {what}", _TRAIN_AGAIN
        ) from None


def _built(stored: StoredTree) -> Tree:
    features = stored.features
    if any(f.prefix and f.dtype != "string" for f in features):
        raise ValueError("an attribute that isn't text has a prefix")
    labels = tuple(stored.class_.labels)
    numbers, ranks = {f.name: i for i, f in enumerate(features)}, {v: i for i, v in enumerate(labels)}
    nodes = stored.nodes
    if any(len(n.counts) != len(labels) for n in nodes):
        raise ValueError("a node doesn't have one count for each label")
    if any(n.label not in ranks for n in nodes):
        raise ValueError("a node's label isn't one of the class's")
    if any(n.test is not UNSET and n.test not in numbers for n in nodes):
        raise ValueError("a node tests an attribute that is not listed")
    feature = np.array([-1 if n.test is UNSET else numbers[n.test] for n in nodes], np.int32)
    threshold = np.full(len(nodes), np.nan)
    for i, node in enumerate(nodes):
        if node.cut is not UNSET:
            if feature[i] < 0 or not features[feature[i]].numeric:
                raise ValueError("a node has a cut without a numeric test")
            kind = dtypes.parse(features[feature[i]].dtype)
            threshold[i] = dtypes.from_json(node.cut, kind) if isinstance(node.cut, str) else node.cut
    child = np.array([-1 if n.child is UNSET else n.child for n in nodes], np.int32)
    counts = np.array([n.counts for n in nodes], np.float64)
    label = np.array([ranks[n.label] for n in nodes], np.int32)
    class_ = (stored.class_.name, stored.class_.dtype, labels)
    children = np.array([2 if f.numeric else len(f.categories) for f in features] + [0], np.int32)[feature]
    arrays = (feature, threshold, child, children, counts, label)
    tree = Tree(features, *class_, *arrays, dict(stored.options), stored.roots)
    tree.validate()
    return tree


def check_suffix(path: str | Path) -> None:
    """Raise a UsageError unless a file's name says that it is a tree."""
    if Path(path).suffix.lower() != ".json":
        what = f"{quoted(Path(path).name)} doesn't end in .json, the only format of trees"
        raise UsageError("not-a-tree-file", what, "name a .json file, such as tree.json")


def load_tree(path: str | Path) -> Tree:
    """Read a tree from its JSON file."""
    path = path_of(path)
    check_suffix(path)
    if not path.is_file():
        what = f"{quoted(path)} does not exist, or is not a file"
        raise DataError("no-such-tree", what, "name a tree that train-tree wrote")
    files.reading(path)
    with files.readable(path), path.open("rb") as file:
        data = file.read(LARGEST_TREE + 1)
    return decode_tree(data, str(path))
