"""Packs the nodes that were grown into the tree that is kept: those that can be reached, level by level."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from ppdm_cli.trees.growing import Grown, Options
from ppdm_cli.trees.records import Records
from ppdm_cli.trees.tree import Tree, majority, spans


def packed(records: Records, grown: Grown, options: Options) -> Tree:
    """Return the nodes that can be reached, numbered level by level."""
    levels, nodes = [], np.zeros(1, np.int64)
    while nodes.size:
        levels.append(nodes)
        nodes = nodes[grown.feature[nodes] >= 0]
        nodes = spans(grown.first_child[nodes], grown.children[nodes])
    kept = np.concatenate(levels)
    feature = grown.feature[kept]
    inner = feature >= 0
    children = np.where(inner, grown.children[kept], 0)
    first = np.where(inner, 1 + np.cumsum(children) - children, -1)
    threshold = np.full(len(kept), np.nan)
    for number, column in enumerate(records.columns):
        if column.feature.numeric:
            here = feature == number
            threshold[here] = column.thresholds(grown.cut[kept[here]])
    counts = grown.counts[kept]
    label = majority(counts)
    parent = np.concatenate([[0], np.repeat(np.arange(len(kept)), children)])
    for node in np.flatnonzero(counts.sum(axis=1) <= 0):
        label[node] = label[parent[node]]
    return Tree(
        tuple(c.feature for c in records.columns),
        records.class_name,
        records.class_dtype,
        records.labels,
        feature.astype(np.int32),
        threshold,
        first.astype(np.int32),
        children.astype(np.int32),
        counts,
        label.astype(np.int32),
        asdict(options),
    )
