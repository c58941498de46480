"""Missing values as fractional cases, in training and in prediction."""

from __future__ import annotations

import polars as pl
import pytest

from ppdm_cli import predict, train_tree


def test_a_missing_value_goes_to_all_children_in_parts() -> None:
    data = pl.DataFrame({"x": [1.0] * 6 + [2.0] * 2 + [None] * 2, "y": ["a"] * 6 + ["b"] * 2 + ["a", "b"]})
    tree = train_tree(data, "y", prune=False, mdl=False).tree
    assert tree.counts[1:].tolist() == [[6.75, 0.75], [0.25, 2.25]]
    found = predict(tree, pl.DataFrame({"x": [None, float("nan"), 1.0]}, schema={"x": pl.Float64}))
    assert found["chance of a"].to_list() == pytest.approx([0.7, 0.7, 0.9])


def test_an_attribute_without_any_value_is_never_tested() -> None:
    data = pl.DataFrame(
        {"x": [None] * 8, "z": [1, 1, 1, 1, 2, 2, 2, 2], "y": [0] * 4 + [1] * 4},
        schema_overrides={"x": pl.String},
    )
    fitted = train_tree(data, "y")
    assert fitted.accuracy == 1 and fitted.tree.feature[0] == 1


def test_an_unknown_category_is_missing() -> None:
    fitted = train_tree(pl.DataFrame({"k": ["a", "b"] * 5, "y": [0, 1] * 5}), "y")
    assert predict(fitted, pl.DataFrame({"k": ["zzz"]}))["confidence"].to_list() == [0.5]
