"""Do the intervals of regressions cover, and how well does a ridge regression on a release predict?

`python -m tests.experiments.regression [RELEASES [ADULT_TRAIN.parquet ADULT_TEST.parquet]]`. Of records with
known coefficients, another sample for each release; and of the Adult census data, whose class is predicted by a
ridge regression on a release, beside the tree that `train_tree` makes of the same release.
"""

from __future__ import annotations

import sys
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli import RefusedError, perturb, query, train_tree
from ppdm_cli.perturbing import Release
from tests.experiments.common import accuracy, say

RECORDS, RIDGE, SEEDS = 10_000, 1, 3
TRUE = {"intercept": 20.0, "age": 0.5, "sex = M": 5.0, "edu = b": 2.0, "edu = c": -4.0, "kids": 1.5, "w": 3.0}
BINS = {"age": {"domain": [0, 59], "bins": 10}, "y": {"domain": [-40, 120], "bins": 40}}


def sample(seed: int) -> pl.DataFrame:
    """Return records whose y is a sum of what explains it, with noise; ages are the middles of bins."""
    rng, n = np.random.default_rng(seed), RECORDS
    age, w = rng.integers(0, 10, n) * 6 + 2.5, rng.normal(0, 1, n)
    sex, edu = rng.choice(["F", "M"], n), rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    kids = rng.integers(0, 4, n) + (age > 30)
    y = 20 + 0.5 * age + 5 * (sex == "M") + 2 * (edu == "b") - 4 * (edu == "c") + 1.5 * kids + 3 * w
    return pl.DataFrame({"age": np.floor(age).astype(int), "sex": sex, "edu": edu, "kids": kids, "w": w,
                         "y": y + rng.normal(0, 4, n)})  # fmt: skip


def covered(releases: int, **plan: Any) -> pl.DataFrame:
    """Return for each coefficient how often its interval covers, its bias, and its error beside the stated."""
    rows: list[tuple[str, bool, float, float]] = []
    for seed in range(releases):
        made = perturb(sample(seed), keep=["w"], attributes=BINS, seed=seed, keep_order=True, **plan)
        try:
            asked = "select linear(y, age, sex, edu, kids, w)"
            found = query(made.frame, asked, sidecar=made.sidecar).rows
        except RefusedError:
            continue
        for row in found:
            name = row.title.removeprefix("linear: ")
            rows.append((name, row.low <= TRUE[name] <= row.high, row.value - TRUE[name], row.std_error))  # type: ignore[operator]
    frame = pl.DataFrame(rows, ["coefficient", "covered", "off", "claimed"], orient="row")
    sd = pl.col("off").std(ddof=0)
    return frame.group_by("coefficient", maintain_order=True).agg(
        pl.len(), pl.col("covered").mean(), bias=pl.col("off").mean() / sd,
        ratio=pl.col("claimed").pow(2).mean().sqrt() / sd,
    )  # fmt: skip


def scored(release: Release, test: pl.DataFrame, class_: str, rich: str) -> float:
    """Return how often a ridge regression on a release tells the class of test records."""
    attributes = [a for a in release.sidecar.attributes if a.name != class_]
    columns = ", ".join(f'"{a.name}"' for a in attributes)
    asked = f"select ridge(\"{class_}\" = '{rich}', {RIDGE}, {columns})"
    rows = query(release.frame, asked, sidecar=release.sidecar).rows
    weights = {r.title.removeprefix("ridge: "): r.value or 0.0 for r in rows}
    score = np.full(len(test), weights.pop("intercept"))
    for attribute in attributes:
        domain = attribute.domain
        codes = domain.encode(test[attribute.name].to_arrow().cast(attribute.kind), clip=True).codes
        if attribute.name in weights:
            score += weights[attribute.name] * domain.numbers()[codes]
        else:
            told = [weights.get(f"{attribute.name} = {label}", 0.0) for label in domain.labels()]
            score += np.array(told)[np.minimum(codes, domain.size - 1)]
    return float(100 * ((score > 0.5) == (test[class_] == rich).to_numpy()).mean())


def adult(train: str, test: str) -> None:
    original, held = (pl.read_parquet(path).select(pl.exclude("fnlwgt")) for path in (train, test))
    rich = original["class"].unique().sort()[-1]
    for gamma, matrix in product((5, 9, 19), ("gamma-diagonal", "band")):
        both = []
        for seed in range(SEEDS):
            made = perturb(original, keep="class", class_="class", gamma=gamma, bins="auto", matrix=matrix,
                           rare="publish", shuffle=True, seed=seed)  # fmt: skip
            tree = train_tree(made.frame, sidecar=made.sidecar)
            both.append((scored(made, held, "class", rich), accuracy(tree, held, "class")))
        ridge, trees = np.mean(both, axis=0)
        say(f"Adult gamma {gamma:2} {matrix:15} ridge {ridge:.1f} %, tree {trees:.1f} %")


def main(releases: int = 500, *adults: str) -> None:
    plans: list[dict[str, Any]] = [{"gamma": g} | more for g in (5, 9, 21) for more in ({}, {"matrix": "band"})]
    plans.append({"gamma": 21, "together": [{"attributes": ["sex", "edu"]}]})
    plans += [{"record_epsilon": e, "publish": p} for e, p in ((4, "2"), (6, "2"), (6, "3"))]
    for plan in plans:
        say(plan, covered(releases, **plan), digits=3)
    if adults:
        adult(*adults)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:])
