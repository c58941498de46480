"""The exact Bayes attack on one attribute: the prior is the estimated distribution, one answer is published.

Pr(x = k | y = h) is proportional to M[h, k] p_k. So each answer has one best guess, and what to expect of
it is a sum over answers. No posterior exceeds gamma p / (gamma p + 1 - p) (docs/technical/method.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.attacks.adversary import BELIEFS_AT_ONCE, Adversary, AttackedAttribute, Guess, Records
from ppdm_cli.attacks.report import Belief, ClassFigures
from ppdm_cli.attacks.run import Attack
from ppdm_cli.attacks.scoring import Beliefs, Measures, crossed, estimable, expected
from ppdm_cli.estimating import maximum_likelihood
from ppdm_cli.privacy import worst_posterior


@dataclass(frozen=True, eq=False)
class BestGuesses:
    """The best guesses for each published code of an attribute, with their scores."""

    target: AttackedAttribute
    guess: Guess
    """The guess for each published code."""
    exact: float
    near: float
    error: float
    largest: float
    """The largest posterior of all codes and answers."""
    before: float
    """The prior of the code that has the largest posterior."""

    def belief(self, gamma: float) -> Belief:
        """Return the largest belief, and the bound that a gamma sets for it."""
        return Belief(self.largest, self.before, worst_posterior(gamma, self.before))

    def guesses(self, codes: Codes) -> Guess:
        return self.guess.of(codes)

    def figures(self, counts: Floats) -> Measures:
        """Return the expected scores for published codes: unbiased, or as the adversary believes."""
        if estimable(self.target):
            return crossed(self.target, counts).figures(self.target)
        return expected(self.target, self.exact, self.near, self.error if self.target.ordered else None)


def best_guesses(target: AttackedAttribute, prior: Floats | None = None) -> BestGuesses:
    """Apply Bayes' rule to every published code."""
    p = target.prior if prior is None else prior
    diagonal = target.matrix.diagonal
    guess, chance, ordinary = _of_diagonal(target, p) if diagonal else _of_rows(target, p)
    belief, near, variance = np.array([guess.belief, guess.near_belief, guess.variance])
    exact, near_, error = (float(s) for s in (chance @ belief, chance @ near, ordinary @ variance))
    top = int(belief.argmax())
    before = float(p[guess.exact[top]])
    share = float(p[: target.ordered].sum())
    error = error / share if share else np.nan
    return BestGuesses(target, guess, exact, near_, error, float(belief[top]), before)


