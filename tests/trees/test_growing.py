"""The grower: cuts between neighbours, categories, ties, options, and C4.5 and J48 on real data."""

from __future__ import annotations

import datetime
import decimal
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb, predict, reconstruct, train_tree
from ppdm_cli.errors import DataError, UsageError
from ppdm_cli.trees.exporting import as_text
from ppdm_cli.trees.records import sorted_floats
from tests.trees.test_exporting import in_duckdb, in_sqlite
from tests.vocabulary import Run, generated, raises


def test_categories_give_a_branch_each_and_booleans_too() -> None:
    data = pl.DataFrame({"k": ["a", "b", "c"] * 10, "y": [0, 1, 2] * 10})
    fitted = train_tree(data, "y")
    assert (
        fitted.tree.leaves == 3
        and fitted.accuracy == 1
        and fitted.tree.features[0].categories == ("a", "b", "c")
    )
    assert predict(fitted, data)["predicted"].to_list() == [0, 1, 2] * 10


@pytest.mark.parametrize("step", [2.0**-52, -(2.0**-52), 2.0**-30, 0.25, 1e9])
@pytest.mark.parametrize("records", [0, 1, 1_000, 70_000])
def test_sorted_floats_are_in_order_when_only_their_last_bits_differ(step: float, records: int) -> None:
    rng = np.random.default_rng(records)
    values = np.sign(step) + rng.integers(0, 1 << 20, records) * step
    for special in (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0):
        values[rng.integers(0, max(records, 1), records // 20)] = special
    order, found = sorted_floats(values)
    np.testing.assert_array_equal(found, np.sort(values))
    np.testing.assert_array_equal(values[order], found)
    np.testing.assert_array_equal(np.sort(order), np.arange(records))


def test_depth_and_least_records_are_kept() -> None:
    rng = np.random.default_rng(0)
    data = pl.DataFrame({"x": rng.random(500), "y": rng.integers(0, 2, 500)})
    shallow = train_tree(data, "y", max_depth=2, prune=False, mdl=False).tree
    assert shallow.depth <= 2
    wide = train_tree(data, "y", min_records=60, prune=False, mdl=False).tree
    assert wide.counts.sum(axis=1).min() >= 25
    assert train_tree(data, "y", max_depth=0).tree.size == 1


def test_many_values_are_cut_and_said() -> None:
    rng = np.random.default_rng(0)
    x = rng.random(70_000)
    fitted = train_tree(pl.DataFrame({"x": x, "y": x > 0.5}), "y")
    assert "'x'" in fitted.remarks[0] and fitted.accuracy > 0.999
    assert fitted.tree.threshold[0] in x


def one_cut(values: Any, dtype: Any = None) -> tuple[Any, pl.DataFrame]:
    """A tree with one test between the two values, and its training records; a label each."""
    column = pl.Series("x", [values[0], values[1]] * 10, dtype=dtype)
    data = pl.DataFrame({"x": column, "y": ["low", "high"] * 10})
    return train_tree(data, "y", mdl=False).tree, data


HALFWAY: list[tuple[Any, Any, Any, str]] = [
    ((22.5, 27.5), pl.Float64, 25.0, "<= 25"),
    ((0.1, 0.2), pl.Float64, 0.15, "<= 0.15"),
    ((98765.43, 98770.12), pl.Float64, 98767.775, "<= 98767.775"),
    ((22.5, 27.5), pl.Float32, 25.0, "<= 25"),
    ((3, 4), pl.Int64, 3.0, "<= 3"),
    ((24, 34), pl.UInt8, 29.0, "<= 29"),
    ((-4, -1), pl.Int16, -3.0, "<= -3"),
    ((datetime.date(2024, 1, 15), datetime.date(2024, 2, 14)), None, 19752.0, "<= 2024-01-30"),
    ((datetime.time(8), datetime.time(9)), None, 8.5 * 3600e9, "<= 08:30:00"),
    ((datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 3)), None, 1704153600e6, "<= 2024-01-02T00"),
    ((decimal.Decimal("1.10"), decimal.Decimal("1.30")), pl.Decimal(10, 2), 120.0, "<= 1.20"),
    ((False, True), pl.Float64, 0.5, "<= 0.5"),
]


@pytest.mark.parametrize(("values", "dtype", "threshold", "shown"), HALFWAY)
def test_a_cut_lies_halfway_between_neighbours(values: Any, dtype: Any, threshold: float, shown: str) -> None:
    tree, data = one_cut(values, dtype)
    assert tree.threshold[0] == threshold and shown in as_text(tree)
    assert predict(tree, data)["predicted"].to_list() == data["y"].to_list()


HUGE = 1.7976931348623157e308
NEXT_TO_EACH_OTHER: list[tuple[Any, Any]] = [
    ((1.0, np.nextafter(1.0, 2)), pl.Float64), ((np.nextafter(1.0, 0), 1.0), pl.Float64),
    ((0.0, 5e-324), pl.Float64), ((1e-323, 1.5e-323), pl.Float64), ((-5e-324, 0.0), pl.Float64),
    ((-HUGE, HUGE), pl.Float64), ((np.nextafter(HUGE, 0), HUGE), pl.Float64),
    ((-HUGE, np.nextafter(-HUGE, 0)), pl.Float64), ((0.1, 0.1 + 1e-16), pl.Float64),
    ((100.0, float("inf")), pl.Float64), ((float("-inf"), float("inf")), pl.Float64),
    ((2**53, 2**53 + 2), pl.Int64), ((2**62, 2**62 + 1024), pl.Int64), ((-(2**63), 2**63 - 1), pl.Int64),
    ((0, 2**64 - 1), pl.UInt64), ((2**60 + 1, 2**60 + 257), pl.Int64),
    ((np.float32(0.1), np.nextafter(np.float32(0.1), np.float32(1))), pl.Float32),
]  # fmt: skip


@pytest.mark.parametrize(("values", "dtype"), NEXT_TO_EACH_OTHER)
def test_a_cut_separates_neighbours_however_near_or_far(values: Any, dtype: Any) -> None:
    tree, data = one_cut(values, dtype)
    tree.validate()
    assert tree.size == 3 and np.isfinite(tree.threshold[0])
    assert predict(tree, data)["predicted"].to_list() == data["y"].to_list()
    assert in_duckdb(tree, data.to_arrow()) == data["y"].to_list()
    if dtype != pl.UInt64:
        assert in_sqlite(tree, data.to_arrow()) == data["y"].to_list()


def test_a_plain_table_of_bin_middles_teaches_as_well_as_with_its_sidecar(ppdm: Run, tmp_path: Path) -> None:
    """The middles of a reconstruction say where its bins end, in a frame, a file and a classifier."""
    people, clean = (generated(n, n) for n in (20_000, 5_000))
    domains = {"age": {"domain": [20, 80], "bins": 6}}
    release = perturb(people, gamma=19, class_="group", keep=["group"], attributes=domains, seed=1)
    usable = reconstruct(release.frame, sidecar=release.sidecar)
    plain, told = (train_tree(usable.frame, "group", sidecar=s) for s in (None, usable.sidecar))

    def right(tree: Any) -> float:
        return float((predict(tree, clean)["predicted"] == clean["group"]).mean())

    assert right(told) > 0.85 and abs(right(plain) - right(told)) < 0.01
    ages = plain.tree.threshold[plain.tree.feature == [f.name for f in plain.tree.features].index("age")]
    assert len(ages) and np.isin(ages, [30, 40, 50, 60, 70]).all()
    usable.frame.write_csv(tmp_path / "plain.csv")
    ppdm("train-tree", "plain.csv", "--class", "group", "-o", "tree.json")
    from ppdm_cli.trees import load_tree

    assert np.array_equal(load_tree(tmp_path / "tree.json").threshold, plain.tree.threshold, equal_nan=True)


def test_dates_keep_their_text_in_a_stored_tree(ppdm: Run, tmp_path: Path) -> None:
    days = ["2024-01-01", "2024-01-04"] * 20
    pl.DataFrame({"day": days, "y": ["a", "b"] * 20}).write_csv(tmp_path / "days.csv")
    ppdm("train-tree", "days.csv", "--class", "y", "-o", "tree.json", "--type", "day=date", "--no-mdl")
    nodes = json.loads((tmp_path / "tree.json").read_text())["nodes"]
    assert nodes[0]["cut"] == "2024-01-02"


def test_a_null_class_and_bad_calls_are_refused() -> None:
    data = pl.DataFrame({"x": [1, 2], "y": ["a", None]})
    with raises("class-null"):
        train_tree(data, "y")
    with pytest.raises(UsageError):
        train_tree(data, "z")
    with pytest.raises(UsageError):
        train_tree(data, "y", confidence=0.0)
    with pytest.raises(DataError):
        train_tree(data.clear(), "y")


def test_equal_columns_and_equal_cuts() -> None:
    """Of two equal columns the first is tested; of two equal cuts the lower one is taken."""
    x = np.arange(30.0)
    data = pl.DataFrame({"b": x, "a": x, "y": (x // 10) % 2})
    data = data.with_columns(pl.col("y").cast(pl.Int64))
    for names in (["b", "a"], ["a", "b"]):
        tree = train_tree(data.select(*names, "y"), "y").tree
        assert set(tree.feature[tree.feature >= 0].tolist()) == {0} and tree.threshold[0] == 9.5


DATA = Path(__file__).parents[1] / "data"


def test_spambase_and_pruning() -> None:
    train, test = (pl.read_parquet(DATA / f"spambase_{w}.parquet") for w in ("train", "test"))
    pruned, whole = train_tree(train, "class"), train_tree(train, "class", prune=False)
    assert pruned.tree.leaves == 79 and whole.tree.leaves == 118  # Weka 3.6.14 on the same file
    assert (predict(pruned, test)["predicted"] == test["class"]).mean() > 0.9
    pruned.tree.validate()


JAR = Path("/usr/share/java/weka.jar")
J48 = pytest.mark.skipif(
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
    return generated(20_000, 7, function=4), generated(5_000, 8, function=4)


@J48
@pytest.mark.parametrize("name", ["spambase", "breast_cancer", "F4"])
@pytest.mark.parametrize("prune", [True, False])
def test_j48_predicts_the_same(name: str, prune: bool, tmp_path: Path) -> None:
    train, test = pairs(name)
    found = predict(train_tree(train, train.columns[-1], prune=prune), test)["predicted"].to_numpy()
    theirs = j48(train, test, tmp_path, *([] if prune else ["-U"]))
    assert len(theirs) == test.height and np.mean(found == theirs) >= 0.99
