"""The estimators of original counts: what the papers prove of them, and slow references to agree with.

Dowd et al. 3.2 and 3.3 (Lemma 1, constraints C1 and C2, Proposition 1), maths 2 and 3.
"""

from __future__ import annotations

from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import optimize

from ppdm_cli.arrays import Floats, joined
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal
from ppdm_cli.estimating import ESTIMATORS, largest_remainder
from ppdm_cli.estimating.estimators import (
    Matrices,
    expectation_maximisation,
    inverse,
    maximum_likelihood,
    perturbed_axes,
    simplex,
)

ON_SIMPLEX = ("set-scale", "simplex", "ml")
gammas = st.decimals(Decimal("1.5"), Decimal("50"), places=1)


@st.composite
def tables(draw: st.DrawFn, axes: int = 3, sizes: int = 5, most: int = 200) -> tuple[Floats, Matrices]:
    """Observed counts of some attributes, at least one of them perturbed."""
    shape = draw(st.lists(st.integers(2, sizes), min_size=1, max_size=axes))
    perturbed = draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)).filter(any))
    matrices = [GammaDiagonal(draw(gammas), N) if p else None for N, p in zip(shape, perturbed, strict=True)]
    cells = int(np.prod(shape))
    counts = draw(st.lists(st.integers(0, most), min_size=cells, max_size=cells))
    return np.array(counts, float).reshape(shape), matrices


@st.composite
def attributes(draw: st.DrawFn) -> tuple[Floats, GammaDiagonal]:
    """Observed counts of one attribute, with a record at least."""
    counts = draw(st.lists(st.integers(0, 300), min_size=2, max_size=12).filter(any))
    return np.array(counts, float), GammaDiagonal(draw(gammas), len(counts))


def dense(matrices: Matrices, shape: tuple[int, ...]) -> Floats:
    """The one big matrix that is never built elsewhere."""
    factors = [np.eye(n) if m is None else m.dense() for m, n in zip(matrices, shape, strict=True)]
    return reduce(np.kron, factors)


def log_likelihood(observed: Floats, original: Floats, matrix: GammaDiagonal) -> float:
    return float((observed * np.log(matrix.forward(original))).sum())


def raised(values: Floats) -> Floats:
    return np.maximum(values, 0)


# -- the inverse (Dowd 3.2)


@given(tables())
def test_the_inverse_is_exact_on_expected_counts_and_equals_the_dense_solution(
    table: tuple[Floats, Matrices],
) -> None:
    original, matrices = table
    big = dense(matrices, original.shape)
    expected = (big @ original.ravel()).reshape(original.shape)
    np.testing.assert_allclose(inverse(expected, matrices), original, rtol=1e-9, atol=1e-7)
    solved = np.linalg.solve(big, original.ravel()).reshape(original.shape)
    np.testing.assert_allclose(inverse(original, matrices), solved, rtol=1e-7, atol=1e-6)


@given(tables())
def test_lemma_1_the_inverse_has_at_least_the_norm_of_the_counts(table: tuple[Floats, Matrices]) -> None:
    observed, matrices = table
    n, estimate = observed.sum(), inverse(observed, matrices)
    assert np.abs(estimate).sum() >= n - 1e-9 * n
    # by twice what is negative: so equality just where nothing is, as where the counts are the expected ones
    assert np.abs(estimate).sum() == pytest.approx(n + 2 * raised(-estimate).sum())
    exact = inverse((dense(matrices, observed.shape) @ observed.ravel()).reshape(observed.shape), matrices)
    assert np.abs(exact).sum() == pytest.approx(n)


@settings(max_examples=25)
@given(tables())
def test_constraints_c1_and_c2(table: tuple[Floats, Matrices]) -> None:
    """C1: the estimate sums to n, by every slice that was not perturbed; C2: no count is negative."""
    observed, matrices = table
    axes = perturbed_axes(matrices)
    for name, estimator in ESTIMATORS.items():
        estimate = estimator(observed, matrices)
        assert estimate.shape == observed.shape and np.isfinite(estimate).all()
        np.testing.assert_allclose(estimate.sum(axis=axes), observed.sum(axis=axes), atol=1e-6)
        if name in ON_SIMPLEX:
            assert (estimate >= 0).all()


