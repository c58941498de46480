"""A learnt model of class and attributes: shares of the original classes, and a law within each.

What a record says of its class goes through the class's own channel: with a kept class that is the published
label, with a perturbed one the label is evidence like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.joint.forest import Forest
from ppdm_cli.joint.joint_table import TINY, JointTable, normalised


@dataclass(frozen=True, eq=False)
class Model:
    """p(original class, original values)."""

    label: Floats
    """p(published label | original class)"""
    shares: Floats
    """Of the original classes."""
    within: JointTable | Forest
    temper: float = 1.0
    """Many attributes that say the same make a model too sure: its log-odds of the class are scaled."""

    @property
    def places(self) -> tuple[int, ...]:
        return self.within.places

    def joint(self, likelihood: Floats) -> Floats:
        """Return p(class, published attributes) up to a factor a record, from the likelihood by class."""
        if self.temper != 1:
            likelihood = (likelihood / np.maximum(likelihood.max(axis=1, keepdims=True), TINY)) ** self.temper
        return likelihood * self.shares

    def chances(self, codes: Sequence[Codes], labels: Codes) -> Floats:
        """Return p(class | published record), (records, classes)."""
        return normalised(self.joint(self.within.likelihood(codes)) * self.label[labels])

    def scores(self, likelihood: Floats, labels: Codes) -> Floats:
        """Return log p(published label | published attributes) of each record."""
        joint = self.joint(likelihood)
        own = (joint * self.label[labels]).sum(axis=1)
        return np.asarray(np.log(np.maximum(own, TINY) / np.maximum(joint.sum(axis=1), TINY)))

    def marginals(self, codes: Sequence[Codes], labels: Codes) -> list[Floats]:
        """Return for each place the posterior of its original codes given the published record."""
        chances = self.chances(codes, labels)
        found: list[Floats] = []
        for c in np.flatnonzero(chances.any(axis=0)).tolist():
            rows = np.flatnonzero(chances[:, c])
            own = self.within.marginals([code[rows] for code in codes], np.full(len(rows), c))
            found = found or [np.zeros((len(labels), m.shape[1])) for m in own]
            for all_, m in zip(found, own, strict=True):
                all_[rows] += normalised(m) * chances[rows, c, None]
        return found


def unseeing(model: Model, kept: Sequence[bool], label: bool) -> Model:
    """Return the model with matrices that tell nothing but of what was kept: attributes, and the `label`."""
    within = model.within
    own = [kept[p] for p in model.places]
    matrices = tuple(m if k else np.ones_like(m) for m, k in zip(within.matrices, own, strict=True))
    told = model.label if label else np.ones_like(model.label)
    return replace(model, label=told, within=replace(within, matrices=matrices))
