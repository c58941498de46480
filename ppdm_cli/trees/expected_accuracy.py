"""The accuracy to expect of a tree from a release, measured on published records that were held back.

A record's published values say, without bias, how much of it lies in each leaf, and so how likely the
leaf's label is right (maths 2): the mean over many records has a standard error. Where that says too
little, the model's own opinion is given, and called so.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.channels import Channel
from ppdm_cli.joint import Sample
from ppdm_cli.stats import Z
from ppdm_cli.trees.growing import Grown
from ppdm_cli.trees.records import Records
from ppdm_cli.trees.regions import regions
from ppdm_cli.trees.tree import majority

WIDEST = 0.1
"""The largest half-width of an interval; beyond it the model's own estimate says more."""


@dataclass(frozen=True)
class Expected:
    """An accuracy, and its 95 % interval where it was measured."""

    accuracy: float
    how: Literal["held-out", "model"]
    low: float | None = None
    high: float | None = None


def _inverse(channel: Channel) -> Floats:
    """Return by (original, published) code what a published code tells of the original one, unbiased."""
    if channel.kept:
        return np.eye(channel.domain.size)
    return channel.matrix.solve(np.eye(channel.matrix.outputs))


def rightness(sample: Sample, fold: int, records: Records, grown: Grown, places: tuple[int, ...]) -> Floats:
    """Return for each record of a fold an unbiased estimate of whether the tree is right about it."""
    rows = np.flatnonzero(sample.folds == fold)
    labels = _inverse(sample.label)[:, sample.labels[rows]]
    inverse = [_inverse(sample.channels[p]) for p in places]
    right = np.zeros(len(rows))
    said = {0: 0}
    for node, region in regions(records, grown):
        if grown.counts[node].any():  # else its parent's
            said[node] = int(majority(grown.counts[node]))
        if grown.feature[node] >= 0:
            first = int(grown.first_child[node])
            said.update(dict.fromkeys(range(first, first + int(grown.children[node])), said[node]))
            continue
        weight = labels[said[node]].copy()
        for axis, codes in region.items():
            weight *= (codes @ inverse[axis])[sample.codes[places[axis]][rows]]
        right += weight
    if not sample.label.domain.nulls:
        return right
    # only records with a label count: a ratio of means, linearised for its standard error
    present = labels[: sample.label.domain.ordinary].sum(axis=0)
    share = max(float(present.mean()), 1e-9)
    return np.asarray(right.mean() / share * (1 - present / share) + right / share)


def expected(right: list[Floats], model: float, gap: float) -> Expected:
    """Return the expected accuracy from held-out records; `gap` is what thresholds in bins may set right."""
    every = np.concatenate(right) if right else np.zeros(0)
    if len(every) > 1:
        mean, half = float(every.mean()), Z * float(every.std(ddof=1)) / sqrt(len(every))
        if half + gap / 2 <= WIDEST:
            middle, half = mean + gap / 2, half + gap / 2
            return Expected(
                float(np.clip(middle, 0, 1)), "held-out", max(0.0, middle - half), min(1.0, middle + half)
            )
    return Expected(min(1.0, model + gap / 2), "model")
