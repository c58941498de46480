"""Search for a joint table: a set of attributes, grown one attribute at a time (docs/technical/method.md).

From single attributes over pairs, as long as the likelihood of the class, cross-validated on published
records, rises by `THRESHOLD`: no clean data is needed, and a release without a signal gives no set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.estimating import TINY, Steps, Stop, Tables
from ppdm_cli.joint.sample import FOLDS, Sample, SubTable

THRESHOLD = 10.0
"""The gain in nats that an attribute needs for the class; for a table that one fold judges, in that fold."""
CELLS = 400_000
CELLS_A_RECORD = 20
"""The most cells for each record: with more, breast cancer's 466 records lost a point."""
MOST_ATTRIBUTES = 5
CANDIDATES = 16
"""The number of attributes that are tried together: those most informative about the class alone."""
FOLLOWERS = 3
"""The number of candidates that stay after each addition: the most informative after the last one."""
FOLDED_CELLS = 1_600_000
"""The most cells, over all folds and classes, of tables that all folds judge; larger ones are judged by one."""
STOP = Stop(enough=0.05, patience=3, more=10, most=400)
QUICK, FINALISTS = Stop(enough=0.05, patience=3, more=10, most=15), 3
"""The rules to stop if records differ in what they reveal: steps cost more, so few choose the sets."""


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
        self.singles = [self._single(p) for p in range(len(sample.channels))]

    def _single(self, place: int) -> Found:
        inputs = self._sample.matrices[place].shape[1]
        start = np.repeat(self.shares[:, :, None] / inputs, inputs, axis=2)
        return self._fitted((place,), start, tuple(range(FOLDS)))

    def _fitted(
        self, places: tuple[int, ...], start: Tables, folds: tuple[int, ...], stop: Stop = STOP
    ) -> Found:
        seen, which = self._sample.sub_tables(places), list(folds)
        held = [s.counts[which] for s in seen]
        trained = [s.counts.sum(axis=0, keepdims=True) - h for s, h in zip(seen, held, strict=True)]
        steps = steps_of(seen, [t[None] for t in trained])
        judge = class_likelihood([h if s.labelled else None for s, h in zip(seen, held, strict=True)])
        fit = steps.stopped(start[None], judge, stop)
        # a class under the coin depends on what is published with it, even if it depends on no value
        whole = fit.table.sum(axis=2, keepdims=True)
        nothing = whole * self.shares[which].reshape(1, len(which), -1, *(1,) * len(places))
        scores = fit.scores[0] - judge(steps.expected(nothing.astype(np.float32)), np.zeros(1, np.intp))[0]
        gain = float(scores.sum()) * FOLDS / len(which)
        return Found(places, fit.table[0], scores, int(fit.steps[0]), folds, gain)

    def size(self, places: tuple[int, ...]) -> int:
        """Return the number of cells of a table, published or original, whichever is larger."""
        # what records reveal is counted in tables of its own, none of more attributes than a record reveals
        strata = self._sample.strata
        most = [max(max(e.outputs, e.inputs) for e in strata.exposures[p].each) for p in places]
        revealed = np.where(strata.numbers[:, list(places)] > 0, most, 1).prod(axis=1, dtype=np.float64).max()
        return max(prod(strata.exposures[p].values for p in places), int(revealed))

    def _tried(self, sets: Sequence[tuple[Found, Found]]) -> list[Found]:
        """Return the sets of two together, or the most promising of them."""
        if not self._sample.varies:
            return [self.extended(a, b) for a, b in sets]
        quick = sorted((self.extended(a, b, QUICK) for a, b in sets), key=lambda f: -f.gain)
        return [self._fitted(f.places, f.tables, f.folds) for f in quick[:FINALISTS]]

    def extended(self, found: Found, by: Found, stop: Stop = STOP) -> Found:
        """Return both sets as one, learned from their product."""
        places = found.places + by.places
        folds = found.folds
        if self.size(places) * self._sample.classes * FOLDS > FOLDED_CELLS:
            folds = folds[:1]
        one, other = (self._of(f, folds) for f in (found, by))
        start = outer(one, other / np.maximum(other.sum(axis=2, keepdims=True), TINY))
        return self._fitted(places, start, folds, stop)

    def _of(self, found: Found, folds: tuple[int, ...]) -> Tables:
        """Return the tables of some folds."""
        return found.tables if found.folds == folds else found.tables[[found.folds.index(f) for f in folds]]

    def rise(self, new: Found, old: Found) -> float:
        """Estimate the rise of the held-out likelihood, over all records, from the folds."""
        before = [old.scores[old.folds.index(f)] for f in new.folds]
        return float((new.scores - np.array(before)).sum()) * FOLDS / len(new.folds)

    def grown(self) -> Found | None:
        """Return the best set, or None if no attribute is informative."""
        candidates = sorted(self.singles, key=lambda f: -f.gain)[:CANDIDATES]
        if not candidates:
            return None
        best = candidates[0]
        pairs = self._tried([(a, b) for a, b in combinations(candidates, 2) if self._fits(a, b)])
        if pairs:
            pair = max(pairs, key=lambda f: f.gain)
            if pair.gain > best.gain + self._enough(pair):
                best = pair
        if best.gain < THRESHOLD:
            return None
        left = [c for c in candidates if c.places[0] not in best.places]
        while 2 <= len(best.places) < MOST_ATTRIBUTES:
            tried = self._tried([(best, c) for c in left if self._fits(best, c)])
            rises = [self.rise(t, best) for t in tried]
            order = sorted(range(len(tried)), key=lambda i: -rises[i])
            if not order or rises[order[0]] < self._enough(tried[order[0]]):
                break
            best = tried[order[0]]
            useful = {tried[i].places[-1] for i in order[1 : 1 + FOLLOWERS] if rises[i] > 0}
            left = [c for c in left if c.places[0] in useful]
        return best

    def _enough(self, found: Found) -> float:
        """Return the rise of the likelihood, over all records, that a set needs to be continued."""
        return THRESHOLD * FOLDS / len(found.folds)

    def _fits(self, found: Found, by: Found) -> bool:
        """Return whether a table is small enough; `cells` is for two classes, and more classes share them."""
        most = min(self._cells, CELLS_A_RECORD * self._sample.records)
        if not any(self._sample.strata.together([p, *by.places]) for p in found.places):
            return False
        return self.size(found.places + by.places) * max(self._sample.classes, 2) <= 2 * most


