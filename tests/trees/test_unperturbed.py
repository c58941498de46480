"""The unperturbed limit: where no value changes, the miner's tree is the tree of the binned original.

gamma is 10^9, near the largest that the sampler draws exactly (2^30). A cell changes with chance
(N-1)/(gamma+N-1), so another seed would change any of these tables with a chance below 0.001.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import reconstruct, train_tree
from ppdm_cli.perturbing import Release
from tests.experiments.common import DATA, binned
from tests.tree_strategies import same
from tests.vocabulary import released, table

INFINITE = 10**9
DOMAINS: dict[str, Any] = {
    "age": {"domain": [20, 80], "bins": 12, "nulls": True},
    "pay": {"domain": [0, 100], "bins": 10, "representative": "right"},
    "visits": {"domain": [0, 40], "bins": 8, "nulls": True},
    "since": {"domain": ["2000-01-01", "2009-12-31"], "bins": 10},
    "region": {"domain": "east|north|south|west", "nulls": True},
    "grade": {"domain": [1, 5]},
    "member": {"domain": "false|true"},
}


def original() -> pl.DataFrame:
    """Numbers, dates, texts and truths, nulls among them, and a class that most of them decide."""

    def decided(rng: np.random.Generator, of: dict[str, Any]) -> list[str]:
        yes = np.where(of["region"] == "north", of["age"] > 50, (of["pay"] > 40) ^ of["member"])
        return np.where(yes ^ (rng.random(len(yes)) < 0.1), "yes", "no").tolist()

    columns = {
        "age": (20.0, 80.0), "pay": (0.0, 100.0), "visits": lambda r, _: r.poisson(12, 3000).clip(0, 40),
        "since": lambda r, _: pl.Series(r.integers(10_957, 14_609, 3000).astype("int32")).cast(pl.Date),
        "region": ["east", "north", "south", "west"], "grade": range(1, 6),
        "member": lambda r, _: r.random(3000) < 0.4, "class": decided,
    }  # fmt: skip
    return table(3000, 11, missing={"age": 0.04, "visits": 0.04, "region": 0.04}, **columns)


def published(data: pl.DataFrame, gamma: int, keep: bool, **attributes: Any) -> Release:
    kept = ["class"] if keep else []
    return released(data, gamma=gamma, keep=kept, class_="class", attributes=attributes)


@pytest.mark.parametrize("keep", [True, False], ids=["class kept", "class perturbed"])
@pytest.mark.parametrize("method", ["by-class", "global"])
@pytest.mark.parametrize("options", [{}, {"prune": False}, {"mdl": False, "criterion": "gain"}])
def test_without_perturbation_the_tree_is_the_binned_originals(
    keep: bool, method: Any, options: dict[str, Any]
) -> None:
    data = original()
    release = published(data, INFINITE, keep, **DOMAINS)
    usable = reconstruct(release.frame, sidecar=release.sidecar, method=method).frame
    found = train_tree(usable, "class", **options).tree
    wanted = train_tree(binned(data, release.sidecar), "class", **options).tree
    assert same(found, wanted)
    tested = {found.features[i].name for i in found.feature[found.feature >= 0]}
    assert {"age", "pay", "region", "member"} <= tested and found.leaves >= 6


def test_where_each_value_has_a_code_it_is_the_originals_own_tree() -> None:
    """Breast cancer: grades from 1 to 10, and sixteen missing."""
    data = pl.read_csv(DATA / "breast_cancer.csv").drop("id")
    grades = {n: {"domain": [1, 10], "bins": 10, "nulls": data[n].has_nulls()} for n in data.columns[:-1]}
    release = published(data, INFINITE, False, **grades)
    usable = reconstruct(release.frame, sidecar=release.sidecar).frame
    assert same(train_tree(usable, "class").tree, train_tree(data, "class").tree)


def test_changed_values_are_seen() -> None:
    """One that is changed by hand, and those of a gamma at which values change."""
    data = original()
    found = binned(data, published(data, INFINITE, True, **DOMAINS).sidecar)
    pay = [found["pay"].max() - found["pay"][0] + 5, *found["pay"][1:]]
    release = published(data, 50, True, **DOMAINS)
    usable = reconstruct(release.frame, sidecar=release.sidecar).frame
    trees = [train_tree(t, "class").tree for t in (found, found.with_columns(pl.Series("pay", pay)), usable)]
    assert not same(trees[0], trees[1]) and not same(trees[0], trees[2])