@given(attributes(), st.data())
def test_proposition_1_setting_negatives_to_zero_reduces_the_error(
    case: tuple[Floats, GammaDiagonal], data: st.DataObject
) -> None:
    """Strictly, for any original counts and in both norms, where there is a negative."""
    observed, matrix = case
    original = np.array(data.draw(st.lists(st.integers(0, 300), min_size=matrix.N, max_size=matrix.N)), float)
    estimate = inverse(observed, [matrix])
    assume(estimate.min() < -1e-6)
    for power in (1, 2):
        before = (np.abs(estimate - original) ** power).sum()
        assert (np.abs(raised(estimate) - original) ** power).sum() < before


def test_scaling_after_setting_to_zero_may_well_raise_the_error() -> None:
    """Proposition 1 stops at the zeros; it would be wrong of set-scale, and this sees the difference."""
    original, matrix = np.array([90.0, 10, 0, 0, 0]), GammaDiagonal(Decimal(2), 5)
    observed = matrix.forward(original) + np.array([0, 0, 4, -2, -2])
    errors = [np.abs(e - original).sum() for e in (raised(inverse(observed, [matrix])), original)]
    assert errors[0] < np.abs(ESTIMATORS["set-scale"](observed, [matrix]) - original).sum() > errors[1]


# -- the projection


def bisected(values: Floats, n: float) -> Floats:
    """The projection by its definition: the constant found by root finding."""

    def excess(constant: float) -> float:
        return float(raised(values - constant).sum() - n)

    constant = optimize.brentq(excess, values.min() - n - 1, values.max() + 1, xtol=1e-12, rtol=1e-14)
    return raised(values - constant)


@given(attributes())
def test_the_simplex_estimate_is_the_projection(case: tuple[Floats, GammaDiagonal]) -> None:
    observed, matrix = case
    slow = bisected(inverse(observed, [matrix]), observed.sum())
    np.testing.assert_allclose(simplex(observed, [matrix]), slow, atol=1e-6)


# -- maximum likelihood


def long_em(observed: Floats, big: Floats, steps: int) -> Floats:
    """EM as the books write it, on the dense matrix."""
    estimate = np.full(big.shape[1], observed.sum() / big.shape[1])
    for _ in range(steps):
        estimate = estimate * (big.T @ (observed / (big @ estimate)))
    return estimate


@given(attributes(), st.integers(0, 1000))
def test_the_closed_form_is_the_most_likely(case: tuple[Floats, GammaDiagonal], seed: int) -> None:
    observed, matrix = case
    estimate, n = maximum_likelihood(observed, [matrix]), observed.sum()
    best = log_likelihood(observed, estimate, matrix)
    rng = np.random.default_rng(seed)
    far = rng.dirichlet(np.full(matrix.N, 0.5), 40) * n
    near = raised(estimate + rng.normal(0, 0.02 * n, (40, matrix.N))) + 1e-12
    for other in (*far, *(near * (n / near.sum(axis=1, keepdims=True)))):
        assert log_likelihood(observed, other, matrix) <= best + 1e-9 * n
    ems = long_em(observed, matrix.dense(), 300)
    assert best >= log_likelihood(observed, ems, matrix) - 1e-9 * n


@given(tables(axes=3, sizes=4))
def test_em_along_the_axes_is_em_on_the_dense_matrix(table: tuple[Floats, Matrices]) -> None:
    observed, matrices = table
    assume(observed.sum(axis=perturbed_axes(matrices)).all())
    estimate = expectation_maximisation(observed, matrices)
    big, n = dense(matrices, observed.shape), observed.sum()
    axes = perturbed_axes(matrices)
    cells = int(np.prod([observed.shape[a] for a in axes]))
    slow = np.broadcast_to(observed.sum(axis=axes, keepdims=True) / cells, observed.shape).ravel()
    likelihoods = []
    for _ in range(60):
        expected = big @ slow
        assert (expected > 0).all()
        likelihoods.append(float((observed.ravel() * np.log(expected)).sum()))
        slow = slow * (big.T @ (observed.ravel() / expected))
    assert (np.diff(likelihoods) >= -1e-9 * n).all(), "the likelihood fell"
    own = float((observed.ravel() * np.log(big @ estimate.ravel())).sum())
    if likelihoods[-1] - likelihoods[-2] < 1e-9 * n:  # both have ended
        assert own == pytest.approx(likelihoods[-1], abs=1e-5 * n)
    else:  # the library goes on to its tolerance
        assert own >= likelihoods[-1] - 1e-9 * n


