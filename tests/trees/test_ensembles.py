"""Ensembles: what their trees see, what they are right about, when `auto` takes them, and who refuses them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest

from ppdm_cli import compare, perturb, predict, train_tree
from ppdm_cli.perturbing import Release
from ppdm_cli.trees import Tree, load_tree
from ppdm_cli.trees.ensembles import FEWEST_ATTRIBUTES, MOST_TREES, ONE, SEVERAL, Ensemble, decided
from tests.experiments.hard_tables import CLASS, TABLES
from tests.vocabulary import Run, generated, people, raises

DIGITS, NEW_DIGITS = (TABLES["digits"](np.random.default_rng(s), 3000) for s in (1, 2))
F1 = generated(4000, 1, 1)
F2, NEW_F2 = (generated(4000, s, 2) for s in (1, 2))


@pytest.fixture(scope="module")
def digits() -> Release:
    return perturb(DIGITS, gamma=9, bins=5, class_=CLASS, keep=[CLASS], keep_order=True, seed=1)


@pytest.fixture(scope="module")
def pairs() -> Release:
    """A release that is learnt as a joint table."""
    return perturb(F2, gamma=9, bins=8, class_="group", keep=["group"], keep_order=True, seed=1)


def taught(release: Release, **settings: Any) -> Any:
    return train_tree(release.frame, sidecar=release.sidecar, **settings)


def right(fitted: Any, new: pl.DataFrame, label: str = CLASS) -> float:
    return float((predict(fitted, new)["predicted"] == new[label]).mean())


def alone(tree: Tree, root: int) -> Tree:
    """One of an ensemble's trees, by the definition of the nodes below a root."""
    whole = vars(tree) | {"roots": 1}
    nodes = np.flatnonzero(tree.root == root)
    for name in ("feature", "threshold", "first_child", "children", "counts", "label"):
        whole[name] = getattr(tree, name)[nodes]
    whole["first_child"] = np.where(whole["feature"] < 0, -1, np.searchsorted(nodes, whole["first_child"]))
    found = Tree(**whole)
    found.validate()
    return found


def test_shares_are_the_average_of_its_trees(digits: Release) -> None:
    tree = taught(digits, trees=4).tree
    new = NEW_DIGITS.head(300).with_columns(pl.when(pl.int_range(300) % 3 > 0).then(pl.col("x3")).alias("x3"))
    for heaviest in (False, True):
        parts = [predict(alone(tree, r), new, heaviest=heaviest)[:, 2:].to_numpy() for r in range(4)]
        assert not np.allclose(parts[0], parts[1])
        np.testing.assert_allclose(
            predict(tree, new, heaviest=heaviest)[:, 2:].to_numpy(), np.mean(parts, axis=0)
        )


@pytest.mark.parametrize("data", ["release", "original"])
def test_many_labels_are_predicted_better(data: str, digits: Release) -> None:
    one, many, distilled = (
        train_tree(DIGITS, CLASS, **settings) if data == "original" else taught(digits, **settings)
        for settings in ({}, {"trees": 25}, {"trees": 25, "distil": True})
    )
    assert (one.tree.roots, many.tree.roots, distilled.tree.roots) == (1, 25, 1)
    assert right(many, NEW_DIGITS) > right(one, NEW_DIGITS) + 0.06
    assert right(distilled, NEW_DIGITS) > right(one, NEW_DIGITS) - 0.02
    imitated = predict(many, DIGITS)["predicted"] == predict(distilled, DIGITS)["predicted"]
    assert imitated.mean() > 0.7
    tested = [np.unique(t.feature[t.feature >= 0]).size for t in (alone(many.tree, r) for r in range(25))]
    assert max(tested) <= max(8, FEWEST_ATTRIBUTES), "half of 16 attributes"


@pytest.mark.parametrize("data", ["release", "original"])
def test_a_table_has_one_ensemble(data: str, digits: Release) -> None:
    one, again = (
        train_tree(DIGITS, CLASS, trees=3) if data == "original" else taught(digits, trees=3) for _ in range(2)
    )
    assert np.array_equal(again.tree.counts, one.tree.counts)


