"""`ppdm train-tree`: the whole command line, on originals and reconstructed data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb, reconstruct
from ppdm_cli.trees import load_tree
from tests.vocabulary import Run, listing, people, read_table


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "people.parquet"
    frame = people(600)
    label = pl.when(frame["age"] > 50).then(pl.lit("old")).otherwise(pl.lit("young"))
    frame.with_columns(group=label).write_parquet(path)
    return path


def test_a_tree_in_every_form(table: Path, tmp_path: Path, ppdm: Run) -> None:
    exports = [f"t.{s}" for s in ("txt", "sql", "pmml")]
    done = ppdm(
        "train-tree", "people.parquet", "--class", "group", "-o", "t.json", "--test", "people.parquet",
        "--predicted", "p.csv", *[a for e in exports for a in ("--export", e)],
    )  # fmt: skip
    said = done.stdout.decode()
    assert done.stderr == b"" and "age <= 50: young" in said and "100.00%" in said and "Importance" in said
    assert set(listing(tmp_path)) == {"people.parquet", "t.json", "p.csv", *exports}
    predicted = read_table(tmp_path / "p.csv")
    assert predicted["predicted"].to_pylist() == predicted["group"].to_pylist()


def test_json_has_every_figure(table: Path, ppdm: Run) -> None:
    args = ("train-tree", "people.parquet", "--class", "group", "--json")
    found = json.loads(ppdm(*args, "-o", "t.json", "--test", "people.parquet").stdout)
    assert (found["leaves"], found["size"], found["depth"]) == (2, 3, 1)
    assert found["train"]["accuracy"] == found["test"]["accuracy"] == 1
    assert found["test"]["low"] < found["test"]["high"] == 1
    assert np.sum(found["test"]["confusion"]) == 600 and found["importance"]["age"] == 1
    options = ("--drop", "age", "--no-prune", "--no-mdl", "--criterion", "gain", "--max-depth", "2")
    other = json.loads(ppdm(*args, "-o", "u.json", *options).stdout)
    assert other["depth"] <= 2 and "age" not in other["importance"] and other["test"] is None


def test_a_release_and_its_reconstruction_are_both_taken(table: Path, tmp_path: Path, ppdm: Run) -> None:
    for name in ("r.parquet", "r.csv"):
        perturb(str(table), tmp_path / name, gamma=19, class_="group", seed=1)
        said = ppdm("train-tree", name, "-o", "t.json", "--force").stdout.decode()
        assert "Learned from 600 perturbed records" in said and "Expected accuracy" in said
        assert load_tree(tmp_path / "t.json").class_name == "group", "the class of the sidecar"
        reconstruct(str(tmp_path / name), tmp_path / f"u{name}")
        ppdm("train-tree", f"u{name}", "-o", "t.json", "--force")
        assert load_tree(tmp_path / "t.json").class_name == "group", "the class of the sidecar"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ("people.parquet -o x.json", 2),
        ("people.parquet -o x.json --class grupp", 2),
        ("people.parquet -o x.json --class group --export x.gif", 2),
        ("people.parquet -o x.json --class group --export x.sql --export x.sql", 2),
        ("people.parquet -o x.json --class group --predicted people.parquet --force", 2),
        ("people.parquet -o x.json --class group --test absent.csv", 1),
        ("people.parquet -o x.json --class group --test bare.csv", 3),
    ],
)
def test_what_is_wrong_leaves_nothing(args: str, code: int, table: Path, tmp_path: Path, ppdm: Run) -> None:
    (tmp_path / "bare.csv").write_text("region\nnorth\n")
    before = listing(tmp_path)
    done = ppdm("train-tree", *args.split(), code=code)
    assert b"inside ppdm" not in done.stderr and done.stdout == b""
    assert listing(tmp_path) == before


def test_test_records_may_have_columns_that_no_tree_could_read(tmp_path: Path, ppdm: Run) -> None:
    original = people(2000)
    perturb(original, tmp_path / "r.parquet", gamma=9, keep=["group"], drop=[], class_="group", seed=1)
    length = pl.Series("length", [None] * 2000, pl.Duration)
    original.with_columns(length).write_parquet(tmp_path / "new.parquet")
    done = ppdm("train-tree", "r.parquet", "-o", "t.json", "--test", "new.parquet", "--json")
    assert json.loads(done.stdout)["test"]["records"] == 2000
    args = ("--test", "new.parquet", "--predicted", "p.csv")
    done = ppdm("train-tree", "r.parquet", "-o", "u.json", *args, code=4)
    assert b"'length' has the type duration" in done.stderr
