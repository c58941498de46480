"""The gamma-diagonal matrix: closed forms against the matrix itself, limits, and what gamma promises.

Theorem 1 of Kang as numbers; the least condition number among matrices of the
same amplification (Agrawal & Haritsa), with the class in which that holds and a matrix outside it.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdm_cli import privacy
from ppdm_cli.arrays import code_type
from ppdm_cli.channels.base import json_gamma, substitute
from ppdm_cli.channels.exact_draw import DIGITS, LARGEST_RANGE, rounded_down
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal, GammaDiagonalSpec
from ppdm_cli.coins import Coins, Key
from ppdm_cli.domain import Categories
from ppdm_cli.errors import RefusedError, UsageError
from ppdm_cli.perturbing import resolving
from ppdm_cli.perturbing.resolving import described
from ppdm_cli.sidecar import Recipe
from tests.strategies import gammas

SIZES = st.integers(2, 40)
RHOS = st.floats(1e-6, 1 - 1e-6)


@st.composite
def matrices(draw: st.DrawFn) -> GammaDiagonal:
    return GammaDiagonal(draw(gammas).normalize(), draw(SIZES))


def perturbed(matrix: GammaDiagonal, codes: np.ndarray, seed: int) -> np.ndarray:
    codes = codes.astype(code_type(matrix.N))
    out = np.empty_like(codes)
    coins = Coins(Key.from_seed(seed).derive("test of the matrix"))
    substitute(matrix, coins, np.arange(len(codes), dtype=np.uint64), codes, out)
    return out


def amplification(M: np.ndarray) -> np.ndarray:
    """max over rows of largest over smallest entry (maths 2), of a stack of matrices."""
    return (M.max(axis=-1) / M.min(axis=-1)).max(axis=-1)


@given(matrices(), st.randoms(use_true_random=False))
def test_closed_forms_are_those_of_the_matrix(matrix: GammaDiagonal, random: object) -> None:
    M, N = matrix.dense(), matrix.N
    assert (matrix.inputs, matrix.outputs) == M.shape[::-1]
    np.testing.assert_allclose(M.sum(axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose(amplification(M), matrix.amplification, rtol=1e-12)
    np.testing.assert_allclose(np.diag(M), matrix.staying, rtol=1e-12)
    np.testing.assert_allclose(M, matrix.lam * np.eye(N) + (1 - matrix.lam) / N, rtol=1e-9)
    np.testing.assert_allclose(np.linalg.cond(M), matrix.condition_number, rtol=1e-6)
    prior = np.array([random.random() + 0.01 for _ in range(N)])  # type: ignore[attr-defined]
    columns = -(M * np.log2(M)).sum(axis=0)
    np.testing.assert_allclose(matrix.entropy(), columns.mean(), rtol=1e-9)
    np.testing.assert_allclose(matrix.entropy(prior / prior.sum()), columns @ prior / prior.sum(), rtol=1e-9)


def random_matrices(N: int, count: int, rng: np.random.Generator, symmetric: bool) -> np.ndarray:
    """Random matrices with columns that sum to 1, in part far from even, in part near a gamma-diagonal."""
    M = rng.dirichlet(np.full(N, rng.choice([0.3, 1, 5])), (count, N)).swapaxes(1, 2)
    M += rng.uniform(0, 3) * np.eye(N)
    if symmetric:  # A A^T has no negative eigenvalue; Sinkhorn keeps that and evens the sums
        M = M @ M.swapaxes(1, 2)
        for _ in range(200):
            scale = 1 / np.sqrt(M.sum(axis=1))
            M *= scale[:, :, None] * scale[:, None, :]
    return M / M.sum(axis=1, keepdims=True)


def weakened(M: np.ndarray, gamma: float) -> np.ndarray:
    """Each matrix mixed with the uniform one until its amplification is gamma at most."""
    low, high = np.zeros(len(M)), np.ones(len(M))
    for _ in range(50):
        middle = (low + high) / 2
        mixed = middle[:, None, None] * M + (1 - middle)[:, None, None] / M.shape[-1]
        fits = amplification(mixed) <= gamma
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return low[:, None, None] * M + (1 - low)[:, None, None] / M.shape[-1]


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("gamma", [1.5, 2, 9, 21.5])
@pytest.mark.parametrize("N", [2, 3, 5, 12])
def test_no_random_matrix_of_the_same_amplification_has_a_smaller_condition_number(
    N: int, gamma: float, symmetric: bool
) -> None:
    rng = np.random.default_rng([N, int(10 * gamma), symmetric])
    least = GammaDiagonal(Decimal(str(gamma)), N).condition_number
    M = weakened(np.concatenate([random_matrices(N, 50, rng, symmetric) for _ in range(8)]), gamma)
    assert (amplification(M) <= gamma * (1 + 1e-9)).all()
    found = np.linalg.cond(M)
    assert found.min() >= least * (1 - 1e-9)
    own = weakened(np.eye(N)[None], gamma)
    np.testing.assert_allclose(np.linalg.cond(own), least, rtol=1e-6)


def test_the_least_condition_number_is_that_of_symmetric_positive_matrices_only() -> None:
    """Three entries of each column, as the lines of the Fano plane, gamma times the others: better at 2."""
    lines = np.array([[(h - k) % 7 in (0, 1, 3) for k in range(7)] for h in range(7)])
    M = np.where(lines, 2.0, 1.0) / (7 + 3)
    np.testing.assert_allclose(M.sum(axis=0), 1)
    assert amplification(M) == 2
    np.testing.assert_allclose(np.linalg.cond(M), 10 / math.sqrt(2))
    assert np.linalg.cond(M) < GammaDiagonal(Decimal(2), 7).condition_number == 8


@pytest.mark.parametrize(("gamma", "N", "skewed"), [("2", 5, True), ("9", 20, True), ("5", 8, False)])
def test_the_estimate_is_unbiased_with_the_error_that_is_said(gamma: str, N: int, skewed: bool) -> None:
    matrix, n, releases = GammaDiagonal(Decimal(gamma), N), 40 * N, 4_000
    X = np.full(N, 40)
    if skewed:
        X = np.array([n - N // 2, *[1] * (N // 2), *[0] * (N - 1 - N // 2)])
    codes = np.tile(np.repeat(np.arange(N), X), releases)
    answers = perturbed(matrix, codes, 5).reshape(releases, n).astype(np.int64)
    cells = np.bincount((answers + N * np.arange(releases)[:, None]).ravel(), minlength=N * releases)
    off = matrix.solve(cells.reshape(releases, N).astype(float), axis=1) - X
    errors = (off**2).sum(axis=1)
    assert abs(errors.mean() - matrix.expected_error(n) ** 2) < 5 * errors.std() / math.sqrt(releases)
    assert (np.abs(off.mean(axis=0)) < 5 * off.std(axis=0) / math.sqrt(releases)).all()
    # Kang, Theorem 1: sigma / ||X|| is at most the bound, and reaches it where X is uniform
    ratio = matrix.expected_error(n) / np.linalg.norm(X)
    assert ratio <= matrix.kang_bound(n) * (1 + 1e-12)
    assert math.isclose(ratio, matrix.kang_bound(n)) == (not skewed)


@given(matrices(), st.integers(0, 2**32 - 1))
def test_no_prior_and_no_property_gets_a_posterior_above_the_worst(matrix: GammaDiagonal, seed: int) -> None:
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.full(matrix.N, rng.choice([0.1, 1, 10])))
    has = rng.random(matrix.N) < rng.uniform(0.05, 0.95)
    joint = matrix.dense() * prior
    answered = joint.sum(axis=1)
    for mask in (has, ~has):  # a rise of the one is a downward breach of the other
        before = float(prior[mask].sum())
        after = joint[:, mask].sum(axis=1) / answered
        worst = privacy.worst_posterior(matrix.amplification, before)
        assert (after <= worst * (1 + 1e-9)).all()
    k = int(rng.integers(matrix.N))  # reached: a property of one value, when it is what is answered
    reached = joint[k, k] / answered[k]
    expected = privacy.worst_posterior(matrix.amplification, float(prior[k]))
    assert math.isclose(reached, expected, rel_tol=1e-9, abs_tol=1e-300)


@given(RHOS, RHOS)
def test_gamma_from_rhos_is_the_largest_that_allows_no_breach(rho1: float, rho2: float) -> None:
    if rho1 >= rho2:
        with pytest.raises(UsageError):
            privacy.gamma_from_rhos(rho1, rho2)
        return
    gamma = privacy.gamma_from_rhos(rho1, rho2)
    assert math.isclose(privacy.worst_posterior(gamma, rho1), rho2, rel_tol=1e-9)
    assert privacy.worst_posterior(gamma * 1.01, rho1) > rho2 or rho2 > 1 - 1e-5
    assert privacy.worst_posterior(math.inf, rho1) == 1


@given(st.lists(gammas, min_size=1, max_size=12))
def test_gammas_of_a_record_multiply_and_are_never_rounded_down(listed: list[Decimal]) -> None:
    domain = Categories(pa.string(), ["no", "yes"], False)
    names = [f"a{i}" for i in range(len(listed))]
    attributes = [described(n, domain, "declared") for n in names]
    specs = [GammaDiagonalSpec(attributes=[n], gamma=json_gamma(g)) for n, g in zip(names, listed, strict=True)]
    promised = resolving.privacy(resolving.ResolvedPlan(attributes, [Recipe([*specs])], None, []), "system")
    product = math.prod(Fraction(g) for g in listed)
    assert (
        product <= Fraction(repr(promised.perturbed_gamma)) <= product * (1 + len(listed) * Fraction(1, 10**5))
    )
    epsilon = sum(math.log(g) for g in listed)
    assert epsilon * (1 - 1e-12) <= promised.perturbed_epsilon <= epsilon * (1 + 2e-5)


@given(st.floats(1.001, 1e9), st.integers(2, 65_537))
def test_rounded_down_is_exact_and_never_above(gamma: float, N: int) -> None:
    found = rounded_down(gamma, N)
    assert 1 < found <= Decimal(gamma)
    matrix = GammaDiagonal(found, N)
    assert Fraction(*matrix.gamma.as_integer_ratio()) == Fraction(found)
    spec = GammaDiagonalSpec(attributes=["x"], gamma=json_gamma(found))
    assert spec.exact == found, "the sidecar's number is the gamma"
    digits = len(found.normalize().as_tuple().digits)
    assert digits <= DIGITS
    # with one digit more the sampler has no room, or six are all there are
    for more in range(digits + 1, DIGITS + 1):
        closer = Decimal(gamma).quantize(Decimal(1).scaleb(found.adjusted() - more + 1), rounding="ROUND_FLOOR")
        a, b = closer.as_integer_ratio()
        assert closer == found or a + b * (N - 1) > LARGEST_RANGE


@given(st.floats(2.0**31, 1e300), st.integers(2, 65_537))
def test_rounded_down_of_more_than_the_sampler_can_is_the_most_it_can(gamma: float, N: int) -> None:
    assert GammaDiagonal(rounded_down(gamma, N), N).staying > 0.9


def test_a_gamma_that_leaves_nothing_is_refused() -> None:
    for gamma in (1.0, 0.5, 1.000001, 1 + 1e-12):
        with pytest.raises(RefusedError):
            rounded_down(gamma, 10)
    with pytest.raises(RefusedError):
        GammaDiagonal(Decimal(9), 1)
    with pytest.raises(UsageError):
        GammaDiagonal(Decimal("1.23457"), 65_537)
