"""Trees in SQL and PMML say what `predict --heaviest` says, row for row, in the engines themselves."""

from __future__ import annotations

import gc
import math
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ppdm_cli import dtypes, predict, train_tree
from ppdm_cli.trees.exporting import _sql_number, as_text, outlined, pmml, shortened, sql
from ppdm_cli.trees.tree import Feature, Tree
from tests.tree_strategies import chain, hostile_tree, trees
from tests.vocabulary import Run, people, raises

few = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
NOTE = "a note"
ODD = {"n\new'; DROP TABLE t --": "numbers", 'quo"te': "words", "\u202e\U0001f333 x": "whole"}
LABELS = ("it's", "new\nline; --", "\u4e2d\u6587 \U0001f333")


def values_of(feature: Feature, tree: Tree, number: int) -> list[Any]:
    """Values of a column where trees may go wrong: at cuts and next to them, unseen ones, none."""
    kind = dtypes.parse(feature.dtype)
    low, high = dtypes.limits(kind) if not dtypes.is_discrete(kind) else (0, 0)
    if feature.numeric and pa.types.is_floating(kind):
        width = np.float32 if pa.types.is_float32(kind) else np.float64
        cuts = tree.threshold[tree.feature == number]
        near = [f(width(c)) for c in cuts for f in (float, lambda c: float(np.nextafter(c, width(np.inf))))]
        return [*near, 0.0, -math.inf, math.inf, math.nan, None]
    if feature.numeric:
        cuts = [int(np.clip(c, low, high)) for c in tree.threshold[tree.feature == number].tolist()]
        around = [int(min(max(c + d, low), high)) for c in cuts for d in (-1, 0, 1)]
        return [*around, None]
    seen = [dtypes.from_json(c, kind) for c in feature.categories]
    unseen = ["no such"] if pa.types.is_string(kind) else [] if dtypes.is_discrete(kind) else [int(high)]
    return [*seen, *unseen, None]


def records(tree: Tree, seed: int, rows: int = 60) -> pa.Table:
    """A table with the columns that the tree tests."""
    rng, columns = np.random.default_rng(seed), {}
    for number in np.unique(tree.feature[tree.feature >= 0]).tolist():
        feature = tree.features[number]
        kind, pool = dtypes.parse(feature.dtype), values_of(feature, tree, number)
        drawn = [pool[i] for i in rng.integers(0, len(pool), rows)]
        known = [v for v in drawn if v is not None]
        column = dtypes.column(known, kind) if known else pa.array([], kind)
        there = np.array([v is not None for v in drawn])
        places = pa.array(np.cumsum(there) - 1, mask=~there)
        columns[feature.name] = column.take(places)
    return pa.table(columns or {"nothing": pa.array([0] * rows)})


def in_duckdb(tree: Tree, table: pa.Table) -> list[Any]:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("records", table)
    return [r[0] for r in connection.execute(f"SELECT {sql(tree, NOTE)} FROM records").fetchall()]


def in_sqlite(tree: Tree, table: pa.Table) -> list[Any]:
    connection = sqlite3.connect(":memory:")
    names = ", ".join('"' + n.replace('"', '""') + '"' for n in table.column_names)
    connection.execute(f"CREATE TABLE records ({names})")
    rows = list(zip(*(c.to_pylist() for c in table.columns), strict=True))
    connection.executemany(f"INSERT INTO records VALUES ({', '.join('?' * table.num_columns)})", rows)
    return [
        r[0] for r in connection.execute(f"SELECT {sql(tree, NOTE)} FROM records ORDER BY rowid").fetchall()
    ]


def tellable(tree: Tree) -> bool:
    """Whether an engine can have these names: none is empty, or another one in capitals, or has a NUL."""
    names = [f.name for f in tree.features]
    values = [v for f in tree.features for v in f.categories] + [*names, *tree.labels]
    return len({n.lower() for n in names}) == len(names) and not any("\0" in str(v) for v in values)


@few
@given(trees(), st.integers(0, 99))
def test_every_tree_in_sql(tree: Tree, seed: int) -> None:
    assume(tellable(tree) and all(n.name.strip() for n in tree.features))
    # times in seconds are read as milliseconds; those in nanoseconds reach further here than in DuckDB
    assume(not any(f.dtype.startswith(("time32[s]", "timestamp[s")) or "[ns" in f.dtype for f in tree.features))
    table = records(tree, seed)
    wanted = predict(tree, table, heaviest=True)["predicted"].to_list()
    assert in_duckdb(tree, table) == wanted
    simple = (pa.types.is_floating, pa.types.is_integer, pa.types.is_string, pa.types.is_boolean)
    held = [t for t in table.schema.types if any(f(t) for f in simple) and t != pa.uint64()]
    if len(held) == table.num_columns:
        assert in_sqlite(tree, table) == wanted


