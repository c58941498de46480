"""Weka's J48 itself, where it is installed (Debian: weka), on the same files: the same predictions."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from ppdm_cli import predict, train_tree
from ppdm_cli.synthetic import generate

JAR = Path("/usr/share/java/weka.jar")
DATA = Path(__file__).parents[1] / "data"
pytestmark = pytest.mark.skipif(
    not (shutil.which("java") and JAR.exists()), reason=f"J48 needs java and {JAR} (apt install weka)"
)


def write_arff(data: pl.DataFrame, path: Path, labels: list[str]) -> None:
    lines = ["@relation r", *(f"@attribute a{i} numeric" for i in range(data.width - 1))]
    lines += ["@attribute y {" + ",".join(labels) + "}", "@data"]
    lines += [",".join("?" if v is None else str(v) for v in row) for row in data.rows()]
    path.write_text("\n".join(lines) + "\n")


def j48(train: pl.DataFrame, test: pl.DataFrame, folder: Path, *options: str) -> np.ndarray:
    labels = sorted(train[:, -1].unique())
    write_arff(train, folder / "train.arff", labels)
    write_arff(test, folder / "test.arff", labels)
    command = ["java", "-cp", str(JAR), "weka.classifiers.trees.J48", "-t", "train.arff", "-T", "test.arff"]
    done = subprocess.run(
        [*command, "-p", "0", *options], cwd=folder, capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()[:1].isdigit()]
    return np.array([labels[int(r[2].split(":")[0]) - 1] for r in rows])


def pairs(name: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    if name == "spambase":
        return pl.read_parquet(DATA / "spambase_train.parquet"), pl.read_parquet(DATA / "spambase_test.parquet")
    if name == "breast_cancer":
        data = (
            pl.read_csv(DATA / "breast_cancer.csv", null_values="?")
            .drop("id")
            .sample(fraction=1, shuffle=True, seed=5)
        )
        return data[:466], data[466:]
    made = [pa.Table.from_batches(generate(4, n, s)) for n, s in ((20_000, 7), (5_000, 8))]
    return pl.DataFrame(made[0]), pl.DataFrame(made[1])


@pytest.mark.parametrize("name", ["spambase", "breast_cancer", "F4"])
@pytest.mark.parametrize("prune", [True, False])
def test_j48_predicts_the_same(name: str, prune: bool, tmp_path: Path) -> None:
    train, test = pairs(name)
    found = predict(train_tree(train, train.columns[-1], prune=prune), test)["predicted"].to_numpy()
    theirs = j48(train, test, tmp_path, *([] if prune else ["-U"]))
    assert len(theirs) == test.height and np.mean(found == theirs) >= 0.99
