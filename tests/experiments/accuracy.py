"""Our C4.5 beside J48 (Weka 3.6.14, C4.5 release 8) and the paper's Table 1, on data never perturbed.

F1 to F5 with 100,000 records to train on and 5,000 to test; spambase over ten random splits of 3101
and 1500; breast cancer and Boston by ten times ten stratified folds. On F2 the trees stop early in
some draws, of balanced classes above all: both modes are shown, and what `--no-mdl` makes of them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli import synthetic, train_tree
from tests.experiments.common import BUILD, DATA, TEST, TRAIN, Results, accuracy, data, table
from tests.trees.test_growing import JAR, j48

TARGETS = {
    "F1": ("100", 100, 100), "F2": ("100", 100, 100), "F3": ("100", 100, 100), "F4": ("99.0-99.3", 99.0, 99.3),
    "F5": ("98.2", 98.2, 98.2), "spambase": ("92.21", 92.21, 92.21),
    "breast cancer": ("95.0", 95.0, 95.0), "boston": ("92.9", 92.9, 92.9),
}  # fmt: skip
"""J48's accuracy: as text, and from where to where."""
PAPER = {"F1": 100, "F2": 89.36, "F3": 100, "F4": 99.22, "F5": 98.48, "spambase": 91.73}
ALLOWED = {"spambase": 0.5}
STOPPED = 95
"""A tree for F2 below this accuracy has stopped above the exclusive-or."""
OURS, WEKA = "ours", "J48 itself"
LEARNERS: dict[str, dict[str, Any]] = {
    OURS: {},
    "ours, --cuts 65536": {"cuts": 1 << 16},  # J48 tries every value
    "ours, --no-mdl": {"mdl": False},
}
FOLDS = ("breast cancer", "boston")
KEY = ("data", "balanced", "learner", "seed")


def runs() -> Iterator[tuple[str, bool, str, int]]:
    """F2 in many draws, balanced or not, with and without the correction; all others in a few."""
    weka = [WEKA] if shutil.which("java") and JAR.exists() else []
    for name in TARGETS:
        if name == "F2":
            draws = range(100 if os.environ.get("FULL") == "1" else 30)
            yield from ((name, b, w, s) for b in (False, True) for w in (*LEARNERS, *weka) for s in draws)
        else:
            seeds = range(5 if name.startswith("F") else 10)
            yield from (
                (name, False, w, s) for w in (OURS, *(weka if name not in FOLDS else ())) for s in seeds
            )


def one(name: str, balanced: bool, learner: str, seed: int) -> float:
    """The accuracy of one draw, split or round of ten folds."""
    if name in FOLDS:
        return folds(name, seed)
    if name == "spambase":
        original = data(name, seed)
        train, test, class_ = original.train, original.test, original.class_
    else:
        function, class_ = int(name[1:]), synthetic.CLASS
        train, test = table(function, TRAIN, seed, balanced), table(function, TEST, 900 + seed, balanced)
    if learner == WEKA:
        with tempfile.TemporaryDirectory() as folder:
            return float(100 * np.mean(j48(train, test, Path(folder)) == test[class_].to_numpy()))
    return accuracy(train_tree(train, class_, **LEARNERS[learner]), test, class_)


def folds(name: str, seed: int) -> float:
    whole = pl.read_csv(DATA / ("breast_cancer.csv" if name == "breast cancer" else "boston_class.csv"))
    whole = whole.drop("id", strict=False)
    class_ = whole.columns[-1]
    fold = stratified(whole[class_].to_numpy(), 10, np.random.default_rng(seed))
    right = 0.0
    for number in range(10):
        test = whole.filter(fold == number)
        fitted = train_tree(whole.filter(fold != number), class_)
        right += accuracy(fitted, test, class_) * test.height
    return right / whole.height


def stratified(classes: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """The fold of every record: as Weka does, shuffled, sorted by class and dealt out in turn."""
    order = rng.permutation(len(classes))
    order = order[np.argsort(classes[order], kind="stable")]
    fold = np.empty(len(classes), np.int64)
    fold[order] = np.arange(len(classes)) % count
    return fold


def main() -> None:
    results = Results(BUILD / "accuracy.csv", KEY, ("accuracy",))
    for row in results.missing(runs()):
        results.add(*row, one(*row))
    found = results.frame()
    rows = [compared(name, found.filter(pl.col("data") == name)) for name in TARGETS]
    with pl.Config(
        tbl_rows=-1, tbl_cols=-1, tbl_hide_dataframe_shape=True, tbl_width_chars=150, float_precision=2
    ):
        print(f"Percent correct; F2 without the draws that stop early\n{pl.DataFrame(rows)}")
        print(f"F2, the two modes\n{two_modes(found)}")


def compared(name: str, found: pl.DataFrame) -> dict[str, Any]:
    """The measured figure beside its target, and whether it is as near as asked."""
    found = found.filter(~pl.col("balanced"))
    if name == "F2":
        found = found.filter(pl.col("accuracy") >= STOPPED)
    values, theirs = (found.filter(pl.col("learner") == w)["accuracy"] for w in (OURS, WEKA))
    text, low, high = TARGETS[name]
    mean = float(values.mean())  # type: ignore[arg-type]
    off = max(low - mean, mean - high, 0)
    return {
        "data": name, "runs": len(values), "Table 1": PAPER.get(name), "target": text, "measured": mean,
        "sd": values.std(), "off": off, "within": off <= ALLOWED.get(name, 0.3), WEKA: theirs.mean(),
    }  # fmt: skip


def two_modes(found: pl.DataFrame) -> pl.DataFrame:
    value = pl.col("accuracy")
    stopped = value < STOPPED
    return (
        found.filter(pl.col("data") == "F2")
        .group_by("balanced", "learner")
        .agg(
            pl.len().alias("draws"),
            (100 * stopped.mean()).alias("% stopped"),
            value.filter(stopped).mean().alias("accuracy, stopped"),
            value.filter(~stopped).mean().alias("accuracy, others"),
            value.mean().alias("mean"),
        )
        .sort("balanced", "learner")
    )


if __name__ == "__main__":
    main()
