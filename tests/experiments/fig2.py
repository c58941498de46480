"""Fig. 2 of Dowd et al.: the error E of estimated distributions, over gamma and N.

Integers from 1 to 200 in a triangle and a plateau, 10,000 and 100,000 records, five runs. The paper shows
the raw inverse and its heuristic (set-scale); here also the projection and the likelihood, and EM stopped
after 3,000 steps, which smooths.
"""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli.channels.base import substitute
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal
from ppdm_cli.coins import Coins
from ppdm_cli.estimating import ESTIMATORS
from tests.experiments.common import drawn

BUILD = Path("build/papers")
GAMMAS = range(2, 22)
SIZES = [5, 10, 15, 20, *range(30, 101, 10)]
RUNS = 5
VALUES = np.arange(1, 201)
SHAPES = {
    "triangle": np.minimum(VALUES, 201 - VALUES).astype(float),
    "plateau": ((VALUES > 50) & (VALUES <= 150)) * 1.0,
}


def binned(N: int) -> np.ndarray:
    """The bin of each integer: N bins of equal width over 1 to 200."""
    return np.minimum((VALUES - 1) * N // 199, N - 1).astype(np.uint8)


def stopped_em(observed: np.ndarray, matrix: GammaDiagonal, steps: int = 3000) -> np.ndarray:
    estimate = np.full(matrix.N, observed.sum() / matrix.N)
    for _ in range(steps):
        estimate = estimate * matrix.backward(observed / matrix.forward(estimate))
    return estimate


def one(shape: str, n: int, gamma: int, N: int, run: int) -> dict[str, Any]:
    """E of every estimator for one release."""
    rng = np.random.default_rng([run, gamma, N, n, list(SHAPES).index(shape)])
    weights = SHAPES[shape] / SHAPES[shape].sum()
    codes = binned(N)[rng.choice(200, n, p=weights)]
    matrix, out = GammaDiagonal(Decimal(gamma), N), np.empty_like(codes)
    substitute(matrix, Coins(rng.bytes(32)), np.arange(n, dtype=np.uint64), codes, out)
    true, observed = (np.bincount(c, minlength=N).astype(float) for c in (codes, out))
    estimates = {name: estimator(observed, [matrix]) for name, estimator in ESTIMATORS.items()}
    estimates["EM, 3,000 steps"] = stopped_em(observed, matrix)
    errors = {name: float(np.abs(x - true).sum() / n) for name, x in estimates.items()}
    return {"shape": shape, "records": n, "gamma": gamma, "N": N, "run": run, **errors}


def grid() -> pl.DataFrame:
    full = os.environ.get("FULL") == "1"
    gammas = GAMMAS if full else [2, 3, 5, 9, 14, 21]
    sizes = SIZES if full else [5, 10, 20, 50, 100]
    runs = RUNS if full else 2
    return pl.DataFrame(
        [
            one(s, n, g, N, r)
            for s in SHAPES
            for n in (10_000, 100_000)
            for g in gammas
            for N in sizes
            for r in range(runs)
        ]
    )


def main() -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    results = grid()
    results.write_csv(BUILD / "fig2.csv")
    estimators = [*ESTIMATORS, "EM, 3,000 steps"]
    by = results.group_by("shape", "records").agg(pl.col(estimators).mean()).sort("records", "shape")
    mean = results.group_by("shape", "records", "gamma", "N").agg(pl.col(estimators).mean())
    halved = (
        mean.group_by("shape", "records")
        .agg(
            (pl.col("set-scale") <= pl.col("inverse") / 2).mean().alias("halved"),
            (pl.col("set-scale") / pl.col("inverse")).median().alias("median ratio"),
        )
        .sort("records", "shape")
    )
    with pl.Config(tbl_cols=-1, float_precision=4, tbl_hide_dataframe_shape=True):
        say(f"Fig. 2, mean E over {len(mean) // 4} combinations of gamma and N\n{by}")
        say(
            f"Where set-scale at least halves the error of the inverse, and the median of their ratio\n{halved}"
        )
    plot(mean)


def say(text: str) -> None:
    print(text)


def plot(mean: pl.DataFrame) -> None:
    import altair as alt

    rows = mean.filter(pl.col("records") == 100_000).unpivot(
        ["inverse", "set-scale", "ml"], index=["shape", "gamma", "N"], variable_name="estimator", value_name="E"
    )
    chart = (
        alt.Chart(alt.Data(values=rows.to_dicts()), width=150, height=150)
        .mark_line()
        .encode(
            x="N:Q",
            y=alt.Y("E:Q"),
            color=alt.Color("gamma:O", scale=alt.Scale(scheme="viridis")),
            column="estimator:N",
            row="shape:N",
        )
    )
    drawn(chart, BUILD / "fig2.svg")


if __name__ == "__main__":
    main()