def hostile(trees: int = 1) -> tuple[Tree, pa.Table]:
    """A learnt tree, or several, with nulls, hostile names and labels; new records with unseen categories."""
    rng = np.random.default_rng(3)

    def made(rows: int, regions: list[str]) -> pl.DataFrame:
        numbers = rng.normal(50, 20, rows) / 3
        words, whole = rng.choice(regions, rows), rng.integers(0, 9, rows)
        of = np.where(words == regions[0], whole > 4, numbers > 17).astype(int) + (numbers > 30)
        frame = pl.DataFrame(dict(zip(ODD, (numbers, words.tolist(), whole), strict=True)))
        holes = [pl.when(pl.Series(rng.random(rows) > 0.2)).then(pl.col(n)) for n in frame.columns]
        return frame.with_columns(*holes, pl.Series("c <'&>\"", np.array(LABELS)[of].tolist()))

    seen = ["a,'b'", 'c "d" ', " ; --"]
    fitted = train_tree(made(3000, seen), "c <'&>\"", trees=trees)
    assert fitted.tree.leaves > 5 and {f.name for f in fitted.tree.features} == set(ODD)
    assert 0 < fitted.elsewhere < 1000
    return fitted.tree, made(400, [*seen, "new"]).drop("c <'&>\"").to_arrow()


@pytest.mark.parametrize("trees", [1, 5])
def test_hostile_names_and_labels_in_sql(trees: int) -> None:
    tree, table = hostile(trees)
    wanted = predict(tree, table, heaviest=True)["predicted"].to_list()
    assert set(wanted) == set(LABELS) != set(predict(tree, table)["predicted"]) - set(LABELS)
    assert in_duckdb(tree, table) == in_sqlite(tree, table) == wanted
    assert predict(tree, table)["predicted"].to_list() != wanted, "the test has power: nulls in part differ"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_read_back_exactly(number: float) -> None:
    read = [engine.execute(f"SELECT {_sql_number(number)}").fetchone()[0] for engine in (DUCK, LITE)]
    assert read == [number, number]


DUCK, LITE = duckdb.connect(), sqlite3.connect(":memory:")


def test_dates_of_a_class_and_null_characters(tmp_path: Path) -> None:
    tree = train_tree(people(300), "region", max_depth=2).tree
    assert sql(tree, NOTE).startswith("-- A decision tree") and shortened(tree.labels[0]) in sql(tree, NOTE)
    odd = Tree(**{**vars(tree), "labels": ("a\0b", *tree.labels[1:])})
    for export in (sql, pmml):
        with raises("unexportable-character"):
            export(odd, NOTE)


# -- PMML


JAVA = pytest.mark.skipif(not shutil.which("java"), reason="PMML is evaluated by Java programs (no java here)")


def by_jpmml(path: Path, rows: list[dict[str, Any]], class_: str) -> list[Any]:
    from jpmml_evaluator import make_evaluator
    from jpmml_evaluator.py4j import Py4JBackend

    backend = Py4JBackend()
    try:
        evaluator = make_evaluator(str(path), backend=backend).verify()
        return [evaluator.evaluate(row)[class_] for row in rows]
    finally:
        backend.destroyGateway()


def by_pypmml(path: Path, rows: list[dict[str, Any]], class_: str) -> list[Any]:
    from pypmml import Model
    from pypmml.base import PMMLContext

    model = Model.load(str(path))
    found = [model.predict(row)[f"predicted_{class_}"] for row in rows]
    del model
    gc.collect()  # it talks to Java until it is gone
    PMMLContext.shutdown()
    return found


@JAVA
@pytest.mark.parametrize(("evaluate", "trees"), [(by_jpmml, 1), (by_jpmml, 5), (by_pypmml, 5)])
def test_two_evaluators_agree_row_for_row(evaluate: Any, trees: int, tmp_path: Path) -> None:
    tree, table = hostile(trees)
    path = tmp_path / "t.pmml"
    path.write_text(pmml(tree, NOTE), "utf-8", newline="")
    wanted = predict(tree, table, heaviest=True)["predicted"].to_list()
    assert evaluate(path, table.to_pylist(), tree.class_name) == wanted


