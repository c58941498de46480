"""Chow-Liu forests: for each class a forest over all attributes, from tables of pairs
(docs/technical/method.md; Chow and Liu 1968).

An edge is as heavy as the likelihood of held-out published pairs rises over independence; the heaviest
forest stays. Reading published records is passing messages along it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.estimating import (
    TINY,
    Part,
    Steps,
    Stop,
    Tables,
    forward,
    shares,
)  # fmt: skip
from ppdm_cli.joint.attribute_search import steps_of
from ppdm_cli.joint.joint_table import Uniform, normalised, picked
from ppdm_cli.joint.marginals import BATCH_CELLS, Marginals, likelier, most_likely_marginals
from ppdm_cli.joint.sample import FOLDS, Sample, SubTable

EDGE = 2.0
"""The gain in nats that an edge needs."""
STOP = Stop(enough=1e-3, patience=2, more=5, most=300)
PAIR_CELLS = 1 << 16
ALL_PAIRS_CELLS = 1 << 22
"""The most cells of all pairs and classes together."""
PAIR_COST = 1 << 9
"""The least cells that a pair counts as, for its overhead."""
MOST_PAIR_CELLS = 1 << 20
"""The most cells of all tables that are estimated at once."""
ROWS = 1 << 13
"""The number of records that pass messages at a time."""


Pair = tuple[int, int]
Fitted = tuple[dict[Pair, Floats], dict[Pair, Tables], dict[Pair, Tables]]
"""The gain of each pair over independence within each class, its table, and that of all records."""


@dataclass(frozen=True, eq=False)
class Branch:
    """An attribute, its parent (-1: none), and its distribution given that, (parent, own)."""

    place: int
    parent: int
    chances: Floats


@dataclass(frozen=True, eq=False)
class Forest:
    """The branches for each published class, parents first."""

    matrices: tuple[Floats, ...]
    classes: tuple[tuple[Branch, ...], ...]
    dealt: bool = False
    """True without any edge: values are drawn in the order of the published ones, as by class."""

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(range(len(self.matrices)))

    def _messages(
        self, branches: Sequence[Branch], codes: Sequence[Codes], every: bool = True
    ) -> tuple[dict[int, Floats], dict[int, Floats], Floats]:
        """Return the evidence about each attribute's value (`every`, or only of those with children).

        Also the evidence of each about its parent's value, both up to factors, and the log-likelihood.
        """
        inner = {b.parent for b in branches}
        seen = [b.place for b in branches if every or b.place in inner]
        evidence = {place: self.matrices[place][codes[place]] for place in seen}
        log, up = np.zeros(len(codes[0])), {}
        for branch in reversed(branches):
            own, place = branch.chances.T, branch.place
            if place in inner:
                message = evidence[place] @ own
                largest = np.maximum(message.max(axis=1), 1e-300)
                message = message / largest[:, None]
            else:  # alone it says what its code says
                table = self.matrices[place] @ own
                tops = np.maximum(table.max(axis=1), 1e-300)
                message, largest = (table / tops[:, None])[codes[place]], tops[codes[place]]
            log += np.log(largest)
            if branch.parent >= 0:
                up[place] = message
                evidence[branch.parent] = evidence[branch.parent] * message
        return evidence, up, log

    def marginals(self, codes: Sequence[Codes], labels: Codes) -> list[Floats]:
        """Return the posterior of each place's original codes, up to a factor a record (Pearl 1988)."""
        found = [np.zeros((len(labels), m.shape[1])) for m in self.matrices]
        for c, branches in enumerate(self.classes):
            rows = np.flatnonzero(labels == c)
            evidence, up, _ = self._messages(branches, [code[rows] for code in codes])
            down: dict[int, Floats] = {}
            for b in branches:
                if b.parent < 0:
                    down[b.place] = b.chances
                else:
                    rest = down[b.parent] * evidence[b.parent] / np.maximum(up[b.place], 1e-300)
                    down[b.place] = (
                        rest / np.maximum(rest.max(axis=1, initial=0, keepdims=True), 1e-300) @ b.chances
                    )
                found[b.place][rows] = evidence[b.place] * down[b.place]
        return found

    def likelihood(self, codes: Sequence[Codes]) -> Floats:
        """Return p(published codes | class), (records, classes), up to a factor a record."""
        logs = self.logs(codes)
        return np.exp(logs - logs.max(axis=1, keepdims=True))

    def logs(self, codes: Sequence[Codes]) -> Floats:
        """Return log p(published codes | class), (records, classes)."""
        logs = np.empty((len(self.classes), len(codes[0]))).T
        for start in range(0, len(logs), ROWS):
            part = [c[start : start + ROWS] for c in codes]
            for c, branches in enumerate(self.classes):
                logs[start : start + ROWS, c] = self._messages(branches, part, every=False)[2]
        return logs

    def draw(self, codes: Sequence[Codes], labels: Codes, uniform: Uniform) -> list[np.ndarray]:
        """Return original codes drawn from their posterior, given the published codes and the label."""
        drawn = [np.zeros(len(labels), np.int64) for _ in self.matrices]
        for c, branches in enumerate(self.classes):
            rows = np.flatnonzero(labels == c)
            for start in range(0, len(rows), ROWS):
                part = rows[start : start + ROWS]
                evidence, *_ = self._messages(branches, [code[part] for code in codes])
                for branch in branches:
                    parent = drawn[branch.parent][part] if branch.parent >= 0 else np.zeros(len(part), np.int64)
                    numbers = uniform(branch.place, part)
                    if self.dealt:
                        own = self._dealt(branch, codes[branch.place][part], numbers)
                    else:
                        own = picked(branch.chances[parent] * evidence[branch.place], numbers)
                    drawn[branch.place][part] = own
        return drawn

    def _dealt(self, branch: Branch, published: Codes, numbers: Floats) -> np.ndarray:
        """Return original codes by the monotone plan between the published distribution and the original."""
        original = branch.chances[0]
        odds = self.matrices[branch.place] @ original
        places = (np.cumsum(odds) - odds)[published] + numbers * odds[published]
        return np.searchsorted(np.cumsum(original)[:-1], places, side="right")

    def sampled(self, label: int, records: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Draw records of one class from the forest."""
        drawn = [np.zeros(records, np.int64) for _ in self.matrices]
        for branch in self.classes[label]:
            for start in range(0, records, ROWS):
                part = slice(start, min(start + ROWS, records))
                parent = drawn[branch.parent][part] if branch.parent >= 0 else None
                rows = part.stop - part.start
                weights = branch.chances[np.zeros(rows, np.int64) if parent is None else parent]
                drawn[branch.place][part] = picked(weights, rng.random(rows))
        return drawn


def learn_forests(
    sample: Sample, order: Sequence[int], tried: Sequence[Marginals]
) -> tuple[Forest, dict[int, Forest]]:
    """Return the forest of all records, and by fold those learned without one.

    `order` has the attributes, the most informative about the class first: if there are too many pairs, the
    last ones have no edges.
    """
    marginals = tried[-1] if sample.varies else likelier(sample, tried)
    chosen, folds = _candidates(sample, order), range(FOLDS)
    if not sample.varies:
        fitted = _pairs(sample, marginals, chosen)
    else:
        small = [p for p in combinations(chosen, 2) if sample.cells(p) <= PAIR_CELLS]
        published = [p for p in small if sample.strata.together(p)]
        fitted = _of_sub_tables(sample, marginals, published, STOP)
    wholes = fitted[0][2]

    def weights(judges: Sequence[int]) -> dict[Pair, Floats]:
        return {p: np.mean([fitted[f][0][p] for f in judges], axis=0) for p in wholes}

    # the records that will judge a forest have no say in its edges
    held = {f: _built(sample, marginals[f], weights([g for g in folds if g != f]), fitted[f][1]) for f in folds}
    whole = marginals[None] if sample.varies else most_likely_marginals(sample)
    return _built(sample, whole, weights(folds), wholes), held


def learn_bayes(sample: Sample, marginals: Marginals) -> tuple[Forest, dict[int, Forest]]:
    """Return naive Bayes of all records and without each fold; with a kept class all as by class."""
    dealt = not sample.varies
    whole = most_likely_marginals(sample) if sample.label.kept and dealt else marginals[None]
    held = {f: replace(_built(sample, marginals[f], {}, {}), dealt=dealt) for f in range(FOLDS)}
    return replace(_built(sample, whole, {}, {}), dealt=dealt), held


def _built(
    sample: Sample, marginals: list[Floats], weights: dict[Pair, Floats], tables: dict[Pair, Tables]
) -> Forest:
    classes = range(sample.label_matrix.shape[1])
    return Forest(tuple(sample.matrices), tuple(_forest(c, marginals, weights, tables) for c in classes))


def _candidates(sample: Sample, order: Sequence[int]) -> list[int]:
    """Return as many attributes as can be counted and estimated in pairs within a second or so."""
    chosen: list[int] = []
    cells = 0
    for place in order:
        own = len(sample.matrices[place]) * sample.classes
        cells += sum(max(own * len(sample.matrices[c]), PAIR_COST) for c in chosen)
        if cells > ALL_PAIRS_CELLS:
            break
        chosen.append(place)
    return sorted(chosen)


def _pairs(sample: Sample, marginals: Mapping[int | None, list[Floats]], candidates: list[int]) -> list[Fitted]:
    """Return each pair's gain over independence by class, and its table, without each fold.

    The first fold's have the tables of all records, too.
    """
    groups: dict[tuple[tuple[int, ...], ...], list[Pair]] = {}
    for a, b in combinations(candidates, 2):
        shapes = (sample.matrices[a].shape, sample.matrices[b].shape)
        cells = shapes[0][0] * shapes[1][0]
        if cells <= PAIR_CELLS and cells * sample.classes <= BATCH_CELLS:
            groups.setdefault(shapes, []).append((a, b))
    found: list[Fitted] = [({}, {}, {}) for _ in range(FOLDS)]
    for (one, other), pairs in groups.items():
        most = max(1, BATCH_CELLS // (one[0] * other[0] * sample.classes))
        for some in (pairs[first : first + most] for first in range(0, len(pairs), most)):
            counts = np.stack([sample.counts(p) for p in some])  # (pairs, folds, labels, cells, cells)
            for fold, own in enumerate(found):
                fitted = _fitted(sample, marginals[fold], some, counts, fold)
                for known, tables in zip(own, fitted, strict=True):
                    known.update(zip(some, tables, strict=True))
    return found


def _fitted(
    sample: Sample, marginals: list[Floats], pairs: list[Pair], counts: np.ndarray, fold: int
) -> tuple[Floats, Tables, Tables]:
    """Run EM for pairs of like shapes at once, each stopped by its own held-out likelihood.

    Each label of a kept class is a problem of its own.
    """
    held, every = counts[:, fold].astype(np.float32), counts.sum(axis=1)
    label, kept = sample.label_matrix, sample.label.kept
    classes = label.shape[1]
    known = sample.shares((every - counts[:, fold])[0].sum(axis=(1, 2)).astype(np.float64))
    start = np.stack([marginals[a][:, :, None] * marginals[b][:, None, :] for a, b in pairs])
    start = (start * known[:, None, None]).astype(np.float32)
    stacked = [np.stack([sample.matrices[p[place]] for p in pairs]).astype(np.float32) for place in (0, 1)]
    by_class = [np.repeat(m, classes, axis=0) for m in stacked]
    matrices: list[Tables] = by_class if kept else [np.stack([label] * len(pairs)), *stacked]

    def problems(table: Tables) -> Tables:
        return table.reshape(-1, *table.shape[2:]) if kept else table

    def judge(expected: Sequence[Tables], which: np.ndarray) -> Floats:
        logs = np.log(np.maximum(expected[0], TINY))
        own = problems(held)[which] * logs
        return np.asarray(own.sum(axis=tuple(range(1, own.ndim)), dtype=np.float64))[:, None]

    steps = Steps(Part(matrices, problems(shares(every - held))))
    fit = steps.stopped(problems(start), judge, STOP)
    table = fit.table.reshape(start.shape)
    # what each held-out cell is worth to each class, by how likely it is that class's
    both = np.maximum(forward(table.reshape(-1, *table.shape[2:]), by_class), TINY)
    both = both.reshape(*table.shape[:2], *held.shape[2:])
    alone = both.sum(axis=3, keepdims=True) * both.sum(axis=2, keepdims=True)
    now, alone = (t.reshape(*table.shape[:2], -1) for t in (both, alone))
    weights = now * (label.T @ (held.reshape(*held.shape[:2], -1) / np.maximum(label @ now, TINY)))
    rise = np.log(shares(now, 2) / np.maximum(shares(alone, 2), TINY) + TINY)
    gain = (weights * rise).sum(axis=2, dtype=np.float64)
    more = table
    if fold == 0:  # a few more steps with the records that were held back
        which = np.flatnonzero(problems(gain[:, :, None] > EDGE).reshape(len(fit.table), -1).any(axis=1))
        final = fit.table.copy()
        final[which] = Steps(Part(matrices, problems(shares(every))))(
            fit.table[which], max(3, int(np.median(fit.steps)) // 4), which
        )
        more = final.reshape(start.shape)
    return gain, table, more


def _of_sub_tables(
    sample: Sample, marginals: Mapping[int | None, list[Floats]], pairs: Sequence[Pair], stop: Stop
) -> list[Fitted]:
    """Return the results for pairs without each fold; the gains are those of records that show both."""
    found: list[Fitted] = [({}, {}, {}) for _ in range(FOLDS)]
    for some, seen in _alike(sample, pairs):
        gains, tables, wholes = _fitted_together(sample, marginals, some, seen, stop)
        for n, pair in enumerate(some):
            for fold, (own, without, whole) in enumerate(found):
                own[pair], without[pair], whole[pair] = gains[n, fold], tables[n, fold], wholes[n]
    return found


def _alike(sample: Sample, pairs: Sequence[Pair]) -> Iterator[tuple[list[Pair], list[list[SubTable]]]]:
    """Yield pairs that were published by the same laws, and the counts of each."""
    waiting: dict[object, tuple[list[Pair], list[list[SubTable]]]] = {}
    for pair in pairs:
        seen = sample.sub_tables(pair)
        laws = [[e.key for e in s.exposures] for s in seen]
        key = tuple((s.axes, *own) for s, own in zip(seen, laws, strict=True))
        some, own = waiting.setdefault(key, ([], []))
        some.append(pair)
        own.append(seen)
        if len(some) * FOLDS * sample.classes * sample.cells(pair) > MOST_PAIR_CELLS:
            yield waiting.pop(key)
    yield from waiting.values()


def _fitted_together(
    sample: Sample,
    marginals: Mapping[int | None, list[Floats]],
    pairs: Sequence[Pair],
    seen: Sequence[Sequence[SubTable]],
    stop: Stop,
) -> tuple[Floats, Tables, Tables]:
    """Return gains and tables by (pair, fold), and tables of all records by pair."""
    counts = sample.label_counts
    known = np.stack([sample.shares(counts.sum(axis=0) - counts[f]) for f in range(FOLDS)])
    start = np.stack(
        [
            marginals[f][a][:, :, None] * marginals[f][b][:, None, :] * known[f][:, None, None]
            for a, b in pairs
            for f in range(FOLDS)
        ]
    )[:, None]
    tables_of = [_stacked([own[i] for own in seen]) for i in range(len(seen[0]))]
    held = [k.counts.reshape(-1, 1, *k.counts.shape[2:]) for k in tables_of]
    every = [np.repeat(k.counts.sum(axis=1), FOLDS, axis=0)[:, None] for k in tables_of]

    def judge(expected: Sequence[Tables], which: np.ndarray) -> Floats:
        each = zip(held, expected, strict=True)
        scores = [(h[which] * np.log(np.maximum(e, TINY))).reshape(len(which), -1).sum(axis=1) for h, e in each]
        return np.asarray(np.sum(scores, axis=0)[:, None], np.float64)

    steps = steps_of(tables_of, [e - h for e, h in zip(every, held, strict=True)])
    fit = steps.stopped(start, judge, stop)
    gains = np.zeros((len(start), known.shape[1]))
    now, before = (steps.expected(t.astype(np.float32)) for t in (fit.table, start))
    for own, after, first in zip(held, now, before, strict=True):
        rise = own * np.log(np.maximum(after, TINY) / np.maximum(first, TINY))
        if sample.label.kept:
            gains += rise.reshape(*gains.shape, -1).sum(axis=2)
        else:
            gains += np.tile(known, (len(pairs), 1)) * rise.reshape(len(rise), -1).sum(axis=1)[:, None]
    shape = (len(pairs), FOLDS, *fit.table.shape[2:])
    tables = fit.table.reshape(shape)
    more = max(3, int(np.median(fit.steps)) // 4)
    once = [replace(k, lam=np.asarray(k.lam)[::FOLDS]) for k in tables_of]
    whole = steps_of(once, [e[::FOLDS] for e in every])(tables[:, :1], more)
    return gains.reshape(len(pairs), FOLDS, -1), tables, whole[:, 0]


def _stacked(seen: Sequence[SubTable]) -> SubTable:
    """Return the counts of several pairs, by (pair, fold, label, cells), each with its own lam by fold."""
    counts = np.stack([s.counts for s in seen])
    lam = np.repeat(np.stack([np.asarray(s.lam, np.float64) for s in seen]), FOLDS, axis=0)[:, None]
    return replace(seen[0], counts=counts, lam=lam)


def spanning(places: int, pairs: Iterable[Pair]) -> list[Pair]:
    """Return those of the pairs, the heaviest first, that close no circle (Kruskal 1956)."""
    tree, found = list(range(places)), []

    def root(place: int) -> int:
        while tree[place] != place:
            place = tree[place]
        return place

    for pair in pairs:
        a, b = root(pair[0]), root(pair[1])
        if a != b:
            tree[a] = b
            found.append(pair)
    return found


def _forest(
    label: int, marginals: list[Floats], weights: dict[Pair, Floats], tables: dict[Pair, Tables]
) -> tuple[Branch, ...]:
    """Return the heaviest forest of edges that are worth enough."""
    neighbours: list[list[tuple[int, Tables]]] = [[] for _ in marginals]
    heavy = [p for p in sorted(weights, key=lambda p: -weights[p][label]) if weights[p][label] > EDGE]
    for pair in spanning(len(marginals), heavy):
        table = shares(tables[pair][label][None])[0].astype(np.float64)
        neighbours[pair[0]].append((pair[1], table))
        neighbours[pair[1]].append((pair[0], table.T))
    branches, seen = [], set()
    for start in range(len(marginals)):
        if start in seen:
            continue
        seen.add(start)
        branches.append(Branch(start, -1, normalised(marginals[start][label][None, :])))
        waiting = [start]
        while waiting:
            parent = waiting.pop()
            for place, table in neighbours[parent]:
                if place not in seen:
                    seen.add(place)
                    waiting.append(place)
                    branches.append(Branch(place, parent, normalised(table + 1e-12)))
    return tuple(branches)
