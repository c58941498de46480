"""A latent-class model of records for the attack by the whole record.

Given a latent class, all columns of a record are independent. EM learns each class's share, and the
distribution of each column's originals within it, from the published codes and their matrices. Where many
smooth attributes move together, a few classes describe them better than pairs of columns do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp, softmax

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.attacks.sample_columns import SampleColumns, judges
from ppdm_cli.estimating import TINY, shares

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
    learnt, held = (
        _indicators(columns, r) for r in (np.flatnonzero(~columns.held)[:MOST_RECORDS], judges(columns))
    )
    score, steps = -np.inf, 0
    while steps < MOST_STEPS:
        tried = best.improved(learnt, priors)
        found = float(logsumexp(tried.scores(held), axis=1).sum())
        if found < score + LEAST_RISE:
            break
        best, score, steps = tried, found, steps + 1
    whole, every = best, vstack([learnt, held], format="csr")
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
