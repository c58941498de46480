"""The grower: tests chosen as a brute-force reference chooses them, and what options do."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from ppdm_cli import predict, train_tree
from ppdm_cli.errors import DataError, UsageError


def plogp(x: np.ndarray) -> float:
    x = x[x > 0]
    return float((x * np.log2(x)).sum())


def best_threshold(x: np.ndarray, y: np.ndarray, mdl: bool) -> tuple[float, float] | None:
    """One attribute's (gain ratio, threshold) by trying every cut, record by record."""
    n, classes = len(x), int(y.max()) + 1
    least = 0.1 * n / classes
    least = 2 if least <= 2 else min(least, 25)
    tried = []
    for low in np.unique(x)[:-1]:
        sides = [np.bincount(y[side], minlength=classes) for side in (x <= low, x > low)]
        if min(s.sum() for s in sides) >= least:
            before = plogp(np.array([n])) - plogp(np.bincount(y))
            after = sum(plogp(np.array([s.sum()])) - plogp(s) for s in sides)
            spread = plogp(np.array([n])) - sum(plogp(np.array([s.sum()])) for s in sides)
            tried.append(((before - after) / n, float(low), spread / n))
    if not tried:
        return None
    top = max(t[0] for t in tried)
    gain, low, spread = next(t for t in tried if t[0] >= top - 1e-6)
    gain -= np.log2(len(tried)) / n if mdl else 0
    return (gain / spread, low) if gain >= 1e-6 else None


@pytest.mark.parametrize("mdl", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_the_root_is_what_brute_force_finds(seed: int, mdl: bool) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 80))
    x = rng.integers(0, int(rng.integers(2, 30)), n)
    y = np.where(rng.random(n) < 0.7, x > x.mean(), rng.random(n) < 0.5).astype(int)
    if len(set(y.tolist())) < 2:
        y[0] = 1 - y[0]
    tree = train_tree(pl.DataFrame({"x": x, "y": y}), "y", max_depth=1, prune=False, mdl=mdl).tree
    wanted = best_threshold(x, y, mdl)
    if tree.feature[0] >= 0:
        assert wanted is not None and tree.threshold[0] == wanted[1]
    elif wanted is not None:  # collapsed: the split saves no error
        right = sum(np.bincount(y[s]).max() for s in (x <= wanted[1], x > wanted[1]))
        assert right == np.bincount(y).max()


def test_categories_give_a_branch_each_and_booleans_too() -> None:
    data = pl.DataFrame({"k": ["a", "b", "c"] * 10, "y": [0, 1, 2] * 10})
    fitted = train_tree(data, "y")
    assert (
        fitted.tree.leaves == 3
        and fitted.accuracy == 1
        and fitted.tree.features[0].categories == ("a", "b", "c")
    )
    assert predict(fitted, data)["predicted"].to_list() == [0, 1, 2] * 10


def test_depth_and_least_records_are_kept() -> None:
    rng = np.random.default_rng(0)
    data = pl.DataFrame({"x": rng.random(500), "y": rng.integers(0, 2, 500)})
    shallow = train_tree(data, "y", max_depth=2, prune=False, mdl=False).tree
    assert shallow.depth <= 2
    wide = train_tree(data, "y", min_records=60, prune=False, mdl=False).tree
    assert wide.counts.sum(axis=1).min() >= 25
    assert train_tree(data, "y", max_depth=0).tree.size == 1


def test_many_values_are_cut_and_said() -> None:
    rng = np.random.default_rng(0)
    x = rng.random(70_000)
    fitted = train_tree(pl.DataFrame({"x": x, "y": x > 0.5}), "y")
    assert "'x'" in fitted.remarks[0] and fitted.accuracy > 0.999
    assert fitted.tree.threshold[0] in x


def test_a_null_class_and_bad_calls_are_refused() -> None:
    data = pl.DataFrame({"x": [1, 2], "y": ["a", None]})
    with pytest.raises(DataError, match="the class 'y' is null in row 2"):
        train_tree(data, "y")
    with pytest.raises(UsageError):
        train_tree(data, "z")
    with pytest.raises(UsageError):
        train_tree(data, "y", confidence=0.0)
    with pytest.raises(DataError):
        train_tree(data.clear(), "y")
