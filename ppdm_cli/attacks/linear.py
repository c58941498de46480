"""What the linear attacks share: unbiased scores of the published values, and their covariance as a fold.

A score w of a published value has E[w | x] = x: for additive noise the value itself, for a matrix M the
scores with M^T w = u (u the values), so that Cov(w) = Cov(x) + D with D diagonal and known (maths 5).
Each attack is then one matrix B: the guess is mean + B (w - mean), its error covariance
(I - B) S (I - B)^T + B D B^T.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ppdm_cli.arrays import Floats, chi_square_tail
from ppdm_cli.attacks.attacked_attribute import Guess, Rows, Target
from ppdm_cli.attacks.scoring import expected_error

CONSTANT = 1e-3
"""The p-value above which an attribute is taken to be constant."""


def unbiased_scores(target: Target) -> Floats:
    """Return w with M^T w = u; of all such scores those of least variance under equal shares.

    Numbers with noise have no table of scores: they are the scores.
    """
    return target.matrix.scores(target.values) if target.channel.noise is None else np.empty(0)


def scores_of(targets: Sequence[Target], scores: Sequence[Floats], rows: Rows) -> Floats:
    """Return the scores of a batch, of shape (records, attributes)."""
    columns = [
        s[rows.codes[t.name]] if t.channel.noise is None else rows.noisy[t.name]
        for t, s in zip(targets, scores, strict=True)
    ]
    return np.stack(columns, axis=1)


def noise_variance(target: Target, scores: Floats) -> float:
    """Return E Var(w | x) under the prior."""
    if target.channel.noise is not None:
        return target.channel.noise.noise_variance
    return float(target.matrix.forward(target.prior) @ scores**2 - target.prior @ target.values**2)


def constant(target: Target, published: Floats) -> bool:
    """Return whether all records may have one value: the published counts are as its column would have them."""
    column = target.matrix.forward(np.eye(1, len(target.prior), int(target.prior.argmax()))[0])
    if (published[column <= 0] > 0).any():
        return False
    expected = column[column > 0] * published.sum()
    statistic = float(((published[column > 0] - expected) ** 2 / expected).sum())
    return chi_square_tail(statistic, len(expected) - 1) > CONSTANT


@dataclass(frozen=True, eq=False)
class Moments:
    """Records, sums and products of the scores less `middle`; adds up over partitions."""

    records: int
    sums: Floats
    products: Floats

    @classmethod
    def of(cls, scores: Floats) -> Moments:
        """Return the moments of scores minus their middle, of shape (records, attributes)."""
        return cls(len(scores), scores.sum(axis=0), scores.T @ scores)

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.records + other.records, self.sums + other.sums, self.products + other.products)


@dataclass(frozen=True, eq=False)
class Scored:
    """The scores of several attributes, with their mean, covariance and noise."""

    moments: Moments
    middle: Floats
    noise: Floats
    """D: the variance of the noise in each score."""
    variances: Floats
    """The variance of each attribute's originals."""

    @cached_property
    def mean(self) -> Floats:
        return self.middle + self.moments.sums / self.moments.records

    @cached_property
    def covariance(self) -> Floats:
        """Return the covariance of the scores."""
        m = self.moments
        offset = m.sums / m.records
        return m.products / m.records - np.outer(offset, offset)

    @cached_property
    def scaled(self) -> Floats:
        """Return the covariance of the scores in units in which the noise of each has variance 1."""
        root = np.sqrt(self.noise)
        return self.covariance / np.outer(root, root)

    @cached_property
    def signal(self) -> Floats:
        """Return S, the covariance of the originals, positive semi-definite.

        Their variances are those of the estimated distributions. Of the rest only directions that chance
        does not explain count: random covariances alone would reach as far as Marchenko and Pastur say.
        """
        root = np.sqrt(self.noise)
        m, n = len(root), self.moments.records
        own = np.diag(self.variances / self.noise)
        values, vectors = np.linalg.eigh(self.scaled - np.eye(m) - own)
        reach = (2 * np.sqrt(m / n) + m / n) * float(np.diag(self.scaled).mean())
        values = np.where(np.abs(values) > reach, values, 0.0)
        values, vectors = np.linalg.eigh(own + (vectors * values) @ vectors.T)
        found = (vectors * np.maximum(values, 0.0)) @ vectors.T
        scale = np.sqrt(np.divide(self.variances, np.diag(found), out=np.zeros(m), where=np.diag(found) > 0))
        return found * np.outer(scale, scale)

    @cached_property
    def rank(self) -> int:
        """Return the number of directions in which the originals are seen to vary."""
        return int(np.linalg.matrix_rank(self.signal, hermitian=True))

    def projection(self, count: int) -> Floats:
        """Return B of the projection on the leading eigenvectors."""
        vectors = np.linalg.eigh(self.scaled)[1][:, ::-1][:, :count]
        root = np.sqrt(self.noise)
        return vectors @ vectors.T * np.outer(root, 1 / root)

    def errors(self, B: Floats) -> Floats:
        """Return the expected squared errors of a guess."""
        rest = np.eye(len(B)) - B
        return np.maximum(np.diag(rest @ self.signal @ rest.T) + B**2 @ self.noise, 0.0)


class Linear:
    """One such attack on all attributes that are numbers."""

    def __init__(
        self, name: str, targets: Sequence[Target], scores: Sequence[Floats], scored: Scored, B: Floats
    ):
        self.name = name
        self._targets, self._scores, self._scored, self._B = targets, scores, scored, B

    def guesses(self, rows: Rows) -> dict[str, Guess]:
        mean = self._scored.mean
        values = (scores_of(self._targets, self._scores, rows) - mean) @ self._B.T + mean
        found = {}
        for target, value in zip(self._targets, values.T, strict=True):
            nearest = target.nearest(value)
            found[target.name] = Guess(nearest, nearest, value)
        return found

    def expected(self, _: object) -> dict[str, dict[str, Any]]:
        errors = self._scored.errors(self._B)
        return {t.name: expected_error(t, float(e)) for t, e in zip(self._targets, errors, strict=True)}

    def largest(self, _: object) -> dict[str, dict[str, Any]]:
        return {}  # it has no beliefs
