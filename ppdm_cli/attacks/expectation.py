"""What guesses will turn out to be worth, from the release alone and whatever the model that they rest on.

Fix all of a record but its own answer y about one attribute. A guess is then a rule of y, worth
w(x) = sum_y M[y|x] worth(guess(y), x) where the original is x. With A M = I the number A[:, y] . w has the mean
w(x), for every x: no prior takes part. So its mean over the records is an unbiased estimate of what will be
measured, with a standard error; a model that is wrong makes guesses poor, not expectations false.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.attacks.attacked_attribute import BELIEFS_AT_ONCE, Guess, Target
from ppdm_cli.attacks.scoring import Tally, Worth
from ppdm_cli.estimating import maximum_likelihood
from ppdm_cli.joint import FOLDS

MOST_OUTPUTS, WORK = 1024, 1 << 22
"""Attributes of more published values have the model's own opinion; cells worked through for one, in a fold."""


def tellable(target: Target) -> bool:
    """Return whether the attribute has an unbiased estimate, and matrices small enough to be written out."""
    matrix = target.matrix
    return matrix.invertible and target.channel.noise is None and matrix.outputs <= MOST_OUTPUTS


def enough(targets: Sequence[Target], rows: np.ndarray) -> np.ndarray:
    """Return the records that are worked through: all, or as many as can be from everywhere."""
    cells = max(t.matrix.outputs * t.matrix.inputs for t in targets)
    return rows[:: 1 + len(rows) * cells // WORK]


def told(target: Target, likely: Floats, codes: np.ndarray) -> Tally:
    """Return what guesses from p(original | all but the own answer), a row a record, are worth."""
    found, step = Tally(), _rows_at_once(target)
    answers, unbiased = _law(target)
    for start in range(0, len(codes), step):
        part = slice(start, start + step)
        at = unbiased[:, codes[part]].T
        own = {k: (w * at).sum(axis=1) for k, w in _worths(target, answers, likely[part]).items()}
        found += Tally.told(own, np.ones(len(at)))
    return found


def crossed(target: Target, counts: Floats) -> Worth:
    """Return what guesses from the own answer alone are worth: by all records, and for some by the others."""
    rng, left = np.random.default_rng(0), counts.astype(np.int64)
    likely, folds = list[Floats](), list[Floats]()
    for parts in range(FOLDS, 0, -1):
        fold = rng.multivariate_hypergeometric(left, int(left.sum()) // parts, method="marginals")
        left = left - fold
        rest = counts - fold
        if rest.any() and fold.any():
            likely.append(maximum_likelihood(rest, [target.matrix]) / rest.sum())
            folds.append(fold.astype(np.float64))
    within = _counted(target, target.prior[None], counts[None].astype(np.float64))
    return Worth(within, _counted(target, np.array(likely), np.array(folds)))


def _counted(target: Target, likely: Floats, counts: Floats) -> Tally:
    """Return what guesses are worth that share one row of `likely`, from how many gave each answer."""
    found, step = Tally(), _rows_at_once(target)
    answers, unbiased = _law(target)
    for start in range(0, len(likely), step):
        part = slice(start, start + step)
        worths, weights = _worths(target, answers, likely[part]), counts[part]
        own = {k: np.broadcast_to(w @ unbiased, weights.shape).ravel() for k, w in worths.items()}
        found += Tally.told(own, weights.ravel())
    return found


def _law(target: Target) -> tuple[Floats, Floats]:
    """Return the matrix, and the one whose columns are unbiased for each answer."""
    return target.matrix.dense(), target.matrix.solve(np.eye(target.matrix.outputs))


def _rows_at_once(target: Target) -> int:
    return max(1, BELIEFS_AT_ONCE // target.matrix.outputs // target.matrix.inputs)


def _worths(target: Target, answers: Floats, likely: Floats) -> dict[str, Floats]:
    """Return w(x) of each measure, (records, originals): of the guess, and of the one from the prior alone."""
    rows, (outputs, inputs) = len(likely), answers.shape
    beliefs = (likely[:, None, :] * answers).reshape(rows * outputs, inputs)
    guess, alone = target.guessed(beliefs), target.alone
    found = {"exact": _named(guess.exact, answers, rows), "exact_prior": np.eye(inputs)[alone.exact]}
    found["exact_apart"] = _apart(found["exact"], found["exact_prior"])
    if not target.ordered:
        return found
    codes, last = np.arange(inputs), target.ordered
    found["near"] = sum(
        (_named(guess.near + d, answers, rows, (guess.near < last) if d else None, last) for d in (-1, 0, 1)),
        start=np.zeros((rows, inputs)),
    )
    found["near_prior"] = target.is_near(np.broadcast_to(alone.near, codes.shape), codes)[None].astype(float)
    found["near_apart"] = _apart(found["near"], found["near_prior"])
    if target.measurable:
        found |= _errors(target, answers, guess, rows)
    return found


def _apart(own: Floats, prior: Floats) -> Floats:
    """Return the chance that a guess is right and the prior's is not, or the other way about."""
    return np.where(prior > 0, 1 - own, own)


def _named(
    named: np.ndarray, answers: Floats, rows: int, among: np.ndarray | None = None, last: int = 0
) -> Floats:
    """Return for each original the chance that its answer makes the guess name it."""
    outputs, inputs = answers.shape
    inside = np.ones(len(named), bool) if among is None else among & (named >= 0) & (named < last)
    which = np.flatnonzero(inside)
    chances = answers[which % outputs, named[which]]
    cells = np.bincount(which // outputs * inputs + named[which], chances, rows * inputs)
    return np.asarray(cells.reshape(rows, inputs))


def _errors(target: Target, answers: Floats, guess: Guess, rows: int) -> dict[str, Floats]:
    """Return the squared errors to expect of the number named; null has none."""
    last = target.ordered
    middle = target.values[:last].mean()
    u = np.where(np.arange(answers.shape[1]) < last, target.values - middle, 0.0)
    ordinary = (np.arange(len(u)) < last)[None].astype(float)
    value = (guess.value - middle).reshape(rows, len(answers))
    away = (u - (target.alone.value[0] - middle)) * ordinary
    squares = (value**2 @ answers - 2 * u * (value @ answers) + u**2) * ordinary
    return {"numbers": ordinary, "e2": squares, "b2": away**2, "away": away}
