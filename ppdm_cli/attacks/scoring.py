"""How good guesses are, beside guessing from the prior alone: sums that merge, and figures with 95 % intervals.

Three measures, each with the guess that is best for it: the exact value (or bin), at most one bin away,
and the number. The gain is over the best guess that the estimated distribution alone allows.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from ppdm_cli.arrays import Floats
from ppdm_cli.attacks.attacked_attribute import Guess, Target, Truth
from ppdm_cli.stats import Z, wilson

_SUMS = (
    "n", "exact", "exact_prior", "exact_differs", "near", "near_prior", "near_differs",
    "numbers", "e2", "e4", "b2", "b4", "e2b2", "away",
)  # fmt: skip


class Tally:
    """The sums of one attack on one attribute; adds up over partitions."""

    def __init__(self, sums: Floats | None = None) -> None:
        self._sums = np.zeros(len(_SUMS)) if sums is None else sums

    @classmethod
    def of(cls, target: Target, guess: Guess, truth: Truth) -> Tally:
        alone = target.alone
        codes = truth.codes
        hits, prior = guess.exact == codes, codes == alone.exact[0]
        near = target.is_near(guess.near, codes)
        near_prior = target.is_near(np.broadcast_to(alone.near, codes.shape), codes)
        known = np.isfinite(truth.numbers) & np.isfinite(guess.value)
        away = truth.numbers[known] - alone.value[0]
        e2, b2 = (truth.numbers[known] - guess.value[known]) ** 2, away**2
        counted = [len(codes), hits.sum(), prior.sum(), (hits != prior).sum()]
        counted += [near.sum(), near_prior.sum(), (near != near_prior).sum(), known.sum()]
        moments = [e2.sum(), (e2**2).sum(), b2.sum(), (b2**2).sum(), (e2 * b2).sum(), away.sum()]
        return cls(np.array([*counted, *moments], np.float64))

    def __add__(self, other: Tally) -> Tally:
        return Tally(self._sums + other._sums)

    def figures(self, target: Target) -> dict[str, Any]:
        """Return the measured figures."""
        s = dict(zip(_SUMS, map(float, self._sums), strict=True))
        found: dict[str, Any] = {}
        for what in ("exact", "near") if target.ordered else ("exact",):
            n = max(s["n"], 1.0)
            gain = (s[what] - s[f"{what}_prior"]) / n
            half = Z * sqrt(max(s[f"{what}_differs"] / n - gain**2, 0.0) / n)
            low, high = wilson(s[what], s["n"])
            found |= {what: s[what] / n, f"{what}_low": low, f"{what}_high": high}
            found |= {f"{what}_prior": s[f"{what}_prior"] / n, f"{what}_gain": gain}
            found |= {f"{what}_gain_low": gain - half, f"{what}_gain_high": gain + half}
        return found | _errors(s)


def _errors(s: dict[str, float]) -> dict[str, Any]:
    """Return the RMSE and its gain, 1 - RMSE/RMSE of the prior; intervals use the delta method."""
    n = s["numbers"]
    if n < 2:
        return {}
    mse, prior = s["e2"] / n, s["b2"] / n
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


def expected(target: Target, exact: float, near: float, error: float | None) -> dict[str, Any]:
    """Return the expected figures by the same names; `error` is the mean square, from the bins' middles."""
    alone, p = target.alone, target.prior
    found: dict[str, Any] = {"exact": exact, "exact_prior": float(p[alone.exact[0]])}
    found["exact_gain"] = found["exact"] - found["exact_prior"]
    if target.ordered:
        prior = float(target.windows(p[None, :]).max())
        found |= {"near": near, "near_prior": prior, "near_gain": near - prior}
    return found | (expected_error(target, error) if error is not None else {})


def expected_error(target: Target, error: float) -> dict[str, Any]:
    variance = prior_variance(target)
    if not variance > 0:
        return {}
    ratio = sqrt(max(error, 0.0) / variance)
    sd = sqrt(variance)
    return {"rmse": ratio * sd, "rmse_share": ratio, "rmse_prior": sd, "rmse_gain": 1 - ratio}


def prior_variance(target: Target) -> float:
    """Return the variance of the numbers under the prior, without nulls."""
    p, u = target.prior[: target.ordered], target.values[: target.ordered]
    total = p.sum()
    if not target.ordered or not target.measurable or total <= 0:
        return 0.0
    mean = float(p @ u / total)
    return float(p @ (u - mean) ** 2 / total)
