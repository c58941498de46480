"""Random trees, with names and labels that no format may trip over."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ppdm_cli import dtypes
from ppdm_cli.tables import PendingFile, commit
from ppdm_cli.trees.storing import encode_tree
from ppdm_cli.trees.tree import Feature, Tree
from tests import strategies as ours

HOSTILE = (
    "new\nline", 'quo"te', "it's", "<b>&amp;</b>", "\\N\\l\\", "a <= 3: B (5.0)",
    "\U0001f333", "\u202eright", "\x00\x07",
    "]]>", "--", "x" * 10_000, "n1 -> n2; }", "\u4e2d\u6587", "\ufffe", " ", "",
)  # fmt: skip


@st.composite
def trees(draw: st.DrawFn, most: int = 25) -> Tree:
    """A whole tree, or several, over features of any type; level by level, as training numbers them."""
    words = st.one_of(ours.names, st.sampled_from([h for h in HOSTILE if h and len(h) < 4096]))
    listed = draw(st.lists(words, min_size=2, max_size=6, unique=True))
    features = []
    for name in listed[1:]:
        kind = draw(ours.kinds)
        numeric = not dtypes.is_discrete(kind) and draw(st.booleans())
        values: tuple[Any, ...] = ()
        if not numeric:
            found = draw(st.lists(ours.carriers(kind), min_size=1, max_size=4, unique=True))
            values = tuple(dtypes.to_json(v, kind) for v in sorted(found))
        features.append(Feature(name, str(kind), numeric, values))
    labels = tuple(sorted(draw(st.lists(words, min_size=1, max_size=4, unique=True))))
    feature, threshold, first, counts = [], [], [], []
    nodes = roots = draw(st.sampled_from([1, 1, 2, 5]))
    at = 0
    while at < nodes:
        at += 1
        place = draw(st.integers(-1, len(features) - 1)) if nodes < most else -1
        feature.append(place)
        first.append(nodes if place >= 0 else -1)
        numeric = place >= 0 and features[place].numeric
        kind = dtypes.parse(features[place].dtype)
        threshold.append(float(draw(ours.carriers(kind))) if numeric else np.nan)
        counts.append(draw(st.lists(st.floats(0, 1e6), min_size=len(labels), max_size=len(labels))))
        if place >= 0:
            nodes += 2 if numeric else len(features[place].categories)
    children = [0 if f < 0 else 2 if features[f].numeric else len(features[f].categories) for f in feature]
    table = np.array(counts, float)
    tree = Tree(
        tuple(features),
        listed[0],
        "string",
        labels,
        np.array(feature, np.int32),
        np.array(threshold),
        np.array(first, np.int32),
        np.array(children, np.int32),
        table,
        table.argmax(axis=1).astype(np.int32),
        {"criterion": "gain"},
        roots,
    )
    tree.validate()
    return tree


def hostile_tree() -> Tree:
    """Every hostile text as a category, an attribute, a label."""
    n = len(HOSTILE)
    features = (
        Feature("k\n\"'<&", "string", False, tuple(sorted(HOSTILE))),
        Feature("x" * 10_000, "date32[day]", True),
    )
    feature = np.array([0, 1, *[-1] * (n + 1)], np.int32)
    counts = np.arange((n + 3) * n, dtype=float).reshape(-1, n)
    labels = tuple(sorted(HOSTILE))
    return Tree(
        features, "\u202e<class>\"", "string", labels, feature,
        np.array([np.nan, 12_345, *[np.nan] * (n + 1)]),
        np.array([1, n + 1, *[-1] * (n + 1)], np.int32),
        np.array([n, 2, *[0] * (n + 1)], np.int32),
        counts, np.arange(n + 3).astype(np.int32) % n, {},
    )  # fmt: skip


def chain(depth: int) -> Tree:
    """A tree that goes one way, as deep as asked."""
    n = 2 * depth + 1
    inner = np.arange(n) % 2 == 0
    inner[-1] = False
    at = np.arange(n)
    return Tree(
        (Feature("age", "double", True),), "group", "string", ("A", "B"),
        np.where(inner, 0, -1).astype(np.int32), np.where(inner, at + 0.5, np.nan),
        np.where(inner, at + 1, -1).astype(np.int32), np.where(inner, 2, 0).astype(np.int32),
        np.ones((n, 2)), np.zeros(n, np.int32), {},
    )  # fmt: skip


def same(one: Tree, other: Tree) -> bool:
    words = ("features", "class_name", "class_dtype", "labels", "roots")
    arrays = ("feature", "threshold", "first_child", "children", "counts", "label")
    return all(getattr(one, w) == getattr(other, w) for w in words) and all(
        np.array_equal(getattr(one, a), getattr(other, a), equal_nan=a == "threshold") for a in arrays
    )


def write(tree: Tree, path: Path, force: bool = False) -> None:
    """Write a tree to a file, as train-tree does."""
    with ExitStack() as stack:
        file = stack.enter_context(PendingFile(path, force))
        file.put(encode_tree(tree))
        commit(file)
