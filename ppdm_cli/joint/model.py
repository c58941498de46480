"""Models of class and attributes for reconstruction, trees and attacks: shares of classes, a law within each.

The evidence of a record about its class includes the class's own channel: a kept class is the published label,
and for a perturbed one the label is evidence like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.estimating import Part, Steps, shares
from ppdm_cli.joint.attribute_search import fitted
from ppdm_cli.joint.forest import Branch, Forest
from ppdm_cli.joint.joint_table import TINY, JointTable, Uniform, normalised, picked
from ppdm_cli.joint.sample import LABEL, RecordCoin, Sample

COIN = -1
"""The place of the random numbers that decide whether a record is noise."""
STEPS_ALONE = 40
"""The steps of EM of each table of a model, from attributes independent of each other and of the class."""


@dataclass(frozen=True, eq=False)
class Model:
    """p(original class, original values)."""

    label: Floats
    """The matrix p(published label | original class)."""
    shares: Floats
    """The shares of the original classes."""
    within: JointTable | Forest
    temper: float = 1.0
    """The scale of the model's log-odds of the class: many redundant attributes make it too sure."""
    coin: RecordCoin | None = None

    @property
    def places(self) -> tuple[int, ...]:
        return self.within.places

    @property
    def table(self) -> Floats | None:
        """Return p(original values | class), (classes, cells ...), if the model is a table; else None."""
        return self.within.table if isinstance(self.within, JointTable) else None

    @cached_property
    def label_kept(self) -> bool:
        """Return whether the published label is the original one."""
        return bool((np.diagonal(self.label) == 1).all())

    def likelihoods(self, codes: Sequence[Codes]) -> list[Floats]:
        """Return p(published attributes | class) up to a factor a record, (records, classes).

        With a coin, the two are for informative draws and for noise.
        """
        if self.coin is None:
            return [self.within.likelihood(codes)]
        signal, blind = self.within.logs(codes), self.within.logs(self._blind(codes))
        top = np.maximum(signal.max(axis=1), blind.max(axis=1))[:, None]
        lam, noise = self.coin.lam[codes[-1]], self.coin.noise(codes, self.places)
        return [lam[:, None] * np.exp(signal - top), noise[:, None] * np.exp(blind - top)]

    def _blind(self, codes: Sequence[Codes]) -> list[Codes]:
        """Return the kept parts of records that are noise; one for all records if nothing is kept."""
        assert self.coin is not None
        left = self.coin.as_noise(codes)
        return [c[:1] for c in left] if self.coin.alone else left

    @property
    def _labels(self) -> list[Floats]:
        """Return p(published label | class), with a coin for informative draws and for noise."""
        if self.coin is None:
            return [self.label]
        return [self.coin.label.matrix, self.coin.label.as_noise]

    def joint(self, likelihood: Floats) -> Floats:
        """Return p(class, published attributes) up to a factor a record, from the likelihood by class."""
        if self.temper != 1:
            likelihood = (likelihood / np.maximum(likelihood.max(axis=1, keepdims=True), TINY)) ** self.temper
        return likelihood * self.shares

    def chances(self, codes: Sequence[Codes], labels: Codes) -> Floats:
        """Return p(class | published record), (records, classes)."""
        return normalised(self._own([self.joint(s) for s in self.likelihoods(codes)], labels))

    def _own(self, joint: Sequence[Floats], labels: Codes) -> Floats:
        each = zip(joint, self._labels, strict=True)
        return np.asarray(sum(j * label.T.take(labels, axis=1).T for j, label in each))

    def given_values(self, values: Sequence[Codes], classes: int) -> Floats:
        """Return p(class | original values) of the first so many classes, (records, classes)."""
        clear = replace(self.within, matrices=tuple(np.eye(m.shape[1]) for m in self.within.matrices))
        logs = (self.temper * clear.logs(values) + np.log(np.maximum(self.shares, TINY)))[:, :classes]
        return normalised(np.exp(logs - logs.max(axis=1, keepdims=True)))

    def scores(self, likelihoods: Sequence[Floats], labels: Codes) -> Floats:
        """Return log p(published label | published attributes) of each record."""
        joint = [self.joint(s) for s in likelihoods]
        own, every = self._own(joint, labels).sum(axis=1), sum(j.sum(axis=1) for j in joint)
        return np.asarray(np.log(np.maximum(own, TINY) / np.maximum(every, TINY)))

    def rise(self, likelihoods: Sequence[Floats], labels: Codes) -> Floats:
        """Return the gain of a record's label from its attributes.

        The attributes' evidence about the coin alone, which a class under it shares, is subtracted.
        """
        if self.coin is None:
            return self.scores(likelihoods, labels) - np.log(np.maximum(self.label @ self.shares, TINY))[labels]
        baseline = [np.repeat((s @ self.shares)[:, None], s.shape[1], axis=1) for s in likelihoods]
        return self.scores(likelihoods, labels) - self.scores(baseline, labels)

    def informative(self, codes: Sequence[Codes], labels: Codes) -> Floats:
        """Return P(the draw was informative | record) by class: (records, classes)."""
        signal, blind = (s * m[labels] for s, m in zip(self.likelihoods(codes), self._labels, strict=True))
        return np.asarray(signal / np.maximum(signal + blind, TINY))

    def drawn(
        self, codes: Sequence[Codes], labels: Codes, numbers: Uniform
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return original classes and codes drawn from their posterior, given the published record."""
        rows, classes = np.arange(len(labels)), labels
        if not self.label_kept:
            classes = picked(self.chances(codes, labels), numbers(LABEL, rows))
        if self.coin is not None:
            signal = self.informative(codes, labels)[rows, classes]
            codes = self.coin.as_noise(codes, numbers(COIN, rows) >= signal)
        return classes, self.within.draw(codes, classes, numbers)

    def published(self, codes: Sequence[Codes], labels: Codes) -> Floats:
        """Return log p(published codes), by record, given a kept class."""
        logs = [self.within.logs(codes)]
        if self.coin is not None:
            noise = np.log(np.maximum(self.coin.noise(codes, self.places), TINY))[:, None]
            signal = np.log(np.maximum(self.coin.lam[codes[-1]], TINY))[:, None]
            logs = [logs[0] + signal, self.within.logs(self._blind(codes)) + noise]
        whole = [
            a + np.log(np.maximum(m[labels] * self.shares, TINY))
            for a, m in zip(logs, self._labels, strict=True)
        ]
        found = np.logaddexp.reduce(np.concatenate(whole, axis=1), axis=1)
        return found - np.log(np.maximum(self.label @ self.shares, TINY))[labels] * self.label_kept

    def marginals(self, codes: Sequence[Codes], labels: Codes) -> list[Floats]:
        """Return the posterior of each place's original codes given the published record."""
        chances = self.chances(codes, labels)
        sides = [(chances, codes)]
        if self.coin is not None:
            signal = self.informative(codes, labels)
            sides = [(chances * signal, codes), (chances * (1 - signal), self.coin.as_noise(codes))]
        found: list[Floats] = []
        for weights, published in sides:
            for c in np.flatnonzero(chances.any(axis=0)).tolist():
                rows = np.flatnonzero(weights[:, c])
                own = self.within.marginals([code[rows] for code in published], np.full(len(rows), c))
                found = found or [np.zeros((len(labels), m.shape[1])) for m in own]
                for all_, m in zip(found, own, strict=True):
                    all_[rows] += normalised(m) * weights[rows, c, None]
        return found

    def posteriors(self, codes: Sequence[Codes], labels: Codes) -> dict[int, Floats]:
        """Return p(original value | published record) by place; the class is at LABEL."""
        found = dict(zip(self.places, self.marginals(codes, labels), strict=True))
        return found | {LABEL: self.chances(codes, labels)}

    def blind(self) -> Model:
        """Return a copy of the model that ignores published values, except for a kept class."""
        matrices = tuple(np.ones_like(m) for m in self.within.matrices)
        label = self.label if self.label_kept else np.ones_like(self.label)
        return replace(self, label=label, within=replace(self.within, matrices=matrices), coin=None)


def alone(model: Model, sample: Sample, fold: int) -> Model:
    """Return a model with the structure of another, learned from one fold: a judge of trees grown without it.

    The chance effects in the records that a tree was grown from aren't in the fold. But the fold has a quarter
    of the records, so it is blurred: such a judge finds trees worse than they are (docs/technical/method.md).
    """
    rows = np.flatnonzero(sample.folds == fold)
    own = replace(
        sample, codes=[c[rows] for c in sample.codes], labels=sample.labels[rows], folds=sample.folds[rows]
    )
    known = own.shares(own.counts([]).sum(axis=0).astype(np.float64))
    spread = {}
    for place in model.places:
        matrix, counts = sample.matrices[place], own.counts([place]).sum(axis=(0, 1)).astype(np.float64)
        even = np.full((1, matrix.shape[1]), 1 / matrix.shape[1])
        spread[place] = Steps(Part([matrix], shares(counts[None])))(even, STEPS_ALONE)[0]

    def table(places: Sequence[int]) -> Floats:
        start = known
        for place in places:
            start = start[..., None] * spread[place]
        seen = own.sub_tables(places)
        return fitted(seen, [s.counts.sum(axis=0) for s in seen], start, STEPS_ALONE)

    if isinstance(model.within, JointTable):
        return table_model(own, model.places, table(model.places))
    tables: dict[tuple[int, ...], Floats] = {}

    def relearned(label: int, branch: Branch) -> Branch:
        pair = tuple(sorted(p for p in (branch.place, branch.parent) if p >= 0))
        if pair not in tables:
            tables[pair] = table(pair) + 1e-12
        cells = tables[pair][label].reshape(1, -1) if branch.parent < 0 else tables[pair][label]
        return replace(branch, chances=shares(cells if branch.parent <= pair[0] else cells.T))

    classes = [tuple(relearned(c, b) for b in branches) for c, branches in enumerate(model.within.classes)]
    return replace(model, shares=known, within=replace(model.within, classes=tuple(classes)))


def table_model(sample: Sample, places: Sequence[int], table: Floats) -> Model:
    """Return the model of a table of class and attributes."""
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
        coin=sample.coin,
    )
