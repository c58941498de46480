"""The joint distribution of attributes and class, learnt from a release alone.

Two models are tried: the joint table of a grown set of attributes (J) and class-wise forests over all
of them (T). Both are judged by how much likelier held-out published records make the class. A table is
the better ground for a tree, unless the attributes that it has no room for say much more of the class:
then the forest is taken. Where neither gains, there is no model (maths 10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.estimating import Steps
from ppdm_cli.joint.attribute_search import CELLS, THRESHOLD, Found, Growing
from ppdm_cli.joint.forest import Forest, learn_forest
from ppdm_cli.joint.joint_table import JointTable, picked
from ppdm_cli.joint.sample import FOLDS, Sample, read, usable

__all__ = ["CELLS", "Forest", "JointTable", "Learnt", "Sample", "learn", "picked", "read", "usable"]


FAVOUR, MARGIN = 1.1, 2.0
"""By this factor, and so many nats of one fold, must a forest gain from the attributes that J has not."""
TEMPERS = (0.25, 0.5, 0.75, 1.0)
"""Many attributes that say the same make a forest too sure of itself: its log-odds are scaled by the best."""


@dataclass(frozen=True, eq=False)
class Learnt:
    """What a release says of the joint distribution."""

    sample: Sample
    model: JointTable | Forest | None
    gain: float
    """Nats a record by which the class became likelier, on records held out."""
    gains: dict[str, float]
    held: dict[int, JointTable] | dict[int, Forest]
    """The same model learnt without a fold, by fold: what shows how certain it is."""

    @property
    def shares(self) -> Floats:
        """Of the published labels."""
        counts = self.sample.label_counts.sum(axis=0)
        return counts / max(counts.sum(), 1.0)


def learn(sample: Sample, cells: int = CELLS) -> Learnt:
    """The better model of a sample, or none where there is nothing to learn."""
    growing = Growing(sample, cells)
    grown = growing.grown()
    table = 0.0 if grown is None else grown.gain
    order = sorted(range(len(sample.channels)), key=lambda p: -growing.singles[p].gain)
    forest = learn_forest(sample, 0, order) if len(sample.channels) > 1 else None
    gains = {"joint": table, "forest": 0.0 if forest is None else _gain(forest, sample, growing)}
    records = max(sample.records, 1)
    if max(gains.values()) < THRESHOLD:
        return Learnt(sample, None, 0.0, gains, {})
    if forest is not None and (grown is None or _others_matter(forest, grown, sample, growing)):
        model = learn_forest(sample, None, order)
        return Learnt(sample, model, max(gains.values()) / records, gains, {0: forest})
    assert grown is not None
    tables = growing.tables(grown)
    observed = sample.counts(grown.places).sum(axis=0)
    matrices = tuple(sample.matrices[p] for p in grown.places)
    whole = Steps(matrices, observed)(tables.mean(axis=0), max(3, grown.steps // 4))
    held = {f: JointTable(grown.places, matrices, t) for f, t in zip(grown.folds, tables, strict=True)}
    found = JointTable(grown.places, matrices, whole.astype(np.float64))
    return Learnt(sample, found, table / records, gains, held)


def _others_matter(forest: Forest, grown: Found, sample: Sample, growing: Growing) -> bool:
    """Attributes outside J's say much more of the class: so much that a forest, which has all, tells it."""
    others = [p for p in range(len(sample.channels)) if p not in grown.places]
    own = max(_rise(forest, sample, growing, others), 0.0)
    return _rise(forest, sample, growing) > FAVOUR * own + MARGIN


def _gain(forest: Forest, sample: Sample, growing: Growing) -> float:
    """The rise of the held-out class likelihood, measured on one fold and told for all records.

    Nothing where the fold itself does not tell: four times the chance of one fold is no signal.
    """
    rise = _rise(forest, sample, growing)
    return rise * FOLDS if rise >= THRESHOLD else 0.0


def _rise(forest: Forest, sample: Sample, growing: Growing, unseen: Sequence[int] = ()) -> float:
    """The same of the one fold."""
    rows = np.flatnonzero(sample.folds == 0)
    if not rows.size:
        return 0.0
    logs = forest.log_likelihood([c[rows] for c in sample.codes], unseen)
    logs -= logs.max(axis=1, keepdims=True)
    best = -np.inf
    for temper in TEMPERS:
        parts = np.exp(temper * logs) * growing.priors[0]
        own = parts[np.arange(len(rows)), sample.labels[rows]]
        best = max(best, float(np.log(np.maximum(own, 1e-300) / parts.sum(axis=1)).sum()))
    return best - float(growing.base[0])
