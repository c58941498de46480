"""One tree, 25 trees and the one that imitates them: accuracy on clean records, by table, gamma and class.

Every row is a release of a table with the class kept or perturbed: what its one tree, its ensemble and the
distilled tree reach, what `auto` takes, and the seconds of each. `digits` and `letters` are made up with 10 and 26
smooth classes; F1 to F5 are the papers'. Adult is skipped unless a folder that has adult_train.parquet and
adult_test.parquet is named. FULL=1 has three seeds and both matrices.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from ppdm_cli import perturb, train_tree
from tests.experiments.common import FULL, Results, accuracy, say
from tests.experiments.expected_accuracy import FUNCTIONS, split
from tests.experiments.hard_tables import TABLES

GAMMAS = (5.0, 9.0, 19.0)
MATRICES = ("gamma-diagonal", "band") if FULL else ("gamma-diagonal",)
SEEDS = (1, 2, 3) if FULL else (1,)
RECORDS = 10_000
MANY = ("digits", "letters")
KEY = ("data", "matrix", "gamma", "class_", "seed")
VALUES = ("one", "several", "distilled", "auto", "leaves", "low", "high", "one_s", "several_s")
WAYS: dict[str, dict[str, Any]] = {
    "one": {}, "several": {"trees": 25}, "distilled": {"trees": 25, "distil": True}, "auto": {"trees": "auto"},
}  # fmt: skip


def measured(folder: Path, name: str, matrix: str, gamma: float, class_: str, seed: int) -> list[Any]:
    """The values of a row."""
    train, test, label = split(name, RECORDS, seed, folder)
    keep = [label] if class_ == "kept" else []
    release = perturb(train, gamma=gamma, bins="auto", matrix=matrix, class_=label, rare="publish", keep=keep,
                      keep_order=True, seed=seed)  # fmt: skip
    found, seconds = {}, {}
    for way, settings in WAYS.items():
        start = time.process_time()
        found[way] = train_tree(release.frame, sidecar=release.sidecar, **settings)
        seconds[way] = time.process_time() - start
    shares = [accuracy(found[way], test, label) for way in ("one", "several", "distilled")]
    expected = found["several"].expected
    told = ["" if v is None else 100 * v for v in (expected.low, expected.high)]
    trees = [found["auto"].tree.roots, found["distilled"].tree.leaves]
    return [*shares, *trees, *told, seconds["one"], seconds["several"]]


def wanted(names: list[str]) -> Iterator[tuple[Any, ...]]:
    yield from product(names, MATRICES, GAMMAS, ("kept", "perturbed"), SEEDS)


def report(rows: pl.DataFrame) -> None:
    """Print all rows, and what ensembles gain with many labels and with few."""
    c = pl.col
    rows = rows.with_columns(
        gain=c("several") - c("one"),
        of_distilled=c("distilled") - c("one"),
        of_auto=pl.when(c("auto") > 1).then(c("several") - c("one")).otherwise(0.0),
        many=c("data").is_in(MANY),
        told=c("low").is_not_null(),
        covered=(c("low") <= c("several")) & (c("several") <= c("high")),
        dearer=c("several_s") / c("one_s"),
    )
    say(rows.drop("many", "told", "covered"), digits=1)
    shares = [c("gain").mean(), c("gain").min().alias("least"), c("of_distilled").mean(), c("of_auto").mean()]
    shares += [c("of_auto").min().alias("least_auto"), c("told").sum(), c("covered").sum(), c("dearer").mean()]
    say(rows.group_by("many", maintain_order=True).agg(pl.len(), *shares), digits=1)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
    adult = ["Adult"] if (folder / "adult_train.parquet").exists() else []
    names = [*MANY, *(t for t in TABLES if t not in MANY), *FUNCTIONS, *adult]
    found = Results("ensembles", KEY, VALUES).measured(wanted(names), lambda *cell: measured(folder, *cell))
    report(found.with_columns(pl.col("low", "high").cast(pl.Float64)))


if __name__ == "__main__":
    main()
