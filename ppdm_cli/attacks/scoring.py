"""How good guesses are, beside guessing from the prior alone: sums that merge, and figures with 95 % intervals.

Three measures, each with the guess that is best for it: the exact value (or bin), at most one bin away,
and the number. The gain is over the best guess that the estimated distribution alone allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np

from ppdm_cli.arrays import Floats, Z, wilson
from ppdm_cli.attacks.attacked_attribute import Guess, Target, Truth

SUMS = (
    "n", "exact", "exact_2", "exact_prior", "exact_differs", "near", "near_2", "near_prior", "near_differs",
    "numbers", "e2", "e4", "b2", "b4", "e2b2", "away",
)  # fmt: skip


class Tally:
    """The sums of one attack on one attribute; adds up over partitions."""

    def __init__(self, sums: Floats | None = None) -> None:
        self.sums = np.zeros(len(SUMS)) if sums is None else sums

    @classmethod
    def of(cls, target: Target, guess: Guess, truth: Truth) -> Tally:
        """Return what guesses are worth beside the originals."""
        alone, codes = target.alone, truth.codes
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
        return cls.told({k: w.astype(np.float64) for k, w in worths.items()}, np.ones(len(codes)))

    @classmethod
    def told(cls, worths: Mapping[str, Floats], weights: Floats) -> Tally:
        """Return the sums of what each guess is worth, or is estimated to be, by measure."""
        nothing = np.zeros(len(weights))
        w = {k: worths.get(k, nothing) for k in SUMS} | {"n": np.ones(len(weights))}
        for what in ("exact", "near"):
            w |= {f"{what}_2": w[what] ** 2, f"{what}_differs": (w[what] - w[f"{what}_prior"]) ** 2}
            if f"{what}_apart" in worths:  # an estimate's own error, and the measured figure's beside it
                w[f"{what}_2"] = w[f"{what}_2"] + w[what]
                w[f"{what}_differs"] = w[f"{what}_differs"] + worths[f"{what}_apart"]
        w |= {"e4": w["e2"] ** 2, "b4": w["b2"] ** 2, "e2b2": w["e2"] * w["b2"]}
        return cls(np.array([weights @ w[k] for k in SUMS]))

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.sums + other.sums)

    def figures(self, target: Target, measured: bool = True) -> dict[str, Any]:
        """Return the figures; what is not measured is an estimate, which may leave its range by chance."""
        s = dict(zip(SUMS, map(float, self.sums), strict=True))
        found: dict[str, Any] = {}
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
    """What guesses are worth, estimated of records that the guesser was learnt with, and of some it was not.

    The first is too high, as the guesser fits their answers; the second too low, as it was learnt from fewer.
    """

    within: Tally = field(default_factory=Tally)
    without: Tally = field(default_factory=Tally)

    def __add__(self, other: Worth) -> Worth:
        return Worth(self.within + other.within, self.without + other.without)

    def figures(self, target: Target) -> dict[str, Any]:
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


def _errors(s: dict[str, float]) -> dict[str, Any]:
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
