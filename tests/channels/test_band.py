"""The band matrix: what it is, what it promises, which half-width is best, and its sampler word by word.

The matrix is built here entry by entry from its definition, null's outputs singly, and everything that
`Band` says is held against that.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from ppdm_cli.arrays import code_type
from ppdm_cli.channels.band import MOST_ORDERED, Band, best_half_width, bits_revealed
from ppdm_cli.channels.base import substitute
from ppdm_cli.channels.exact_draw import LARGEST_RANGE, rounded_down
from ppdm_cli.coins import Coins, Key
from ppdm_cli.errors import PpdmError
from tests.chances import LEVEL, chi_square, least
from tests.channels.test_sampler import Fed, first_word
from tests.strategies import gammas

BANDS = [
    ("1.5", 6, 2, False),
    ("2", 20, 4, True),
    ("5", 20, 2, False),
    ("9", 16, 1, True),
    ("21.5", 9, 3, True),
]


@st.composite
def bands(draw: st.DrawFn) -> Band:
    ordered = draw(st.integers(2, 30))
    half_width = draw(st.integers(1, ordered // 2))
    return Band.of(draw(gammas).normalize(), ordered, half_width, draw(st.booleans()))


def by_definition(band: Band) -> list[list[Fraction]]:
    """M, exactly: gamma x around a code, x elsewhere; null's 2b+1 outputs summed."""
    gamma, b, N = Fraction(band.gamma), band.half_width, band.sides[0].ordered
    singly = N + 2 * b + (2 * b + 1) * band.sides[0].nulls
    x = 1 / ((2 * b + 1) * gamma + singly - (2 * b + 1))
    columns = []
    for k in range(N + band.sides[0].nulls):
        first = k if k < N else N + 2 * b
        column = [gamma * x if first <= h <= first + 2 * b else x for h in range(singly)]
        of_null = [sum(column[N + 2 * b :], Fraction(0))] * band.sides[0].nulls
        columns.append(column[: N + 2 * b] + of_null)
    return [list(row) for row in zip(*columns, strict=True)]


def numbers(exact: list[list[Fraction]]) -> np.ndarray:
    return np.array([[float(v) for v in row] for row in exact])


@given(bands())
def test_the_matrix_is_its_definition_and_keeps_its_promise(band: Band) -> None:
    exact = by_definition(band)
    M = numbers(exact)
    np.testing.assert_allclose(band.dense(), M, rtol=1e-9)
    assert (band.outputs, band.inputs) == M.shape
    assert all(sum(column) == 1 for column in zip(*exact, strict=True))
    assert max(max(row) / min(row) for row in exact) == Fraction(band.gamma), "the amplification, exactly"
    assert band.amplification == float(band.gamma)
    at_itself = M[band.unchanged, np.arange(band.inputs)]
    np.testing.assert_allclose(at_itself[: band.sides[0].ordered], band.staying, rtol=1e-9)
    b = band.half_width
    near = [M[k + b - b : k + b + b + 1, k].sum() for k in range(band.sides[0].ordered)]
    np.testing.assert_allclose(near, band.neighbourhood, rtol=1e-9)
    prior = np.random.default_rng(band.sides[0].ordered).dirichlet(np.ones(band.inputs))
    columns = -(M * np.log2(M)).sum(axis=0)
    np.testing.assert_allclose(band.entropy(), columns.mean(), rtol=1e-9)
    np.testing.assert_allclose(band.entropy(prior), columns @ prior, rtol=1e-9)


@given(bands())
def test_the_inverse_is_that_of_weighted_least_squares(band: Band) -> None:
    """As if all original codes were equally many; `test_channels` has products with a band and its inverse."""
    assume(band.gamma > Decimal("1.05"))
    M = numbers(by_definition(band))
    np.testing.assert_allclose(band.condition_number, np.linalg.cond(M), rtol=1e-5)
    weights = np.sqrt(1 / M.sum(axis=1))
    A = np.linalg.pinv(weights[:, None] * M, rcond=1e-13) * weights
    np.testing.assert_allclose(band.solve(np.eye(band.outputs)), A, atol=1e-9 * np.abs(A).max())
    np.testing.assert_allclose(band.own_variance(), np.diag((A * A) @ M), rtol=1e-4)


@pytest.mark.parametrize("size", [None, 1, MOST_ORDERED + 1])
@pytest.mark.parametrize("half_width", [0, -1, 11])
def test_no_band_of_too_few_or_too_many(size: int | None, half_width: int) -> None:
    with pytest.raises(PpdmError):
        Band.of(Decimal(5), 20 if size is None else size, half_width if size is None else 1)


# -- the half-width


def mutual_information(gamma: float, N: int, b: int) -> float:
    """From the matrix itself: H(y) - H(y|x), all x alike."""
    M = np.ones((N + 2 * b, N))
    for k in range(N):
        M[k : k + 2 * b + 1, k] = gamma
    M /= M.sum(axis=0)
    y = M.mean(axis=1)
    return float((M * np.log2(M)).sum() / N - (y * np.log2(y)).sum())


@pytest.mark.parametrize("N", [2, 3, 7, 10, 15, 20, 30, 61])
@pytest.mark.parametrize("gamma", ["1.001", "1.5", "2", "3", "5", "9", "12", "19", "21", "300"])
def test_the_half_width_is_the_one_that_reveals_most(gamma: str, N: int) -> None:
    bits = [mutual_information(float(gamma), N, b) for b in range(N)]
    np.testing.assert_allclose([bits_revealed(float(gamma), N, b) for b in range(N)], bits, atol=1e-10)
    best = best_half_width(Decimal(gamma), N)
    assert best <= N // 2 and bits[best] == pytest.approx(max(bits), rel=1e-9)


