"""A model of the same kind, learnt from one fold alone: a judge of trees that were grown without it.

What chance did to the records that a tree was grown from is not in the fold. But the fold has a quarter of the
records, so what it shows is blurred: such a judge finds trees worse than they are (docs/method.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.estimating import Part, Steps, shares
from ppdm_cli.joint.attribute_search import fitted
from ppdm_cli.joint.forest import Branch
from ppdm_cli.joint.joint_table import JointTable
from ppdm_cli.joint.model import Model
from ppdm_cli.joint.sample import Sample

STEPS = 40
"""Of each table that a model is made of, from attributes independent of each other and of the class."""


def alone(model: Model, sample: Sample, fold: int) -> Model:
    """Return a model with the structure of another, learnt from the records of one fold."""
    rows = np.flatnonzero(sample.folds == fold)
    own = replace(
        sample, codes=[c[rows] for c in sample.codes], labels=sample.labels[rows], folds=sample.folds[rows]
    )
    known = own.shares(own.counts([]).sum(axis=0).astype(np.float64))
    spread = {}
    for place in model.places:
        matrix, counts = sample.matrices[place], own.counts([place]).sum(axis=(0, 1)).astype(np.float64)
        even = np.full((1, matrix.shape[1]), 1 / matrix.shape[1])
        spread[place] = Steps(Part([matrix], shares(counts[None])))(even, STEPS)[0]

    def table(places: Sequence[int]) -> Floats:
        start = known
        for place in places:
            start = start[..., None] * spread[place]
        seen = own.seen(places)
        return fitted(seen, [s.counts.sum(axis=0) for s in seen], start, STEPS)

    if isinstance(model.within, JointTable):
        return table_model(own, model.places, table(model.places))
    tables: dict[tuple[int, ...], Floats] = {}

    def learnt(label: int, branch: Branch) -> Branch:
        pair = tuple(sorted(p for p in (branch.place, branch.parent) if p >= 0))
        if pair not in tables:
            tables[pair] = table(pair) + 1e-12
        cells = tables[pair][label].reshape(1, -1) if branch.parent < 0 else tables[pair][label]
        return replace(branch, chances=shares(cells if branch.parent <= pair[0] else cells.T))

    classes = [tuple(learnt(c, b) for b in branches) for c, branches in enumerate(model.within.classes)]
    return replace(model, shares=known, within=replace(model.within, classes=tuple(classes)))


def table_model(sample: Sample, places: Sequence[int], table: Floats) -> Model:
    """Return the model that a table of class and attributes is."""
    table = np.asarray(table, np.float64)
    cells = tuple(range(1, table.ndim))
    totals = table.sum(axis=cells)
    # a class that nobody seems to have is like any other
    flat = table + 1e-9 * table.sum(axis=0) + 1e-30
    within = flat / flat.sum(axis=cells, keepdims=True)
    matrices = tuple(sample.matrices[p] for p in places)
    return Model(
        sample.label_matrix,
        totals / totals.sum(),
        JointTable(tuple(places), matrices, within),
        coins=sample.coins,
    )
