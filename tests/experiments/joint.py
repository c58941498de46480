"""Trees from releases by the joint distribution: accuracy, expected accuracy, and what does not work.

Functions F1 to F5 with domains shifted by a random part of a bin, so that no edge falls on a threshold by luck;
N by `--bins auto`; nothing looks at test data. Also spambase and breast cancer, permuted labels, perturbed
classes, balanced draws. FULL=1 has five seeds, not two.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import polars as pl
from sklearn.tree import DecisionTreeClassifier

from ppdm_cli import perturb, predict, reconstruct, train_tree
from ppdm_cli.channels import KINDS
from ppdm_cli.perturbing import Release
from ppdm_cli.perturbing.resolve_run import best_bins
from ppdm_cli.tables import synthetic
from tests.experiments.common import DOMAINS, FULL, WHOLE, Results, Settings, data, published, say, table

MATRICES = ("band", "gamma-diagonal")
GAMMAS = (2, 3, 5, 9, 19)
FUNCTIONS = [f"F{f}" for f in synthetic.FUNCTIONS]
REAL = ("spambase", "breast cancer")
KEY = ("part", "data", "matrix", "gamma", "records", "seed")
VALUES = ("model", "leaves", "tree", "c45", "sklearn", "by_class", "how", "expected", "low", "high", "seconds")


def shifted(matrix: str, gamma: float, records: int, rng: np.random.Generator) -> Settings:
    """Declared domains whose edges nobody chose: one bin more than the range needs, begun anywhere."""
    bins = best_bins(gamma, KINDS[matrix], records)
    plan: Settings = {}
    for name, (low, high) in DOMAINS.items():
        if name in WHOLE:
            plan[name] = {"domain": [low, high], "bins": WHOLE[name], "matrix": "gamma-diagonal"}
        elif name == "hyears":  # whole numbers: shifted by whole years
            plan[name] = {"domain": [low - int(rng.integers(3)), high + int(rng.integers(3))]}
        else:
            width = (high - low) / (bins - 1)
            start = low - float(rng.random()) * width
            plan[name] = {"domain": [start, start + bins * width]}
    return plan


def released(
    part: str, name: str, matrix: str, gamma: float, records: int, seed: int
) -> tuple[Release, pl.DataFrame, str]:
    """A release of one function's table or of a real one, clean records to test with, and the class."""
    if part == "real":
        original = data(name, seed)
        return published(original, gamma, "auto", seed, matrix=matrix), original.test, original.class_
    function, balanced = int(name.removeprefix("F")), part == "balanced"
    rng = np.random.default_rng([seed, function, int(10 * gamma), records])
    train = table(function, records, 1000 + 100 * function + seed, balanced)
    test = table(function, 5_000, 2000 + 100 * function + seed, balanced)
    if part == "permuted":
        train = train.with_columns(pl.col("group").shuffle(seed))
    release = perturb(train, gamma=gamma, bins="auto", matrix=matrix, class_="group",
                      keep=[] if part == "class perturbed" else ["group"], keep_order=True, seed=seed,
                      attributes=shifted(matrix, gamma, records, rng))  # fmt: skip
    return release, test, "group"


def one(part: str, *cell: Any) -> list[Any]:
    """What the release's tree reaches and expects; where that is compared, other trees too."""
    release, test, class_ = released(part, *cell)
    truth = test[class_].to_numpy()

    def right(tree: Any) -> float:
        return float(100 * np.mean(predict(tree, test)["predicted"].to_numpy() == truth))

    start = time.process_time()
    found = train_tree(release.frame, sidecar=release.sidecar)
    seconds, e = time.process_time() - start, found.expected
    others: list[Any] = ["", "", ""]
    if part in ("kept", "real"):
        rebuilt = reconstruct(release.frame, sidecar=release.sidecar)
        by_class = reconstruct(release.frame, sidecar=release.sidecar, method="by-class")
        joint = rebuilt.frame
        names = [n for n in joint.columns if n != class_ and joint[n].dtype.is_numeric()]
        least = max(2, joint.height // 200)
        peer = DecisionTreeClassifier(criterion="entropy", min_samples_leaf=least, random_state=0)
        peer.fit(joint.select(names).fill_null(-1).to_numpy(), joint[class_].to_numpy())
        guessed = peer.predict(test.select(names).fill_null(-1).to_numpy())
        c45, classwise = (train_tree(r.frame, class_, sidecar=r.sidecar) for r in (rebuilt, by_class))
        others = [right(c45), float(100 * np.mean(guessed == truth)), right(classwise)]
    expected = ("" if v is None else 100 * v for v in (e.accuracy, e.low, e.high))
    return [found.model, found.tree.leaves, right(found.tree), *others, e.how, *expected, seconds]


def wanted(seeds: int) -> Iterator[tuple[Any, ...]]:
    """Every run there is, in the order of its worth."""
    for seed, matrix, gamma, name in product(range(seeds), MATRICES, GAMMAS, FUNCTIONS):
        yield "kept", name, matrix, gamma, 100_000, seed
    for seed, name, matrix in product(range(10), REAL, MATRICES):
        yield "real", name, matrix, 5, 0, seed
    for seed, matrix, name in product(range(seeds), MATRICES, FUNCTIONS):
        yield "kept", name, matrix, 5, 10_000, seed
        yield "balanced", name, matrix, 5, 100_000, seed
        yield from (("class perturbed", name, matrix, gamma, 100_000, seed) for gamma in GAMMAS)
    for seed in range(100):
        yield "permuted", f"F{1 + seed % 5}", MATRICES[seed % 2], GAMMAS[seed // 2 % 5], 20_000, seed


def main() -> None:
    rows = Results("joint", KEY, VALUES).measured(wanted(5 if FULL else 2), one)
    mean = [pl.col(c).cast(pl.Float64).mean() for c in ("tree", "c45", "sklearn", "by_class", "seconds")]
    alike = rows.with_columns(
        pl.when(pl.col("part") != "real").then(pl.lit("F1-F5")).otherwise("data").alias("data")
    )
    by = ("part", "data", "records", "matrix", "gamma")
    say("Means of each part\n", alike.group_by(by).agg(mean).sort(by), digits=1)
    kept = rows.filter((pl.col("part") == "kept") & (pl.col("records") == 100_000))
    single = kept.group_by("matrix", "gamma", "data").agg(mean[:1]).sort("data")
    say("Single functions\n", single.pivot("data", values="tree").sort("matrix", "gamma"), digits=1)
    trees = rows.filter(pl.col("part") == "permuted")
    say(f"Permuted labels: a tree in {trees.filter(pl.col('leaves') > 1).height} of {trees.height} runs")
    told = rows.filter((pl.col("how") != "unknown") & (pl.col("part") != "permuted"))
    inside = told.filter((pl.col("low") <= pl.col("tree")) & (pl.col("tree") <= pl.col("high")))
    say(f"Intervals: {told.height} of {rows.height} runs, covered in {inside.height}")


if __name__ == "__main__":
    main()
