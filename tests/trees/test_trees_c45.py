"""C4.5's pruning, by its results on real data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ppdm_cli import predict, train_tree

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize(
    ("name", "class_", "expected"), [("breast_cancer", "class", 0.95), ("boston_class", "medv_top20", 0.929)]
)
def test_ten_folds_reach_j48(name: str, class_: str, expected: float) -> None:
    data = pl.read_csv(DATA / f"{name}.csv", null_values="?")
    data = data.drop("id") if "id" in data.columns else data
    right = []
    for seed in range(3):
        fold = np.random.default_rng(seed).permutation(data.height) % 10
        for k in range(10):
            fitted = train_tree(data.filter(fold != k), class_)
            test = data.filter(fold == k)
            right.extend((predict(fitted, test)["predicted"] == test[class_]).to_list())
    assert np.mean(right) == pytest.approx(expected, abs=0.012)


def test_spambase_and_pruning() -> None:
    train, test = (pl.read_parquet(DATA / f"spambase_{w}.parquet") for w in ("train", "test"))
    pruned, whole = train_tree(train, "class"), train_tree(train, "class", prune=False)
    assert pruned.tree.leaves == 79 and whole.tree.leaves == 118  # Weka 3.6.14 on the same file
    assert (predict(pruned, test)["predicted"] == test["class"]).mean() > 0.9
    pruned.tree.validate()
