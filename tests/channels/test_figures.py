"""Figures of matrices of every form are those of their entries: closed forms beside brute force."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
import pytest

from ppdm_cli.channels import Blur, Box, GammaDiagonal, Matrix, Mixture
from ppdm_cli.channels.band import Band, bits_revealed
from ppdm_cli.channels.block import Block
from ppdm_cli.channels.copies import Copies
from ppdm_cli.channels.dense import Weights, scaled_columns
from ppdm_cli.channels.matrix import Explicit, Given, likeliest
from tests.vocabulary import raises

WEIGHTS = Weights(np.array([[7, 1, 3], [2, 8, 3], [1, 1, 4]]), 10)
MATRICES: list[Any] = [
    GammaDiagonal(Decimal("1.5"), 2),
    GammaDiagonal(Decimal(9), 7),
    GammaDiagonal(Fraction(7, 3), 5),
    Band.of(Decimal("4.5"), 9, 2),
    Band.of(Decimal("4.5"), 9, 2, True),
    Box.of(Decimal("2.5"), (Blur(5, 1, True), Blur(3))),
    Box.of(Decimal(7), (Blur(3), Blur(2, 0, True), Blur(2))),
    Box.of(Decimal(3), (Blur(4), Blur(3))),
    WEIGHTS,
    Block(Decimal(9), ((0,), (1, 2), (3, 4, 5))),
    Copies(GammaDiagonal(Decimal(3), 3), 3),
    Copies(WEIGHTS, 2),
]
every = pytest.mark.parametrize("matrix", MATRICES, ids=lambda m: f"{type(m).__name__} {m.inputs}x{m.outputs}")


def table(size: int, *more: int) -> np.ndarray:
    return np.random.default_rng(size).random((size, *more)) + 0.1


@every
def test_products_along_any_axis_are_those_of_the_entries(matrix: Any) -> None:
    M, columns = matrix.dense(), table(matrix.inputs, 2)
    assert M.shape == (matrix.outputs, matrix.inputs)
    np.testing.assert_allclose(M.sum(axis=0), 1)
    np.testing.assert_allclose(matrix.forward(columns), M @ columns)
    np.testing.assert_allclose(matrix.forward(columns.T, 1), (M @ columns).T)
    values = table(matrix.outputs, 2)
    np.testing.assert_allclose(matrix.backward(values), M.T @ values)
    np.testing.assert_allclose(matrix.backward(values.T, 1), (M.T @ values).T)


@every
def test_estimates_are_unbiased_and_their_moments_those_of_the_inverse(matrix: Any) -> None:
    M, A = matrix.dense(), matrix.solve(np.eye(matrix.outputs))
    np.testing.assert_allclose(A @ M, np.eye(matrix.inputs), atol=1e-9)
    np.testing.assert_allclose(A.sum(axis=0), 1, atol=1e-9)
    seen = table(matrix.outputs, 3)
    np.testing.assert_allclose(matrix.solve(seen.T, 1), (A @ seen).T, atol=1e-9)
    for power in (1, 2, 3):
        np.testing.assert_allclose(matrix.solve_power(seen, power), A**power @ seen, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(
            matrix.solve_power(seen.T, power, 1), (A**power @ seen).T, rtol=1e-7, atol=1e-9
        )
    np.testing.assert_allclose(matrix.own_variance(), np.diag(A**2 @ M), rtol=1e-9)
    wanted = table(matrix.inputs, 2)
    np.testing.assert_allclose(M.T @ matrix.scores(wanted), wanted, atol=1e-9)
    shares = table(matrix.inputs)
    shares /= shares.sum()
    for prior in (None, shares):
        given = np.full(matrix.inputs, 1 / matrix.inputs) if prior is None else prior
        error = np.sqrt(1000 * ((A**2 @ M @ given).sum() - given.sum()))
        np.testing.assert_allclose(matrix.expected_error(1000, prior), error)


@every
def test_what_people_are_told_follows_from_the_entries(matrix: Any) -> None:
    M = matrix.dense()
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(matrix.amplification, (M.max(axis=1) / M.min(axis=1)).max())
    stays = M[matrix.unchanged, np.arange(matrix.inputs)]
    np.testing.assert_allclose(matrix.stays(), stays)
    if isinstance(matrix, Explicit):
        np.testing.assert_allclose(matrix.staying, stays.mean())
        assert matrix.candidates == (M > 0).sum(axis=1).min()
    else:
        np.testing.assert_allclose(matrix.staying, stays[0])
        assert matrix.candidates == matrix.inputs
    singular = np.linalg.svd(M, compute_uv=False)
    np.testing.assert_allclose(matrix.condition_number, singular[0] / singular[-1], rtol=1e-6)
    shares = table(matrix.inputs)
    shares /= shares.sum()
    bits = -(M * np.log2(np.where(M > 0, M, 1))).sum(axis=0)
    for prior in (None, shares):
        given = np.full(matrix.inputs, 1 / matrix.inputs) if prior is None else prior
        np.testing.assert_allclose(matrix.entropy(prior), bits @ given)
        y = M @ given
        np.testing.assert_allclose(
            matrix.information(prior), -(y * np.log2(y)).sum() - bits @ given, atol=1e-12
        )


@every
def test_published_codes_are_near_where_gamma_is_for_them(matrix: Any) -> None:
    M = matrix.dense()
    h, k = np.indices(M.shape).reshape(2, -1)
    near = matrix.around(k, h).reshape(M.shape)
    if isinstance(matrix, Explicit):
        assert (near == (h == matrix.unchanged[k]).reshape(M.shape)).all()
        return
    least = M.min(axis=1, keepdims=True)
    assert (near == (1.0001 * least < M)).all()
    own, others = matrix.own_outputs
    gamma = float(matrix.gamma)
    c = 1 / (gamma * own + others)
    # null's outputs are shown as one, so that codes without null have the plain entries
    np.testing.assert_allclose([M[:, 0].min(), M[0].max()], [c, gamma * c])


@pytest.mark.parametrize("matrix", [m for m in MATRICES if m.inputs == m.outputs and not isinstance(m, Copies)])
def test_matrices_applied_again_are_powers(matrix: Any) -> None:
    M, power = matrix.dense(), np.eye(matrix.inputs)
    for row in matrix.repeated(3):
        power = M @ power
        least = power.min(axis=1)
        gamma = np.inf if (least == 0).any() else (power.max(axis=1) / least).max()
        bits = -(power * np.log2(np.where(power > 0, power, 1))).sum(axis=0).mean()
        np.testing.assert_allclose(
            [row["gamma"], row["staying"], row["entropy"], row["entropy_max"]],
            [gamma, np.trace(power) / len(power), bits, np.log2(len(power))],
        )
    assert [row["t"] for row in matrix.repeated(3)] == [1, 2, 3]


@pytest.mark.parametrize("N", [2, 5, 40])
def test_kangs_bound_is_the_error_of_equal_counts(N: int) -> None:
    matrix = GammaDiagonal(Decimal(5), N)
    counts = np.full(N, 1000 / N)
    np.testing.assert_allclose(matrix.kang_bound(1000), matrix.expected_error(1000) / np.linalg.norm(counts))
    np.testing.assert_allclose(Matrix.expected_error(matrix, 1000), matrix.expected_error(1000))


@pytest.mark.parametrize("box", [m for m in MATRICES if isinstance(m, Box)])
def test_marginals_of_a_box_are_its_entries_summed_over_the_rest(box: Box) -> None:
    whole = box.dense().reshape(*box.shape_out, *box.shape_in)
    many = len(box.sides)
    for place in range(many):
        law = box.marginal([place])
        rest = tuple(p for p in range(many) if p != place)
        summed = whole.sum(axis=rest)  # over what the others show; what they are makes no difference
        first = summed[(slice(None), *(slice(None) if p == place else 0 for p in range(many)))]
        np.testing.assert_allclose(law.dense(), first)
        assert isinstance(law, Mixture) and law.gamma is None
        M = law.dense()
        np.testing.assert_allclose(law.amplification, (M.max(axis=1) / M.min(axis=1)).max())
        np.testing.assert_allclose(law.entropy(), -(M * np.log2(M)).sum(axis=0).mean())
        np.testing.assert_allclose(law.stays(), M[law.unchanged, np.arange(law.inputs)])
    lam, sides = box.coin or (0.0, ())
    assert sides == box.sides
    blurred = np.ones((1, 1))
    for side in sides:
        blurred = np.kron(blurred, side.dense())
    np.testing.assert_allclose(box.dense(), lam * blurred + (1 - lam) * box.noise[:, None])


def test_marginals_of_a_diagonal_are_those_of_its_combinations() -> None:
    matrix = GammaDiagonal(Decimal(5), 12)
    whole = matrix.dense().reshape(3, 4, 3, 4)
    for place, size in ((0, 3), (1, 4)):
        law = matrix.marginal([place], [3, 4], [3, 4])
        summed = whole.sum(axis=1 - place)
        np.testing.assert_allclose(law.dense(), summed[:, :, 0] if place == 0 else summed[:, 0])
        assert size == law.N


@pytest.mark.parametrize(("gamma", "N", "b"), [(2.0, 9, 0), (2.0, 9, 2), (9.0, 6, 3), (1.2, 20, 7)])
def test_bits_of_a_band_are_those_of_its_entries(gamma: float, N: int, b: int) -> None:
    band = Band.of(Decimal(str(gamma)), N, b) if b else GammaDiagonal(Decimal(str(gamma)), N)
    np.testing.assert_allclose(bits_revealed(gamma, N, b), band.information())


@pytest.mark.parametrize("matrix", [m for m in MATRICES if isinstance(m, Copies)])
def test_copies_count_every_order_of_their_answers(matrix: Copies) -> None:
    one, found = matrix.one.dense(), np.zeros((matrix.outputs, matrix.inputs))
    for answers in np.ndindex(*[matrix.one.outputs] * matrix.copies):
        row = matrix.numbered([np.array([a]) for a in answers])[0]
        assert sorted(answers) == matrix.multisets[row].tolist()
        found[row] += prod(one[a] for a in answers)
    np.testing.assert_allclose(matrix.dense(), found)
    counts = table(matrix.outputs)
    shown = [
        sum(c * (m == code).mean() for c, m in zip(counts, matrix.multisets, strict=True)) for code in range(3)
    ]
    np.testing.assert_allclose(matrix.seen(counts), shown)


def test_value_that_is_never_published_rules_nothing_out() -> None:
    """A row of zeros is no answer: the ratios are those of the other rows."""
    law = Weights(np.array([[7, 3, 5], [3, 7, 5], [0, 0, 0]]), 10)
    assert law.amplification == pytest.approx(7 / 3)
    assert Given(law.dense()).amplification == pytest.approx(7 / 3)
    assert Weights(np.array([[7, 0, 5], [3, 10, 5], [0, 0, 0]]), 10).amplification == np.inf
    assert Given(np.array([[0.7, 0], [0.3, 1]])).amplification == np.inf


def test_marginal_of_a_whole_matrix_is_there_where_it_depends_on_its_own_value_alone() -> None:
    small, large = np.array([[8, 3], [2, 7]]), np.array([[7, 1, 3], [2, 8, 3], [1, 1, 4]])
    apart = Weights(np.kron(small, large), 100)
    for place, law in ((0, small), (1, large)):
        found = apart.marginal([place], [2, 3], [2, 3])
        assert found is not None
        np.testing.assert_allclose(found.dense(), law / 10)
    linked = np.full((4, 4), 10) + np.diag([60, 60, 60, 60])
    linked[:, 3] = [40, 20, 20, 20]  # what is shown of either depends on both
    assert Weights(linked, 100).marginal([0], [2, 2], [2, 2]) is None
    assert apart.marginal([0], [2, 3], [3, 2]) is None


def test_likeliest_shares_of_nothing_are_equal() -> None:
    law = WEIGHTS.dense()
    np.testing.assert_allclose(likeliest(law, np.zeros(3)), 1 / 3)
    true = np.array([0.6, 0.3, 0.1])
    np.testing.assert_allclose(likeliest(law, 1000 * law @ true), true, atol=0.05)


def test_scale_of_a_matrix_is_the_least_that_is_exact() -> None:
    assert scaled_columns([[Decimal(1), Decimal(0)], [Decimal(0), Decimal(1)]]) == ([[1, 0], [0, 1]], 1)
    half = Decimal("0.50")
    assert scaled_columns([[half, half], [Decimal("0.25"), Decimal("0.75")]]) == ([[50, 50], [25, 75]], 100)


def test_box_takes_all_the_room_that_its_sampler_has() -> None:
    sides, most = (Blur(2), Blur(3)), 2**62 - 5  # R = gamma - 1 + 6
    assert Box.of(Decimal(most), sides).range == 2**62
    with raises("gamma-too-fine-for-box"):
        Box.of(Decimal(most + 1), sides)
