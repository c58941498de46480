"""Names, labels and cuts of a tree as people read them, whatever characters they have.

Control characters are written out, long texts shortened, and what could be mistaken for a part of
the tree's own text is put in quotes.
"""

from __future__ import annotations

import re
from math import floor
from typing import Any

import numpy as np

from ppdm_cli import dtypes
from ppdm_cli.errors import one_line
from ppdm_cli.trees.tree import Feature, Tree

LONGEST = 40
"""The most characters of a name or label that are shown."""
_PLAIN = re.compile(r"[^\W_][\w.+/%-]*(?: [\w.+/%-]+)*|-?\d[\w.+-]*")


def plain(value: Any, longest: int = LONGEST) -> str:
    """Return one line of at most `longest` characters."""
    text = one_line(str(value)[: longest + 1])
    return text if len(text) <= longest else text[: longest - 1] + "\u2026"


def word(value: Any, longest: int = LONGEST) -> str:
    """Return the line in quotes unless it consists of letters, digits and the like."""
    text = plain(value, longest)
    if _PLAIN.fullmatch(str(value)) and text:
        return text
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def cut(feature: Feature, threshold: float) -> int | float | str:
    """Return a threshold in original units: a date, a decimal, a number; exact, so that it can be read back.

    What the column's type cannot write stays a number in units of its carrier.
    """
    kind = dtypes.parse(feature.dtype)
    low, high = dtypes.limits(kind)
    if isinstance(dtypes.to_json(0, kind), str):
        whole = float(threshold).is_integer() and low <= threshold <= high
        if whole and float(int(threshold)) == threshold:
            return dtypes.to_json(int(threshold), kind)
    number = float(threshold)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def cut_text(feature: Feature, threshold: float) -> str:
    """Return the threshold for people; for whole steps, the last step below it."""
    kind = dtypes.parse(feature.dtype)
    low, high = dtypes.limits(kind)
    if dtypes.is_whole(kind) and low <= threshold <= high:
        return str(dtypes.to_json(floor(threshold), kind))
    if feature.dtype == "float":
        return f"{threshold:.9g}"
    return str(cut(feature, threshold))


def _edge(feature: Feature, threshold: float) -> float | int | None:
    """Return the round number just above a threshold, where there is one: a bin ends before it."""
    if feature.dtype != "double":
        return None
    above = cut(feature, float(np.nextafter(threshold, np.inf)))
    assert not isinstance(above, str)
    return above if len(repr(above)) + 4 < len(repr(threshold)) else None


def outcome(tree: Tree, node: int, branch: int, rounded: bool = False) -> str:
    """Return the test's outcome that leads to a child: `<= 39.9`, `> 39.9`, `= north`; in a picture rounded.

    A bin's end is told by its edge: `< 40`, `>= 40`.
    """
    feature = tree.features[int(tree.feature[node])]
    if feature.numeric:
        edge = _edge(feature, float(tree.threshold[node]))
        if edge is not None:
            return f"{('<', '>=')[branch]} {edge}"
        if rounded and feature.dtype in ("double", "float"):
            return f"{('<=', '>')[branch]} {tree.threshold[node]:.6g}"
        return ("<= ", "> ")[branch] + cut_text(feature, float(tree.threshold[node]))
    return f"= {word(feature.categories[branch])}"


def attribute(tree: Tree, node: int) -> str:
    return word(tree.features[int(tree.feature[node])].name)


def label(tree: Tree, node: int) -> str:
    return word(tree.labels[int(tree.label[node])])


def cases(tree: Tree, node: int) -> str:
    """Return `(120.0/3.0)`: the weight of the training records, and of those with another label."""
    total = float(tree.counts[node].sum())
    wrong = total - float(tree.counts[node, tree.label[node]])
    return f"({total:.1f}/{wrong:.1f})" if wrong >= 0.05 else f"({total:.1f})"


def rules_of(tree: Tree) -> dict[int, str]:
    """Return each leaf's rule in one line: the tests on its way."""
    parent, told, found = tree.parent, [""], {}
    for node in range(1, tree.size):
        above = int(parent[node])
        test = f"{attribute(tree, above)} {outcome(tree, above, node - int(tree.first_child[above]))}"
        told.append(f"{told[above]}, {test}" if told[above] else test)
    for node in np.flatnonzero(tree.is_leaf).tolist():
        found[node] = told[node] or "all"
    return found
