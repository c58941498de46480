"""One learner's training times and accuracy, in a process of its own, for `make bench`.

The first fit of a process is the cold one. The tables are in memory before the clock starts: as a
frame for ppdm, as a matrix of numbers for its peers. LightGBM bins and grows one tree, of at most 2,048 leaves.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

RUNS = 4
Fit = Callable[[], Any]
Right = Callable[[Any], float]


def ppdm(train: pl.DataFrame, test: pl.DataFrame, **options: Any) -> tuple[Fit, Right]:
    from ppdm_cli import predict, train_tree

    return (
        lambda: train_tree(train, "group", **options),
        lambda fitted: float((predict(fitted, test)["predicted"] == test["group"]).mean()),  # type: ignore[arg-type]
    )


def matrix(data: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    return data.drop("group").to_numpy().astype(float), (data["group"] == "A").to_numpy()


def sklearn(train: pl.DataFrame, test: pl.DataFrame) -> tuple[Fit, Right]:
    from sklearn.tree import DecisionTreeClassifier

    (x, y), (tx, ty) = matrix(train), matrix(test)
    return (
        lambda: DecisionTreeClassifier(criterion="entropy", random_state=0).fit(x, y),
        lambda tree: float(np.mean(tree.predict(tx) == ty)),
    )


def lightgbm(train: pl.DataFrame, test: pl.DataFrame) -> tuple[Fit, Right]:
    import lightgbm as peer

    (x, y), (tx, ty) = matrix(train), matrix(test)
    options = {"objective": "binary", "num_leaves": 2048, "learning_rate": 1.0, "verbose": -1}
    return (
        lambda: peer.train(options, peer.Dataset(x, y.astype(float), params={"verbose": -1}), 1),
        lambda model: float(np.mean((model.predict(tx) > 0.5) == ty)),
    )


LEARNERS: dict[str, Callable[[pl.DataFrame, pl.DataFrame], tuple[Fit, Right]]] = {
    "ppdm": ppdm,
    "ppdm --no-mdl": lambda train, test: ppdm(train, test, mdl=False),
    "scikit-learn": sklearn,
    "LightGBM": lightgbm,
}


def main(learner: str, train: str, test: str) -> None:
    fit, right = LEARNERS[learner](pl.read_parquet(train), pl.read_parquet(test))
    times = []
    for _ in range(RUNS):
        began = time.perf_counter()
        fitted = fit()
        times.append(time.perf_counter() - began)
    sys.stdout.write(json.dumps({"times": times, "accuracy": right(fitted)}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
