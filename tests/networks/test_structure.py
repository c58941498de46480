"""Structures learnt from releases: the right tree, no edges by chance, parameters that cover under recipes."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb, train_bayes
from ppdm_cli.arrays import clopper_pearson
from ppdm_cli.estimating import counted_tables
from ppdm_cli.networks import Network, Node
from ppdm_cli.networks.learning import DRAWS, _edge
from ppdm_cli.releases import open_releases
from tests.networks.test_learning import drawn
from tests.vocabulary import raises

TREE = Network.of([
    Node("a", (), ("n", "y"), np.array([[0.6, 0.4]])),
    Node("b", ("a",), ("x", "y", "z"), np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])),
    Node("c", ("b",), ("n", "y"), np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])),
    Node("d", ("a",), ("n", "y"), np.array([[0.8, 0.2], [0.3, 0.7]])),
    Node("e", (), ("n", "y"), np.array([[0.5, 0.5]])),
])  # fmt: skip
STATES: dict[str, Any] = {n.name: {"categories": list(n.states)} for n in TREE}
FOUND = {"a": (), "b": ("a",), "c": ("b",), "d": ("a",)}
RECIPES: dict[str, Any] = {"record_epsilon": 4, "publish": 2}
ROUNDS: dict[str, Any] = {"record_epsilon": 4, "publish": "auto", "rounds": 2, "class_": "a", "keep": ["a"]}
PLANS: dict[str, dict[str, Any]] = {
    "gamma": {"gamma": 9},
    "together": {"gamma": 9, "together": [["a", "b"]]},
    "recipes": RECIPES,
    "recipes, kept": {**RECIPES, "keep": ["a"], "class_": "a"},
    "rounds": ROUNDS,
}


def given(original: pl.DataFrame, seed: int, **plan: Any) -> list[Any]:
    own = {n: s for n, s in STATES.items() if n in original.columns and n not in plan.get("keep", [])}
    release = perturb(original, attributes=own, seed=seed, keep_order=True, **plan)
    return [(release.frame, release.sidecar)]


def parents(network: Network) -> dict[str, tuple[str, ...]]:
    return {n.name: n.parents for n in network}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_release_shows_the_tree_of_its_columns(plan: dict[str, Any]) -> None:
    """Each edge is worth hundreds of nats; e is independent, so only `tree` gives it a parent."""
    data = given(drawn(TREE, 20_000, 3), 2, **plan)
    auto, tree = (train_bayes(data, learn_structure=how) for how in ("auto", "tree"))
    assert parents(auto.network) == {**FOUND, "e": ()}
    assert {n: p for n, p in parents(tree.network).items() if n != "e"} == FOUND
    assert len(tree.network["e"].parents) == 1
    assert any("may be due to chance" in r and "'e'" in r for r in tree.remarks)
    assert any("were left out" in r and "'e'" in r for r in auto.remarks)
    assert auto.records == 20_000 and auto.distances == []


def test_parties_and_originals_show_the_tree_too() -> None:
    original = drawn(TREE, 20_000, 3)
    parties = given(original.select("a", "c"), 1, gamma=9) + given(original.select("b", "d", "e"), 2, gamma=9)
    joined = train_bayes(parties, learn_structure="auto").network
    assert {frozenset((n.name, p)) for n in joined for p in n.parents} == {
        frozenset(pair) for pair in ("ab", "bc", "ad")
    }
    assert parents(train_bayes(original, learn_structure="auto").network) == {**FOUND, "e": ()}
    some = train_bayes(given(original, 1, gamma=9), learn_structure="auto", nodes=["d", "c"])
    assert parents(some.network) == {"c": (), "d": ("c",)}


@pytest.mark.parametrize("plan", [{"gamma": 9}, pytest.param(RECIPES, marks=pytest.mark.long)], ids=str)
def test_independent_columns_have_an_edge_as_seldom_as_the_level_says(plan: dict[str, Any]) -> None:
    """At a level of 1e-4 against 5 in 100 releases; a pair that depends a little is found in most."""
    rng, hits, found = np.random.default_rng(7), [], []
    for seed in range(24):
        columns = {n: rng.choice(s["categories"], 2000) for n, s in STATES.items()}
        done = train_bayes(given(pl.DataFrame(columns), seed, **plan), learn_structure="auto")
        hits.append(any(n.parents for n in done.network))
        columns["e"] = np.where(rng.random(2000) < 0.6, columns["a"], columns["e"])
        done = train_bayes(given(pl.DataFrame(columns), seed, **plan), learn_structure="auto")
        found.append(done.network["e"].parents == ("a",))
    assert clopper_pearson(sum(hits), len(hits), 1e-4)[0] < 0.05, sum(hits)
    assert np.mean(found) > 0.9, "the test of the test"


def test_mutual_information_is_less_what_noise_alone_gives() -> None:
    """Of independent columns EM makes some; less what chance makes, they have none in the mean of releases.

    What is left is the standard deviation that is taken off too. At five standard errors of the mean.
    """
    rng, found = np.random.default_rng(8), []
    for seed in range(60):
        columns = {n: rng.choice(list("uvwxyz"), 1000) for n in "ab"}
        domain = {n: {"categories": list("uvwxyz")} for n in "ab"}
        release = perturb(pl.DataFrame(columns), gamma=5, attributes=domain, seed=seed, keep_order=True)
        table, sidecar = open_releases(release.frame, release.sidecar, None)
        (counted,), _ = counted_tables(table, sidecar, [("a", "b")])
        found.append(_edge(counted, seed).information)
    spread = float(np.std(found, ddof=1))
    error = spread / len(found) ** 0.5
    # the found spread has that of the draws' mean and standard deviation in it
    own = spread / (1 + 1.5 / DRAWS) ** 0.5
    assert abs(np.mean(found) + own) < 5 * error + 0.25 * own
    assert np.mean(found) + 8 * own > 0.0


def test_parameters_under_recipes_have_errors_that_cover() -> None:
    """By those whose parents are published with them; at a level of 1e-4, and not if a seventh smaller."""
    away = []
    for seed in range(24):
        done = train_bayes(given(drawn(TREE, 3000, seed), seed, **RECIPES), learn_structure="auto")
        for node in done.network:
            if node.parents == TREE[node.name].parents:
                assert node.parameters is not None
                z = (node.parameters - np.asarray(TREE[node.name].parameters)) / np.asarray(node.std_error)
                away += np.abs(z[:, 1:]).ravel().tolist()
    held = np.array(away)[~np.isnan(away)]
    assert len(held) > 150
    # z of one release are nearly independent
    assert clopper_pearson(int((held < 1.96).sum()), len(held), 1e-4)[1] > 0.95
    assert 0.9 < np.sqrt((held**2).mean()) < 1.12


def test_what_cannot_be_learnt_is_refused() -> None:
    original = drawn(TREE, 500, 1)
    alone = given(original, 1, record_epsilon=4, publish=1)
    with raises("never-published-together"):
        train_bayes(alone, learn_structure="tree")
    data = given(original, 1, gamma=9)
    with raises("two-structures"):
        train_bayes(data, TREE, learn_structure="tree")
    with raises("too-few-nodes"):
        train_bayes(data, learn_structure="tree", nodes="a")
    with raises("unknown-column"):
        train_bayes(data, learn_structure="tree", nodes=["a", "q"])
    with raises("unknown-structure"):
        train_bayes(data, learn_structure="forest")


def test_pairs_that_are_never_published_together_have_no_edge() -> None:
    release = given(drawn(TREE, 4000, 1), 1, record_epsilon=4, publish="auto", rounds=2, class_="a")
    done = train_bayes(release, learn_structure="tree")
    assert parents(done.network)["b"] == ("a",)
    hidden = [r for r in done.remarks if r.startswith("No record publishes both columns")]
    edges = sum(len(n.parents) for n in done.network)
    assert edges == 4 or hidden
    few = train_bayes(given(drawn(TREE, 4, 1), 1, **RECIPES), learn_structure="tree")
    assert any(r.startswith("No record publishes both columns of") for r in few.remarks)