def _of_rows(target: AttackedAttribute, p: Floats) -> tuple[Guess, Floats, Floats]:
    """Return the guesses and the chance of each answer, of any original and of an ordered one, by blocks."""
    outputs, step = target.matrix.outputs, max(1, BELIEFS_AT_ONCE // len(p))
    parts: list[tuple[Floats, ...]] = []
    for start in range(0, outputs, step):
        joint = target.rows(start, min(start + step, outputs)) * p
        sums = joint.sum(axis=1), joint[:, : target.ordered].sum(axis=1)
        parts.append((*target.guessed(joint)[:6], *sums))  # type: ignore[arg-type]
    *guess, chance, ordinary = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Guess(*guess), chance, ordinary


def _of_diagonal(target: AttackedAttribute, p: Floats) -> tuple[Guess, Floats, Floats]:
    """Return the guesses for a gamma-diagonal matrix in closed form: the own code weighs gamma times."""
    matrix, ordered = target.matrix, target.ordered
    gamma, codes = matrix.amplification, np.arange(len(p))
    more = (gamma - 1) * p
    total, top = p.sum() + more, int(p.argmax())
    own = (gamma * p > p[top]) | (codes == top)
    exact, belief = np.where(own, codes, top), np.where(own, gamma * p, p[top]) / np.maximum(total, 1e-300)
    chance = total / (gamma + len(p) - 1)
    nothing = np.full(len(p), np.nan)
    if not ordered:
        return Guess(exact, exact, nothing, belief, belief, nothing), chance, np.zeros(len(p))
    near, near_belief = _nearest_windows(target.windows(p[None, :])[0], more, ordered)
    near_belief = near_belief / np.maximum(total, 1e-300)
    more = np.where(codes < ordered, more, 0.0)
    sums = p[:ordered].sum() + more
    ordinary = sums / (gamma + len(p) - 1)
    if not target.measurable:
        return Guess(exact, near, nothing, belief, near_belief, nothing), chance, ordinary
    middle = target.values[:ordered].mean()
    u = np.where(codes < ordered, target.values - middle, 0.0)
    value = (p[:ordered] @ u[:ordered] + more * u) / np.maximum(sums, 1e-300)
    square = (p[:ordered] @ u[:ordered] ** 2 + more * u**2) / np.maximum(sums, 1e-300)
    variance = np.maximum(square - value**2, 0.0)
    return Guess(exact, near, value + middle, belief, near_belief, variance), chance, ordinary


def _nearest_windows(windows: Floats, more: Floats, ordered: int) -> tuple[np.ndarray, Floats]:
    """Return each answer's most likely window: the most likely of all, or one of those with its own code."""
    codes = np.arange(len(windows))
    around = codes + np.array([[-1], [0], [1]])
    inside = (around >= 0) & (around < np.where(codes < ordered, ordered, len(codes)))
    inside[[0, 2]] &= codes < ordered  # null has no neighbours
    held = np.where(inside, windows[around.clip(0, len(codes) - 1)], -np.inf)
    best = held.argmax(axis=0)
    own, top = held[best, codes] + more, int(windows.argmax())
    return np.where(own > windows[top], around[best, codes], top), np.maximum(own, windows[top])


class Posterior(Attack):
    """The attack on every perturbed attribute separately."""

    name = "posterior"
    about = "Bayes' rule on one attribute."

    def __init__(self, adversary: Adversary) -> None:
        self._targets, self._counts = adversary.targets, adversary.counts
        self.answers = {n: best_guesses(t) for n, t in adversary.targets.items() if n in adversary.counts}
        self.closed = [*self.answers]
        self.strength = 1 if adversary.noisy else 6
        self._expected = dict[str, Measures]()

    @classmethod
    def learn(cls, adversary: Adversary) -> Self:
        adversary.once(learn_kept)
        return adversary.once(cls)

    def guesses(self, records: Records) -> dict[str, Guess]:
        return {n: self.guess(n, records) for n in self._targets}

    def guess(self, name: str, records: Records) -> Guess:
        """Return the guesses for one attribute."""
        codes, target = records.codes[name], self._targets[name]
        if name in self.answers:
            return self.answers[name].guesses(codes)
        return target.guessed_by(codes, records.lam)

    def before(self, records: Records, names: Sequence[str]) -> dict[str, Floats]:
        """Return the priors."""
        return {n: np.tile(self._targets[n].prior, (records.count, 1)) for n in names}

    def expected(self, beliefs: Mapping[str, Beliefs]) -> dict[str, Measures]:
        if not self._expected:  # the whole record's attack asks for the same
            self._expected = {n: a.figures(self._counts[n]) for n, a in self.answers.items()}
        return self._expected | {n: b.measures() for n, b in beliefs.items()}

    def largest(self, beliefs: Mapping[str, Beliefs]) -> dict[str, Belief]:
        found = {n: Belief(b.largest, b.before, b.bound) for n, b in beliefs.items()}
        return found | {n: a.belief(a.target.gamma) for n, a in self.answers.items()}


def learn_kept(adversary: Adversary) -> None:
    """Learn what a kept class reveals about the attributes: shares of exact guesses without and with it."""
    for name, counts in adversary.by_class.items():  # (label, published code)
        target, total, by_class, both = adversary.targets[name], float(counts.sum()), 0.0, 0.0
        for own in counts[counts.sum(axis=1) > 0]:  # a label that nobody has says nothing
            n = float(own.sum())
            prior = maximum_likelihood(own, [target.matrix]) / n
            by_class += n / total * float(prior.max())
            both += n / total * best_guesses(target, prior).exact
        assert adversary.label is not None
        figures = float(target.prior.max()), by_class, best_guesses(target).exact, both
        adversary.class_figures.append(ClassFigures(name, adversary.label.name, *figures))


class KnownAttribute(Attack):
    """An adversary who knows one of the attributes that a record publishes together with others.

    By it they see how likely the record's values were revealed, and are not noise; then they apply Bayes' rule
    to the others. Everything else is learned from the release alone.
    """

    name = "known"
    about = "Someone who knows one of the attributes that a record publishes together guesses the others."
    needs_original = True

    def __init__(self, adversary: Adversary) -> None:
        self._targets = adversary.targets

    @classmethod
    def why_not(cls, adversary: Adversary) -> str | None:
        if any(t.exposures.noisy.any() for t in adversary.targets.values()):
            return None
        return "no record publishes several attributes together"

    @classmethod
    def learn(cls, adversary: Adversary) -> Self:
        return cls(adversary)

    def guesses(self, records: Records) -> dict[str, Guess]:
        found = {}
        for name, target in self._targets.items():
            lam, rows = self._confirmed(name, records)
            found[name] = target.guessed_by(records.codes[name][rows], lam[rows])._replace(rows=rows)
        return found

    def before(self, records: Records, names: Sequence[str]) -> dict[str, Floats]:
        return {n: np.tile(self._targets[n].prior, (records.count, 1)) for n in names}

    def _confirmed(self, name: str, records: Records) -> tuple[Floats, np.ndarray]:
        """Return the probability that each record's values were revealed, given another attribute of it that is
        known.

        Also the records that publish both. If there are several other attributes, the first is the known one.
        """
        after, together = records.lam.copy(), self._targets[name].exposures.noisy[records.codes[name]]
        rows = np.zeros(records.count, bool)
        for other, target in self._targets.items():
            exposures, codes = target.exposures, records.codes[other]
            here = together & ~rows & exposures.noisy[codes]
            if other == name or not here.any():
                continue
            lam, code = records.lam[here], codes[here]
            revealed = lam * exposures.matrix[code, records.known[other].codes[here]]
            after[here] = revealed / (revealed + (1 - lam) * exposures.noise[code])
            rows |= here
        return after, np.flatnonzero(rows)