def test_a_joint_table_gives_draws_too(pairs: Release) -> None:
    one, many = taught(pairs), taught(pairs, trees=9)
    assert one.model == many.model == "joint" and many.tree.roots == 9
    assert right(many, NEW_F2, "group") > right(one, NEW_F2, "group") - 0.02
    assert len({t.counts[0].tobytes() for t in (alone(many.tree, r) for r in range(9))}) > 5, "other draws"
    told = many.expected
    assert told.how in ("judged", "unknown"), "a record's own values say nothing of several trees together"
    assert told.low is None or told.low < right(many, NEW_F2, "group") < told.high


@pytest.mark.parametrize(("data", "label", "trees"), [(DIGITS, CLASS, SEVERAL), (F1, "group", 1)])
def test_auto_takes_several_where_they_are_better(data: pl.DataFrame, label: str, trees: int) -> None:
    release = perturb(data, gamma=9, bins=5, class_=label, keep=[label], keep_order=True, seed=1)
    for found in (taught(release, trees="auto"), train_tree(data, label, trees="auto")):
        assert found.tree.roots == trees
        assert any(r.startswith("On held-out records, 25 trees are right") for r in found.remarks)


def test_auto_takes_one_where_nothing_shows_more(digits: Release) -> None:
    few = train_tree(DIGITS.head(300), CLASS, trees="auto", distil=True)
    assert few.tree.roots == 1 and "too few" in few.remarks[0]
    rng, wanted = np.random.default_rng(1), Ensemble("auto")
    one = rng.random(5000) < 0.8
    for gain, trees in ((0.0, 1), (0.005, 1), (0.05, SEVERAL), (-0.05, 1)):
        flipped = rng.random(5000) < abs(gain) / (0.2 if gain > 0 else 0.8)
        assert decided(wanted, [one, np.where(flipped, gain > 0, one)])[0].trees == trees
    one, many = np.arange(50) < 40, np.arange(50) < 42
    assert decided(wanted, [one, many])[0] == ONE, "chance alone may do that"


@pytest.mark.parametrize(
    ("settings", "id"),
    [
        ({"trees": 0}, "trees-out-of-range"),
        ({"trees": MOST_TREES + 1}, "trees-out-of-range"),
        ({"trees": "many"}, "trees-out-of-range"),
        ({"distil": True}, "nothing-to-distil"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused(settings: dict[str, Any], id: str) -> None:
    with raises(id):
        train_tree(DIGITS, CLASS, **settings)


def test_what_needs_the_rules_of_one_tree_refuses_several(tmp_path: Path, ppdm: Run) -> None:
    frame = people(400)
    frame.write_parquet(tmp_path / "p.parquet")
    one, many = (train_tree(frame, "region", trees=k) for k in (1, 3))
    for pair in ((one, many), (many, one)):
        with raises("several-trees"):
            compare(*pair)
    with raises("several-trees"):
        perturb(frame, scheme="class-random", tree=many.tree)
    train = ("train-tree", "p.parquet", "--class", "region", "-o")
    ppdm(*train, "one.json")
    done = ppdm(*train, "t.json", "--trees", "3", "--compare", "one.json", code=2)
    assert b"--distil" in done.stderr and not (tmp_path / "t.json").exists()
    ppdm(*train, "t.json", "--trees", "3", "--distil", "--compare", "one.json")


def test_the_command_writes_and_reports_several(tmp_path: Path, ppdm: Run) -> None:
    DIGITS.head(600).write_parquet(tmp_path / "d.parquet")
    train = ("train-tree", "d.parquet", "--class", CLASS, "--trees", "5", "--force", "-o", "t.json")
    said = ppdm(*train, "--export", "t.sql", "--export", "t.txt", "--predicted", "p.parquet").stdout.decode()
    assert "5 trees," in said and "Tree 1 of 5" in said and load_tree(tmp_path / "t.json").roots == 5
    assert (tmp_path / "t.txt").read_text().count("Tree ") == 5
    there = duckdb.sql(f"SELECT {(tmp_path / 't.sql').read_text()} FROM '{tmp_path}/d.parquet'").fetchall()
    assert [r[0] for r in there] == pl.read_parquet(tmp_path / "p.parquet")["predicted"].to_list()
    assert json.loads(ppdm(*train, "--json").stdout)["trees"] == 5
