"""Training time and accuracy beside scikit-learn, in one run: `python -m tests.bench_trees [records ...]`."""

from __future__ import annotations

import sys
import time

import numpy as np
import polars as pl
import pyarrow as pa
from sklearn.tree import DecisionTreeClassifier

from ppdm_cli import fit_tree, predict
from ppdm_cli.synthetic import generate


def table(function: int, records: int, seed: int) -> pl.DataFrame:
    frame = pl.from_arrow(pa.Table.from_batches(generate(function, records, seed)))
    assert isinstance(frame, pl.DataFrame)
    return frame


def measure(function: int, records: int) -> str:
    train, test = table(function, records, 7), table(function, 20_000, 8)
    start = time.perf_counter()
    fitted = fit_tree(train, "group")
    ours = time.perf_counter() - start
    x, y = train.drop("group").to_numpy(), train["group"].to_numpy()
    start = time.perf_counter()
    peer = DecisionTreeClassifier(criterion="entropy", random_state=0).fit(x, y)
    theirs = time.perf_counter() - start
    truth = test["group"].to_numpy()
    right = float(np.mean(predict(fitted, test)["predicted"].to_numpy() == truth))
    peer_right = float(np.mean(peer.predict(test.drop("group").to_numpy()) == truth))
    return (
        f"F{function} {records:>9,}: ppdm {ours:6.2f} s, scikit-learn {theirs:6.2f} s, "
        f"ratio {ours / theirs:.2f}; accuracy {right:.4f} and {peer_right:.4f}; "
        f"{fitted.tree.leaves} and {peer.get_n_leaves()} leaves"
    )


if __name__ == "__main__":
    for size in [int(a) for a in sys.argv[1:]] or [100_000, 1_000_000]:
        for number in (2, 4):
            sys.stdout.write(measure(number, size) + "\n")
            sys.stdout.flush()
