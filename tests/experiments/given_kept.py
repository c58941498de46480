"""What a miner gets out of a release of which some columns were kept: LightGBM and trees, on clean test records.

Four columns are perturbed (half of spambase's), the rest kept, the class kept or perturbed. LightGBM learns from
the originals, from the kept columns alone, from the release as it is, from the global reconstruction and from
the one by default; beside it stand the tree of the kept columns and train-tree's. Name a folder that has
acs_coverage.parquet, adult_26k.parquet and adult_*.parquet; without it the made-up tables and spambase are tried.

`python -m tests.experiments.given_kept [FOLDER] [--seeds 5] [--tables acs,adult26] [--epsilons .5,1,2,4,8]`
"""

from __future__ import annotations

import argparse
import math
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ppdm_cli import perturb, predict, reconstruct, train_tree
from tests.experiments.common import real
from tests.experiments.hard_tables import CLASS, TABLES

OF_ACS = ("PUBCOV", ["DIS", "AGEP", "SEX", "SCHL"], ["MAR", "ESP", "CIT", "MIL", "ANC", "ESR", "MIG", "FER"])
OF_ADULT = (
    "income",
    ["gender", "race", "native-country", "age"],
    ["workclass", "marital-status", "occupation", "relationship", "native-country", "race"],
)
Task = tuple[pl.DataFrame, pl.DataFrame, str, list[str], list[str]]


