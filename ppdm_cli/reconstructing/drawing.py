"""Drawing original values from their posterior, given a record's published values and class (maths 10).

Each record by itself: what its values say of each other stays, as far as the model knows it. The draws
follow from the release, like all coins of a reconstruction.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ppdm_cli.arrays import Codes, code_type
from ppdm_cli.engine import Batch
from ppdm_cli.estimating import encoded
from ppdm_cli.joint import Learnt, picked
from ppdm_cli.reconstructing.dealing import coins

ROWS = 1 << 13
"""Records that are drawn at a time: their chances stay in the processor's cache."""


class Drawer:
    """A learnt model, ready to be applied to batches."""

    def __init__(self, learnt: Learnt, release: str) -> None:
        assert learnt.model is not None
        self._model, self._release = learnt.model, release
        sample = learnt.sample
        self._label = sample.label
        self._shares = learnt.shares
        self._places = {sample.channels[p].name: p for p in learnt.model.places}
        self._width = len(sample.channels)
        self._domains = {a.name: a.published for a in (*sample.channels, sample.label)}
        self._types = {a.name: code_type(a.domain.size) for a in (*sample.channels, sample.label)}

    @property
    def names(self) -> list[str]:
        """The attributes that are drawn."""
        return list(self._places)

    def __call__(self, batch: Batch) -> tuple[Codes, Mapping[str, Codes]]:
        """The original labels, and of each drawn attribute the original codes."""
        rng = coins(self._release, "draw", batch.index)
        labels = encoded(batch, self._label.name, self._domains[self._label.name])
        published: list[Codes] = [labels] * self._width  # those that the model has not are never looked at
        for name, place in self._places.items():
            published[place] = encoded(batch, name, self._domains[name])
        drawn = {n: np.empty(batch.rows, self._types[n]) for n in self._places}
        original = np.empty(batch.rows, self._types[self._label.name])
        for start in range(0, batch.rows, ROWS):
            part = slice(start, start + ROWS)
            found = self._model.draw([p[part] for p in published], labels[part], rng)
            for name, codes in zip(self._places, found, strict=True):
                drawn[name][part] = codes
            original[part] = self._labels(labels[part], found, rng)
        return original, drawn

    def _labels(self, published: Codes, drawn: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
        """The original label, given the published one and the original values."""
        if self._label.kept:
            return published
        matrix = self._label.matrix
        joint = self._model.density(drawn) * self._shares
        chances = np.maximum(matrix.solve(joint, 1), 0.0) * matrix.dense()[published]
        return picked(chances, rng)
