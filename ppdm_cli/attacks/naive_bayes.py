"""What all the other columns of a release say of one attribute: naive Bayes, learnt from the release alone.

For each pair of columns EM learns the joint distribution of their originals, stopped where the pair's held-out
records are likeliest; a kept column is its own original. What an answer says of an original value follows by
the answer's own matrix, so no belief exceeds what gamma allows. Columns that say the same would count twice:
each is weighed, in the order of what it says alone, by how likely held-out answers of the attribute become.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.special import softmax

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.channels import Channel
from ppdm_cli.estimating import TINY, Part, Steps, Stop, Tables, Way, maximum_likelihood, tabulated
from ppdm_cli.joint import FOLDS, Sample

LARGEST_PAIR, AT_ONCE = 1 << 14, 1 << 22
"""Cells of a pair's published table: what a pair may have, and what is learnt at a time."""
STOP = Stop(enough=0.05, patience=2, more=5, most=200)
MOST_PAIRS = 1 << 12
"""So many pairs are learnt: those with the class and kept columns first."""
WEIGHTS = (1.0, 0.5, 0.25)
LEAST_RISE = 3.0
"""Nats by which held-out answers must become likelier for another column to count."""
JUDGES = 1 << 14
"""So many held-out records judge."""


@dataclass(frozen=True, eq=False)
class Columns:
    """The published columns of a sample, the class among them."""

    channels: list[Channel]
    codes: list[Codes]
    held: np.ndarray
    """The records that were held back."""

    @classmethod
    def of(cls, sample: Sample, without: int = -1) -> Columns:
        """Return the columns of all records, or of those outside one fold."""
        rows = np.flatnonzero(sample.folds != without)
        codes = [c[rows] for c in (*sample.codes, sample.labels)]
        return cls([*sample.channels, sample.label], codes, sample.folds[rows] == (without + 1) % FOLDS)

    def matrix(self, place: int) -> Floats:
        return Way.of(self.channels[place]).told

    def counts(self, *places: int) -> np.ndarray:
        """Return how often each combination was published: (learnt from or held back, cells ...)."""
        shape = [2, *(self.channels[p].published.size for p in places)]
        return tabulated([self.held.astype(np.uint8), *(self.codes[p] for p in places)], shape)

    def prior(self, place: int) -> Floats:
        """Return the likeliest shares of the originals, from the records to learn from."""
        published = self.counts(place)[0].astype(np.float64)
        if not self.channels[place].kept:
            published = maximum_likelihood(published, [self.channels[place].matrix])
        raised = np.maximum(published, 1e-6)
        return np.asarray(raised / raised.sum())


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the published codes of a column say of an attribute's originals: log p, (codes, originals)."""

    place: int
    prior: Floats
    """The shares of the originals in the table that this is from."""
    logs: Floats
    weight: float
    kept: bool


@dataclass(frozen=True, eq=False)
class NaiveBayes:
    """An attribute's prior, and all that is to be known of it but its own answer."""

    prior: Floats
    evidence: tuple[Evidence, ...]

    def likely(self, codes: Sequence[Codes], records: int, kept_only: bool = False) -> Floats:
        """Return p(original | the other columns), (records, originals)."""
        logs = np.repeat(np.log(self.prior)[None], records, axis=0)
        for e in self.evidence:
            if e.kept or not kept_only:
                logs += e.weight * e.logs[codes[e.place]]
        return np.asarray(softmax(logs, axis=1))


def learnt(columns: Columns, places: Collection[int]) -> dict[int, tuple[NaiveBayes, Floats]]:
    """Return the naive Bayes of these columns, and the log-likelihoods of their own answers held back."""
    places = set(places)
    evidence: dict[int, list[tuple[float, Evidence, Evidence]]] = {p: [] for p in places}
    for pair, gain, tables in _pairs(columns, places):
        for (own, other), turned in zip((pair, pair[::-1]), (tables, tables.swapaxes(-1, -2)), strict=True):
            if own in places:
                held, whole = (_evidence(columns, other, table) for table in turned)
                evidence[own].append((gain, held, whole))
    return {p: _weighed(columns, p, sorted(found, key=lambda s: -s[0])) for p, found in evidence.items()}


def judged(columns: Columns, place: int, rows: np.ndarray, likely: Floats) -> Floats:
    """Return the log-likelihood of each of a column's answers, given what was thought of the originals."""
    told = columns.matrix(place)[columns.codes[place][rows]]
    return np.asarray(np.log(np.maximum((likely * told).sum(axis=1), TINY)))


