"""Accuracy, its interval, the confusion matrix and importance, against figures by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from ppdm_cli.trees.tree import Measured, Tree, importance
from tests.tree_strategies import chain, trees


def test_counts_add_up() -> None:
    one = Measured.of(("A", "B"), np.array([0, 0, 1, -1, -2]), np.array([0, 1, 1, 1, 0]))
    assert one.confusion.tolist() == [[1, 1], [0, 1]]
    found = (one + one).figures()
    assert (found["records"], found["accuracy"]) == (8, 0.5), "an unknown label is wrong, none is not counted"
    assert (found["unknown_labels"], found["unlabelled"]) == (2, 2)
    none = Measured.of(("A",), np.array([-2]), np.array([0])).figures()
    assert (none["records"], none["accuracy"], none["low"], none["high"]) == (0, None, 0.0, 1.0)


@settings(max_examples=40, deadline=None)
@given(trees())
def test_importance_is_a_share(tree: Tree) -> None:
    shares = importance(tree)
    assert set(shares) == {f.name for f in tree.features}
    assert all(0 <= s <= 1 for s in shares.values())
    assert sum(shares.values()) == pytest.approx(1) or not any(shares.values())


def test_the_test_that_gains_has_all() -> None:
    tree = chain(1)
    tree.counts[:] = [[2, 2], [2, 0], [0, 2]]
    assert importance(tree) == {"age": 1.0}
