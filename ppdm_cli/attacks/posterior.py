"""The exact Bayes adversary on one attribute: the prior is the estimated distribution, one answer is seen.

Pr(x = k | y = h) is proportional to M[h, k] p_k. So each answer has one best guess, and what to expect of
it is a sum over answers. No posterior exceeds gamma p / (gamma p + 1 - p) (maths 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ppdm_cli.arrays import Codes, Floats
from ppdm_cli.attacks.scoring import expected
from ppdm_cli.attacks.targets import CELLS, Guess, Rows, Target
from ppdm_cli.privacy import worst_posterior


@dataclass(frozen=True, eq=False)
class Answers:
    """For each published code of an attribute the best guesses, and what they are worth."""

    target: Target
    guess: Guess
    """An entry for each published code."""
    exact: float
    near: float
    error: float
    largest: float
    """The largest posterior of all codes and answers."""
    bound: float
    """What gamma allows of the code that has it."""

    def guesses(self, codes: Codes) -> Guess:
        return Guess(*(np.asarray(part)[codes] for part in self.guess))

    def figures(self) -> dict[str, Any]:
        found = expected(self.target, self.exact, self.near, self.error if self.target.ordered else None)
        return found | self.beliefs()

    def beliefs(self) -> dict[str, Any]:
        return {"largest_posterior": self.largest, "bound": self.bound}


def answers(target: Target, prior: Floats | None = None) -> Answers:
    """Bayes' rule for every published code, some of them at a time."""
    p = target.prior if prior is None else prior
    outputs, step = target.matrix.outputs, max(1, CELLS // len(p))
    parts: list[Guess] = []
    sums = np.zeros(3)
    largest, bound = 0.0, 1.0
    for start in range(0, outputs, step):
        joint = target.rows(start, min(start + step, outputs)) * p
        guess = target.guessed(joint)
        parts.append(guess)
        belief, near, variance = np.array([guess.belief, guess.near_belief, guess.variance])
        chance, ordinary = joint.sum(axis=1), joint[:, : target.ordered].sum(axis=1)
        sums += chance @ belief, chance @ near, ordinary @ variance
        top = int(belief.argmax())
        if belief[top] > largest:
            largest = float(belief[top])
            bound = worst_posterior(target.matrix.amplification, float(p[guess.exact[top]]))
    joined = Guess(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    exact, near_, error = map(float, sums)
    ordinary_share = float(p[: target.ordered].sum())
    return Answers(
        target, joined, exact, near_, error / ordinary_share if ordinary_share else np.nan, largest, bound
    )


class Posterior:
    """The attack on every perturbed attribute."""

    name = "posterior"

    def __init__(self, targets: list[Target]) -> None:
        self.answers = {t.name: answers(t) for t in targets}

    def guesses(self, rows: Rows) -> dict[str, Guess]:
        return {n: a.guesses(rows.codes[n]) for n, a in self.answers.items()}

    def expected(self) -> dict[str, dict[str, Any]]:
        return {n: a.figures() for n, a in self.answers.items()}

    def beliefs(self) -> dict[str, dict[str, Any]]:
        return {n: a.beliefs() for n, a in self.answers.items()}
