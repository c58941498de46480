"""The accuracy that trees from releases expect, beside the one they reach, on real and on hard tables.

Every cell is a release of a data set with a matrix, a gamma, the class kept or perturbed, and a seed. Its
tree is measured on clean test records beside C4.5 on the reconstruction by class, the most common class, and
naive Bayes learned from the release; and the accuracy to expect of the tree, which looks at the release alone,
is compared with what the tree then reaches. Adult is not in this repository: name a folder that has
adult_train.parquet and adult_test.parquet, or it is skipped. FULL=1 has five seeds, and 100,000 records of F1
to F5.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli import perturb, predict, reconstruct, train_tree
from ppdm_cli.tables import synthetic
from tests.experiments import naive_bayes
from tests.experiments.common import FULL, SMALL, Results, real, say, table
from tests.experiments.hard_tables import CLASS, TABLES
from tests.experiments.joint import shifted

MATRICES = ("band", "gamma-diagonal")
GAMMAS = (2.0, 5.0, 9.0, 19.0)
FUNCTIONS = tuple(f"F{f}" for f in synthetic.FUNCTIONS)
RECORDS = {"Adult": 32_561, **SMALL, **dict.fromkeys(FUNCTIONS, 100_000 if FULL else 20_000)}
RECORDS |= dict.fromkeys(TABLES, 20_000)
KEY = ("data", "records", "matrix", "gamma", "class_", "seed")
VALUES = (
    "model", "leaves", "tests", "tree", "by_class", "commonest", "bayes",
    "se_by_class", "se_commonest", "se_bayes", "how", "expected", "low", "high", "seconds",
)  # fmt: skip


def split(name: str, records: int, seed: int, folder: Path) -> tuple[pl.DataFrame, pl.DataFrame, str]:
    """Records to release, records to test with, and the class."""
    if name in FUNCTIONS:
        function = int(name.removeprefix("F"))
        first = 100 * function + seed
        return table(function, records, 1000 + first), table(function, 5_000, 2000 + first), synthetic.CLASS
    if name in TABLES:
        rng = np.random.default_rng([seed, records])
        return TABLES[name](rng, records), TABLES[name](rng, 10_000), CLASS
    if name == "Adult":
        train, test = (
            pl.read_parquet(folder / f"adult_{part}.parquet").drop("fnlwgt") for part in ("train", "test")
        )
        return train.sample(records, shuffle=True, seed=seed), test, "class"
    whole = real(name).sample(fraction=1, shuffle=True, seed=seed)
    return whole[:records], whole[SMALL[name] :], whole.columns[-1]


def measured(
    folder: Path, name: str, records: int, matrix: str, gamma: float, class_: str, seed: int
) -> list[Any]:
    """The values of a row: a release as an owner would make it, bins by `--bins auto`, and what is learnt."""
    train, test, label = split(name, records, seed, folder)
    rng = np.random.default_rng([seed, int(10 * gamma), train.height])
    own = shifted(matrix, gamma, train.height, rng) if name in FUNCTIONS else {}
    keep = [label] if class_ == "kept" else []
    release = perturb(train, gamma=gamma, bins="auto", matrix=matrix, class_=label, rare="publish", attributes=own,
                      keep=keep, keep_order=True, seed=seed)  # fmt: skip
    truth, start = test[label], time.process_time()
    found = train_tree(release.frame, sidecar=release.sidecar)
    seconds = time.process_time() - start
    by_class = reconstruct(release.frame, sidecar=release.sidecar, method="by-class")
    peer = train_tree(by_class.frame, label, sidecar=by_class.sidecar)
    commonest = train[label].drop_nulls().mode().sort()[0]
    guesses = [
        predict(found, test)["predicted"].to_numpy(),
        predict(peer, test)["predicted"].to_numpy(),
        np.full(test.height, commonest),
        np.array(naive_bayes.predicted(release.frame, release.sidecar, label, test)),
    ]
    rights = [(g == truth.to_numpy()).astype(float) for g in guesses]
    apart = [100 * float(np.std(rights[0] - r) / np.sqrt(test.height)) for r in rights[1:]]
    e = found.expected
    told = ["" if v is None else 100 * v for v in (e.accuracy, e.low, e.high)]
    shares = [100 * float(r.mean()) for r in rights]
    return [found.model, found.tree.leaves, test.height, *shares, *apart, e.how, *told, seconds]


def wanted(names: list[str]) -> Iterator[tuple[Any, ...]]:
    """Every cell, the first seed of all before the second."""
    for seed, gamma, name, matrix in product(range(5 if FULL else 1), GAMMAS, names, MATRICES):
        yield from ((name, RECORDS[name], matrix, gamma, class_, seed) for class_ in ("kept", "perturbed"))


def share(some: pl.Series) -> str:
    """How many, and which share."""
    return f"{int(some.sum())} of {len(some)} ({100 * mean(some):.1f} %)"


def mean(some: pl.Series) -> float:
    """The mean, and 0 of nothing."""
    return float(some.mean() or 0)  # type: ignore[arg-type]


def report(rows: pl.DataFrame) -> None:
    """Print the figures that have an aim, and then where they come from."""
    c = pl.col
    rows = rows.with_columns(
        worse=c("by_class") - c("tree") > 0.5 + 2 * c("se_by_class"),
        senseless=c("commonest") - c("tree") > 1 + 2 * c("se_commonest"),
        margin=c("tree") - c("bayes"),
        told=c("low").is_not_null(),
        covered=(c("low") <= c("tree")) & (c("tree") <= c("high")),
        width=c("high") - c("low"),
    )
    say(f"{rows.height} cells")
    say(f"below by class by over .5 point and two standard errors: {share(rows['worse'])}; aim 5 %")
    say(f"below the commonest class by over 1 point and two: {share(rows['senseless'])}; aim 0")
    for class_, aim in (("kept", 2), ("perturbed", 0)):
        some = rows.filter((c("class_") == class_) & ~c("data").is_in(FUNCTIONS))["margin"]
        say(f"class {class_}, F1 to F5 apart: {mean(some):+.2f} points over naive Bayes; aim {aim}")
    told = rows.filter("told")
    say(f"intervals cover {share(told['covered'])}; aim 93 %; mean width {mean(told['width']):.1f}; aim 12")
    large = rows.filter((c("gamma") >= 5) & (c("records") >= 10_000))
    say(f"told at gamma 5 and more with 10,000 records and more: {share(large['told'])}; aim 60 %")
    figures = [c(n).mean() for n in ("tree", "by_class", "commonest", "bayes", "expected", "width")]
    figures += [c(n).sum() for n in ("worse", "senseless", "told", "covered")]
    for by in (["class_", "matrix", "gamma"], ["data", "class_"]):
        say(rows.group_by(by, maintain_order=True).agg(pl.len(), *figures, c("seconds").max()), digits=1)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
    there = (folder / "adult_train.parquet").exists()
    names = [n for n in RECORDS if n != "Adult" or there]
    found = Results("expected_accuracy", KEY, VALUES).measured(wanted(names), lambda *cell: measured(folder, *cell))
    report(found.with_columns(pl.col("expected", "low", "high").cast(pl.Float64)))


if __name__ == "__main__":
    main()
