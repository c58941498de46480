"""Trees from reconstructed data: by class and globally, sorted and unsorted (Dowd et al. 5.2).

Functions F1 to F5, 100,000 records each, N = 10, the class kept; scikit-learn's tree with entropy and
at least 500 records a leaf, measured on 5,000 clean records. Sorting the input must not matter.
"""

from __future__ import annotations

from itertools import product

import polars as pl
from sklearn.tree import DecisionTreeClassifier

from ppdm_cli import perturb, reconstruct
from ppdm_cli.tables import synthetic
from tests.experiments.common import ATTRIBUTES, FULL, TEST, TRAIN, Results, say, table

GAMMAS = (2, 5, 9, 21)
KEY = ("gamma", "function", "seed", "order", "method")


def one(gamma: int, function: int, seed: int, order: str, method: str) -> tuple[float]:
    """Percent correct for one table, as it comes or sorted."""
    original, test = table(function, TRAIN, 100 * function + seed), table(function, TEST, 900 + function)
    if order == "sorted":
        original = original.sort("group", "age")
    release = perturb(original, gamma=gamma, bins=10, keep=["group"], class_="group", attributes=ATTRIBUTES,
                      keep_order=True, seed=seed)  # fmt: skip
    rebuilt = reconstruct(release.frame, sidecar=release.sidecar, method=method).frame
    names = list(synthetic.NAMES)
    tree = DecisionTreeClassifier(criterion="entropy", min_samples_leaf=500, random_state=0)
    tree.fit(rebuilt[names].to_numpy(), rebuilt["group"])
    return (float(100 * tree.score(test[names].to_numpy(), test["group"])),)


def main() -> None:
    grid = product(GAMMAS, synthetic.FUNCTIONS, range(5 if FULL else 2), ("as it comes", "sorted"))
    keys = ((*cell, method) for cell in grid for method in ("by-class", "global"))
    found = Results("by_class", KEY, ("accuracy",)).measured(keys, one)
    each = found.group_by("gamma", "method", "order", "function").agg(
        pl.col("accuracy").mean(), sd=pl.col("accuracy").std()
    )
    mean = each.group_by("gamma", "method", "order").agg(pl.col("accuracy", "sd").mean())
    say("Mean accuracy of F1-F5, and from seed to seed", mean.sort("method", "order", "gamma"))


if __name__ == "__main__":
    main()
