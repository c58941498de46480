"""The linear attacks on attributes that are numbers: spectral filtering, PCA and the best linear guess.

They share unbiased scores of the published values, and their covariance. A score w of a published value has E[w
| x] = x: for additive noise the value itself, for a matrix M the scores with M^T w = u (u the values), so that
Cov(w) = Cov(x) + D with D diagonal and known (docs/technical/method.md). Each attack is then one matrix B: the
guess is mean + B (w - mean), its error covariance (I - B) S (I - B)^T + B D B^T.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import sqrt
from typing import Self

import numpy as np

from ppdm_cli.arrays import Floats, chi_square_tail
from ppdm_cli.attacks.adversary import Adversary, AttackedAttribute, Guess, Reader, Records
from ppdm_cli.attacks.run import Attack
from ppdm_cli.attacks.scoring import Beliefs, Measures, expected_error, prior_variance
from ppdm_cli.engine import Batch, fold
from ppdm_cli.errors import listed

CONSTANT = 1e-3
"""The p-value above which an attribute is taken to be constant."""
MOST_CORRELATED = 1 << 9
"""The most attributes of the linear attacks, whose time grows with the cube of their number."""


def unbiased_scores(target: AttackedAttribute) -> Floats:
    """Return w with M^T w = u, with the least variance of all such scores under equal shares.

    Numbers with noise have no table of scores: they are the scores.
    """
    return target.matrix.scores(target.values) if target.channel.noise is None else np.empty(0)


def scores_of(targets: Sequence[AttackedAttribute], scores: Sequence[Floats], records: Records) -> Floats:
    """Return the scores of a batch, of shape (records, attributes)."""
    columns = [
        s[records.codes[t.name]] if t.channel.noise is None else records.noisy[t.name]
        for t, s in zip(targets, scores, strict=True)
    ]
    return np.stack(columns, axis=1)


def noise_variance(target: AttackedAttribute, scores: Floats) -> float:
    """Return E Var(w | x) under the prior."""
    if target.channel.noise is not None:
        return target.channel.noise.noise_variance
    return float(target.matrix.forward(target.prior) @ scores**2 - target.prior @ target.values**2)


def constant(target: AttackedAttribute, published: Floats) -> bool:
    """Return whether all records may have one value, to judge by the published counts."""
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


def studied(adversary: Adversary) -> list[AttackedAttribute]:
    """Return the attributes that are numbers, and say of the others why they are left out."""
    chosen, out = list[AttackedAttribute](), dict[str, list[str]]()
    for target in adversary.targets.values():
        if not target.ordered or target.domain.nulls:
            why = "not numbers" if not target.ordered else "with nulls"
        elif not target.measurable:
            why = "with numbers too large or too small for their squares"
        elif constant(target, adversary.counts[target.name]):
            why = "because the release shows no variation"
        elif len(chosen) == MOST_CORRELATED:
            why = f"beyond the first {MOST_CORRELATED}"
        else:
            chosen.append(target)
            continue
        out.setdefault(why, []).append(target.name)
    adversary.remarks += [f"Left out of the linear attacks, {w}: {listed(n)}." for w, n in out.items()]
    if not chosen:
        adversary.remarks.append("No attribute is left for the linear attacks.")
    return chosen


@dataclass(frozen=True, eq=False)
class Correlated:
    """The attributes of the linear attacks, with their scores."""

    targets: list[AttackedAttribute]
    scores: list[Floats]
    scored: Scored

    @classmethod
    def learn(cls, adversary: Adversary) -> Self | None:
        """Study the release, in one pass; None where no attribute is a number."""
        if not (chosen := studied(adversary)):
            return None
        scores = [unbiased_scores(t) for t in chosen]
        middle = np.array([t.values.mean() for t in chosen])
        noise = np.array([noise_variance(t, w) for t, w in zip(chosen, scores, strict=True)])
        task = partial(_moments, adversary.reader(), chosen, scores, middle)
        moments = fold(adversary.released, task, Moments.__add__, doing="correlating")
        assert moments is not None
        scored = Scored(moments, middle, noise, np.array([prior_variance(t) for t in chosen]))
        if scored.rank < len(chosen) > 1:
            adversary.remarks.append(
                "For the linear attacks the estimated covariance is singular "
                f"({scored.rank} of {len(chosen)} directions)."
            )
        return cls(chosen, scores, scored)


def _moments(
    reader: Reader, targets: list[AttackedAttribute], scores: list[Floats], middle: Floats, batch: Batch
) -> Moments:
    return Moments.of(scores_of(targets, scores, reader.published(batch)) - middle)


class Linear(Attack):
    """A linear attack on all attributes that are numbers."""

    needs_every_attribute = True
    least = 2
    """The number of attributes that the attack needs."""

    def __init__(self, adversary: Adversary, found: Correlated) -> None:
        self._found, self._B = found, self.estimator(found.scored)
        self.closed = [*adversary.targets]

    @staticmethod
    def estimator(scored: Scored) -> Floats:
        """Return B."""
        raise NotImplementedError

    @classmethod
    def learn(cls, adversary: Adversary) -> Self | None:
        found = adversary.once(Correlated.learn)
        if found is None or len(found.targets) >= cls.least:
            return None if found is None else cls(adversary, found)
        adversary.remarks.append(f"{cls.name}: only one attribute is a number, so there are no correlations.")
        return None

    def guesses(self, records: Records) -> dict[str, Guess]:
        targets, scored = self._found.targets, self._found.scored
        scores = scores_of(targets, self._found.scores, records)
        values = (scores - scored.mean) @ self._B.T + scored.mean
        nearest = [t.nearest(v) for t, v in zip(targets, values.T, strict=True)]
        return {t.name: Guess(n, n, v) for t, n, v in zip(targets, nearest, values.T, strict=True)}

    def expected(self, beliefs: Mapping[str, Beliefs]) -> dict[str, Measures]:
        errors = self._found.scored.errors(self._B)
        return {t.name: expected_error(t, float(e)) for t, e in zip(self._found.targets, errors, strict=True)}


class Spectral(Linear):
    """Spectral filtering (Kargupta et al. 2003): directions whose variance is above what noise alone can have.

    The bound is Marchenko and Pastur's, (1 + sqrt(m/n))^2 in units of the noise; it is asymptotic, and pure
    noise passes it in about one run in eight.
    """

    name, strength = "spectral", 3
    about = "The attack on additive noise of Kargupta et al."

    @staticmethod
    def estimator(scored: Scored) -> Floats:
        bound = (1 + sqrt(len(scored.noise) / scored.moments.records)) ** 2
        return scored.projection(int((np.linalg.eigvalsh(scored.scaled) > bound).sum()))


class Pca(Linear):
    """PCA-DR (Huang et al. 2005): the leading directions of the covariance, up to where it falls most steeply.

    Steeply by ratio: of a few components one is often far above the others, which count all the same.
    """

    name, strength = "pca", 4
    about = "The attack on additive noise of Huang et al., by principal components."

    @staticmethod
    def estimator(scored: Scored) -> Floats:
        falling = np.maximum(np.linalg.eigvalsh(scored.scaled)[::-1], 1e-12)
        return scored.projection(int(np.argmax(falling[:-1] / falling[1:])) + 1)


class BayesLinear(Linear):
    """BE-DR (Huang et al. 2005): the best linear guess, S (S + D)^-1 (w - mean) + mean.

    For additive noise D is its variance; for a matrix that is known, as every release's is, that of the
    unbiased scores.
    """

    name, strength, least = "bayes-linear", 5, 1
    about = "The best linear guess."

    @staticmethod
    def estimator(scored: Scored) -> Floats:
        total = scored.signal + np.diag(scored.noise)
        return np.asarray(np.linalg.solve(total, scored.signal).T, np.float64)
