"""Naive Bayes of a release: the distribution of each attribute alone, within each class.

Naive Bayes is made of these, and a forest begins with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.estimating import TINY, Steps, Tables, maximum_likelihood, shares
from ppdm_cli.joint.attribute_search import class_likelihood, steps_of
from ppdm_cli.joint.sample import FOLDS, Sample, SubTable

MARGINAL_STEPS = (50, 300)
"""The steps of EM from equal shares; at its end distributions are jagged (two points worse on spambase)."""
STEPS_APART, STEPS_TRIED = 60, (1, 4, 15, 60, 300)
"""The steps of EM for each as if independent of the class, and then from there."""
STRENGTHS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 8.0, 16.0)
"""The strengths by which log-odds are multiplied: after a few steps they are too small."""
WEAK = 15
"""The steps of the distributions for which held-out labels confirm nothing."""
SMOOTH = 0.5
"""The number of records of each class that are added, spread evenly over an attribute's values."""
BATCH_CELLS = 1 << 21

OUT = (None, *range(FOLDS))
Marginals = dict[int | None, list[Floats]]
"""The distributions of all attributes within each original class: without each fold, and (None) of all."""


def learn_marginals(sample: Sample) -> list[Marginals]:
    """Return the distributions after each number of steps.

    Attributes of one matrix are estimated together: very many would else take as many minutes.
    """
    if sample.varies:
        return _weak_and_confirmed(sample)
    known = np.stack([sample.shares(c.astype(np.float64)) for c in _seen(sample, [])])
    alike: dict[tuple[int, int, bytes], list[int]] = {}
    for place, matrix in enumerate(sample.matrices):
        alike.setdefault((*matrix.shape, blake2b(matrix.tobytes()).digest()), []).append(place)
    tried = [{out: [known] * len(sample.matrices) for out in OUT} for _ in MARGINAL_STEPS]
    for (outputs, inputs, _), places in alike.items():
        most = max(1, BATCH_CELLS // (len(OUT) * outputs * sample.classes))
        for some in (places[i : i + most] for i in range(0, len(places), most)):
            counts = np.concatenate([_seen(sample, [p]) for p in some])
            steps = steps_of(sample.sub_tables(some[:1]), [counts[None]])
            table: Tables = np.tile(known[:, :, None] / inputs, (len(some), 1, inputs))[None]
            for taken, upto, marginals in zip((0, *MARGINAL_STEPS), MARGINAL_STEPS, tried, strict=False):
                table = steps(table, upto - taken)
                smoothed = _smoothed(table[0], sample.records)
                for i, place in enumerate(some):
                    for j, out in enumerate(OUT):
                        marginals[out][place] = smoothed[i * len(OUT) + j]
    return tried


def _weak_and_confirmed(sample: Sample) -> list[Marginals]:
    """Return the distributions after a few steps, and after as many and as strong as held-out labels confirm.

    All attributes have the same number of steps and the same strength. Each may be too uninformative to be
    confirmed alone, and the best of many numbers would be chance (docs/technical/experiments.md, "No signal").
    """
    classes = sample.shares(_seen(sample, []).astype(np.float64))
    attributes = [_Attribute.of(sample, p, classes) for p in range(len(sample.channels))]
    most, weak, confirmed, done = 0.0, attributes, [a.within(0.0) for a in attributes], 0
    for steps in STEPS_TRIED:
        attributes, done = [a.after(steps - done) for a in attributes], steps
        gains = [sum(a.gain(s) for a in attributes) for s in STRENGTHS]
        if max(gains) > most:
            most, strength = max(gains), STRENGTHS[int(np.argmax(gains))]
            confirmed = [a.within(strength) for a in attributes]
        weak = attributes if steps == WEAK else weak
    both = [a.within(1.0) for a in weak], confirmed
    return [{out: [own[i] for own in some] for i, out in enumerate(OUT)} for some in both]


@dataclass(frozen=True, eq=False)
class _Attribute:
    """The joint distribution of the class and one attribute, learned step by step from independence."""

    seen: Sequence[SubTable]
    steps: Steps
    apart: Floats
    """The most likely table if the two are independent, (as OUT, classes, values)."""
    table: Floats

    @classmethod
    def of(cls, sample: Sample, place: int, classes: Floats) -> _Attribute:
        seen = sample.sub_tables([place])
        whole = [s.counts.sum(axis=0, keepdims=True) for s in seen]
        each = [np.concatenate([w, w - s.counts]) for w, s in zip(whole, seen, strict=True)]
        steps = steps_of(seen, [c[None] for c in each])
        values = sample.shares(_seen(sample, [place]).sum(axis=1).astype(np.float64), place)
        table = classes[:, :, None] * values[:, None]
        for _ in range(STEPS_APART):
            table = _apart(steps(table[None], 1)[0])
        return cls(seen, steps, table, table)

    def after(self, steps: int) -> _Attribute:
        return replace(self, table=self.steps(self.table[None], steps)[0].astype(np.float64))

    def within(self, strength: float) -> Floats:
        """Return p(value | class), with the log-odds against independence so many times as large."""
        own, every = shares(self.table, 1), shares(self.apart, 1)
        tilted = every * (np.maximum(own, 1e-12) / np.maximum(every, 1e-12)) ** strength
        return _smoothed(shares(tilted, 1), sum(int(s.counts.sum()) for s in self.seen))

    def gain(self, strength: float) -> float:
        """Return the gain of each fold's labels over independence, in nats."""
        table = self.apart.sum(axis=2, keepdims=True) * self.within(strength)
        return self._likelihood(table) - max(self._likelihood(_apart(table)), self._likelihood(self.apart))

    def _likelihood(self, table: Floats) -> float:
        judge = class_likelihood([s.counts if s.labelled else None for s in self.seen])
        expected = self.steps.expected(table[None].astype(np.float32))
        return float(judge([e[:, 1:] for e in expected], np.zeros(1, np.intp)).sum())


def _apart(table: Floats) -> Floats:
    """Return tables (..., classes, values) as if class and value were independent."""
    table = table.astype(np.float64)
    whole = np.maximum(table.sum(axis=(-1, -2), keepdims=True), TINY)
    return np.asarray(table.sum(axis=-1, keepdims=True) * table.sum(axis=-2, keepdims=True) / whole)


def likelier(sample: Sample, tried: Sequence[Marginals]) -> Marginals:
    """Return the distributions that give held-out records the highest likelihood; spikes need more steps."""
    label, best = sample.label_matrix, {out: list(found) for out, found in tried[0].items()}
    known = [sample.shares(c.astype(np.float64)) for c in _seen(sample, [])[1:]]
    for place, matrix in enumerate(sample.matrices):
        held, scores = sample.counts([place]), []
        for marginals in tried:
            own = [label @ (known[f][:, None] * marginals[f][place]) @ matrix.T for f in range(FOLDS)]
            scores.append((held * np.log(np.maximum(own, TINY))).sum())
        for out in best:
            best[out][place] = tried[int(np.argmax(scores))][out][place]
    return best


def most_likely_marginals(sample: Sample) -> list[Floats]:
    """Return each attribute's most likely distribution by class, of all records."""
    counts = [_seen(sample, [p])[0].astype(np.float64) for p in range(len(sample.channels))]
    matrices = [[sample.label.law, c.law] for c in sample.channels]
    tables = [maximum_likelihood(c, m) for c, m in zip(counts, matrices, strict=True)]
    return [np.maximum(shares(t), 1e-9) for t in tables]


def _seen(sample: Sample, places: Sequence[int]) -> np.ndarray:
    """Return the published counts of all records, then of all without each fold."""
    counts = sample.counts(places)
    whole = counts.sum(axis=0, keepdims=True)
    return np.concatenate([whole, whole - counts])


def _smoothed(table: Tables, records: int) -> Floats:
    """Return p(value | class) from shares (..., class, value), with a little more of each value.

    EM ends at zeros, and one zero would outweigh all other attributes.
    """
    counts = table.astype(np.float64) * records + SMOOTH / table.shape[-1]
    return np.asarray(counts / counts.sum(axis=-1, keepdims=True))
