"""A tree as text for people: C4.5's look, each leaf's rule, names, labels and cuts.

Reports, exports as text and notebooks use it. Control characters are written out, long texts shortened, and
what could be mistaken for a part of the tree's own text is put in quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import floor

import numpy as np

from ppdm_cli import dtypes
from ppdm_cli.errors import one_line
from ppdm_cli.trees.tree import Feature, Tree

LONGEST_NAME = 40
"""The most characters of a name or label in a line."""
_PLAIN = re.compile(r"[^\W_][\w.+/%-]*(?: [\w.+/%-]+)*|-?\d[\w.+-]*")


def as_text(tree: Tree) -> str:
    """Return the tree as C4.5 and J48 print it."""
    summary = f"\nNumber of Leaves  : \t{tree.leaves}\n\nSize of the tree : \t{tree.size}\n"
    return "".join(f"{line}\n" for _, line in outlined(tree)) + summary


def outlined(tree: Tree) -> Iterator[tuple[int, str]]:
    """Yield each line, depth first, with the node that it leads to."""
    if tree.feature[0] < 0:
        yield 0, _leaf(tree, 0)
        return
    waiting = [(0, branch, 0) for branch in reversed(range(int(tree.children[0])))]
    while waiting:
        node, branch, depth = waiting.pop()
        child = int(tree.first_child[node]) + branch
        line = "|   " * depth + _test(
            tree.features[int(tree.feature[node])], float(tree.threshold[node]), branch
        )
        if tree.feature[child] < 0:
            yield child, line + _leaf(tree, child)
        else:
            yield child, line
            waiting += [(child, b, depth + 1) for b in reversed(range(int(tree.children[child])))]


def rules_of(tree: Tree) -> dict[int, str]:
    """Return each leaf's rule in one line: the tests on its way."""
    rules = [""]
    for _, above, feature, branch in tree.branches():
        test = _test(feature, float(tree.threshold[above]), branch)
        rules.append(f"{rules[above]}, {test}" if rules[above] else test)
    return {node: rules[node] or "all" for node in np.flatnonzero(tree.is_leaf).tolist()}


def _leaf(tree: Tree, node: int) -> str:
    """Return `: A (120.0/3.0)`: the label, the weight of the training records and of those with another
    label."""
    total = float(tree.counts[node].sum())
    wrong = total - float(tree.counts[node, tree.label[node]])
    held = f"({total:.1f}/{wrong:.1f})" if wrong >= 0.05 else f"({total:.1f})"
    return f": {_quoted(tree.labels[int(tree.label[node])])} {held}"


def _test(feature: Feature, threshold: float, branch: int) -> str:
    """Return the outcome that leads to a child: `age <= 39.9`, `region = north`; bins by their edges: `age <
    40`."""
    name = _quoted(feature.name)
    if not feature.numeric:
        return f"{name} = {_quoted(feature.categories[branch])}"
    if feature.dtype == "double":  # a bin ends before a round number
        above = exact_cut(feature, float(np.nextafter(threshold, np.inf)))
        if len(repr(above)) + 4 < len(repr(threshold)):
            return f"{name} {('<', '>=')[branch]} {above}"
    return f"{name} {('<=', '>')[branch]} {_cut(feature, threshold)}"


def _cut(feature: Feature, threshold: float) -> str:
    """Return a threshold for people; for whole steps, the last step below it."""
    kind = dtypes.parse(feature.dtype)
    low, high = dtypes.limits(kind)
    if dtypes.is_whole(kind) and low <= threshold <= high:
        return str(dtypes.to_json(floor(threshold), kind))
    return f"{threshold:.9g}" if feature.dtype == "float" else str(exact_cut(feature, threshold))


def exact_cut(feature: Feature, threshold: float) -> int | float | str:
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


def _quoted(value: object) -> str:
    """Return a name or label in one line, in quotes unless it consists of letters, digits and the like."""
    text = shortened(value)
    if _PLAIN.fullmatch(str(value)) and text:
        return text
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def shortened(value: object, longest: int = LONGEST_NAME) -> str:
    """Return a value in one line of at most `longest` characters."""
    text = one_line(str(value)[: longest + 1])
    return text if len(text) <= longest else text[: longest - 1] + "\u2026"
