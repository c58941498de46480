"""J: the joint table of a set of attributes, grown one attribute at a time (maths 10).

From single attributes over pairs, as long as the likelihood of the class, cross-validated on published
records, rises by `THRESHOLD`: no clean data is needed, and a release without a signal gives no set.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.joint.sample import FOLDS, Sample
from ppdm_cli.joint.tables import Fit, Steps, Tables, class_likelihood, outer

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


@dataclass(frozen=True, eq=False)
class Found:
    """A set of attributes, its fit by fold, and the rise of the held-out likelihood over none."""

    places: tuple[int, ...]
    fit: Fit
    folds: tuple[int, ...]
    gain: float


class Growing:
    """The search over sets of attributes."""

    def __init__(self, sample: Sample, cells: int = CELLS) -> None:
        self._sample, self._cells = sample, cells
        held = sample.label_counts
        trained = held.sum(axis=0) - held
        self.priors: Floats = np.maximum(trained, 1e-9) / np.maximum(trained.sum(axis=1, keepdims=True), 1e-9)
        self.base: Floats = (held * np.log(self.priors)).sum(axis=1)
        self.singles = [self._single(p) for p in range(len(sample.channels))]

    def _single(self, place: int) -> Found:
        inputs = self._sample.matrices[place].shape[1]
        start = np.full((FOLDS * self._sample.classes, inputs), 1 / inputs)
        return self._fitted((place,), start, tuple(range(FOLDS)))

    def _fitted(self, places: tuple[int, ...], start: Tables, folds: tuple[int, ...]) -> Found:
        counts = self._sample.counts(places)
        which = list(folds)
        held = counts[which]
        trained = (counts.sum(axis=0, keepdims=True) - held).reshape(-1, *counts.shape[2:])
        steps = Steps([self._sample.matrices[p] for p in places], trained)
        fit = steps.stopped(start, class_likelihood(held, self.priors[which]))
        gain = float((fit.scores - self.base[which]).sum()) * FOLDS / len(which)
        return Found(places, fit, folds, gain)

    def size(self, places: tuple[int, ...]) -> int:
        """The cells of a table, published or original, whichever are more."""
        return int(np.prod([max(self._sample.matrices[p].shape) for p in places]))

    def extended(self, found: Found, by: Found) -> Found:
        """Both sets together, from their product."""
        places = found.places + by.places
        folds = found.folds
        if self.size(places) * self._sample.classes * FOLDS > FOLDED_CELLS:
            folds = folds[:1]
        start = outer(self._of(found, folds), self._of(by, folds))
        return self._fitted(places, start, folds)

    def _of(self, found: Found, folds: tuple[int, ...]) -> Tables:
        """The rows of some folds."""
        table = found.fit.table
        if found.folds == folds:
            return table
        parted = table.reshape(len(found.folds), self._sample.classes, *table.shape[1:])
        return parted[[found.folds.index(f) for f in folds]].reshape(-1, *table.shape[1:])

    def rise(self, new: Found, old: Found) -> float:
        """By how much the held-out likelihood rises, over all records, as far as the folds tell."""
        before = [old.fit.scores[old.folds.index(f)] for f in new.folds]
        return float((new.fit.scores - np.array(before)).sum()) * FOLDS / len(new.folds)

    def grown(self) -> Found | None:
        """The best set, or None where no attribute says anything."""
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
        """`cells` is meant for two classes; more of them share what two would take."""
        most = min(self._cells, CELLS_A_RECORD * self._sample.records)
        return self.size(found.places + by.places) * max(self._sample.classes, 2) <= 2 * most

    def tables(self, found: Found) -> Floats:
        """(folds, classes, cells ...): the table by fold."""
        table = found.fit.table
        return table.reshape(len(found.folds), self._sample.classes, *table.shape[1:]).astype(np.float64)
