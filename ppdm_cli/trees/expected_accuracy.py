"""Expected accuracy of a tree from a release, for train-tree: with an interval, or none at all.

A record's published values give an unbiased estimate of how much of it lies in each leaf, and so of the
probability that the leaf's label is right (docs/technical/method.md): the mean over records that were held back
has a standard error. With many attributes that is too uncertain; then a model learned from one fold alone
judges the tree grown without it. Its figure and the tree's own model's are on either side of the truth or near
it, so their distance shows how far off they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from math import sqrt
from typing import Literal

import numpy as np

from ppdm_cli.arrays import Floats, Z
from ppdm_cli.channels import Channel
from ppdm_cli.joint import FOLDS, Sample
from ppdm_cli.trees.growing import Grown
from ppdm_cli.trees.records import CodedRecords
from ppdm_cli.trees.tree import majority

Region = Mapping[int, Floats]
"""The codes that reach a node, by attribute; every code for an attribute that is not tested on the path."""
WIDEST_INTERVAL = 0.1
"""The largest half-width of an interval that is given."""
OF_A_TABLE, OF_DRAWN_RECORDS = 0.9, 0.5
"""The place of a tree's accuracy between the judge's figure and its own model's, by its records' kind."""
LEAST_OFF, MISSED = 0.025, 0.5
"""The amount by which both may be off, and the share of their distance (docs/technical/experiments.md)."""
OTHER_TREE = 0.005
"""The amount by which a tree grown without a fold may be better or worse than the tree."""
FEWEST_JUDGES, WEAKEST_JUDGED, MOST_JUDGED_LABELS = 500, 3.0, 8
"""The least records and gamma, and the most labels, with which a judge is used."""


@dataclass(frozen=True)
class ExpectedAccuracy:
    """An accuracy with its 95% interval, or only the baseline: the share of the most common class."""

    baseline: float
    how: Literal["held-out", "judged", "unknown"] = "unknown"
    accuracy: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class AccuracyEvidence:
    """The evidence of a release about a tree."""

    right: Floats
    """An unbiased estimate of whether the tree is right about each record that it was grown without."""
    own: float
    """The share of the records that it is right about, by its own model; NaN if no judge is used."""
    judged: float
    """The same share by a model learned from one fold alone, for the tree grown without that fold."""
    judges: int
    """The records of that fold."""
    trusted: float
    """The place of such a tree's accuracy between the judge's figure and its own model's."""
    gap: float = 0.0
    """The share of records that thresholds within bins may set right."""


def _inverse(channel: Channel) -> Floats:
    """Return the unbiased evidence about the original code, by (original, published) code."""
    if channel.kept:
        return np.eye(channel.domain.size)
    return channel.matrix.solve(np.eye(channel.matrix.outputs))


def rightness(
    sample: Sample, fold: int, records: CodedRecords, grown: Grown, numbers: tuple[int, ...]
) -> Floats:
    """Return an unbiased estimate of whether the tree is right about each record of a fold."""
    rows = np.flatnonzero(sample.folds == fold)
    labels = _inverse(sample.label)[:, sample.labels[rows]]
    inverse = [_inverse(sample.channels[p]) for p in numbers]
    ends = np.cumsum([0, *(len(sample.channels[p].attributes) for p in numbers)])
    owned = [range(a, b) for a, b in pairwise(ends.tolist())]  # the columns of each channel
    every = [np.ones(c.size + c.missing) for c in records.columns]
    right = np.zeros(len(rows))
    label = {0: 0}
    for node, region in regions(records, grown):
        if grown.counts[node].any():  # else its parent's
            label[node] = int(majority(grown.counts[node]))
        if grown.feature[node] >= 0:
            first = int(grown.first_child[node])
            label.update(dict.fromkeys(range(first, first + int(grown.children[node])), label[node]))
            continue
        weight = labels[label[node]].copy()
        for number, solved, columns in zip(numbers, inverse, owned, strict=True):
            if any(c in region for c in columns):
                codes = reduce(np.multiply.outer, [region.get(c, every[c]) for c in columns]).ravel()
                weight *= (codes @ solved)[sample.codes[number][rows]]
        right += weight
    if not sample.label.domain.nulls:
        return right
    # only records with a label count: a ratio of means, linearised for its standard error
    present = labels[: sample.label.domain.ordinary].sum(axis=0)
    share = max(float(present.mean()), 1e-9)
    return np.asarray(right.mean() / share * (1 - present / share) + right / share)


def regions(records: CodedRecords, grown: Grown) -> Iterator[tuple[int, Region]]:
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


def rightness_of_baseline(sample: Sample) -> Floats:
    """Return an unbiased estimate of whether the baseline is right about each record.

    The class is chosen without the record's fold: of many labels the one that chance favours would look more
    common than it is. Nothing is returned if labels are published in several ways, which one inverse can't
    undo.
    """
    if not sample.records or (sample.varies and not sample.label.kept):
        return np.zeros(0)
    present = _inverse(sample.label)[: sample.label.domain.ordinary, sample.labels]
    sums = np.stack([present[:, sample.folds == f].sum(axis=1) for f in range(FOLDS)])
    chosen = (sums.sum(axis=0) - sums).argmax(axis=1)
    right = present[chosen[sample.folds], np.arange(sample.records)]
    return np.asarray(right / max(float(present.sum(axis=0).mean()), 1e-9))


def expected_of_leaf(sample: Sample, baseline: float) -> ExpectedAccuracy:
    """Return the expected accuracy of a tree that knows only the classes' shares."""
    return _given("held-out", *_mean(rightness_of_baseline(sample)), baseline)


def expected_accuracy(evidence: AccuracyEvidence, baseline: float) -> ExpectedAccuracy:
    """Return the accuracy to expect, by the narrower of the two intervals."""
    mean, half = _mean(evidence.right)
    unbiased, judged = (mean, half + OTHER_TREE), _judged(evidence)
    how: Literal["held-out", "judged"] = "held-out" if unbiased[1] <= judged[1] else "judged"
    middle, half = unbiased if how == "held-out" else judged
    return _given(how, middle + evidence.gap / 2, half + evidence.gap / 2, baseline)


def _judged(evidence: AccuracyEvidence) -> tuple[float, float]:
    """Return the accuracy between the judge's figure and the own model's, and its interval's half-width."""
    apart = evidence.own - evidence.judged
    middle = evidence.judged + evidence.trusted * apart
    if np.isnan(apart):
        return middle, np.inf
    by_chance = sqrt(max(middle * (1 - middle), 0.0) / evidence.judges)
    return middle, LEAST_OFF + MISSED * abs(apart) + Z * by_chance


def _mean(values: Floats) -> tuple[float, float]:
    """Return the mean and the half-width of its interval."""
    if len(values) < 2:
        return 0.0, np.inf
    return float(values.mean()), Z * float(values.std(ddof=1)) / sqrt(len(values))


def _given(how: Literal["held-out", "judged"], middle: float, half: float, baseline: float) -> ExpectedAccuracy:
    if half > WIDEST_INTERVAL:
        return ExpectedAccuracy(baseline)
    low, middle, high = (float(np.clip(v, 0, 1)) for v in (middle - half, middle, middle + half))
    return ExpectedAccuracy(baseline, how, middle, low, high)
