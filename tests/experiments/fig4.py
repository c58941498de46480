"""Figs. 4, 5 and 6 of Dowd et al.: the accuracy of trees from reconstructed data, over gamma and N.

Functions F1 to F5 and spambase, the class kept, every other attribute perturbed over N bins; C4.5 on
what each method makes of the release, tested on records that were never perturbed. Fig. 6 sets the mean
accuracy, gamma and N against the entropy of the matrix.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import polars as pl

from ppdm_cli import reconstruct, train_tree
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal
from tests.experiments.common import FULL, Results, accuracy, binned, data, drawn, figure, published, say
from tests.experiments.fig2 import GAMMAS, SIZES

PLANS: dict[str, dict[str, Any]] = {
    "by-class": {},
    "global": {},
    "joint": {},
    "joint, bands": {"matrix": "band"},
}
"""What a miner makes of a release, and the arguments of `perturb` that go with it."""
BINNED = "binned original"
"""What a method would train on if gamma were infinite."""
SYNTHETIC = ["F1", "F2", "F3", "F4", "F5"]
KEY = ("data", "seed", "N", "gamma", "method")


def grid() -> Iterator[tuple[str, int, int, float, str]]:
    for seed in range(5 if FULL else 3):
        for name in [*SYNTHETIC, "spambase"]:
            for N in SIZES if FULL else [5, 10, 20, 30, 50, 100]:
                yield name, seed, N, math.inf, BINNED
                for gamma in GAMMAS if FULL else [2, 3, 5, 9, 12, 19]:
                    yield from ((name, seed, N, float(gamma), method) for method in PLANS)


def one(name: str, seed: int, N: int, gamma: float, method: str) -> tuple[float, int]:
    """The accuracy and the number of leaves."""
    original = data(name, seed)
    if method == BINNED:
        any_gamma = published(original, 2, N, seed)
        fitted: Any = train_tree(binned(original.train, any_gamma.sidecar), original.class_)
    else:
        release = published(original, gamma, N, seed, **PLANS[method])
        given = {"sidecar": release.sidecar}
        if method.startswith("joint"):
            fitted = train_tree(release.frame, **given)
        else:
            fitted = train_tree(reconstruct(release.frame, method=method, **given).frame, original.class_)
    return accuracy(fitted, original.test, original.class_), fitted.tree.leaves


def tables(found: pl.DataFrame) -> None:
    say("Fig. 4, percent correct over the whole grid; the paper: 80-85 on F1-F5, 75-80 on UCI data")
    wide = found.group_by("data", "method").agg(pl.col("accuracy").mean())
    say(wide.pivot("method", index="data", values="accuracy").sort("data"), digits=1)
    found = found.with_columns(kind=pl.col("data").replace(dict.fromkeys(SYNTHETIC, "F1-F5")))
    for (kind, method), part in found.group_by("kind", "method", maintain_order=True):
        mean = part.group_by("gamma", "N").agg(pl.col("accuracy").mean()).sort("N")
        spread = part.group_by("data", "gamma", "N").agg(pl.col("accuracy").std())["accuracy"].mean()
        wide = mean.pivot("N", index="gamma", values="accuracy").sort("gamma")
        wide = wide.with_columns(mean=pl.mean_horizontal(pl.exclude("gamma")))
        say(f"{kind}, {method}, gamma by N; from seed to seed {spread or 0:.2f}\n{wide}", digits=1)


def draw(found: pl.DataFrame) -> None:
    import altair as alt

    means = found.filter(pl.col("method") != BINNED).group_by(*(k for k in KEY if k != "seed"))
    rows = means.agg(pl.col("accuracy").mean()).with_columns(
        pl.struct("gamma", "N")
        .map_elements(lambda m: GammaDiagonal(Decimal(m["gamma"]), m["N"]).entropy(), pl.Float64)
        .alias("entropy")
    )
    y, entropy = alt.Y("accuracy:Q", scale=alt.Scale(zero=False)), alt.X("entropy:Q", title="H(M), bits")
    color = alt.Color("gamma:O", scale=alt.Scale(scheme="viridis"))
    chart = figure(rows, 150, 150).mark_line()
    drawn(chart.encode(x="N:Q", y=y, color=color, column="data:N", row="method:N"), "fig4.svg")
    chart = figure(rows, 420, 330).mark_line(point=True)
    drawn(chart.encode(x=entropy, y=y, color="data:N", detail="N:Q", row="method:N"), "fig5.svg")
    mean = rows.group_by("method", "gamma", "N", "entropy").agg(pl.col("accuracy").mean())
    three = mean.unpivot(["accuracy", "gamma", "N"], index=["method", "entropy"], variable_name="what")
    chart, y = figure(three, 420, 330).mark_point(), alt.Y("value:Q", title="percent, or as named")
    drawn(chart.encode(x=entropy, y=y, color="what:N", shape="what:N", row="method:N"), "fig6.svg")


def main() -> None:
    found = Results("fig4", KEY, ("accuracy", "leaves")).measured(grid(), one)
    tables(found)
    draw(found)


if __name__ == "__main__":
    main()
