"""J: the joint table of a set of attributes, grown one attribute at a time (maths 10).

From single attributes over pairs, as long as the likelihood of the class, cross-validated on published
records, rises by `THRESHOLD`: no clean data is needed, and a release without a signal gives no set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.estimating import TINY, Steps, Stop, Tables, shares
from ppdm_cli.joint.sample import FOLDS, Sample

THRESHOLD = 10.0
"""Nats by which the class must become likelier."""
CELLS = 400_000
CELLS_A_RECORD = 20
"""A table of more cells is learnt from nothing: breast cancer's 466 records lost a point."""
MOST_ATTRIBUTES = 5
CANDIDATES = 16
"""Attributes that are tried together; those that say most of the class alone."""
FOLLOWERS = 3
"""Candidates that stay after each addition: those that the last one left most to say."""
FOLDED_CELLS = 1_600_000
"""Tables of more cells, over all folds and classes, are judged by one fold."""
STOP = Stop(enough=0.05, patience=3, more=10, most=400)


@dataclass(frozen=True, eq=False)
class Found:
    """A set of attributes, by fold the table of them and the class, and the rise of the held-out likelihood."""

    places: tuple[int, ...]
    tables: Tables
    """p(original class, cell), (folds, classes, cells ...)."""
    scores: Floats
    steps: int
    folds: tuple[int, ...]
    gain: float


class Growing:
    """The search over sets of attributes."""

    def __init__(self, sample: Sample, cells: int = CELLS) -> None:
        self._sample, self._cells = sample, cells
        held = sample.label_counts
        self.shares: Floats = np.stack([sample.shares(c) for c in held.sum(axis=0) - held])
        self.base: Floats = (held * np.log(np.maximum(self.shares @ sample.label_matrix.T, TINY))).sum(axis=1)
        self.singles = [self._single(p) for p in range(len(sample.channels))]

    def _single(self, place: int) -> Found:
        inputs = self._sample.matrices[place].shape[1]
        start = np.repeat(self.shares[:, :, None] / inputs, inputs, axis=2)
        return self._fitted((place,), start, tuple(range(FOLDS)))

    def _fitted(self, places: tuple[int, ...], start: Tables, folds: tuple[int, ...]) -> Found:
        counts = self._sample.counts(places)
        which = list(folds)
        held = counts[which]
        trained = counts.sum(axis=0, keepdims=True) - held
        steps = steps_of(self._sample, places, trained[None])
        fit = steps.stopped(start[None], class_likelihood(held), STOP)
        scores = fit.scores[0]
        gain = float((scores - self.base[which]).sum()) * FOLDS / len(which)
        return Found(places, fit.table[0], scores, int(fit.steps[0]), folds, gain)

    def size(self, places: tuple[int, ...]) -> int:
        """Return how many cells a table has, published or original, whichever are more."""
        return int(np.prod([max(self._sample.matrices[p].shape) for p in places]))

    def extended(self, found: Found, by: Found) -> Found:
        """Return both sets as one, learnt from their product."""
        places = found.places + by.places
        folds = found.folds
        if self.size(places) * self._sample.classes * FOLDS > FOLDED_CELLS:
            folds = folds[:1]
        one, other = (self._of(f, folds) for f in (found, by))
        start = outer(one, other / np.maximum(other.sum(axis=2, keepdims=True), TINY))
        return self._fitted(places, start, folds)

    def _of(self, found: Found, folds: tuple[int, ...]) -> Tables:
        """Return the tables of some folds."""
        return found.tables if found.folds == folds else found.tables[[found.folds.index(f) for f in folds]]

    def rise(self, new: Found, old: Found) -> float:
        """Return by how much the held-out likelihood rises, over all records, as far as the folds tell."""
        before = [old.scores[old.folds.index(f)] for f in new.folds]
        return float((new.scores - np.array(before)).sum()) * FOLDS / len(new.folds)

    def grown(self) -> Found | None:
        """Return the best set, or None where no attribute says anything."""
        candidates = sorted(self.singles, key=lambda f: -f.gain)[:CANDIDATES]
        if not candidates:
            return None
        best = candidates[0]
        pairs = [self.extended(a, b) for a, b in combinations(candidates, 2) if self._fits(a, b)]
        if pairs:
            pair = max(pairs, key=lambda f: f.gain)
            if pair.gain > best.gain + THRESHOLD:
                best = pair
        if best.gain < THRESHOLD:
            return None
        left = [c for c in candidates if c.places[0] not in best.places]
        while 2 <= len(best.places) < MOST_ATTRIBUTES:
            tried = [self.extended(best, c) for c in left if self._fits(best, c)]
            rises = [self.rise(t, best) for t in tried]
            if not tried or max(rises) < THRESHOLD:
                break
            order = sorted(range(len(tried)), key=lambda i: -rises[i])
            best = tried[order[0]]
            useful = {tried[i].places[-1] for i in order[1 : 1 + FOLLOWERS] if rises[i] > 0}
            left = [c for c in left if c.places[0] in useful]
        return best

    def _fits(self, found: Found, by: Found) -> bool:
        """Return whether a table is small enough; `cells` is for two classes, and more classes share them."""
        most = min(self._cells, CELLS_A_RECORD * self._sample.records)
        return self.size(found.places + by.places) * max(self._sample.classes, 2) <= 2 * most


def steps_of(sample: Sample, places: Sequence[int], observed: Tables) -> Steps:
    """Return EM for tables of the class and some attributes: the class is one more axis, with its own matrix.

    What was kept has none, and each label of a kept class is a problem of its own.
    """
    matrices = [sample.matrices[p] for p in places]
    if not sample.label.kept:
        matrices = [sample.label_matrix, *matrices]
    return Steps(matrices, shares(observed, observed.ndim - len(places) - 1))


def outer(one: Tables, other: Tables) -> Tables:
    """Return the product of two tables for each entry of their first two axes, as if independent there."""
    left = one.reshape(*one.shape, *(1,) * (other.ndim - 2))
    return left * other.reshape(*other.shape[:2], *(1,) * (one.ndim - 2), *other.shape[2:])


def class_likelihood(held: Tables) -> Callable[[Tables, np.ndarray], Floats]:
    """Return what judges by log p(label | published attributes) of held-out counts (fold, label, cells ...)."""
    flat = held.reshape(*held.shape[:2], -1)
    there = np.flatnonzero(flat.any(axis=(0, 1)))
    counts = flat[:, :, there]

    def judge(expected: Tables, _: np.ndarray) -> Floats:
        parts = expected.reshape(flat.shape)[:, :, there].astype(np.float64)
        chances = np.maximum(parts, 1e-300) / np.maximum(parts.sum(axis=1, keepdims=True), 1e-300)
        scores: Floats = (counts * np.log(chances)).sum(axis=(1, 2))
        return scores[None]

    return judge
