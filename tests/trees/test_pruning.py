"""Pruning: whole trees against a learner in plain Python, node by node, and by how certain a table is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import train_tree
from ppdm_cli.trees import Options, Tree
from ppdm_cli.trees.growing import grow
from ppdm_cli.trees.pruning import landed, pessimistic, prune
from ppdm_cli.trees.records import CodedColumn, CodedRecords
from ppdm_cli.trees.tree import Feature
from tests.trees.c45_reference import Learner, Node, limit, upper


def drawn(seed: int) -> tuple[pl.DataFrame, np.ndarray | None]:
    """A small table with ties, categories, missing values, and weights in every third."""
    rng = np.random.default_rng(seed)
    n, classes = int(rng.integers(6, 70)), int(rng.integers(2, 4))
    data: dict[str, Any] = {
        "a": rng.integers(0, int(rng.integers(2, 12)), n).astype(float),
        "b": rng.normal(size=n).round(1),
        "k": [f"k{v}" for v in rng.integers(0, int(rng.integers(2, 5)), n)],
        "m": [f"m{v}" for v in rng.integers(0, 2, n)],
    }
    truth = (data["a"] > data["a"].mean()).astype(int) + np.array([k > "k0" for k in data["k"]]) * (
        data["b"] > 0
    )
    label = np.where(rng.random(n) < 0.75, truth, rng.integers(0, classes, n)) % classes
    frame = pl.DataFrame(data)
    if seed % 2:
        holes = {name: rng.random(n) < 0.15 for name in data}
        frame = frame.with_columns(
            pl.when(pl.Series(h)).then(None).otherwise(name).alias(name) for name, h in holes.items()
        )
    weights = rng.choice([0.5, 1.0, 2.0, 3.25], n) if seed % 3 == 0 else None
    return frame.with_columns(pl.Series("y", label)), weights


def reference(data: pl.DataFrame, weights: np.ndarray | None, mdl: bool, prune: bool) -> Node:
    names = [c for c in data.columns if c != "y"]
    columns = [data[c].to_list() for c in names]
    text = [data[c].dtype == pl.String for c in names]
    labels = sorted(set(data["y"]))
    classes = [labels.index(v) for v in data["y"]]
    categories = [len(set(c) - {None}) if t else 0 for c, t in zip(columns, text, strict=True)]
    learner = Learner(columns, categories, classes, len(labels), mdl)
    cases = [(i, 1.0 if weights is None else float(weights[i])) for i in range(data.height)]
    root = learner.grow(cases)
    learner.collapse(root)
    if prune:
        learner.prune(root, cases, 0.25)
    return root


def same(tree: Tree, node: int, wanted: Node) -> None:
    np.testing.assert_allclose(tree.counts[node], wanted.counts, atol=1e-6)
    assert tree.feature[node] == wanted.test
    if not wanted.inner:
        return
    if tree.features[wanted.test].numeric:
        assert tree.threshold[node] == pytest.approx(wanted.threshold, rel=1e-14, abs=1e-14)
    assert tree.children[node] == len(wanted.inner)
    for i, child in enumerate(wanted.inner):
        same(tree, int(tree.first_child[node]) + i, child)


@pytest.mark.parametrize("prune", [False, True])
@pytest.mark.parametrize("mdl", [False, True])
def test_whole_trees_are_those_of_the_plain_learner(prune: bool, mdl: bool) -> None:
    sizes = []
    for seed in range(120):
        data, weights = drawn(seed)
        wanted = reference(data, weights, mdl, prune)
        tree = train_tree(data, "y", weights=weights, prune=prune, mdl=mdl).tree
        try:
            same(tree, 0, wanted)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
        sizes.append(tree.size)
    assert np.mean(np.array(sizes) > 3) > 0.3, "most trees have something to compare"


def test_pruning_replaces_and_raises_in_these_tables() -> None:
    """The tables above would not notice a pruner that does less."""
    replaced = raised = 0
    for seed in range(120):
        data, weights = drawn(seed)
        whole, pruned = (reference(data, weights, False, p) for p in (False, True))
        replaced += size(pruned) < size(whole)
        raised += whole.test >= 0 and pruned.test >= 0 and whole.test != pruned.test
    assert replaced > 10 and raised > 0


def size(node: Node) -> int:
    return 1 + sum(size(child) for child in node.inner)


def test_the_limits_of_quinlans_book() -> None:
    """U(0,6) = .206, U(0,9) = .143, U(0,1) = .750, U(1,16) = .157 (1993, 4.2).

    With one error or more C4.5's source has a normal approximation, and the deviate of 25 % by a line
    between two entries of a table, .6925. J48 has the same formula with the exact one, .6745: so have we.
    """
    assert upper(16, 1, 0.84 + (0.25 - 0.84) * (0.25 - 0.20) / (0.40 - 0.20)) / 16 == pytest.approx(
        0.157, abs=5e-4
    )
    found = pessimistic(np.array([[6, 0], [9, 0], [1, 0], [15, 1.0]]), 0.25) / [6, 9, 1, 16]
    assert found[:3] == pytest.approx([0.206, 0.143, 0.750], abs=5e-4)
    assert found[3] == pytest.approx(upper(16, 1, 0.6744897501960817) / 16, rel=1e-9)
    assert found[3] == pytest.approx(0.1547, abs=5e-5)
    rng = np.random.default_rng(0)
    for _ in range(300):
        counts = rng.random(3) * rng.choice([1, 10, 1000])
        assert pessimistic(counts[None], 0.25)[0] == pytest.approx(limit(counts.tolist(), 0.25), rel=1e-9)


def table(saved: float) -> np.ndarray:
    """(classes, cells): 1,000 records; the split between the cells saves so many errors."""
    return np.array([[400.0, 250.0 - saved / 2], [100.0, 250.0 + saved / 2]])


def leaves(folded: list[float], saved: float = 40.0, classes: int = 2) -> int:
    """How many leaves stay of two, where the tables without a fold save `folded`; most classes are empty."""
    codes = np.array([0, 1], np.uint8)
    column = CodedColumn(Feature("x", "double", True), codes, 2, np.array([0.0, 1.0]), False)
    cells = CodedRecords((column,), "y", "string", tuple("abcdefgh"[:classes]), np.zeros(2, np.intp))
    nobody = np.zeros((classes - 2, 2))
    tables = np.stack([np.vstack([table(s), nobody]) for s in (saved, *folded)])
    both = replace(column, codes=np.tile(codes, classes))
    labels = np.repeat(np.arange(classes), 2)
    records = replace(cells, columns=(both,), classes=labels, weights=tables[0].ravel())
    grown = grow(records, Options("gain", 2, None, 0.25, False, False), False)
    assert grown.feature[0] == 0
    sums = landed(cells, grown, tables.reshape(-1, 2).T)
    prune(grown, sums.reshape(-1, *tables.shape[:2]))
    return 2 if grown.feature[0] == 0 else 1


@pytest.mark.parametrize(("spread", "kept"), [(0, 2), (40, 2), (44, 2), (48, 1), (80, 1)])
def test_a_subtree_must_save_half_of_its_standard_error(spread: float, kept: int) -> None:
    """Of four savings 40 +- s the jackknife's standard error is s sqrt(3), half of it is 40 at s = 46.2."""
    assert leaves([40 + spread, 40 - spread, 40 + spread, 40 - spread]) == kept


@pytest.mark.parametrize(("saved", "classes", "kept"), [(0.05, 2, 1), (0.2, 2, 2), (0.02, 8, 1), (0.05, 8, 2)])
def test_a_leaf_must_save_a_share_of_the_records_less_of_it_with_many_classes(
    saved: float, classes: int, kept: int
) -> None:
    assert leaves([saved] * 4, saved, classes) == kept
