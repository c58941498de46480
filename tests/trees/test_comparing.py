"""How much of one tree another has: rules, thresholds, agreement; from the library and the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ppdm_cli import UsageError, compare, train_tree
from ppdm_cli.trees.tree import Feature, Tree
from tests.vocabulary import Run, people, raises

FEATURES = (Feature("age", "int64", True), Feature("region", "string", False, ("east", "north")))


def tree(nodes: list[tuple[int, float, int]], labels: list[int], counts: list[int]) -> Tree:
    """A tree by hand: (feature, threshold, first child) of each node."""
    feature, threshold, first = (np.array(c) for c in zip(*nodes, strict=True))
    table = np.zeros((len(nodes), 2))
    table[np.arange(len(nodes)), labels] = counts
    made = Tree(
        FEATURES, "group", "string", ("A", "B"), feature.astype(np.int32), threshold.astype(float),
        first.astype(np.int32), np.where(feature < 0, 0, 2).astype(np.int32), table, np.array(labels, np.int32),
    )  # fmt: skip
    made.validate()
    return made


LEAF = (-1, np.nan, -1)
ONE = tree([(0, 40, 1), LEAF, (1, np.nan, 3), LEAF, LEAF], [0, 0, 0, 0, 1], [60, 30, 30, 20, 10])
OTHER = tree([(1, np.nan, 1), (0, 44, 3), LEAF, LEAF, LEAF], [0, 0, 1, 0, 0], [60, 40, 20, 25, 15])
"""The tests of ONE in another order: it has the rule age > 40, region = east of ONE, and no other."""


def test_a_rule_is_its_tests_whatever_their_order_and_thresholds() -> None:
    found = compare(ONE, OTHER).figures()
    assert found["rules"] == {"other": 3, "here": 3, "kept": 1}
    assert found["cases_under_kept_rules"] == pytest.approx(15 / 60)
    assert found["same_root"] is False and found["attributes"]["shared"] == ["region", "age"]
    assert found["agreement"] is None and found["thresholds"][0]["records_between"] is None


def test_a_tree_keeps_all_of_itself_and_every_threshold() -> None:
    records = people(500)
    grown = train_tree(records, "group", prune=False)
    found = compare(grown, grown, records).figures()
    leaves = grown.tree.leaves
    assert leaves > 5 and found["rules"] == {"other": leaves, "here": leaves, "kept": leaves}
    assert found["same_root"] and found["agreement"] == found["cases_under_kept_rules"] == 1
    assert all(m["largest_distance"] == m["records_between"] == 0 for m in found["thresholds"])


def test_agreement_and_what_lies_between_are_counted() -> None:
    moved = tree([(0, 50, 1), LEAF, (1, np.nan, 3), LEAF, LEAF], [0, 0, 0, 0, 1], [60, 30, 30, 20, 10])
    records = people(1000).with_columns(region=pl.lit("north"))
    found = compare(ONE, moved, records)
    between = records.filter(pl.col("age").is_between(41, 50)).height
    assert (found.records, found.agreeing) == (1000, 1000 - between)
    assert found.moved[0].records == between and found.figures()["thresholds"][0]["mean_distance"] == 10


def test_labels_are_compared_by_name_and_classes_must_be_one() -> None:
    swapped = Tree(**{**vars(ONE), "labels": ("B", "A")})
    other = Tree(**{**vars(ONE), "class_name": "colour"})
    assert compare(ONE, swapped, people(50)).agreeing == 0 and not compare(ONE, swapped).kept
    with raises("trees-of-two-classes"):
        compare(ONE, other)
    assert "3 of 3 rules kept" in repr(compare(ONE, ONE))


@pytest.fixture
def trained(tmp_path: Path, ppdm: Run) -> Path:
    for seed, name in ((7, "a.parquet"), (8, "b.parquet")):
        frame = people(800, seed)
        label = pl.when(frame["age"] > 50).then(pl.lit("old")).otherwise(pl.lit("young"))
        frame.with_columns(group=label).write_parquet(tmp_path / name)
    ppdm("train-tree", "a.parquet", "--class", "group", "-o", "a.json")
    return tmp_path


def test_the_command_shows_both_trees_and_the_figures(trained: Path, ppdm: Run) -> None:
    args = ("train-tree", "b.parquet", "--class", "group", "-o", "b.json", "--compare", "a.json")
    said = ppdm(*args).stdout.decode()
    assert "The other tree" in said and said.count("= age <= 50: young") == 2
    assert "keeps 2 of the other tree's" in said and "They agree on 100.00% of 800 records" in said
    found = json.loads(ppdm(*args, "--force", "--json", "--on", "a.parquet").stdout)["compared"]
    assert found["same_root"] and found["agreement"] == 1 and found["low"] < 1
    ppdm("perturb", "a.parquet", "-o", "r.parquet", "--gamma", "9", "--class", "group", "--seed", "1")
    said = ppdm("train-tree", "r.parquet", "-o", "c.json", "--compare", "a.json").stdout.decode()
    assert "--on FILE" in said and "They agree" not in said, "a release's records are no records to ask about"


def test_what_cannot_be_compared_is_said_before_the_work(trained: Path, ppdm: Run) -> None:
    args = ("train-tree", "b.parquet", "--class", "group", "-o", "b.json")
    assert b"--compare" in ppdm(*args, "--on", "a.parquet", code=2).stderr
    ppdm(*args, "--compare", "a.parquet", code=2)
    ppdm("train-tree", "b.parquet", "--class", "region", "-o", "b.json", "--compare", "a.json", code=3)
    assert not (trained / "b.json").exists()
    with pytest.raises(UsageError):
        compare(ONE, trained / "a.parquet")
