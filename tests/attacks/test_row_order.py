"""What the order of the rows gives back: found in a sorted file, not in a shuffled one."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb
from ppdm_cli.attacks import attack
from ppdm_cli.attacks.row_order import _columns, drift, drift_p


def table(rows: int = 40_000) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    return pl.DataFrame({"age": rng.integers(20, 80, rows), "other": rng.gamma(2, 5, rows)})


@pytest.mark.parametrize("matrix", ["gamma-diagonal", "band"])
def test_a_sorted_file_gives_its_values_back(matrix: str) -> None:
    original = table().sort("age")
    release = perturb(original, gamma=2, bins=20, matrix=matrix, keep_order=True, seed=1)  # type: ignore[arg-type]
    blind = attack(release.frame, sidecar=release.sidecar, attacks=["order"])
    assert [r.published_tells for r in blind.order] == [True, False]
    assert "order of the rows reveals values of age" in blind.sentences[0]
    done = attack(release.frame, sidecar=release.sidecar, truth=original, attacks=["order", "posterior"])
    assert [(r.published_tells, r.neighbours_tell) for r in done.order] == [(True, True), (False, False)]
    by = {(r.attack, r.attribute): r for r in done.rows}
    assert set(by) == {("posterior", "age"), ("posterior", "other"), ("order", "age")}
    assert by["order", "age"].near > 0.95 > by["posterior", "age"].near + 0.5
    assert by["order", "age"].rmse_gain > 0.7


def test_a_shuffled_file_gives_nothing() -> None:
    original = table().sort("age")
    shuffled = original.sample(fraction=1, shuffle=True, seed=2)
    release = perturb(shuffled, gamma=2, bins=20, seed=1)
    done = attack(release.frame, sidecar=release.sidecar, truth=shuffled, attacks=["order"])
    assert not any(r.published_tells or r.neighbours_tell for r in done.order) and done.rows == []
    release = perturb(original, gamma=2, bins=20, shuffle=True, seed=1)
    done = attack(release.frame, sidecar=release.sidecar, attacks=["order"])
    assert not any(r.published_tells for r in done.order)


def test_the_test_of_blocks_keeps_its_level() -> None:
    """p of 400 files in random order: under 5 % at the 5 % level, within five standard deviations."""
    rng = np.random.default_rng(5)
    shares = np.append(rng.dirichlet(np.ones(15)), [1e-4, 1e-3]) + 1e-3
    shares /= shares.sum()
    low = 0
    for _ in range(400):
        codes = rng.choice(len(shares), 5500, p=shares).astype(np.uint8)
        column, common = _columns(np.bincount(codes, minlength=len(shares)).astype(float))
        low += drift_p(drift(column, common, codes)) < 0.05
    assert low <= 400 * 0.05 + 5 * (400 * 0.05 * 0.95) ** 0.5
