"""Scores of guesses, compared with guessing from the prior alone: sums that merge, and figures with 95%
intervals.

Three measures, each with the guess that is best for it: the exact value (or bin), at most one bin away,
and the number. The gain is over the best guess that the estimated distribution alone allows.

The expected score of guesses follows from the release alone. Fix all of a record but its own answer y about one
attribute. A guess is then a rule of y, worth w(x) = sum_y M[y|x] worth(guess(y), x) where the original is x.
With A M = I the number A[:, y] . w has the mean w(x), for every x: no prior takes part. So its mean over the
records is an unbiased estimate of what will be measured, with a standard error; a model that is wrong makes
guesses poor, not expectations false.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from ppdm_cli.arrays import Floats, Z, wilson
from ppdm_cli.attacks.adversary import BELIEFS_AT_ONCE, AttackedAttribute, Guess, Truth
from ppdm_cli.estimating import maximum_likelihood
from ppdm_cli.joint import FOLDS

MOST_OUTPUTS, WORK = 1024, 1 << 22
"""Attributes of more published values have the model's own opinion; cells worked through for one, in a fold."""
SUMS = (
    "n", "exact", "exact_2", "exact_prior", "exact_differs", "near", "near_2", "near_prior", "near_differs",
    "numbers", "e2", "e4", "b2", "b4", "e2b2", "away",
)  # fmt: skip


_TALLIED_AT_ONCE = 1 << 14
Measures = dict[str, float]
"""The scores of guesses, by the names of `GuessFigures`, without those that cannot be measured."""


class Tally:
    """The sums of one attack on one attribute; adds up over partitions."""

    def __init__(self, sums: Floats | None = None) -> None:
        self.sums = np.zeros(len(SUMS)) if sums is None else sums

    @classmethod
    def of(cls, target: AttackedAttribute, guess: Guess, truth: Truth) -> Tally:
        """Return the scores of guesses compared with the originals, in parts that fit the cache."""
        parts = [slice(i, i + _TALLIED_AT_ONCE) for i in range(0, max(len(truth.codes), 1), _TALLIED_AT_ONCE)]
        return cls(
            sum((cls._of_some(target, guess.of(p), truth.part(p)).sums for p in parts), np.zeros(len(SUMS)))
        )

    @classmethod
    def _of_some(cls, target: AttackedAttribute, guess: Guess, truth: Truth) -> Tally:
        alone, codes = target.by_prior, truth.codes
        known = np.isfinite(truth.numbers) & np.isfinite(guess.value)
        away = np.where(known, truth.numbers - alone.value[0], 0.0)
        worths = {
            "exact": guess.exact == codes,
            "exact_prior": codes == alone.exact[0],
            "near": target.is_near(guess.near, codes),
            "near_prior": target.is_near(np.broadcast_to(alone.near, codes.shape), codes),
            "numbers": known,
            "e2": np.where(known, truth.numbers - guess.value, 0.0) ** 2,
            "b2": away**2,
            "away": away,
        }
        return cls.summed({k: w.astype(np.float64) for k, w in worths.items()}, np.ones(len(codes)))

    @classmethod
    def summed(cls, worths: Mapping[str, Floats], weights: Floats) -> Tally:
        """Return summed scores per measure for guesses whose correctness is known or estimated."""
        nothing = np.zeros(len(weights))
        w = {k: worths.get(k, nothing) for k in SUMS} | {"n": np.ones(len(weights))}
        for what in ("exact", "near"):
            w |= {f"{what}_2": w[what] ** 2, f"{what}_differs": (w[what] - w[f"{what}_prior"]) ** 2}
            if f"{what}_apart" in worths:  # an estimate's own error, and the measured figure's beside it
                w[f"{what}_2"] = w[f"{what}_2"] + w[what]
                w[f"{what}_differs"] = w[f"{what}_differs"] + worths[f"{what}_apart"]
        w |= {"e4": w["e2"] ** 2, "b4": w["b2"] ** 2, "e2b2": w["e2"] * w["b2"]}
        return cls(np.array([weights @ w[k] for k in SUMS]))

    @property
    def records(self) -> int:
        return int(self.sums[0])

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.sums + other.sums)

    def figures(self, target: AttackedAttribute, measured: bool = True) -> Measures:
        """Return the figures; one that is not measured is an estimate, which may leave its range by chance."""
        s = dict(zip(SUMS, map(float, self.sums), strict=True))
        found: Measures = {}
        n = max(s["n"], 1.0)
        for what in ("exact", "near") if target.ordered else ("exact",):
            mean, prior = s[what] / n, s[f"{what}_prior"] / n
            half = Z * sqrt(max(s[f"{what}_differs"] / n - (mean - prior) ** 2, 0.0) / n)
            wide = Z * sqrt(max(s[f"{what}_2"] / n - 2 * mean**2, 0.0) / n)
            low, high = wilson(s[what], n) if measured else (_share(mean - wide), _share(mean + wide))
            low_gain, high_gain = mean - prior - half, mean - prior + half
            mean, prior = _share(mean), _share(prior)
            found |= {what: mean, f"{what}_low": low, f"{what}_high": high, f"{what}_prior": prior}
            found |= {f"{what}_gain": mean - prior}
            found |= {f"{what}_gain_low": low_gain, f"{what}_gain_high": high_gain}
        return found | _errors(s)


