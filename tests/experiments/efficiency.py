"""How near do answers come to the best linear unbiased ones, where there are several: of bands and of recipes?

`python -m tests.experiments.efficiency [ADULT.parquet]`. The variance of the best weights, which know the shares of
the originals, by that of the weights which a query takes from the published counts of 10,000 records.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli.channels import left_inverse, likeliest
from ppdm_cli.channels.band import Band, best_half_width
from ppdm_cli.estimating import StratumLaw
from ppdm_cli.querying.moments import _together
from tests.experiments.testing import GAMMAS, RECORDS, Simulated, independent, released

Floats = np.ndarray
SEED = 5


def shares(adult: str | None) -> dict[str, Floats]:
    """Return shares of 20 bins: even ones, a peak, a spike with a tail, and those of Adult."""
    found = {
        "even": np.full(20, 0.05),
        "peak": np.exp(-0.5 * ((np.arange(20) - 6) / 2.5) ** 2),
        "spike": np.r_[0.92, 0.04, 0.02, 0.01, np.full(15, 0.0004), 0.005],
    }
    if adult:
        records = pl.read_parquet(adult)
        for name, most in (("age", 100), ("hours_per_week", 100), ("capital_gain", 100_000)):
            found[name] = np.histogram(records[name].to_numpy(), np.linspace(0, most, 21))[0] + 1e-9
    return {name: x / x.sum() for name, x in found.items()}


def bands(adult: str | None) -> None:
    rng, asked = np.random.default_rng(SEED), np.stack([np.arange(20) + 0.5, np.arange(20) >= 10]).astype(float)
    for name, x in shares(adult).items():
        for gamma in map(Decimal, GAMMAS):
            M = Band.of(gamma, 20, best_half_width(gamma, 20)).dense()
            y = M @ x
            seen = rng.multinomial(RECORDS, y)
            told = [
                ((asked @ A) ** 2 @ y - (asked @ x) ** 2)
                for A in (left_inverse(M, y), left_inverse(M, M @ likeliest(M, seen)), left_inverse(M))
            ]
            own, even = (np.round(told[0] / t, 3).tolist() for t in told[1:])
            print(f"band {gamma:2} {name:15} mean, upper half: {own}; with even weights {even}", flush=True)


def recipes() -> None:
    for epsilon in (1, 2, 4, 6):
        for publish in ("2", "3"):
            plan: dict[str, Any] = {"record_epsilon": epsilon, "publish": publish}
            release = released(plan)
            for test in ("trend(x, x >= 50)", "fits(b, 'b0', .5, 'b1', .5)", "trend(x, y)"):
                one = Simulated(release, test)
                told = np.round(of_kinds(one, independent(one.columns)), 3).tolist()
                print(f"recipes of {publish}, epsilon {epsilon}: {one.columns} {told}", flush=True)


def of_kinds(one: Simulated, p: Floats) -> Floats:
    """Return the efficiency of a mean and of an upper half, or of each value's share."""
    sizes = one.asked.scope.sizes
    low, high = np.ones(1), np.ones(1)
    for size in sizes:
        low = np.multiply.outer(low, np.arange(size)).ravel()
        high = np.multiply.outer(high, np.arange(size) >= size // 2).ravel()
    asked = np.eye(len(p)) if one.columns == ["b"] else np.stack([low, high]).astype(float)
    flat, rng = p.ravel(), np.random.default_rng(SEED)
    information, laws, cells = np.zeros((flat.size, flat.size)), [], []
    for stratum, lam, share in zip(one.asked.reading.strata, one.lam, one.shares, strict=True):
        M = StratumLaw(sizes, stratum, lam).dense()
        y = M @ flat
        cells.append(rng.multinomial(round(RECORDS * share), y / y.sum()).astype(float))
        laws.append(StratumLaw.weighed(sizes, stratum, lam, cells[-1]))
        information += share * (M.T / y) @ M
    best = np.einsum("ij,jk,ik->i", asked, np.linalg.inv(information), asked)
    best = best - (asked @ flat) ** 2 / one.shares.sum()
    shares, told = _together(laws, cells)
    scores = [asked @ G.T for G in told] or [laws[0].scores(asked)]
    own = 0.0
    for law, g, share, weight in zip(laws, scores, one.shares, shares, strict=True):
        y = law.forward(flat)
        own = own + weight**2 / share * (g**2 @ y - (g @ y) ** 2)
    return np.asarray(best / own)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("adult", nargs="?")
    bands(parser.parse_args(arguments).adult)
    recipes()


if __name__ == "__main__":
    main()
