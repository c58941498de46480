"""Which leaf each record is in, and whether a tree's leaves hold what some records say they must."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ppdm_cli import dtypes
from ppdm_cli.engine import Batch
from ppdm_cli.errors import MismatchError, quoted
from ppdm_cli.trees.predicting import Descent
from ppdm_cli.trees.tree import Tree

OTHER_DATA = "give the tree that ppdm train-tree made of this very table, without --weights"


class Membership:
    """Finds a batch's leaves and classes; a missing value goes the way of most training records."""

    def __init__(self, tree: Tree) -> None:
        self.tree, self._descent = tree, Descent(tree)
        self.nodes = np.flatnonzero(tree.is_leaf)
        """The node of each leaf."""
        self._number = np.cumsum(tree.is_leaf) - 1
        kind = dtypes.parse(tree.class_dtype)
        self._labels = dtypes.column([dtypes.from_json(v, kind) for v in tree.labels], kind)

    def leaves(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of each record's leaf, and whether no value was missing on the way."""
        outcomes, tree = self._descent.outcomes(batch), self.tree
        node, sure = np.zeros(batch.rows, np.int64), np.ones(batch.rows, bool)
        below = np.arange(batch.rows if tree.feature[0] >= 0 else 0)
        while below.size:
            child = self._descent.child(outcomes, below, node[below])
            sure[below[child < 0]] = False
            child = np.where(child < 0, self._descent.heaviest[node[below]], child)
            node[below] = tree.first_child[node[below]] + child
            below = below[tree.feature[node[below]] >= 0]
        return self._number[node], sure

    def classes(self, batch: Batch) -> np.ndarray:
        """Return the codes of the class."""
        array = dtypes.plain(batch.column(self.tree.class_name))
        codes = pc.index_in(array, value_set=self._labels)
        if array.null_count or codes.null_count:
            row = int(np.flatnonzero(codes.is_null().to_numpy(zero_copy_only=False) | ~_valid(array))[0])
            raise MismatchError(
                f"the class {quoted(self.tree.class_name)} has a value in {batch.where(row)} that the tree "
                "does not know",
                OTHER_DATA,
            )
        return np.asarray(codes.to_numpy(zero_copy_only=False), np.int64)

    def column(self, codes: np.ndarray) -> pa.Array:
        """Return the class's column for codes."""
        return self._labels.take(pa.array(codes))

    def check(self, sure: np.ndarray, unsure: np.ndarray) -> None:
        """Raise an error unless the tree has the counts of its records.

        `sure` counts by (leaf, class) those without a missing value on their way, `unsure` the others by
        class, each of which the tree has in several leaves in part.
        """
        counts = self.tree.counts[self.nodes]
        room = 1e-6 * max(float(sure.sum() + unsure.sum()), 1.0)
        fits = (counts >= sure - room) & (counts <= sure + unsure + room)
        whole = np.abs(counts.sum(axis=0) - sure.sum(axis=0) - unsure) <= room
        if not (fits.all() and whole.all()):
            raise MismatchError(
                "the tree's leaves do not hold as many records as the data has there", OTHER_DATA
            )


def _valid(array: pa.Array) -> np.ndarray:
    return np.asarray(pc.is_valid(array).to_numpy(zero_copy_only=False))
