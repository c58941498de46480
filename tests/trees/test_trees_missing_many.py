"""Many missing values in prediction: record by record the same as by the definition, whatever goes first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ppdm_cli.trees import predicting
from ppdm_cli.trees.predicting import Descent
from ppdm_cli.trees.tree import Tree
from tests.tree_strategies import trees


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
        patch.setattr(predicting, "PLACES", places)
        patch.setattr(predicting, "CELLS", places)
        found = Descent(tree).chances(outcomes, rows)
        best = Descent(tree).predicted(outcomes, rows)
    wanted = [defined(tree, {n: v[i] for n, v in outcomes.items()}) for i in range(rows)]
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    assert best.confidence == pytest.approx(found.max(axis=1))
    assert (np.take_along_axis(found, best.label[:, None], 1)[:, 0] >= best.confidence * (1 - 1e-9)).all()
