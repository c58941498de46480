"""Do the intervals of regressions cover, and how well does a ridge regression on a release predict?

`python -m tests.experiments.regression [--releases R] [ADULT_TRAIN.parquet ADULT_TEST.parquet]`. Of records with
known coefficients, another sample for each release; and of the Adult census data, whose class is predicted by a
ridge regression on a release, beside the tree that `train_tree` makes of the same release.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli import perturb, predict, query, train_tree
from ppdm_cli.perturbing import Release

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


def covered(releases: int, **plan: Any) -> None:
    found: dict[str, list[tuple[bool, float, float]]] = {name: [] for name in TRUE}
    refused = 0
    for seed in range(releases):
        made = perturb(sample(seed), keep=["w"], attributes=BINS, seed=seed, keep_order=True, **plan)
        try:
            rows = (
                query(made.frame, sidecar=made.sidecar).select("select linear(y, age, sex, edu, kids, w)").rows
            )
        except Exception as error:
            refused += type(error).__name__ == "RefusedError"
            continue
        for row in rows:
            true = TRUE[row.title.removeprefix("linear: ")]
            assert (
                row.value is not None
                and row.std_error is not None
                and row.low is not None
                and row.high is not None
            )
            found[row.title.removeprefix("linear: ")].append(
                (row.low <= true <= row.high, row.value - true, row.std_error)
            )
    told = []
    for rows_of in found.values():
        hits, errors, claimed = (
            (np.array(c, float) for c in zip(*rows_of, strict=True)) if rows_of else [np.zeros(1)] * 3
        )
        told.append(f"{100 * hits.mean():.1f} (bias {errors.mean() / max(errors.std(), 1e-9):+.2f}, "
                    f"{np.sqrt((claimed**2).mean()) / max(errors.std(), 1e-9):.2f})")  # fmt: skip
    print(f"{plan} refused {refused}: " + "; ".join(told), flush=True)


def scored(release: Release, test: pl.DataFrame, class_: str, rich: str) -> float:
    """Return how often a ridge regression on a release tells the class of test records."""
    names = [a.name for a in release.sidecar.attributes if a.name != class_]
    columns = ", ".join(f'"{n}"' for n in names)
    asked = f"select ridge(\"{class_}\" = '{rich}', {RIDGE}, {columns})"
    rows = query(release.frame, sidecar=release.sidecar).select(asked).rows
    weights = {r.title.removeprefix("ridge: "): r.value or 0.0 for r in rows}
    score = np.full(len(test), weights.pop("intercept"))
    for attribute in release.sidecar.attributes:
        if attribute.name == class_:
            continue
        domain = attribute.domain
        codes = domain.encode(test[attribute.name].to_arrow().cast(attribute.kind), clip=True).codes
        if attribute.name in weights:
            score += weights[attribute.name] * domain.numbers()[codes]
        else:
            told = [weights.get(f"{attribute.name} = {label}", 0.0) for label in domain.labels()]
            score += np.array(told)[np.minimum(codes, domain.size - 1)]
    return float(((score > 0.5) == (test[class_] == rich).to_numpy()).mean())


def adult(train: str, test: str) -> None:
    columns = pl.exclude("fnlwgt")
    original, held = (pl.read_parquet(path).select(columns) for path in (train, test))
    rich = original["class"].unique().sort()[-1]
    for gamma in (5, 9, 19):
        for matrix in ("gamma-diagonal", "band"):
            both = []
            for seed in range(SEEDS):
                made = perturb(original, keep="class", class_="class", gamma=gamma, bins="auto", matrix=matrix,
                               rare="publish", shuffle=True, seed=seed)  # fmt: skip
                tree = train_tree(made.frame, sidecar=made.sidecar)
                right = predict(tree, held)["predicted"] == held["class"]
                both.append((scored(made, held, "class", rich), float(right.mean() or 0.0)))
            ridge, trees = np.mean(both, axis=0)
            print(
                f"Adult gamma {gamma:2} {matrix:15} ridge {100 * ridge:.1f} %, tree {100 * trees:.1f} %",
                flush=True,
            )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--releases", type=int, default=500)
    parser.add_argument("adult", nargs="*")
    asked = parser.parse_args(arguments)
    for gamma in (5, 9, 21):
        covered(asked.releases, gamma=gamma)
        covered(asked.releases, gamma=gamma, matrix="band")
    covered(asked.releases, gamma=21, together=[{"attributes": ["sex", "edu"]}])
    for epsilon, publish in ((4, "2"), (6, "2"), (6, "3")):
        covered(asked.releases, record_epsilon=epsilon, publish=publish)
    if asked.adult:
        adult(*asked.adult)


if __name__ == "__main__":
    main()