def judges(columns: Columns) -> np.ndarray:
    return np.flatnonzero(columns.held)[:JUDGES]


def _pairs(columns: Columns, places: Collection[int]) -> Iterator[tuple[tuple[int, int], float, Tables]]:
    """Yield each pair that is not independent, its held-out gain, its tables without them and with."""
    alike: dict[tuple[tuple[int, ...], ...], list[tuple[int, int]]] = {}
    matrices = [columns.matrix(p) for p in range(len(columns.channels))]
    priors = [columns.prior(p) for p in range(len(matrices))]
    known = {len(matrices) - 1, *(p for p, c in enumerate(columns.channels) if c.kept)}
    wanted = [
        (a, b)
        for a, b in combinations(range(len(matrices)), 2)
        if (a in places or b in places) and len(matrices[a]) * len(matrices[b]) <= LARGEST_PAIR
    ]
    for a, b in sorted(wanted, key=known.isdisjoint)[:MOST_PAIRS]:
        alike.setdefault((matrices[a].shape, matrices[b].shape), []).append((a, b))
    for (one, other), pairs in alike.items():
        step = max(1, AT_ONCE // (one[0] * other[0]))
        for start in range(0, len(pairs), step):
            part = pairs[start : start + step]
            first, second = (np.stack([matrices[p[i]] for p in part]) for i in (0, 1))
            alone = np.stack([np.outer(priors[a], priors[b]) for a, b in part])
            gains, tables = _fitted(np.stack([columns.counts(*p) for p in part]), [first, second], alone)
            yield from ((p, float(g), t) for p, g, t in zip(part, gains, tables, strict=True) if g > LEAST_RISE)


def _fitted(counts: np.ndarray, matrices: list[Tables], alone: Tables) -> tuple[Floats, Tables]:
    """Return how much likelier than independence held-out records are, and (pair, without and with, cells)."""
    held = counts[:, 1].astype(np.float32)

    def judge(expected: Sequence[Tables], which: np.ndarray) -> Floats:
        logs = np.log(np.maximum(expected[0], TINY))
        return np.asarray((held[which] * logs).sum(axis=(-1, -2), dtype=np.float64))[:, None]

    every = np.arange(len(alone))
    steps = Steps(Part(matrices, counts[:, 0]))
    # EM multiplies: what begins at almost nothing would stay there
    fit = steps.stopped((alone + 1 / alone[0].size) / 2, judge, STOP)
    base = judge(steps.expected(alone.astype(np.float32)), every)
    more = max(3, int(np.median(fit.steps)) // 4)
    whole = Steps(Part(matrices, counts.sum(axis=1)))(fit.table, more, every)
    return (fit.scores - base)[:, 0], np.stack([fit.table, whole], axis=1)


def _evidence(columns: Columns, place: int, table: Tables) -> Evidence:
    """Return what a column's answers say, from the joint table (attribute, column) of originals."""
    joint = np.maximum(table.astype(np.float64), 1e-12)
    prior = joint.sum(axis=1)
    chances = joint @ columns.matrix(place).T / prior[:, None]
    logs = np.log(np.maximum(chances, TINY)).T
    return Evidence(place, prior / prior.sum(), logs, 1.0, columns.channels[place].kept)


def _weighed(
    columns: Columns, place: int, evidence: list[tuple[float, Evidence, Evidence]]
) -> tuple[NaiveBayes, Floats]:
    """Return the attribute's model, with the weights that make held-out answers likeliest."""
    rows = judges(columns)
    prior, chosen = columns.prior(place), list[Evidence]()
    best, logs = judged(columns, place, rows, prior[None]), np.zeros((len(rows), 1))
    for _, held, whole in evidence:
        own = held.logs[columns.codes[held.place][rows]]
        before = logs if chosen else np.log(held.prior)[None]
        tried = {w: judged(columns, place, rows, softmax(before + w * own, axis=1)) for w in WEIGHTS}
        weight = max(tried, key=lambda w: float(tried[w].sum()))
        if tried[weight].sum() > best.sum() + LEAST_RISE:
            best, logs = tried[weight], before + weight * own
            prior = prior if chosen else whole.prior
            chosen.append(replace(whole, weight=weight))
    return NaiveBayes(prior, tuple(chosen)), best
