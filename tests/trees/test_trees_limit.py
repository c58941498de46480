"""The unperturbed limit: where no value changes, the miner's tree is the tree of the binned original.

gamma is 10^9, near the largest that the sampler draws exactly (2^30). A cell changes with chance
(N-1)/(gamma+N-1), so another seed would change any of these tables with a chance below 0.001.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import Tree, perturb, reconstruct, train_tree
from ppdm_cli.perturbing import Release
from tests.experiments.common import DATA, binned

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


def original(rows: int = 3000, seed: int = 11) -> pl.DataFrame:
    """Numbers, dates, texts and truths, nulls among them, and a class that most of them tell of."""
    rng = np.random.default_rng(seed)
    age, pay, visits = rng.uniform(20, 80, rows), rng.uniform(0, 100, rows), rng.poisson(12, rows).clip(0, 40)
    region, member = rng.choice(["east", "north", "south", "west"], rows), rng.random(rows) < 0.4
    yes = np.where(region == "north", age > 50, (pay > 40) ^ member) ^ (rng.random(rows) < 0.1)
    lost = rng.random((3, rows)) < 0.04
    return pl.DataFrame(
        {
            "age": pl.Series(age).set(pl.Series(lost[0]), None),
            "pay": pay,
            "visits": pl.Series(visits).set(pl.Series(lost[1]), None),
            "since": pl.Series(rng.integers(10_957, 14_609, rows).astype("int32")).cast(pl.Date),
            "region": pl.Series(region.tolist()).set(pl.Series(lost[2]), None),
            "grade": rng.integers(1, 6, rows),
            "member": member,
            "class": np.where(yes, "yes", "no").tolist(),
        }
    )


def released(data: pl.DataFrame, gamma: int, keep: bool, **attributes: Any) -> Release:
    plan = {"class_": "class", "attributes": attributes, "keep_order": True, "seed": 1}
    return perturb(data, gamma=gamma, keep=["class"] if keep else [], **plan)


def same(one: Tree, other: Tree) -> bool:
    """Structure, thresholds, counts, labels and what the tests are about."""
    arrays = ("feature", "threshold", "first_child", "children", "counts", "label")
    return (one.features, one.labels, one.class_dtype) == (
        other.features,
        other.labels,
        other.class_dtype,
    ) and all(np.array_equal(getattr(one, a), getattr(other, a), equal_nan=True) for a in arrays)


@pytest.mark.parametrize("keep", [True, False], ids=["class kept", "class perturbed"])
@pytest.mark.parametrize("method", ["by-class", "global"])
@pytest.mark.parametrize("options", [{}, {"prune": False}, {"mdl": False, "criterion": "gain"}])
def test_without_perturbation_the_tree_is_the_binned_originals(
    keep: bool, method: Any, options: dict[str, Any]
) -> None:
    data = original()
    release = released(data, INFINITE, keep, **DOMAINS)
    usable = reconstruct(release.frame, sidecar=release.sidecar, method=method).frame
    found = train_tree(usable, "class", **options).tree
    wanted = train_tree(binned(data, release.sidecar), "class", **options).tree
    assert same(found, wanted)
    tested = {found.features[i].name for i in found.feature[found.feature >= 0]}
    assert {"age", "pay", "region", "member"} <= tested and found.leaves >= 6


def test_binning_is_what_it_is_said_to_be() -> None:
    """The reference itself, against the bins written out."""
    data = original()
    release = released(data, INFINITE, True, **DOMAINS)
    found = binned(data, release.sidecar)
    assert found["age"].equals((data["age"] - 20) // 5 * 5 + 22.5)
    ends = data["pay"].to_numpy() // 10 * 10 + 10  # the last bin is closed, the others end just below
    assert found["pay"].equals(pl.Series(np.where(ends < 100, np.nextafter(ends, 0), ends)))
    for name in ("region", "grade", "member", "class"):
        assert found[name].cast(pl.String).equals(data[name].cast(pl.String))


def test_where_each_value_has_a_code_it_is_the_originals_own_tree() -> None:
    """Breast cancer: grades from 1 to 10, and sixteen missing."""
    data = pl.read_csv(DATA / "breast_cancer.csv").drop("id")
    grades = {n: {"domain": [1, 10], "bins": 10, "nulls": data[n].has_nulls()} for n in data.columns[:-1]}
    release = released(data, INFINITE, False, **grades)
    usable = reconstruct(release.frame, sidecar=release.sidecar).frame
    assert same(train_tree(usable, "class").tree, train_tree(data, "class").tree)


def test_one_changed_value_is_seen() -> None:
    data = original()
    found = binned(data, released(data, INFINITE, True, **DOMAINS).sidecar)
    changed = found.with_columns(
        pl.Series("pay", [found["pay"].max() - found["pay"][0] + 5, *found["pay"][1:]])
    )
    assert same(train_tree(found, "class").tree, train_tree(found, "class").tree)
    assert not same(train_tree(found, "class").tree, train_tree(changed, "class").tree)


def test_at_a_gamma_that_changes_values_the_tree_is_another() -> None:
    data = original()
    release = released(data, 50, True, **DOMAINS)
    usable = reconstruct(release.frame, sidecar=release.sidecar).frame
    assert not same(train_tree(usable, "class").tree, train_tree(binned(data, release.sidecar), "class").tree)
