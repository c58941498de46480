"""Trees from reconstructed data: by class and globally, sorted and unsorted (Dowd et al. 5.2).

Functions F1 to F5, 100,000 records each, N = 10, the class kept; scikit-learn's tree with entropy and
at least 500 records a leaf, measured on 5,000 clean records. Sorting the input must not matter.
"""

from __future__ import annotations

import os

import polars as pl
from sklearn.tree import DecisionTreeClassifier

from ppdm_cli import perturb, reconstruct, synthetic
from tests.experiments.common import BUILD, DOMAINS, TEST, TRAIN, table

WHOLE = {"car": 20, "zipcode": 9, "elevel": 5}
FLOORS = {2: 80.5, 5: 85.5, 9: 88.0, 21: 91.5}


def accuracy(train: pl.DataFrame, test: pl.DataFrame) -> float:
    names = list(synthetic.NAMES)
    tree = DecisionTreeClassifier(criterion="entropy", min_samples_leaf=500, random_state=0)
    tree.fit(train[names].to_numpy(), train["group"])
    return float(100 * tree.score(test[names].to_numpy(), test["group"]))


def one(function: int, gamma: int, seed: int) -> list[dict[str, object]]:
    """The accuracies for one table: as it comes and sorted, by class and globally."""
    attributes = {n: {"domain": d, **({"bins": WHOLE[n]} if n in WHOLE else {})} for n, d in DOMAINS.items()}
    original, test = table(function, TRAIN, 100 * function + seed), table(function, TEST, 900 + function)
    found = []
    for order, data in (("as it comes", original), ("sorted", original.sort("group", "age"))):
        release = perturb(data, gamma=gamma, bins=10, keep=["group"], class_="group", attributes=attributes,
                          keep_order=True, seed=seed)  # fmt: skip
        for method in ("by-class", "global"):
            rebuilt = reconstruct(release.frame, sidecar=release.sidecar, method=method).frame
            found.append({"function": function, "gamma": gamma, "seed": seed, "order": order, "method": method,
                          "accuracy": accuracy(rebuilt, test)})  # fmt: skip
    return found


def main() -> None:
    seeds = range(5 if os.environ.get("FULL") == "1" else 2)
    rows = [r for g in FLOORS for f in synthetic.FUNCTIONS for s in seeds for r in one(f, g, s)]
    BUILD.mkdir(parents=True, exist_ok=True)
    results = pl.DataFrame(rows)
    results.write_csv(BUILD / "by_class.csv")
    mean = results.group_by("gamma", "method", "order").agg(
        pl.col("accuracy").mean(),
        pl.col("accuracy").std().over("function").mean().alias("seed to seed"),
    )
    mean = mean.sort("method", "order")
    wide = mean.pivot(["method", "order"], index="gamma", values="accuracy").sort("gamma")
    with pl.Config(tbl_cols=-1, float_precision=2, tbl_hide_dataframe_shape=True, tbl_width_chars=120):
        print(f"Mean accuracy of F1-F5, {len(seeds)} seeds; floors by class {FLOORS}\n{wide}")
        spread = (
            results.filter(pl.col("method") == "by-class")
            .group_by("gamma", "function", "order")
            .agg(pl.col("accuracy").std())
            .group_by("gamma")
            .agg(pl.col("accuracy").mean())
            .sort("gamma")
        )
        print(f"Seed-to-seed standard deviation, by class\n{spread}")


if __name__ == "__main__":
    main()