@dataclass(frozen=True)
class Worth:
    """Expected scores of guesses, estimated from records that the guesser was learned with, and from others.

    The first is too high, as the guesser fits their answers; the second too low, as it was learned from fewer.
    """

    within: Tally = field(default_factory=Tally)
    without: Tally = field(default_factory=Tally)

    def __add__(self, other: Worth) -> Worth:
        return Worth(self.within + other.within, self.without + other.without)

    def figures(self, target: AttackedAttribute) -> Measures:
        """Return the means of both, in intervals that hold those of both."""
        one, other = (t.figures(target, measured=False) for t in (self.within, self.without))
        how = {"low": min, "high": max}
        return {
            k: how[k.rsplit("_", 1)[-1]](v, other[k]) if k.endswith(("_low", "_high")) else (v + other[k]) / 2
            for k, v in one.items()
            if k in other
        }


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _errors(s: dict[str, float]) -> Measures:
    """Return the RMSE and its gain, 1 - RMSE/RMSE of the prior; intervals use the delta method."""
    n = s["numbers"]
    if n < 2:
        return {}
    mse, prior = max(s["e2"] / n, 0.0), s["b2"] / n
    spread = prior - (s["away"] / n) ** 2
    if prior <= 0 or spread <= 0:
        return {}
    var_e = max(s["e4"] / n - mse**2, 0.0) / n
    var_b = max(s["b4"] / n - prior**2, 0.0) / n
    shared = (s["e2b2"] / n - mse * prior) / n
    ratio = sqrt(mse / prior)
    # d sqrt(e/b) = ratio/2 (de/e - db/b)
    relative = 0.0 if mse <= 0 else var_e / mse**2 + var_b / prior**2 - 2 * shared / (mse * prior)
    half = Z * ratio / 2 * sqrt(max(relative, 0.0))
    wide = Z * sqrt(var_e)
    return {
        "rmse": sqrt(mse),
        "rmse_low": sqrt(max(mse - wide, 0.0)),
        "rmse_high": sqrt(mse + wide),
        "rmse_share": sqrt(mse / spread),
        "rmse_prior": sqrt(prior),
        "rmse_gain": 1 - ratio,
        "rmse_gain_low": 1 - ratio - half,
        "rmse_gain_high": 1 - ratio + half,
    }


def expected(target: AttackedAttribute, exact: float, near: float, error: float | None) -> Measures:
    """Return the expected figures by the same names; `error` is the mean square, from the bins' middles."""
    alone, p = target.by_prior, target.prior
    found: Measures = {"exact": exact, "exact_prior": float(p[alone.exact[0]])}
    found["exact_gain"] = found["exact"] - found["exact_prior"]
    if target.ordered:
        prior = float(target.windows(p[None, :]).max())
        found |= {"near": near, "near_prior": prior, "near_gain": near - prior}
    return found | (expected_error(target, error) if error is not None else {})


def expected_error(target: AttackedAttribute, error: float) -> Measures:
    variance = prior_variance(target)
    if not variance > 0:
        return {}
    ratio = sqrt(max(error, 0.0) / variance)
    sd = sqrt(variance)
    return {"rmse": ratio * sd, "rmse_share": ratio, "rmse_prior": sd, "rmse_gain": 1 - ratio}


def prior_variance(target: AttackedAttribute) -> float:
    """Return the variance of the numbers under the prior, without nulls."""
    p, u = target.prior[: target.ordered], target.values[: target.ordered]
    total = p.sum()
    if not target.ordered or not target.measurable or total <= 0:
        return 0.0
    mean = float(p @ u / total)
    return float(p @ (u - mean) ** 2 / total)


@dataclass
class Beliefs:
    """Sums of what an adversary believes of the own guesses; adds up over partitions."""

    target: AttackedAttribute
    sums: Floats
    """The sums of 1, of the beliefs in value and neighbourhood, and of the variances."""
    largest: float = 0.0
    before: float = 0.0
    bound: float = 1.0

    @classmethod
    def of(cls, target: AttackedAttribute, guess: Guess) -> Beliefs:
        assert guess.belief is not None and guess.near_belief is not None and guess.variance is not None
        sums = [len(guess.belief), guess.belief.sum(), guess.near_belief.sum(), np.nansum(guess.variance)]
        return cls(target, np.array(sums, np.float64))

    def __add__(self, other: Beliefs) -> Beliefs:
        top = self if self.largest >= other.largest else other
        return Beliefs(self.target, self.sums + other.sums, top.largest, top.before, top.bound)

    def measures(self) -> Measures:
        """Return the scores that the adversary expects of the guesses."""
        n = max(float(self.sums[0]), 1.0)
        exact, near, variance = (float(s) / n for s in self.sums[1:])
        return expected(self.target, exact, near, variance if self.target.ordered else None)


