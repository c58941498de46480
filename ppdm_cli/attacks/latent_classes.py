"""A latent-class model of records for the attack by the whole record.

Given a latent class, all columns of a record are independent. EM learns each class's share, and the
distribution of each column's originals within it, from the published codes and their matrices. Where many
smooth attributes move together, a few classes describe them better than pairs of columns do. Records that are
held back judge models, by how likely they make the answers that those records published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp, softmax

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.channels import Channel
from ppdm_cli.estimating import TINY, maximum_likelihood, shares, tabulated
from ppdm_cli.joint import FOLDS, Sample
from ppdm_cli.releases import Exposure

if TYPE_CHECKING:
    from scipy.sparse import csr_array

CLASSES, MOST_STEPS, MOST_RECORDS = 24, 60, 1 << 15
MORE, MOST_MORE = 0.9, 2.0
"""The power of its factors by which a step goes farther than EM, first and at most."""
LEAST_RISE = 0.5
"""Nats by which a step must make held-out records more likely for another to follow."""
FEWEST_COLUMNS = 4
"""Releases of fewer columns are left to the other opinions."""
SMOOTHING = 1.0
"""Records that are added to each class, divided as all records are."""
SPREAD = 0.5
"""The difference between the logarithms of the first distributions from class to class."""
JUDGES = 1 << 14
"""The number of held-out records that judge."""


@dataclass(frozen=True, eq=False)
class SampleColumns:
    """The published columns of a sample, the class among them."""

    channels: list[Channel]
    codes: list[Codes]
    held: np.ndarray
    """The records that were held back."""

    @classmethod
    def of(cls, sample: Sample, without: int = -1) -> SampleColumns:
        """Return the columns of all records, or of those outside one fold."""
        rows = np.flatnonzero(sample.folds != without)
        codes = [c[rows] for c in (*sample.codes, sample.labels)]
        return cls([*sample.channels, sample.label], codes, sample.folds[rows] == (without + 1) % FOLDS)

    def matrix(self, place: int) -> Floats:
        return Exposure.of(self.channels[place]).matrix

    def counts(self, *places: int) -> np.ndarray:
        """Return the counts of each published combination: (learned from or held back, cells ...)."""
        shape = [2, *(self.channels[p].published.size for p in places)]
        return tabulated([self.held.astype(np.uint8), *(self.codes[p] for p in places)], shape)

    def prior(self, place: int) -> Floats:
        """Return the most likely shares of the originals, from the records to learn from."""
        published = self.counts(place)[0].astype(np.float64)
        if not self.channels[place].kept:
            published = maximum_likelihood(published, [self.channels[place].matrix])
        raised = np.maximum(published, 1e-6)
        return np.asarray(raised / raised.sum())


def judged(columns: SampleColumns, place: int, rows: np.ndarray, likely: Floats) -> Floats:
    """Return the log-likelihood of each of a column's answers, given beliefs about the originals."""
    law = columns.matrix(place)[columns.codes[place][rows]]
    return np.asarray(np.log(np.maximum((likely * law).sum(axis=1), TINY)))


def judges(columns: SampleColumns) -> np.ndarray:
    return np.flatnonzero(columns.held)[:JUDGES]


@dataclass(frozen=True, eq=False)
class LatentClasses:
    """The shares of latent classes, and p(original | class) of each column, (originals, classes)."""

    sizes: Floats
    laws: tuple[Floats, ...]
    matrices: tuple[Floats, ...]
    """The matrix p(published code | original) of each column."""
    kept: tuple[bool, ...]

    @cached_property
    def logs(self) -> list[Floats]:
        """Return log p(published code | class) of each column, (codes, classes)."""
        return [np.log(np.maximum(M @ law, TINY)) for M, law in zip(self.matrices, self.laws, strict=True)]

    def likely(self, place: int, codes: Sequence[Codes], kept_only: bool = False) -> Floats:
        """Return p(original of a column | the other columns), (records, originals)."""
        logs = np.repeat(np.log(self.sizes)[None], len(codes[place]), axis=0)
        for other, (own, kept) in enumerate(zip(self.logs, self.kept, strict=True)):
            if other != place and (kept or not kept_only):
                logs += own[codes[other]]
        return np.asarray(softmax(logs, axis=1) @ self.laws[place].T)

    def scores(self, published: csr_array) -> Floats:
        """Return log p(class, all published codes) of records, (records, classes)."""
        return np.asarray(published @ np.concatenate(self.logs) + np.log(self.sizes))

    def improved(self, published: csr_array, priors: Sequence[Floats]) -> LatentClasses:
        """Return what one step of EM makes of the model."""
        belief = softmax(self.scores(published), axis=1)
        ends = np.cumsum([len(M) for M in self.matrices])[:-1]
        laws = []
        for counts, M, law, prior in zip(
            np.split(published.T @ belief, ends), self.matrices, self.laws, priors, strict=True
        ):
            originals = law * (M.T @ (counts / np.maximum(M @ law, TINY)))
            better = _by_class(originals + SMOOTHING * prior[:, None])
            laws.append(_by_class(better * np.clip(better / law, 1 / MOST_MORE, MOST_MORE) ** MORE))
        return replace(self, sizes=shares(belief.sum(axis=0) + SMOOTHING, 0), laws=tuple(laws))


def learn_classes(columns: SampleColumns) -> tuple[LatentClasses, LatentClasses]:
    """Return the model under which held-out records are most likely, and it after steps with all records."""
    from scipy.sparse import vstack  # on first use: it costs a tenth of a second

    places, rng = range(len(columns.channels)), np.random.default_rng(0)
    priors = [columns.prior(p) for p in places]
    best = LatentClasses(
        np.full(CLASSES, 1 / CLASSES),
        tuple(_by_class(p[:, None] * np.exp(SPREAD * rng.standard_normal((len(p), CLASSES)))) for p in priors),
        tuple(columns.matrix(p) for p in places),
        tuple(c.kept for c in columns.channels),
    )
    training, held = (
        _indicators(columns, r) for r in (np.flatnonzero(~columns.held)[:MOST_RECORDS], judges(columns))
    )
    score, steps = -np.inf, 0
    while steps < MOST_STEPS:
        tried = best.improved(training, priors)
        found = float(logsumexp(tried.scores(held), axis=1).sum())
        if found < score + LEAST_RISE:
            break
        best, score, steps = tried, found, steps + 1
    whole, every = best, vstack([training, held], format="csr")
    for _ in range(max(3, steps // 4)):
        whole = whole.improved(every, priors)
    return best, whole


def _by_class(laws: Floats) -> Floats:
    return np.asarray(laws / laws.sum(axis=0))


def _indicators(columns: SampleColumns, rows: np.ndarray) -> csr_array:
    """Return the codes that each record published as ones, (records, codes of all columns)."""
    from scipy.sparse import csr_array

    widths = [c.published.size for c in columns.channels]
    starts = np.cumsum([0, *widths])
    at = np.stack([c[rows].astype(np.int64) + s for c, s in zip(columns.codes, starts, strict=False)], axis=1)
    ends = np.arange(0, at.size + 1, len(widths))
    return csr_array((np.ones(at.size), at.ravel(), ends), shape=(len(rows), starts[-1]))
