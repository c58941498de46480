"""What a tree says, for programs of other makers: every leaf as a rule in the values of a table.

A missing value or a category that training never saw follows the heaviest branch, because C4.5's fractional
records cannot travel; `predict --heaviest` does the same. Numbers are written so that they read back exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor, frexp, inf, nextafter
from typing import Any

import numpy as np
import pyarrow as pa

from ppdm_cli import dtypes
from ppdm_cli.trees.predicting import Descent, Predicted
from ppdm_cli.trees.tree import Feature, Tree


@dataclass(frozen=True)
class Condition:
    """What an attribute is on the way to a leaf: low < value <= high, or a category, or none of some."""

    low: float = -inf
    high: float = inf
    only: tuple[Any, ...] | None = None
    other_than: tuple[Any, ...] = ()
    missing: bool = True
    """Whether a missing value goes this way too."""


def predictions(tree: Tree) -> Predicted:
    """Return what is predicted at each node, as `predict` does where a record ends there."""
    counts = tree.counts.copy()
    for node in np.flatnonzero(counts.sum(axis=1) <= 0).tolist():  # parents come before their children
        counts[node] = counts[tree.parent[node]] if node else 1
    return Predicted.of(counts / counts.sum(axis=1, keepdims=True))


def leaves(tree: Tree) -> dict[int, dict[int, Condition]]:
    """Return each leaf's conditions by attribute; together they hold for every record at exactly one leaf."""
    parent, heaviest = tree.parent, Descent(tree).heaviest
    ways: list[dict[int, Condition]] = [{}]
    for node in range(1, tree.size):
        above = int(parent[node])
        number, branch = int(tree.feature[above]), node - int(tree.first_child[above])
        feature, way = tree.features[number], ways[above]
        before = way.get(number, Condition())
        missing = before.missing and branch == heaviest[above]
        if feature.numeric:
            cut = float(tree.threshold[above])
            low, high = (max(before.low, cut), before.high) if branch else (before.low, min(before.high, cut))
            now = replace(before, missing=missing, low=low, high=high)
        elif branch == heaviest[above]:
            others = tuple(c for i, c in enumerate(feature.categories) if i != branch)
            now = replace(before, missing=missing, other_than=(*before.other_than, *others))
        else:
            category = feature.categories[branch]
            same = before.only is None or category in before.only
            now = replace(before, missing=missing, only=(category,) if same else ())
        ways.append(way | {number: now})
    return {node: ways[node] for node in np.flatnonzero(tree.is_leaf).tolist()}


def last_step(threshold: float, feature: Feature) -> int:
    """Return the last whole step whose number, as a double, is at most a threshold."""
    low, high = dtypes.limits(dtypes.parse(feature.dtype))
    step = floor(threshold)
    if abs(step) >= 1 << 53:  # several whole numbers are one double
        step = (int(threshold) + int(nextafter(threshold, inf))) // 2
        step -= float(step) > threshold
    return min(max(step, int(low)), int(high))


def value_of(value: Any, dtype: str) -> Any:
    """Return a category or label, as a tree stores it, as a number, text or boolean."""
    kind = dtypes.parse(dtype)
    return float(value) if pa.types.is_floating(kind) else value


def exact_parts(number: float) -> tuple[int, int]:
    """Return m and e with number = m 2^e, m odd or 0."""
    mantissa, exponent = frexp(number)
    whole = int(mantissa * (1 << 53))
    if whole == 0:
        return 0, 0
    zeros = (whole & -whole).bit_length() - 1
    return whole >> zeros, exponent - 53 + zeros