# -- what guesses will turn out to be worth, whatever model they rest on


def estimable(target: AttackedAttribute) -> bool:
    """Return whether the attribute has an unbiased estimate, and matrices small enough to be written out."""
    matrix = target.matrix
    return matrix.invertible and target.channel.noise is None and matrix.outputs <= MOST_OUTPUTS


def enough(targets: Sequence[AttackedAttribute], rows: np.ndarray) -> np.ndarray:
    """Return the indices of the records to process: all, or an evenly spaced subset if there are too many."""
    cells = max(t.matrix.outputs * t.matrix.inputs for t in targets)
    return rows[:: 1 + len(rows) * cells // WORK]


def estimated_worth(target: AttackedAttribute, likely: Floats, codes: np.ndarray) -> Tally:
    """Estimate the scores of guesses made from all the other columns of a record."""
    found, step = Tally(), _rows_at_once(target)
    answers, unbiased = _law(target)
    for start in range(0, len(codes), step):
        part = slice(start, start + step)
        at = unbiased[:, codes[part]].T
        own = {k: (w * at).sum(axis=1) for k, w in _worths(target, answers, likely[part]).items()}
        found += Tally.summed(own, np.ones(len(at)))
    return found


def crossed(target: AttackedAttribute, counts: Floats) -> Worth:
    """Estimate the scores of guesses from the own answer alone: by all records, and for some by the others."""
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


def _counted(target: AttackedAttribute, likely: Floats, counts: Floats) -> Tally:
    """Estimate the scores of guesses that share one row of `likely`, from how many gave each answer."""
    found, step = Tally(), _rows_at_once(target)
    answers, unbiased = _law(target)
    for start in range(0, len(likely), step):
        part = slice(start, start + step)
        worths, weights = _worths(target, answers, likely[part]), counts[part]
        own = {k: np.broadcast_to(w @ unbiased, weights.shape).ravel() for k, w in worths.items()}
        found += Tally.summed(own, weights.ravel())
    return found


def _law(target: AttackedAttribute) -> tuple[Floats, Floats]:
    """Return the matrix, and the one whose columns are unbiased for each answer."""
    return target.matrix.dense(), target.matrix.solve(np.eye(target.matrix.outputs))


def _rows_at_once(target: AttackedAttribute) -> int:
    return max(1, BELIEFS_AT_ONCE // target.matrix.outputs // target.matrix.inputs)


def _worths(target: AttackedAttribute, answers: Floats, likely: Floats) -> dict[str, Floats]:
    """Return w(x) of each measure, (records, originals), for the guess and for the one from the prior alone."""
    rows, (outputs, inputs) = len(likely), answers.shape
    beliefs = (likely[:, None, :] * answers).reshape(rows * outputs, inputs)
    guess, alone = target.guessed(beliefs), target.by_prior
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
        found |= _squared_errors(target, answers, guess, rows)
    return found


def _apart(own: Floats, prior: Floats) -> Floats:
    """Return the probability that a guess is right and the prior's is not, or the other way round."""
    return np.where(prior > 0, 1 - own, own)


def _named(
    named: np.ndarray, answers: Floats, rows: int, among: np.ndarray | None = None, last: int = 0
) -> Floats:
    """Return the probability for each original that its answer makes the guess right."""
    outputs, inputs = answers.shape
    inside = np.ones(len(named), bool) if among is None else among & (named >= 0) & (named < last)
    which = np.flatnonzero(inside)
    chances = answers[which % outputs, named[which]]
    cells = np.bincount(which // outputs * inputs + named[which], chances, rows * inputs)
    return np.asarray(cells.reshape(rows, inputs))


def _squared_errors(target: AttackedAttribute, answers: Floats, guess: Guess, rows: int) -> dict[str, Floats]:
    """Return the expected squared errors of the guessed number; null has none."""
    last = target.ordered
    middle = target.values[:last].mean()
    u = np.where(np.arange(answers.shape[1]) < last, target.values - middle, 0.0)
    ordinary = (np.arange(len(u)) < last)[None].astype(float)
    value = (guess.value - middle).reshape(rows, len(answers))
    away = (u - (target.by_prior.value[0] - middle)) * ordinary
    squares = (value**2 @ answers - 2 * u * (value @ answers) + u**2) * ordinary
    return {"numbers": ordinary, "e2": squares, "b2": away**2, "away": away}