@JAVA
def test_of_equal_sums_every_engine_takes_the_first_label(tmp_path: Path) -> None:
    """At 0 one tree says a, the other b; at 1 the same, by sums that differ in how they are rounded."""
    counts = np.array([[1, 1], [1, 1], [1, 1], [3, 0], [1, 2], [0, 5], [1, 1], [1, 1], [2, 1.0]])
    feature = np.array([0] * 3 + [-1] * 6, np.int32)
    first, children = np.array([3, 5, 7, *[-1] * 6], np.int32), np.array([2] * 3 + [0] * 6, np.int32)
    tree = Tree(
        (Feature("x", "double", True),), "c", "string", ("a", "b"), feature,
        np.array([0.5] * 3 + [np.nan] * 6), first, children, counts, counts.argmax(axis=1).astype(np.int32),
        {}, 3,
    )  # fmt: skip
    tree.validate()
    table, path = pa.table({"x": [0.0, 1.0]}), tmp_path / "t.pmml"
    assert predict(tree, table)["confidence"].to_list() == pytest.approx([0.5, 0.5])
    path.write_text(pmml(tree, NOTE), "utf-8", newline="")
    told = [by(path, table.to_pylist(), "c") for by in (by_jpmml, by_pypmml)]
    assert [in_duckdb(tree, table), in_sqlite(tree, table), *told] == [["a", "a"]] * 4


def test_the_command_writes_them_and_says_what_they_change(tmp_path: Path, ppdm: Run) -> None:
    frame = people(900)
    label = pl.when(frame["age"] > 50).then(pl.col("region")).otherwise(pl.lit("young"))
    holes = pl.when(pl.int_range(900) % 7 > 0).then(pl.col("age"))
    frame.with_columns(group=label).with_columns(holes).write_parquet(tmp_path / "p.parquet")
    said = ppdm(
        "train-tree", "p.parquet", "--class", "group", "-o", "t.json", "--export", "t.sql", "--export", "t.pmml"
    ).stdout.decode()
    assert "of 900 training records" in " ".join(said.split()) and "heaviest" in said
    for name in ("t.sql", "t.pmml"):
        assert "of 900 training records" in (tmp_path / name).read_text()
    ppdm("predict", "t.json", "p.parquet", "-o", "one.parquet", "--heaviest")
    ppdm("predict", "t.json", "p.parquet", "-o", "two.parquet")
    one, two = (pl.read_parquet(tmp_path / f"{n}.parquet")["predicted"] for n in ("one", "two"))
    expression = (tmp_path / "t.sql").read_text()
    there = duckdb.sql(f"SELECT {expression} AS predicted FROM '{tmp_path}/p.parquet'").fetchall()
    assert [r[0] for r in there] == one.to_list()
    changed = int((one != two).sum())
    assert changed and f"changes the label of {changed} of 900 training records" in " ".join(said.split())


def test_the_text_is_that_of_c45() -> None:
    counts = np.array([[120, 60], [117, 3], [3, 57], [3, 0], [0, 57.0]])
    tree = Tree(
        (Feature("age", "double", True), Feature("since", "date32[day]", True)), "group", "string", ("A", "B"),
        np.array([0, -1, 1, -1, -1], np.int32), np.array([39.9, np.nan, 12_345, np.nan, np.nan]),
        np.array([1, -1, 3, -1, -1], np.int32), np.array([2, 0, 2, 0, 0], np.int32), counts,
        counts.argmax(axis=1).astype(np.int32), {},
    )  # fmt: skip
    tree.validate()
    assert as_text(tree).startswith(
        "age <= 39.9: A (120.0/3.0)\nage > 39.9\n"
        "|   since <= 2003-10-20: A (3.0)\n|   since > 2003-10-20: B (57.0)\n"
    )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees())
def test_every_node_has_a_printable_line(tree: Tree) -> None:
    shown = list(outlined(tree))
    first = 0 if tree.roots > 1 else min(tree.size - 1, 1)
    assert sorted({node for node, _ in shown}) == list(range(first, tree.size))
    assert all(line.isprintable() for _, line in shown)


def test_hostile_names_stay_inside_their_quotes() -> None:
    whole = as_text(hostile_tree())
    assert "x" * 50 not in whole
    forged = [line for line in whole.splitlines() if "a <= 3" in line]
    assert forged and all("'a <= 3: B (5.0)'" in line for line in forged)


def test_a_deep_tree_needs_no_recursion() -> None:
    assert as_text(chain(3000)).count("\n") == 6004