# -- the sampler, word by word


@pytest.mark.parametrize(("gamma", "ordered", "half_width", "nulls"), BANDS)
def test_of_all_numbers_below_r_each_output_gets_exactly_its_share(
    gamma: str, ordered: int, half_width: int, nulls: bool
) -> None:
    band = Band.of(Decimal(gamma), ordered, half_width, nulls)
    exact = by_definition(band)
    R = int(np.lcm.reduce([v.denominator for row in exact for v in row]))
    p, q = band.gamma.as_integer_ratio()
    width = 2 * half_width + 1
    total = (p - q) * width + q * (ordered + width - 1 + width * nulls)
    assert total % R == 0
    words = np.zeros((total, 4), np.int64)
    words[:, 0] = [first_word(u, total) for u in range(total)]
    for k in range(band.inputs):
        for kind in (code_type(band.outputs), np.uint32):
            out = np.full(total + 2, 1, kind)
            fed = Fed(words)
            band.sample(np.full(total, k, code_type(band.inputs)), fed, out[1:-1])
            assert out[0] == out[-1] == 1 and set(fed.retries) == {0}
            assert np.bincount(out[1:-1], minlength=band.outputs).tolist() == [
                exact[h][k] * total for h in range(band.outputs)
            ]


# -- the sampler's law, by chi-square, and the test of that test

LAWS = [("2", 20, 4, False), ("5", 20, 2, True), ("9", 10, 1, True), ("9.00001", 300, 4, True)]
POWER = 0.999
MOST_DRAWS = 20_000_000


def merged(law: np.ndarray, outputs: int) -> np.ndarray:
    """A law of too many outputs: the last ones are taken for the last that there is."""
    return np.vstack([law[: outputs - 1], law[outputs - 1 :].sum(axis=0)])


def wrong_laws(band: Band) -> dict[str, np.ndarray]:
    g, N, b, nulls = band.gamma, band.sides[0].ordered, band.half_width, band.sides[0].nulls
    M = band.dense()
    wrong = {
        "gamma at 95 %": Band.of(g * 95 / 100, N, b, nulls).dense(),
        "gamma at 105 %": Band.of(g * 105 / 100, N, b, nulls).dense(),
        "one more value": merged(Band.of(g, N + 1, b).dense()[:, :N], N + 2 * b),
        "one off": np.roll(M[: N + 2 * b], 1, axis=0),
    }
    if nulls:
        wrong["null of one output"] = M.copy()
        wrong["null of one output"][-1] /= band.width
        for name in ("one more value", "one off"):  # of the values alone; null as it should be
            law = M.copy()
            law[: N + 2 * b, :N] = (
                wrong[name][:, :N] * M[: N + 2 * b, :N].sum(axis=0) / wrong[name][:, :N].sum(axis=0)
            )
            wrong[name] = law
    return {name: law / law.sum(axis=0) for name, law in wrong.items()}


def power(band: Band, wrong: np.ndarray, draws: float) -> float:
    M = band.dense()
    away = draws / band.inputs * float(((wrong - M) ** 2 / M).sum())
    freedom = M.size - band.inputs
    return float(stats.ncx2.sf(stats.chi2.isf(LEVEL, freedom), freedom, away))


def law_holds(band: Band, counts: np.ndarray) -> float:
    return chi_square(counts, band.dense() * counts.sum(axis=0), fitted=band.inputs)


@pytest.mark.parametrize(("gamma", "ordered", "half_width", "nulls"), LAWS)
def test_draws_follow_the_law_and_other_laws_are_told_from_it(
    gamma: str, ordered: int, half_width: int, nulls: bool
) -> None:
    """Draws enough for a power of 99.9 % against a gamma wrong by 5 %, a value or an offset too many."""
    band = Band.of(Decimal(gamma), ordered, half_width, nulls)
    wrong = wrong_laws(band)
    draws = max(least(lambda n, w=w: power(band, w, n), POWER, MOST_DRAWS) for w in wrong.values())
    assert draws < MOST_DRAWS
    draws += -draws % band.inputs
    codes = np.tile(np.arange(band.inputs), draws // band.inputs).astype(code_type(band.inputs))
    out = np.empty(draws, code_type(band.outputs))
    substitute(
        band, Coins(Key.from_seed(5).derive(gamma, ordered)), np.arange(draws, dtype=np.uint64), codes, out
    )
    pairs = np.bincount(out.astype(np.int64) * band.inputs + codes, minlength=band.outputs * band.inputs)
    assert law_holds(band, pairs.reshape(band.outputs, band.inputs)) > LEVEL
    rng = np.random.default_rng(5)
    for name, law in wrong.items():
        others = np.stack([rng.multinomial(draws // band.inputs, column) for column in law.T], axis=1)
        assert law_holds(band, others) < LEVEL, name


@given(st.floats(1.0001, 1e9), st.integers(2, 2000), st.integers(1, 200))
def test_derived_gammas_are_rounded_down_to_what_the_band_draws(gamma: float, ordered: int, b: int) -> None:
    assume(b <= ordered // 2)
    width = 2 * b + 1
    try:
        found = rounded_down(gamma, ordered + width - 1, width)
    except PpdmError:
        return
    assert found <= Decimal(gamma)
    Band.of(found, ordered, b)
    p, q = found.as_integer_ratio()
    assert (p - q) * width + q * (ordered + width - 1) <= LARGEST_RANGE
