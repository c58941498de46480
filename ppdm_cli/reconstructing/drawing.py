"""Drawing original values from their posterior, given a record's published values and class (maths 10).

Each record by itself: what its values say of each other stays, as far as the model knows it. The labels of a
perturbed class are weighted so that their totals are to be expected as they are estimated. The draws follow
from the release, like all coins of a reconstruction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ppdm_cli.arrays import Codes, Floats, code_type
from ppdm_cli.engine import Batch, Progress, fold
from ppdm_cli.estimating import ESTIMATORS, count, encoded, matrices_of
from ppdm_cli.joint import Learnt, picked
from ppdm_cli.reconstructing.dealing import coins
from ppdm_cli.reconstructing.raking import Expected, step, weighted
from ppdm_cli.tables import Table

ROWS = 1 << 13
"""Records that are drawn at a time: their chances stay in the processor's cache."""
FIRST_CHANCES = 1 << 22
"""Chances of labels that the first weights are solved with, in memory."""
FIRST_STEPS, MOST_PASSES = 100, 10
LEAST = 1e-6
"""At least this share of what the label's share alone would make a chance: any totals can then be had."""


class Drawer:
    """A learnt model, ready to be applied to batches."""

    def __init__(self, learnt: Learnt, release: str) -> None:
        assert learnt.model is not None
        self._model, self._release = learnt.model, release
        sample = learnt.sample
        self._sample = sample
        self._label = sample.label
        self._shares = learnt.shares
        self._places = {sample.channels[p].name: p for p in learnt.model.places}
        self._width = len(sample.channels)
        self._domains = {a.name: a.published for a in (*sample.channels, sample.label)}
        self._types = {a.name: code_type(a.domain.size) for a in (*sample.channels, sample.label)}
        self._prior = np.full(self._label.domain.size, 1 / self._label.domain.size)
        self._weights = np.ones(self._label.domain.size)

    @property
    def names(self) -> list[str]:
        """The attributes that are drawn."""
        return list(self._places)

    def __call__(self, batch: Batch) -> tuple[Codes, Mapping[str, Codes]]:
        """Return the original labels, and by name the original codes of all that is drawn."""
        rng = coins(self._release, "label", batch.index)
        label = self._label.name
        drawn = {n: np.empty(batch.rows, self._types[n]) for n in (*self._places, label)}
        for part, labels, found in self._drawn(batch):
            for name, codes in zip(self._places, found, strict=True):
                drawn[name][part] = codes
            if not self._label.kept:
                labels = picked(self._chances(labels, found) * self._weights, rng)
            drawn[label][part] = labels
        original = drawn[label] if not self._label.kept else drawn.pop(label)
        return original, drawn

    def _drawn(self, batch: Batch) -> Iterator[tuple[slice, Codes, list[np.ndarray]]]:
        """Yield some records at a time with published labels and drawn values, the same in every pass."""
        rng = coins(self._release, "draw", batch.index)
        labels = encoded(batch, self._label.name, self._domains[self._label.name])
        published: list[Codes] = [labels] * self._width  # those that the model has not are never looked at
        for name, place in self._places.items():
            published[place] = encoded(batch, name, self._domains[name])
        for start in range(0, batch.rows, ROWS):
            part = slice(start, start + ROWS)
            yield part, labels[part], self._model.draw([p[part] for p in published], labels[part], rng)

    def _chances(self, published: Codes, drawn: list[np.ndarray]) -> Floats:
        """The chances of each original label, given the published one and the original values."""
        matrix = self._label.matrix
        joint = np.maximum(matrix.solve(self._model.density(drawn) * self._shares, 1), 0.0)
        sums = joint.sum(axis=1, keepdims=True)
        shares = np.divide(joint, sums, out=np.zeros_like(joint), where=sums > 0)
        chances = (shares + LEAST * self._prior) * matrix.dense()[published]
        return weighted(chances, np.ones(chances.shape[1]))

    def rake(
        self,
        table: Table,
        columns: Sequence[str],
        estimator: str,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Weight the labels so that their expected totals are the estimate's.

        The inverse of the label's matrix is cut off at 0 record by record, which alone would favour the labels
        that few records have. First weights come from the sample that the model was learnt from; one pass over
        the table, or a few where it is much larger, make them exact for the very values that will be drawn.
        `columns` must cut the table as the later passes do.
        """
        [published] = count(table, [(self._label,)], threads=threads, progress=progress)
        wanted = ESTIMATORS[estimator](published, matrices_of((self._label,)))
        records = float(wanted.sum())
        if not records:
            return
        self._prior = wanted / records
        self._weights = (wanted > 0).astype(float)
        chances = self._first_chances()
        done, steps = not len(chances), 0
        while not done and steps < FIRST_STEPS:
            expected = Expected.of(weighted(chances, self._weights))
            self._weights, done = step(self._weights, expected, self._prior * len(chances))
            steps += 1

        def work(batch: Batch) -> Expected:
            parts = (weighted(self._chances(y, found), self._weights) for _, y, found in self._drawn(batch))
            return sum(map(Expected.of, parts), Expected.of(np.zeros((0, len(wanted)))))

        for _ in range(MOST_PASSES):
            expected_now = fold(
                table,
                work,
                Expected.__add__,
                columns=columns,
                threads=threads,
                progress=progress,
                doing="weighting the class",
            )
            assert expected_now is not None
            self._weights, done = step(self._weights, expected_now, wanted)
            if done:
                break

    def _first_chances(self) -> Floats:
        """The chances of records of the sample, with coins of their own."""
        rng = coins(self._release, "first weights")
        rows = max(FIRST_CHANCES // len(self._weights), 1)
        some = slice(None, None, -(-max(self._sample.records, 1) // rows))
        codes, labels = [c[some] for c in self._sample.codes], self._sample.labels[some]
        found = [np.empty((0, len(self._weights)))]
        for start in range(0, len(labels), ROWS):
            part = slice(start, start + ROWS)
            drawn = self._model.draw([c[part] for c in codes], labels[part], rng)
            found.append(self._chances(labels[part], drawn))
        return np.concatenate(found)
