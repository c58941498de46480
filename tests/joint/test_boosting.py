"""A law boosted through its channel: right where there is a signal, and left alone where there is none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from ppdm_cli.joint import boosting
from ppdm_cli.joint.boosting import AskedColumn, Boosted, boosted
from ppdm_cli.repeatable import hashed, uniform

ROWS, LEVEL = 8_000, 0.02


def gamma_diagonal(values: int, gamma: float) -> np.ndarray:
    return (np.ones((values, values)) + (gamma - 1) * np.eye(values)) / (gamma + values - 1)


def published_from(original: np.ndarray, matrix: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    sums = matrix.T.cumsum(axis=1)[original]
    return np.minimum((sums <= rng.random(len(original))[:, None]).sum(axis=1), len(matrix) - 1)


def halves(seed: int, rows: int) -> Callable[[int], np.ndarray]:
    return lambda number: np.asarray(uniform(np.arange(rows), hashed([seed, number])) < 0.5)


def learnt(
    features: list[AskedColumn], original: np.ndarray, values: int, gamma: float, seed: int, ordered: int = 0
) -> Boosted:
    matrix = gamma_diagonal(values, gamma)
    shown = published_from(original, matrix, np.random.default_rng([seed, 5]))
    alone = np.bincount(original, minlength=values) / len(original)
    return boosted(features, shown, matrix, alone, ordered, halves(seed, len(original)), len(features), LEVEL)


def columns(rng: np.random.Generator) -> list[AskedColumn]:
    return [
        AskedColumn(rng.integers(0, 2, ROWS), 2, 0),
        AskedColumn(rng.integers(0, 26, ROWS), 26, 0),
        AskedColumn((rng.beta(1, 4, ROWS) * 60).astype(int), 60, 60),
    ]


def invented(releases: int, gamma: float, values: int, ordered: int) -> int:
    """Return in how many of some releases a column that hangs on nothing was found to hang on another."""
    found = 0
    for seed in range(releases):
        rng = np.random.default_rng([seed, values])
        original = np.minimum(rng.geometric(0.3, ROWS) - 1, values - 1)
        found += bool(learnt(columns(rng), original, values, gamma, seed, ordered).asked)
    return found


CASES = [(1.284, 3, 0), (2.0, 2, 0), (2.7, 26, 0), (5.0, 20, 20), (19.0, 8, 0)]


@pytest.mark.parametrize(("gamma", "values", "ordered"), CASES)
def test_no_dependence_is_invented(gamma: float, values: int, ordered: int) -> None:
    """Of 30 releases more than 3 have an effect or a tree by chance at most once in 300 times."""
    assert invented(30, gamma, values, ordered) <= 3


def test_a_test_without_a_level_is_found_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosting, "FIRST", LEVEL / 0.3)
    assert invented(30, 5.0, 20, 20) > 3


def test_of_what_hardly_shows_no_tree_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    monkeypatch.setattr(boosting._Boosting, "_grown", None)
    assert not learnt(columns(rng), rng.integers(0, 41, ROWS), 41, 1.284, 1).trees


@pytest.mark.parametrize("gamma", [3.0, 9.0])
def test_a_law_comes_near_the_truth(gamma: float) -> None:
    """p(x | sex, age): total variation from the truth, on average over the records, against that of x alone."""
    rng = np.random.default_rng(7)
    features = columns(rng)
    lean = 0.2 + 0.5 * features[0].codes + 0.2 * (features[2].codes > 15)
    original = rng.binomial(6, np.clip(lean, 0, 1))
    law = learnt(features, original, 7, gamma, 3)
    chances = law.chances([f.codes for f in features], ROWS)
    assert np.allclose(chances.sum(axis=1), 1, atol=1e-5)
    true = binom.pmf(np.arange(7), 6, lean[:, None])
    off = np.abs(chances - true).sum(axis=1).mean() / 2
    alone = np.abs(true.mean(axis=0) - true).sum(axis=1).mean() / 2
    assert off < (0.7 if gamma == 3 else 0.35) * alone
    assert {0, 2} <= law.asked


def test_of_too_many_chances_some_records_are_learnt_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosting, "MOST_CHANCES", 3 * ROWS // 2)
    rng = np.random.default_rng(5)
    features = columns(rng)
    original = np.where(rng.random(ROWS) < 0.5, 2, features[0].codes)
    law = learnt(features, original, 3, 9.0, 2)
    assert law.asked and len(law.chances([f.codes for f in features], ROWS)) == ROWS


def test_what_never_occurs_comes_down_to_nothing() -> None:
    rng = np.random.default_rng(5)
    features = columns(rng)
    original = np.where(rng.random(ROWS) < 0.5, 2, features[0].codes)
    chances = learnt(features, original, 3, 9.0, 2).chances([f.codes for f in features], ROWS)
    assert chances[features[0].codes == 0, 1].mean() < 0.03 > chances[features[0].codes == 1, 0].mean()


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 200), st.integers(2, 14), st.floats(1.05, 50), st.booleans(), st.integers(0, 9))
def test_any_records_give_chances(rows: int, values: int, gamma: float, ordered: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = [AskedColumn(rng.integers(0, n, rows), n, o) for n, o in ((1, 1), (3, 0), (9, 8), (14, 14))]
    law = learnt(features, rng.integers(0, values, rows), values, gamma, seed, values * ordered)
    chances = law.chances([f.codes for f in features], rows)
    assert chances.shape == (rows, values) and (chances >= 0).all()
    assert np.allclose(chances.sum(axis=1), 1, atol=1e-5)
    assert law.chances([f.codes[:0] for f in features], 0).shape == (0, values)
