"""Pruning that knows how certain an estimated table is: what a subtree saves must stand out.

The table was also learnt without each of the folds. How much a subtree's saving differs between these
tables gives its standard error (the delete-a-group jackknife, Kott 2001); a subtree that saves less than
half of it, or less than a ten-thousandth of the records a leaf, becomes a leaf (docs/method.md has the
measurements).
"""

from __future__ import annotations

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.trees.growing import Grown
from ppdm_cli.trees.records import Records
from ppdm_cli.trees.regions import descended
from ppdm_cli.trees.tree import majority

ERRORS = 0.5
"""Standard errors that a subtree must save."""
LEAF = 1e-4
"""The share of the records that each more leaf must save."""


def prune(cells: Records, grown: Grown, tables: Floats) -> None:
    """Turn subtrees into leaves, in place.

    `cells` are records of one class; `tables` are (tables, classes, cells): the table itself, then one a fold.
    """
    weight = tables[0].sum(axis=0)
    inside = np.zeros((len(grown.feature), *tables.shape[:2]))
    for entries in descended(cells, grown, weight):
        ended = entries.at(np.flatnonzero(grown.feature[entries.slot] < 0))
        share = ended.weights() / weight[ended.record]
        for t in range(tables.shape[0]):
            for c in range(tables.shape[1]):
                inside[:, t, c] += np.bincount(ended.slot, tables[t, c, ended.record] * share, len(inside))
    inner = np.flatnonzero(grown.feature >= 0)[::-1].tolist()  # children come after their parents
    for node in inner:
        inside[node] = inside[_children(grown, node)].sum(axis=0)
    labels = majority(grown.counts)
    right = np.take_along_axis(inside, labels[:, None, None], axis=2)[:, :, 0]
    leaves = np.ones(len(right))
    folds, total = len(tables) - 1, float(weight.sum())
    for node in inner:
        children = _children(grown, node)
        below, count = right[children].sum(axis=0), leaves[children].sum()
        saved = below - right[node]
        apart = saved[1:] - saved[1:].mean()
        error = float(np.sqrt((folds - 1) / folds * (apart**2).sum()))
        if saved[0] <= max(ERRORS * error, LEAF * total * (count - 1)) + 1e-9 * total:
            grown.feature[node] = -1
        else:
            right[node], leaves[node] = below, count


def _children(grown: Grown, node: int) -> slice:
    return slice(grown.first_child[node], grown.first_child[node] + grown.children[node])
