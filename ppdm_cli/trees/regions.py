"""The regions of the domain that belong to the nodes, and the way of weighted cells down to them.

A region is a product: for each attribute a weight of each of its codes, 1 or 0, and for null the share of
the missing values that C4.5 sends there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.trees.growing import Grown, step
from ppdm_cli.trees.histograms import Entries
from ppdm_cli.trees.records import Records

Region = Mapping[int, Floats]
"""The codes that reach a node, by attribute; of one that is not tested on the way, every code."""


def regions(records: Records, grown: Grown) -> Iterator[tuple[int, Region]]:
    """Yield every node that can be reached and its region, parents first."""
    waiting: list[tuple[int, dict[int, Floats]]] = [(0, {})]
    for node, region in waiting:
        yield node, region
        tested = int(grown.feature[node])
        if tested < 0:
            continue
        column = records.columns[tested]
        first, children = int(grown.first_child[node]), int(grown.children[node])
        weights = grown.counts[first : first + children].sum(axis=1)
        parts = weights / max(weights.sum(), 1e-300)
        codes = np.arange(column.size)
        child = (codes > grown.cut[node]).astype(int) if column.feature.numeric else codes
        own = region.get(tested, np.ones(column.size + column.missing))
        for nth in range(children):
            here = own.copy()
            here[: column.size] *= child == nth
            here[column.size :] *= parts[nth]
            waiting.append((first + nth, {**region, tested: here}))


def descended(records: Records, grown: Grown, weight: Floats) -> Iterator[Entries]:
    """Yield the entries of weighted records on their way down, level by level; slots are nodes."""
    kids = np.where(grown.feature >= 0, grown.children, 0)
    entries = Entries(np.arange(records.rows), np.zeros(records.rows, np.int64), weight)
    while entries.record.size:
        yield entries
        entries = entries.at(np.flatnonzero(grown.feature[entries.slot] >= 0))
        if entries.record.size:
            entries = step(records, entries, grown.feature, grown.cut, grown.first_child, kids)
