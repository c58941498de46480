"""Prediction with missing values: fractional cases, by the definition, whatever goes first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ppdm_cli import predict, train_tree
from ppdm_cli.trees import predicting
from ppdm_cli.trees.predicting import Descent
from ppdm_cli.trees.tree import Tree
from tests.tree_strategies import trees


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


def defined(
    tree: Tree, outcome: dict[int, float], node: int = 0, parent: np.ndarray | None = None
) -> np.ndarray:
    """The chances of one record, by recursion."""
    held = tree.counts[node].sum()
    own = tree.counts[node] / held if held > 0 else parent
    if own is None:
        own = np.full(len(tree.labels), 1 / len(tree.labels))
    if tree.feature[node] < 0:
        return own
    number, first = int(tree.feature[node]), int(tree.first_child[node])
    value = outcome[number]
    children = range(first, first + int(tree.children[node]))
    if tree.features[number].numeric and not np.isnan(value):
        return defined(tree, outcome, first + (value > tree.threshold[node]), own)
    if not tree.features[number].numeric and value >= 0:
        return defined(tree, outcome, first + int(value), own)
    weights = tree.counts[list(children)].sum(axis=1)
    shares = weights / weights.sum() if weights.sum() > 0 else np.full(len(weights), 1 / len(weights))
    return sum(s * defined(tree, outcome, c, own) for s, c in zip(shares, children, strict=True))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(tree=trees(), seed=st.integers(0, 99), places=st.sampled_from([1, 7, 1 << 18]))
def test_predictions_are_those_of_the_definition(tree: Tree, seed: int, places: int) -> None:
    tree = replace(tree, counts=np.where(tree.counts < 1e-100, 0, tree.counts))
    rng, rows = np.random.default_rng(seed), 12
    outcomes = {}
    for number in Descent(tree).tested:
        feature, missing = tree.features[number], rng.random(rows) < rng.choice([0.2, 0.9])
        if feature.numeric:
            cuts = tree.threshold[tree.feature == number]
            outcomes[number] = np.where(missing, np.nan, rng.choice([*cuts, *(cuts + 1), *(cuts - 1)], rows))
        else:
            outcomes[number] = np.where(missing, -1, rng.integers(0, len(feature.categories), rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predicting, "MOST_POSITIONS", places)
        patch.setattr(predicting, "MOST_CHANCES", places)
        found = Descent(tree).chances(outcomes, rows)
        best = Descent(tree).predicted(outcomes, rows)
    records = [{n: v[i] for n, v in outcomes.items()} for i in range(rows)]
    wanted = [np.mean([defined(tree, r, root) for root in range(tree.roots)], axis=0) for r in records]
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    assert best.confidence == pytest.approx(found.max(axis=1))
    assert (np.take_along_axis(found, best.label[:, None], 1)[:, 0] >= best.confidence * (1 - 1e-9)).all()
