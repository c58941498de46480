"""Drawing original values from their posterior, given a record's published values and class (maths 10).

Each record by itself: what its values say of each other stays, as far as the model knows it. The labels of a
perturbed class are weighted so that their totals are to be expected as they are estimated. The draws follow
from the release and the row's address, so that every pass draws the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ppdm_cli.arrays import Codes, Floats, code_type
from ppdm_cli.channels import Channel
from ppdm_cli.engine import Batch, fold
from ppdm_cli.estimating import ESTIMATORS, encoded, matrices_of
from ppdm_cli.joint import Forest, JointTable, Learnt, Sample, picked
from ppdm_cli.reconstructing.raking import Expected, step, weighted
from ppdm_cli.repeatable import hashed, uniform
from ppdm_cli.tables import Table

ROWS = 1 << 13
"""Records that are drawn at a time: their chances stay in the processor's cache."""
FIRST_CHANCES = 1 << 22
"""Chances of labels that the first weights are solved with, in memory."""
FIRST_STEPS, MOST_PASSES = 100, 10
LEAST = 1e-6
"""At least this share of what the label's share alone would make a chance: any totals can then be had."""


@dataclass(frozen=True, eq=False)
class Drawer:
    """A learnt model, ready to be applied to batches."""

    model: JointTable | Forest
    channels: tuple[Channel, ...]
    """Those that the model's places count over."""
    label: Channel
    shares: Floats
    """Of the published labels."""
    release: str
    prior: Floats
    weights: Floats

    @classmethod
    def of(cls, learnt: Learnt, release: str) -> Drawer:
        assert learnt.model is not None
        sample = learnt.sample
        labels = sample.label.domain.size
        even = np.full(labels, 1 / labels)
        return cls(learnt.model, sample.channels, sample.label, learnt.shares, release, even, np.ones(labels))

    @property
    def names(self) -> list[str]:
        """The attributes that are drawn."""
        return [self.channels[p].name for p in self.model.places]

    def __call__(self, batch: Batch) -> tuple[Codes, dict[str, Codes]]:
        """Return the original labels, and by name the original codes of all that is drawn."""
        start = hashed([self.release, "label", self.label.name])
        channels = [*(self.channels[p] for p in self.model.places), self.label]
        drawn = {c.name: np.empty(batch.rows, code_type(c.domain.size)) for c in channels}
        for part, labels, found in self.drawn(batch):
            for name, codes in zip(self.names, found, strict=True):
                drawn[name][part] = codes
            if not self.label.kept:
                rows = np.arange(part.start, part.start + len(labels)) + batch.first_row
                labels = picked(self.chances(labels, found) * self.weights, uniform(rows, start))
            drawn[self.label.name][part] = labels
        labels = drawn[self.label.name]
        if self.label.kept:
            del drawn[self.label.name]
        return labels, drawn

    def drawn(self, batch: Batch) -> Iterator[tuple[slice, Codes, list[np.ndarray]]]:
        """Yield some records at a time with published labels and drawn values, the same in every pass."""
        labels = encoded(batch, self.label.name, self.label.published)
        published: list[Codes] = [labels] * len(self.channels)  # those not in the model are never looked at
        for place in self.model.places:
            channel = self.channels[place]
            published[place] = encoded(batch, channel.name, channel.published)
        return self.parts(published, labels, np.arange(batch.first_row, batch.first_row + batch.rows), "draw")

    def parts(
        self, published: Sequence[Codes], labels: Codes, addresses: np.ndarray, purpose: str
    ) -> Iterator[tuple[slice, Codes, list[np.ndarray]]]:
        """Yield some records at a time with their labels and values drawn by their addresses."""
        starts = {p: hashed([self.release, purpose, self.channels[p].name]) for p in self.model.places}
        for start in range(0, len(labels), ROWS):
            part = slice(start, start + ROWS)

            def numbers(place: int, rows: np.ndarray, own: np.ndarray = addresses[part]) -> Floats:
                return uniform(own[rows], starts[place])

            yield part, labels[part], self.model.draw([p[part] for p in published], labels[part], numbers)

    def chances(self, published: Codes, drawn: list[np.ndarray]) -> Floats:
        """The chances of each original label, given the published one and the original values."""
        matrix = self.label.matrix
        joint = np.maximum(matrix.solve(self.model.density(drawn) * self.shares, 1), 0.0)
        sums = joint.sum(axis=1, keepdims=True)
        shares = np.divide(joint, sums, out=np.zeros_like(joint), where=sums > 0)
        chances = (shares + LEAST * self.prior) * matrix.dense()[published]
        return weighted(chances, np.ones(chances.shape[1]))


@dataclass(frozen=True, eq=False)
class Expecting:
    """The totals of the labels to expect, batch by batch."""

    drawer: Drawer

    def __call__(self, batch: Batch) -> Expected:
        d = self.drawer
        parts = (weighted(d.chances(y, found), d.weights) for _, y, found in d.drawn(batch))
        return sum(map(Expected.of, parts), Expected.of(np.zeros((0, len(d.weights)))))


def raked(
    drawer: Drawer,
    sample: Sample,
    table: Table,
    estimator: str,
) -> Drawer:
    """Weight the labels so that their expected totals are the estimate's.

    The inverse of the label's matrix is cut off at 0 record by record, which alone would favour the labels
    that few records have. First weights come from the sample that the model was learnt from; one pass over
    the table, or a few where it is much larger, make them exact for the very values that will be drawn.
    """
    wanted = ESTIMATORS[estimator](sample.published.astype(np.float64), matrices_of((drawer.label,)))
    records = float(wanted.sum())
    if not records:
        return drawer
    drawer = replace(drawer, prior=wanted / records, weights=(wanted > 0).astype(float))
    chances = _first_chances(drawer, sample)
    weights, done, steps = drawer.weights, not len(chances), 0
    while not done and steps < FIRST_STEPS:
        weights, done = step(weights, Expected.of(weighted(chances, weights)), drawer.prior * len(chances))
        steps += 1
    columns = [drawer.label.name, *drawer.names]
    for _ in range(MOST_PASSES):
        drawer = replace(drawer, weights=weights)
        expected = fold(
            table,
            Expecting(drawer),
            Expected.__add__,
            columns=columns,
            doing="weighting the class",
        )
        assert expected is not None
        weights, done = step(weights, expected, wanted)
        if done:
            break
    return replace(drawer, weights=weights)


def _first_chances(drawer: Drawer, sample: Sample) -> Floats:
    """The chances of records of the sample, by draws of their own."""
    rows = max(FIRST_CHANCES // len(drawer.weights), 1)
    some = slice(None, None, -(-max(sample.records, 1) // rows))
    codes, labels = [c[some] for c in sample.codes], sample.labels[some]
    parts = drawer.parts(codes, labels, np.arange(len(labels)), "first weights")
    found = [drawer.chances(y, drawn) for _, y, drawn in parts]
    return np.concatenate([np.empty((0, len(drawer.weights))), *found])