# -- tables of several slices, and tables with nothing in them


@given(tables(axes=3))
def test_slices_that_were_not_perturbed_are_problems_of_their_own(table: tuple[Floats, Matrices]) -> None:
    observed, matrices = table
    free = [i for i, m in enumerate(matrices) if m is None]
    assume(free)
    axis = free[0]
    rest = [m for i, m in enumerate(matrices) if i != axis]
    for name in ("inverse", "set-scale", "simplex"):
        whole = ESTIMATORS[name](observed, matrices)
        if not any(m is None for m in rest) or name == "inverse":
            slices = [ESTIMATORS[name](observed.take(i, axis=axis), rest) for i in range(observed.shape[axis])]
            np.testing.assert_allclose(whole, np.stack(slices, axis=axis), atol=1e-7)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("matrices", [(1,), (0, 1), (1, 1), (1, 0, 1)])
def test_nothing_and_a_class_without_records(name: str, matrices: tuple[int, ...]) -> None:
    built: list[Any] = [GammaDiagonal(Decimal(5), 4) if m else None for m in matrices]
    empty = np.zeros((4,) * len(matrices))
    np.testing.assert_array_equal(ESTIMATORS[name](empty, built), empty)
    if None in built:  # one class has records, the others none
        observed = empty.copy()
        index = tuple(slice(None) if m else 2 for m in matrices)
        observed[index] = np.arange(observed[index].size).reshape(observed[index].shape)
        estimate = ESTIMATORS[name](observed, built)
        assert estimate.sum() == pytest.approx(observed.sum())
        estimate[index] = 0
        np.testing.assert_array_equal(estimate, empty)


@pytest.mark.parametrize("name", ON_SIMPLEX)
@pytest.mark.parametrize("N", [2, 5, 200])
def test_all_mass_on_one_cell(name: str, N: int) -> None:
    observed = np.zeros(N)
    observed[N // 2] = 1000
    np.testing.assert_allclose(ESTIMATORS[name](observed, [GammaDiagonal(Decimal(5), N)]), observed, atol=1e-6)


# -- whole numbers


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40), st.integers(0, 10**7))
def test_largest_remainder_sums_exactly_and_rounds_each_down_or_up(values: list[float], total: int) -> None:
    estimate = np.array(values)
    whole = largest_remainder(estimate, total)
    assert whole.sum() == total and (whole >= 0).all() and whole.dtype.kind == "i"
    share = estimate / estimate.sum() if estimate.sum() > 0 else np.full(len(values), 1 / len(values))
    assert np.abs(whole - share * total).max() < 1 + 1e-6
    np.testing.assert_array_equal(whole, largest_remainder(estimate.copy(), total))


def test_largest_remainder_gives_to_the_largest_and_of_equal_ones_to_the_first() -> None:
    assert largest_remainder(np.array([1.2, 2.7, 3.6, 2.5]), 10).tolist() == [1, 3, 4, 2]
    assert largest_remainder(np.array([0.5, 0.5, 0.5, 0.5]), 2).tolist() == [1, 1, 0, 0]
    assert largest_remainder(np.zeros(3), 4).tolist() == [2, 1, 1]


@pytest.mark.parametrize(
    "shape", [(2, 3), (16, 16), (256, 256), (1, 65536), (65536, 1), (300, 300), (40, 50, 60)]
)
def test_joined_codes_are_places_in_the_table(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    codes = [np.append(rng.integers(0, n, 50), n - 1).astype("u1" if n <= 256 else "u2") for n in shape]
    np.testing.assert_array_equal(joined(codes, shape), np.ravel_multi_index(codes, shape))
