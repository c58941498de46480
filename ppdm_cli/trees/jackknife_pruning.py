"""Pruning that knows how certain an estimated table is: what a subtree saves must stand out.

The table was also learnt without each of the folds. How much a subtree's saving differs between these
tables gives its standard error (the delete-a-group jackknife, Kott 2001); a subtree that saves less than
half of it, or for each leaf less than a ten-thousandth of the records, with two classes, becomes a leaf
(docs/method.md has the measurements).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.trees.growing import Grown
from ppdm_cli.trees.histograms import Entries
from ppdm_cli.trees.records import Records
from ppdm_cli.trees.regions import descended
from ppdm_cli.trees.tree import majority

ERRORS = 0.5
"""Standard errors that a subtree must save."""
LEAF = 2e-4
"""The share of the records that each more leaf must save, divided by the number of classes."""


def landed(records: Records, grown: Grown, weights: Any) -> Floats:
    """Return by (leaf, column) the sums of weights (records, columns) of the records that end there."""
    from scipy.sparse import csr_array  # on first use: it costs a tenth of a second

    ends: list[Entries] = []
    for entries in descended(records, grown, np.ones(records.rows)):
        ends.append(entries.at(np.flatnonzero(grown.feature[entries.slot] < 0)))
    share, slot, record = (
        np.concatenate([getattr(e, name) for e in ends]) for name in ("weight", "slot", "record")
    )
    found = csr_array((share, (slot, record)), (len(grown.feature), records.rows)) @ weights
    return np.asarray(found if isinstance(found, np.ndarray) else found.toarray(), np.float64)


def prune(grown: Grown, inside: Floats) -> None:
    """Turn subtrees into leaves, in place.

    `inside` are the weights that end in each leaf, by (node, table, class): the table's own, then those of one
    without each fold.
    """
    total = float(inside[:, 0].sum())
    inner = np.flatnonzero(grown.feature >= 0)[::-1].tolist()  # children come after their parents
    for node in inner:
        inside[node] = inside[_children(grown, node)].sum(axis=0)
    labels = majority(grown.counts)
    right = np.take_along_axis(inside, labels[:, None, None], axis=2)[:, :, 0]
    leaves = np.ones(len(right))
    folds, least = inside.shape[1] - 1, LEAF / inside.shape[2] * total
    for node in inner:
        children = _children(grown, node)
        below, count = right[children].sum(axis=0), leaves[children].sum()
        saved = below - right[node]
        apart = saved[1:] - saved[1:].mean()
        error = float(np.sqrt((folds - 1) / folds * (apart**2).sum()))
        if saved[0] <= max(ERRORS * error, least * (count - 1)) + 1e-9 * total:
            grown.feature[node] = -1
        else:
            right[node], leaves[node] = below, count


def _children(grown: Grown, node: int) -> slice:
    return slice(grown.first_child[node], grown.first_child[node] + grown.children[node])