def task(name: str, folder: Path | None, seed: int) -> Task:
    """Return records to learn from, records to test with, the class, the columns to perturb, and nominal ones."""
    if name in ("acs", "adult26"):
        assert folder is not None
        whole = pl.read_parquet(folder / ("acs_coverage.parquet" if name == "acs" else "adult_26k.parquet"))
        class_, perturbed, nominal = OF_ACS if name == "acs" else OF_ADULT
        return *parts(whole, class_, seed), class_, perturbed, nominal
    if name == "adult":
        assert folder is not None
        train, test = (pl.read_parquet(folder / f"adult_{p}.parquet").drop("fnlwgt") for p in ("train", "test"))
        return train, test, "class", ["age", "education", "relationship", "hours_per_week"], words(train)
    if name == "spambase":
        whole = real("spambase")
        *names, class_ = whole.columns
        return *parts(whole, class_, seed), class_, names[:28], []
    made = TABLES[name](np.random.default_rng([seed, 77]), 25_000)
    names = [n for n in made.columns if n != CLASS]
    return made[:20_000], made[20_000:], CLASS, names[: 4 if len(names) < 12 else len(names) // 2], words(made)


def words(table: pl.DataFrame) -> list[str]:
    return [n for n, t in table.schema.items() if t == pl.String]


def parts(whole: pl.DataFrame, class_: str, seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Four fifths and a fifth of each class."""
    mixed = whole.with_row_index("row").sample(fraction=1, shuffle=True, seed=seed)
    place = mixed.select((pl.int_range(pl.len()) / pl.len()).over(class_)).to_series()
    mixed = mixed.drop("row")
    return mixed.filter(place < 0.8), mixed.filter(place >= 0.8)


def domains(train: pl.DataFrame, names: list[str]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        column = train[name].drop_nulls()
        if column.dtype == pl.String:
            found[name] = {"domain": "|".join(sorted(column.unique().to_list()))}
            continue
        low, high = column.min(), column.max()
        whole = column.dtype.is_integer() and high - low < 100
        found[name] = {"domain": [low, high], "bins": int(high - low + 1) if whole else 20}
    return found


def lightgbm(train: pl.DataFrame, test: pl.DataFrame, class_: str, nominal: list[str]) -> float:
    import lightgbm

    names = [n for n in test.columns if n != class_ and n in train.columns]
    labels = sorted(set(train[class_].drop_nulls()) | set(test[class_]))

    def coded(table: pl.DataFrame) -> np.ndarray:
        columns = []
        for n in names:
            own = table[n]
            if own.dtype == pl.String:
                values = sorted(set(test[n].drop_nulls()))
                own = own.replace_strict(
                    {v: i for i, v in enumerate(values)}, default=None, return_dtype=pl.Float64
                )
            columns.append(own.cast(pl.Float64).to_numpy())
        return np.column_stack(columns)

    known = train.filter(pl.col(class_).is_not_null())
    target = (
        known[class_].replace_strict({v: i for i, v in enumerate(labels)}, return_dtype=pl.Int64).to_numpy()
    )
    many = len(labels) > 2
    settings = {"verbosity": -1, "num_threads": 1, "objective": "multiclass" if many else "binary"}
    model = lightgbm.train(
        settings | ({"num_class": len(labels)} if many else {}),
        lightgbm.Dataset(coded(known), target, categorical_feature=[n in nominal for n in names] and
                         [i for i, n in enumerate(names) if n in nominal]),
        40 if many else 100,
    )  # fmt: skip
    said = np.asarray(model.predict(coded(test)))
    chosen = said.argmax(axis=1) if many else (said > 0.5).astype(int)
    return 100 * float((np.array(labels)[chosen] == test[class_].to_numpy()).mean())


def tree_accuracy(tree: Any, test: pl.DataFrame, class_: str) -> float:
    return 100 * float((predict(tree, test)["predicted"] == test[class_]).mean())


def measured(name: str, folder: Path | None, gamma: float, kept_class: bool, seed: int) -> dict[str, float]:
    """Return accuracies in percent, and seconds."""
    train, test, class_, perturbed, nominal = task(name, folder, seed)
    others = [n for n in train.columns if n not in perturbed and n != class_]
    labels = {} if kept_class else {class_: {"domain": "|".join(map(str, sorted(train[class_].unique())))}}
    made = perturb(train, gamma=gamma, keep=others + [class_] * kept_class, class_=class_, seed=seed,
                   keep_order=True, attributes=domains(train, perturbed) | labels)  # fmt: skip
    release = made.frame
    assert release is not None
    found = {"clean": lightgbm(train, test, class_, nominal)}
    found["dropped"] = lightgbm(release.drop(perturbed), test, class_, nominal)
    found["naive"] = lightgbm(release, test, class_, nominal)
    for method in ("global", None):
        began = time.perf_counter()
        whole = reconstruct(release, sidecar=made.sidecar, method=method).frame
        assert whole is not None
        found[method or "default"] = lightgbm(whole, test, class_, nominal)
    found["seconds"] = time.perf_counter() - began
    if kept_class:
        found["kept tree"] = tree_accuracy(train_tree(release.drop(perturbed), class_=class_), test, class_)
    began = time.perf_counter()
    found["tree"] = tree_accuracy(train_tree(release, sidecar=made.sidecar, class_=class_), test, class_)
    return found | {"tree seconds": time.perf_counter() - began}


def main() -> None:
    ask = argparse.ArgumentParser()
    ask.add_argument("folder", nargs="?", type=Path)
    ask.add_argument("--tables", default="letters,digits,heaps,spambase")
    ask.add_argument("--epsilons", default=".5,1,2,4,8")
    ask.add_argument("--seeds", type=int, default=1)
    ask.add_argument("--class", dest="classes", default="kept")
    asked = ask.parse_args()
    for name, epsilon, class_ in product(
        asked.tables.split(","), asked.epsilons.split(","), asked.classes.split(",")
    ):
        gamma = round(math.exp(float(epsilon) / 4), 3)
        every = [measured(name, asked.folder, gamma, class_ == "kept", s) for s in range(asked.seeds)]
        means = {k: float(np.mean([e[k] for e in every])) for k in every[0]}
        print(
            f"{name:9} class {class_:9} gamma {gamma:5.2f} |",
            *(f"{k} {v:.1f}" for k, v in means.items()),
            flush=True,
        )


if __name__ == "__main__":
    main()
