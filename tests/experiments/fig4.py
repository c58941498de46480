"""Figs. 4, 5 and 6 of Dowd et al.: the accuracy of trees from reconstructed data, over gamma and N.

Functions F1 to F5 and spambase, the class kept, every other attribute perturbed over N bins; C4.5 on
what each method makes of the release, tested on records that were never perturbed. Fig. 6 sets the mean
accuracy, gamma and N against the entropy of the matrix.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import polars as pl

from ppdm_cli import reconstruct, train_tree
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal
from ppdm_cli.sidecar import Sidecar
from ppdm_cli.trees import Fitted, FromRelease
from tests.experiments.common import BUILD, Results, accuracy, binned, data, drawn, published
from tests.experiments.fig2 import GAMMAS, SIZES


@dataclass(frozen=True)
class Method:
    """What a miner makes of a release, and the arguments of `perturb` that go with it."""

    train: Callable[[pl.DataFrame, Sidecar, int], pl.DataFrame | Fitted | FromRelease]
    """From a release, its sidecar and a seed: records to train C4.5 on, or a tree of the method's own."""
    plan: Mapping[str, Any]


def by_class(release: pl.DataFrame, sidecar: Sidecar, seed: int) -> pl.DataFrame:
    return reconstruct(release, sidecar=sidecar, method="by-class").frame


def all_together(release: pl.DataFrame, sidecar: Sidecar, seed: int) -> pl.DataFrame:
    return reconstruct(release, sidecar=sidecar, method="global").frame


def joint(release: pl.DataFrame, sidecar: Sidecar, seed: int) -> FromRelease:
    return train_tree(release, sidecar=sidecar)


METHODS = {
    "by-class": Method(by_class, {}),
    "global": Method(all_together, {}),
    "joint": Method(joint, {}),
    "joint, bands": Method(joint, {"matrix": "band"}),
}
BINNED = "binned original"
"""What a method would train on if gamma were infinite."""
SYNTHETIC = ["F1", "F2", "F3", "F4", "F5"]
KEY = ("data", "seed", "N", "gamma", "method")


def grid() -> Iterator[tuple[str, int, int, float, str]]:
    full = os.environ.get("FULL") == "1"
    for seed in range(5 if full else 3):
        for name in [*SYNTHETIC, "spambase"]:
            for N in SIZES if full else [5, 10, 20, 30, 50, 100]:
                yield name, seed, N, math.inf, BINNED
                for gamma in GAMMAS if full else [2, 3, 5, 9, 12, 19]:
                    for method in METHODS:
                        yield name, seed, N, float(gamma), method


def one(name: str, seed: int, N: int, gamma: float, method: str) -> tuple[float, int]:
    """The accuracy and the number of leaves."""
    original = data(name, seed)
    if method == BINNED:
        any_gamma = published(original, 2, N, seed)
        usable: pl.DataFrame | Fitted | FromRelease = binned(original.train, any_gamma.sidecar)
    else:
        release = published(original, gamma, N, seed, **METHODS[method].plan)
        usable = METHODS[method].train(release.frame, release.sidecar, seed)
    fitted = usable if isinstance(usable, (Fitted, FromRelease)) else train_tree(usable, original.class_)
    return accuracy(fitted, original.test, original.class_), fitted.tree.leaves


def main() -> None:
    results = Results(BUILD / "fig4.csv", KEY, ("accuracy", "leaves"))
    for row in results.missing(grid()):
        results.add(*row, *one(*row))
    found = results.frame()
    with pl.Config(
        tbl_rows=-1, tbl_cols=-1, float_precision=1, tbl_hide_dataframe_shape=True, tbl_width_chars=140
    ):
        tables(found)
    draw(found)


def tables(found: pl.DataFrame) -> None:
    seeds, kind = found["seed"].n_unique(), pl.col("data").replace(dict.fromkeys(SYNTHETIC, "F1-F5"))
    print(f"Fig. 4, percent correct, the mean of {seeds} seeds; the paper: 80-85 on F1-F5, 75-80 on UCI data")
    found = found.with_columns(kind.alias("kind"))
    print("Over the whole grid")
    order = [*METHODS, BINNED]
    wide = found.group_by("data", "method").agg(pl.col("accuracy").mean())
    print(wide.pivot("method", index="data", values="accuracy").select("data", *order).sort("data"))
    for what, rows in found.group_by("kind", maintain_order=True):
        for method in order:
            part = rows.filter(pl.col("method") == method)
            mean = part.group_by("gamma", "N").agg(pl.col("accuracy").mean()).sort("N")
            spread = part.group_by("data", "gamma", "N").agg(pl.col("accuracy").std())["accuracy"].mean()
            print(f"{what[0]}, {method}, gamma by N; from seed to seed {spread or 0:.2f}")
            wide = mean.pivot("N", index="gamma", values="accuracy").sort("gamma")
            print(wide.with_columns(pl.mean_horizontal(pl.exclude("gamma")).alias("mean")))


def draw(found: pl.DataFrame) -> None:
    import altair as alt

    means = found.filter(pl.col("method") != BINNED).group_by(*(k for k in KEY if k != "seed"))
    rows = means.agg(pl.col("accuracy").mean()).with_columns(
        pl.struct("gamma", "N")
        .map_elements(lambda m: GammaDiagonal(Decimal(m["gamma"]), m["N"]).entropy(), pl.Float64)
        .alias("entropy")
    )
    chart = (
        figure(alt, rows, 150)
        .mark_line()
        .encode(
            x="N:Q",
            y=alt.Y("accuracy:Q", scale=alt.Scale(zero=False)),
            color=alt.Color("gamma:O", scale=alt.Scale(scheme="viridis")),
            column="data:N",
            row="method:N",
        )
    )
    drawn(chart, BUILD / "fig4.svg")
    entropy = alt.X("entropy:Q", title="H(M), bits")
    chart = (
        figure(alt, rows, 420)
        .mark_line(point=True)
        .encode(
            x=entropy,
            y=alt.Y("accuracy:Q", scale=alt.Scale(zero=False)),
            color="data:N",
            detail="N:Q",
            row="method:N",
        )
    )
    drawn(chart, BUILD / "fig5.svg")
    mean = rows.group_by("method", "gamma", "N", "entropy").agg(pl.col("accuracy").mean())
    three = mean.unpivot(["accuracy", "gamma", "N"], index=["method", "entropy"], variable_name="what")
    chart = (
        figure(alt, three, 420)
        .mark_point()
        .encode(
            x=entropy,
            y=alt.Y("value:Q", title="percent, or as named"),
            color="what:N",
            shape="what:N",
            row="method:N",
        )
    )
    drawn(chart, BUILD / "fig6.svg")


def figure(alt: Any, rows: pl.DataFrame, width: int) -> Any:
    return alt.Chart(alt.Data(values=rows.to_dicts()), width=width, height=width * 2 // 3 + 50)


if __name__ == "__main__":
    main()
