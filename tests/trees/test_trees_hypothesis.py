"""Laws of trees on random tables: no crash, monotone in depth, indifferent to order, weights as copies."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppdm_cli import predict, train_tree
from ppdm_cli.errors import PpdmError
from ppdm_cli.trees import Tree
from tests.strategies import tables


@st.composite
def records(draw: st.DrawFn) -> pl.DataFrame:
    """Few values, many ties, sometimes missing, sometimes one record, one class or 255."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.sampled_from([1, 2, 7, 40, 400]))
    classes = draw(st.sampled_from([1, 2, 3, 255]))
    gone = draw(st.sampled_from([0.0, 0.2, 1.0]))
    frame = {
        "few": rng.integers(0, 4, n),
        "many": rng.integers(0, 300, n).astype(float),
        "one": np.zeros(n),
        "kind": [f"k{v}" for v in rng.integers(0, 300, n)],
        "flag": rng.random(n) < 0.5,
    }
    columns = [pl.Series(k, v) for k, v in frame.items()]
    holes = [pl.Series("h", rng.random(n) < gone) for _ in columns]
    data = pl.DataFrame(columns).with_columns(
        pl.when(h).then(None).otherwise(c).alias(c.name) for c, h in zip(columns, holes, strict=True)
    )
    return data.with_columns(pl.Series("y", rng.integers(0, classes, n)))


def same(one: Tree, other: Tree) -> None:
    for name in ("feature", "threshold", "first_child", "children", "label"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_allclose(one.counts, other.counts, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(records(), st.booleans(), st.booleans(), st.sampled_from(["gain", "gain-ratio"]))
def test_never_a_crash_and_the_tree_is_valid(
    data: pl.DataFrame, prune: bool, mdl: bool, criterion: str
) -> None:
    fitted = train_tree(data, "y", prune=prune, mdl=mdl, criterion=criterion)  # type: ignore[arg-type]
    fitted.tree.validate()
    found = predict(fitted, data)
    assert (found["predicted"] == data["y"]).mean() == pytest.approx(fitted.accuracy)
    assert np.allclose(found.select(pl.sum_horizontal(pl.selectors.starts_with("chance of"))), 1)


@settings(max_examples=30, deadline=None)
@given(tables())
def test_any_type_of_column(data: object) -> None:
    with suppress(PpdmError):
        train_tree(data, data.column_names[0]).tree.validate()  # type: ignore[attr-defined]


@settings(max_examples=20, deadline=None)
@given(records())
def test_deeper_is_never_worse_in_training(data: pl.DataFrame) -> None:
    """By the counts of the leaves: every test leaves no more errors, missing values in parts included.

    A record with missing values follows several branches, so what is predicted for it in the end is
    their sum; only without missing values are both accuracies the same.
    """
    holes = data.drop("y").null_count().sum_horizontal()[0]
    right = []
    for depth in range(5):
        fitted = train_tree(data, "y", max_depth=depth, prune=False)
        leaves = fitted.tree.counts[fitted.tree.is_leaf]
        right.append(leaves.max(axis=1).sum() / leaves.sum())
        if not holes:
            assert right[-1] == pytest.approx(fitted.accuracy)
    assert all(b >= a - 1e-6 for a, b in pairwise(right))


@settings(max_examples=15, deadline=None)
@given(records(), st.randoms(use_true_random=False))
def test_the_order_of_records_does_not_matter(data: pl.DataFrame, random: object) -> None:
    order = list(range(data.height))
    random.shuffle(order)  # type: ignore[attr-defined]
    same(train_tree(data, "y").tree, train_tree(data[order], "y").tree)


@settings(max_examples=15, deadline=None)
@given(records(), st.integers(0, 99), st.booleans())
def test_weights_are_copies(data: pl.DataFrame, seed: int, prune: bool) -> None:
    copies = np.random.default_rng(seed).integers(1, 4, data.height)
    repeated = data[np.repeat(np.arange(data.height), copies)]
    weighted = data.with_columns(pl.Series("w", copies))
    one = train_tree(weighted, "y", weights="w", drop=["kind"], prune=prune)
    other = train_tree(repeated, "y", drop=["kind"], prune=prune)
    same(one.tree, other.tree)
    assert one.accuracy == pytest.approx(other.accuracy)
