"""Fig. 2 of Dowd et al., the error E of estimated distributions over gamma and N, and a shape it has not.

Integers from 1 to 200 in a triangle and a plateau, 10,000 and 100,000 records, five runs. The paper shows
the raw inverse and its heuristic (set-scale); here also the projection and the likelihood, and EM stopped
after 3,000 steps, which smooths. The paper's shapes have no large count, so its grid does not show that
set-scale takes from a large count what it took from the negative ones: the second table, of a value that
most records have among many that nobody has, does.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import product

import numpy as np
import polars as pl

from ppdm_cli.channels.base import substitute
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal
from ppdm_cli.coins import Coins
from ppdm_cli.estimating import ESTIMATORS
from tests.experiments.common import FULL, Results, drawn, figure, say

GAMMAS = range(2, 22)
SIZES = [5, 10, 15, 20, *range(30, 101, 10)]
VALUES = np.arange(1, 201)
SHAPES = {
    "triangle": np.minimum(VALUES, 201 - VALUES).astype(float),
    "plateau": ((VALUES > 50) & (VALUES <= 150)) * 1.0,
}
EM = "EM, 3,000 steps"
ONE_VALUE = [(10_000, 8_000, 9, 20), (10_000, 8_000, 5, 50), (10_000, 8_000, 5, 100), (100_000, 90_000, 2, 100)]
"""Records, how many have the first value, gamma, N; ten other values share the rest."""
RUNS = 2000


def stopped_em(observed: np.ndarray, matrix: GammaDiagonal, steps: int = 3000) -> np.ndarray:
    estimate = np.full(matrix.N, observed.sum() / matrix.N)
    for _ in range(steps):
        estimate = estimate * matrix.backward(observed / matrix.forward(estimate))
    return estimate


def one(shape: str, n: int, gamma: int, N: int, run: int) -> list[float]:
    """E of every estimator for one release, with bins of equal width over 1 to 200."""
    rng = np.random.default_rng([run, gamma, N, n, list(SHAPES).index(shape)])
    weights = SHAPES[shape] / SHAPES[shape].sum()
    bins = np.minimum((VALUES - 1) * N // 199, N - 1).astype(np.uint8)
    codes = bins[rng.choice(200, n, p=weights)]
    matrix, out = GammaDiagonal(Decimal(gamma), N), np.empty_like(codes)
    substitute(matrix, Coins(rng.bytes(32)), np.arange(n, dtype=np.uint64), codes, out)
    true, observed = (np.bincount(c, minlength=N).astype(float) for c in (codes, out))
    estimates = [estimator(observed, [matrix]) for estimator in ESTIMATORS.values()]
    estimates.append(stopped_em(observed, matrix))
    return [float(np.abs(x - true).sum() / n) for x in estimates]


def grid() -> Iterator[tuple[str, int, int, int, int]]:
    gammas, sizes = (GAMMAS, SIZES) if FULL else ([2, 3, 5, 9, 14, 21], [5, 10, 20, 50, 100])
    return product(SHAPES, (10_000, 100_000), gammas, sizes, range(5 if FULL else 2))


def of_one_value(records: int, most: int, gamma: int, N: int, run: int) -> dict[str, float]:
    """Estimates of the count that most have, and E, from the exact law of a release's counts."""
    true = np.zeros(N, np.int64)
    true[0], true[1:11] = most, (records - most) // 10
    rng = np.random.default_rng([run, gamma, N, records])
    matrix = GammaDiagonal(Decimal(gamma), N)
    columns = matrix.forward(np.eye(N))
    observed = sum(rng.multinomial(n, columns[:, k]) for k, n in enumerate(true) if n).astype(float)
    found: dict[str, float] = {"records": records, "most": most, "gamma": gamma, "N": N}
    for name, estimator in ESTIMATORS.items():
        estimate = estimator(observed, [matrix])
        found |= {name: estimate[0], f"E of {name}": np.abs(estimate - true).sum() / records}
    return found


def main() -> None:
    estimators = [*ESTIMATORS, EM]
    key = ("shape", "records", "gamma", "N", "run")
    found = Results("fig2", key, tuple(n.replace(",", "") for n in estimators)).measured(grid(), one)
    found = found.rename({EM.replace(",", ""): EM})
    mean = found.group_by("shape", "records", "gamma", "N").agg(pl.col(estimators).mean())
    ratio = pl.col("set-scale") / pl.col("inverse")
    by = mean.group_by("shape", "records").agg(
        pl.col(estimators).mean(), halved=(ratio <= 0.5).mean(), median_ratio=ratio.median()
    )
    say(f"Fig. 2, mean E over {len(mean) // 4} combinations of gamma and N; set-scale to inverse")
    say(by.sort("records", "shape"), digits=4)
    plot(mean)
    rows = pl.DataFrame([of_one_value(*case, run) for case in ONE_VALUE for run in range(RUNS)])
    mean = rows.group_by("records", "most", "gamma", "N", maintain_order=True).mean()
    say(f"Mean estimate of the value that most have and mean E, {RUNS} releases\n{mean}", digits=3)


def plot(mean: pl.DataFrame) -> None:
    import altair as alt

    rows = mean.filter(pl.col("records") == 100_000).unpivot(
        ["inverse", "set-scale", "ml"], index=["shape", "gamma", "N"], variable_name="estimator", value_name="E"
    )
    color = alt.Color("gamma:O", scale=alt.Scale(scheme="viridis"))
    chart = figure(rows, 150, 150).mark_line()
    drawn(chart.encode(x="N:Q", y="E:Q", color=color, column="estimator:N", row="shape:N"), "fig2.svg")


if __name__ == "__main__":
    main()