def steps_of(seen: Sequence[SubTable], observed: Sequence[Tables]) -> Steps:
    """Return EM for tables of the class and some attributes, from their counts (1, fold, ...).

    The class is one more axis, with its own matrix; one that was kept has none, and its labels are problems of
    their own.
    """
    total = sum(o.reshape(*o.shape[:2], -1).sum(axis=2) for o in observed)
    scale = np.maximum(total, TINY)
    return Steps(
        *(
            s.part(o / scale.reshape(*scale.shape, *(1,) * (o.ndim - 2)))
            for s, o in zip(seen, observed, strict=True)
        )
    )


def fitted(seen: Sequence[SubTable], observed: Sequence[Tables], start: Tables, steps: int) -> Floats:
    """Return the table of the class and some attributes after so many steps from `start`.

    Without any counts that is `start`.
    """
    if not seen:
        return start
    done = steps_of(seen, [o[None, None] for o in observed])(start[None, None], steps)
    return np.asarray(done[0, 0], np.float64)


def outer(one: Tables, other: Tables) -> Tables:
    """Return the product of two tables for each entry of their first two axes, as if independent there."""
    left = one.reshape(*one.shape, *(1,) * (other.ndim - 2))
    return left * other.reshape(*other.shape[:2], *(1,) * (one.ndim - 2), *other.shape[2:])


def class_likelihood(held: Sequence[Tables | None]) -> Callable[[Sequence[Tables], np.ndarray], Floats]:
    """Return a judge by log p(label | published attributes) of held-out counts (fold, label, cells ...)."""
    parts = []
    for number, own in enumerate(held):
        if own is not None:  # else without labels
            flat = own.reshape(*own.shape[:2], -1)
            there = np.flatnonzero(flat.any(axis=(0, 1)))
            parts.append((number, there, flat[:, :, there]))

    def judge(expected: Sequence[Tables], _: np.ndarray) -> Floats:
        scores = np.zeros(0)
        for number, there, counts in parts:
            own = expected[number].reshape(*counts.shape[:2], -1)[:, :, there].astype(np.float64)
            chances = np.maximum(own, 1e-300) / np.maximum(own.sum(axis=1, keepdims=True), 1e-300)
            likelihoods = (counts * np.log(chances)).sum(axis=(1, 2))
            scores = scores + likelihoods if scores.size else likelihoods
        return scores[None]

    return judge
