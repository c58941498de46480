"""Bins that fit: what a scale or a core gives back on skewed attributes, and how many bins `--bins auto` takes.

`skewed` is a table of one common class and five rare ones, which differ in the middle of attributes whose
tails are a hundred times longer; `digits` has ten labels on sixteen smooth attributes and few records,
spambase skewed attributes and equal widths. F1 to F5 lie on domains that begin anywhere. FULL=1 has five
seeds, not two.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli import perturb, train_tree
from ppdm_cli.channels import KINDS
from ppdm_cli.perturbing.resolve_run import best_bins
from tests.experiments.common import FULL, Results, Settings, accuracy, data, say, table
from tests.experiments.joint import shifted

MATRICES = ("gamma-diagonal", "band")
CUTS: dict[str, dict[str, Any]] = {
    "equal": {}, "sqrt": {"scale": "sqrt"}, "log": {"scale": "log", "core": [10, 10_000]},
    "core": {"core": [0, 2_500]}, "middle 98 %": {},
}  # fmt: skip
"""Settings of an owner who knows the tails; the last one looks at the data."""
KEY = ("table", "records", "matrix", "gamma", "cut", "bins", "seed")


def skewed(records: int, seed: int) -> tuple[pl.DataFrame, Settings]:
    """Amounts from 0 to a million, nearly all of them below 5,000; the class is decided there."""
    rng = np.random.default_rng([1, seed])
    x = np.minimum(np.exp(rng.normal(5.5, 1, (records, 9)) + (rng.random((records, 9)) < 0.01) * 4), 1_000_000)
    x = np.where(rng.random(x.shape) < 0.02, 0, x).astype(np.int64)
    kind = np.select(
        [x[:, 0] > 900, x[:, 1] > 800, (x[:, 2] < 80) & (x[:, 3] > 300), x[:, 4] > 2_000, x[:, 5] < 25],
        [3, 4, 5, 6, 2], 1,
    )  # fmt: skip
    return named(x, kind), {f"x{i}": {"domain": [0, 1_000_000]} for i in range(9)}


def digits(records: int, seed: int) -> tuple[pl.DataFrame, Settings]:
    """Eight points of a pen's way, in two manners of writing for each of ten digits."""
    manners = np.random.default_rng(7).uniform(5, 95, (10, 2, 16))
    rng = np.random.default_rng([2, seed])
    digit, manner = rng.integers(0, 10, records), (rng.random(records) < 0.3).astype(int)
    slant = rng.normal(0, 8, (records, 1)) * np.tile([1, 0.4], 8)
    x = manners[digit, manner] + slant + rng.normal(0, 10, (records, 16))
    domain = {"domain": [0, 100], "core": [0, 100]}
    return named(x.round().clip(0, 100).astype(int), digit), {f"x{i}": domain for i in range(16)}


def named(x: np.ndarray, label: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame({f"x{i}": column for i, column in enumerate(x.T)} | {"group": label})


def one(name: str, records: int, matrix: str, gamma: float, cut: str, bins: int, seed: int) -> tuple[float]:
    """Percent correct of the tree from one release, on clean records."""
    if name == "spambase":
        original = data(name, seed)
        train, test = (part.rename({original.class_: "group"}) for part in (original.train, original.test))
        domains: Settings = {n: {"domain": d} for n, d in original.domains.items()}
    elif name.startswith("F"):
        function = int(name[1:])
        train, test = table(function, records, 1000 + seed), table(function, 5_000, 2000 + seed)
        domains = shifted(matrix, gamma, records, np.random.default_rng([seed, function]))
    else:
        made, domains = {"skewed": skewed, "digits": digits}[name](records + 5_000, seed)
        train, test = made[:records], made[records:]
    domains = {n: d | CUTS[cut] for n, d in domains.items()}
    if cut == "middle 98 %":
        domains = {n: {"domain": [int(train[n].quantile(q)) for q in (0.01, 0.99)]} for n in domains}  # type: ignore[arg-type]
    release = perturb(train, gamma=gamma, bins=bins, matrix=matrix, class_="group", keep=["group"], clip=True,
                      keep_order=True, seed=seed, attributes=domains)  # fmt: skip
    return (accuracy(train_tree(release.frame, sidecar=release.sidecar), test, "group"),)


def wanted(seeds: int) -> Iterator[tuple[Any, ...]]:
    for seed in range(seeds):
        for matrix in MATRICES:
            for cut in CUTS:
                yield "skewed", 43_500, matrix, 9, cut, best_bins(9, KINDS[matrix], 43_500), seed
            for gamma in (2, 5, 19):
                for bins in (4, 5, 7, 10, 14, 20):
                    yield "digits", 7_500, matrix, gamma, "equal", bins, seed
                    yield "spambase", 3_101, matrix, gamma, "equal", bins, seed
                    yield from ((f"F{f}", 5_000, matrix, gamma, "equal", bins, seed) for f in range(1, 6))


def main() -> None:
    found = Results("bins", KEY, ("accuracy",)).measured(wanted(5 if FULL else 2), one)
    found = found.with_columns(pl.col("table").str.replace(r"F\d", "F1-F5"))
    mean = pl.col("accuracy").mean()
    skew = found.filter(pl.col("table") == "skewed").group_by("matrix", "bins", "cut", maintain_order=True)
    say(skew.agg(mean).pivot("cut", values="accuracy"), digits=1)
    cells = found.select("table", "matrix", "gamma", "records").iter_rows()
    auto = [best_bins(g, KINDS[m], n, fits=t == "digits") for t, m, g, n in cells]
    few = found.with_columns(auto=pl.Series(auto)).filter(pl.col("table") != "skewed")
    by = ("table", "records", "matrix", "gamma", "auto")
    say(few.group_by(*by, "bins").agg(mean).sort(*by, "bins").pivot("bins", values="accuracy"), digits=1)


if __name__ == "__main__":
    main()
