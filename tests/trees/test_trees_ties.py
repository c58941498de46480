"""The order of the columns decides between equally good tests, and nothing else."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from ppdm_cli import predict, train_tree
from ppdm_cli.tables import open_table
from ppdm_cli.trees import Options
from ppdm_cli.trees.growing import grow
from ppdm_cli.trees.records import coded_records
from tests.c45_reference import Learner, Node
from tests.trees.test_trees_reference import drawn

ORDERS = (["m", "k", "b", "a"], ["k", "a", "m", "b"])


def chosen(data: pl.DataFrame) -> list[tuple[str, float, int, int]]:
    """Of every node the attribute's name and threshold, its first child, its children; nothing collapsed."""
    records = coded_records(open_table(data), "y")
    grown = grow(records, Options(), False)
    found = []
    for feature, cut, first, children in zip(
        grown.feature, grown.cut, grown.first_child, grown.children, strict=True
    ):
        column = records.columns[feature]
        name = column.feature.name if feature >= 0 else ""
        at = float(column.values[cut]) if feature >= 0 and column.feature.numeric else 0.0
        found.append((name, at, int(first), int(children)))
    return found


def ties(data: pl.DataFrame, order: list[str]) -> int:
    """At how many nodes the trees differ first; AssertionError where their tests are not equally good."""
    names = [c for c in data.columns if c != "y"]
    columns = [data[c].to_list() for c in names]
    labels = sorted(set(data["y"]))
    categories = [
        len(set(c) - {None}) if data[n].dtype == pl.String else 0 for n, c in zip(names, columns, strict=True)
    ]
    learner = Learner(columns, categories, [labels.index(v) for v in data["y"]], len(labels))
    one, other = chosen(data), chosen(data.select(*order, "y"))
    found, waiting = 0, [(0, 0, [(i, 1.0) for i in range(data.height)])]
    while waiting:
        a, b, cases = waiting.pop()
        if one[a][:2] == other[b][:2]:
            if one[a][0]:
                node = Node([], 0, names.index(one[a][0]), one[a][1])
                for i, part in enumerate(learner.parts(node, cases)):
                    waiting.append((one[a][2] + i, other[b][2] + i, part))
            continue
        assert one[a][0] and other[b][0] and one[a][0] != other[b][0], "a leaf, or another cut"
        total = sum(w for _, w in cases)
        scores = [learner.judged(names.index(t[0]), cases, total) for t in (one[a], other[b])]
        assert scores[0] and scores[1] and scores[0][1] == pytest.approx(scores[1][1], abs=1e-6)
        assert next(n for n in names if n in (one[a][0], other[b][0])) == one[a][0], "the first column wins"
        found += 1
    return found


def test_other_orders_give_the_same_tree_but_for_ties() -> None:
    free = tied = 0
    for seed in range(40):
        data = drawn(seed)[0]
        for order in ORDERS:
            if ties(data, order):
                tied += 1
                continue
            free += 1
            one, other = train_tree(data, "y"), train_tree(data.select(*order, "y"), "y")
            assert predict(one, data).equals(predict(other, data)) and one.tree.size == other.tree.size
    assert free > 25 and tied > 0, "both kinds are met"


def test_equal_columns_and_equal_cuts() -> None:
    """Of two equal columns the first is tested; of two equal cuts the lower one is taken."""
    x = np.arange(30.0)
    data = pl.DataFrame({"b": x, "a": x, "y": (x // 10) % 2})
    data = data.with_columns(pl.col("y").cast(pl.Int64))
    for names in (["b", "a"], ["a", "b"]):
        tree = train_tree(data.select(*names, "y"), "y").tree
        assert set(tree.feature[tree.feature >= 0].tolist()) == {0} and tree.threshold[0] == 9.5
