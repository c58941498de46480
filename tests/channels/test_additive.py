"""Additive noise: its matrix against numerical integration, and the law of its sampler.

Every test of the law is at level 1e-6 with a fixed key; samplers made slightly wrong must be rejected by it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ppdm_cli.channels.additive import Additive, Noise, add
from ppdm_cli.coins import Coins
from ppdm_cli.errors import PpdmError
from ppdm_cli.estimating import maximum_likelihood
from ppdm_cli.estimating.estimators import intervals
from tests.chances import LEVEL, chi_square, independent
from tests.vocabulary import raises

NOISES: list[Noise] = ["uniform", "normal"]
DRAWS = 600_000
KEY = bytes(range(32))

Adder = Callable[[Additive, Coins, np.ndarray, np.ndarray], np.ndarray]


def even(N: int, noise: Noise, sd: float) -> Additive:
    edges = np.linspace(0, 1, N + 1).tolist()
    return Additive(noise, sd, tuple(pairwise(edges)))


def law(matrix: Additive) -> stats.rv_frozen:
    """The noise's, by its textbook name."""
    if matrix.noise == "normal":
        return stats.norm(0, matrix.sd)
    a = np.sqrt(3) * matrix.sd
    return stats.uniform(-a, 2 * a)


# -- the matrix


@st.composite
def additives(draw: st.DrawFn) -> Additive:
    """Bins side by side, of any widths, or single values."""
    steps = draw(st.lists(st.floats(0.1, 5), min_size=2, max_size=12))
    places = (draw(st.floats(-50, 50)) + np.cumsum([0.0, *steps])).tolist()
    single = draw(st.booleans())
    extents = tuple(zip(places, places, strict=True) if single else pairwise(places))
    return Additive(draw(st.sampled_from(NOISES)), draw(st.floats(0.05, 20)), extents)


@settings(max_examples=30, deadline=None)
@given(additives())
def test_an_entry_is_the_density_integrated_over_both_bins(matrix: Additive) -> None:
    M, middles = matrix.dense(), (np.arange(1000) + 0.5) / 1000
    assert M.shape == (matrix.outputs, matrix.inputs)
    np.testing.assert_allclose(M.sum(axis=0), 1, rtol=1e-12)
    for k, (low, high) in enumerate(matrix.extents):
        x = low + (high - low) * middles
        expected = np.diff(law(matrix).cdf(matrix.edges[:, None] - x).mean(axis=1))
        np.testing.assert_allclose(M[:, k], expected, atol=1e-4)


@given(additives())
def test_the_bins_of_z_reach_past_the_domain_by_the_noise(matrix: Additive) -> None:
    low, high = matrix.extents[0][0], matrix.extents[-1][1]
    reach = np.sqrt(3) * matrix.sd if matrix.noise == "uniform" else 9 * matrix.sd
    assert matrix.edges[0] <= low - reach * (1 - 1e-12) and matrix.edges[-1] >= high + reach * (1 - 1e-12)
    for (a, b), h in zip(matrix.extents, matrix.unchanged, strict=True):
        assert matrix.edges[h] <= a and b <= matrix.edges[h + 1]  # a value's own bin of z holds it
    lowest, highest = np.zeros((1, 4), np.uint32), np.full((1, 4), 2**32 - 1, np.uint32)
    middle = np.array([[0, 0, 0, 1 << 31]], np.uint32)  # of Box and Muller: the largest radius, turned around
    for words in (lowest, highest, middle):
        for x in (low, high):
            z = matrix.added(np.array([x]), words)[0]
            assert matrix.edges[0] <= z <= matrix.edges[-1]


def test_no_unbiased_estimate_where_it_says_nothing() -> None:
    wide = even(20, "normal", 0.25)
    assert not wide.invertible and even(20, "uniform", 0.25).invertible
    with raises("blurring-matrix"):
        wide.solve(np.ones(wide.outputs))
    unknown = intervals(np.ones(wide.outputs), [wide])
    assert unknown.low.shape == (20,) and all(np.isnan(unknown.std_error))


@pytest.mark.parametrize(
    ("extents", "sd"),
    [
        (((0.0, 1.0),), 1.0),
        (tuple((float(i), i + 1.0) for i in range(1025)), 1.0),
        (((0.0, 1.0), (1.0, 2.0)), 1e-7),
        (((0.0, 1.0), (1.0, 2.0)), 1e7),
        (((1e308, 1.1e308), (1.1e308, 1.2e308)), 1e308),
        (((1e17, 1e17), (1e17 + 16, 1e17 + 16)), 2.0),
    ],
)
def test_what_cannot_be_is_refused(extents: tuple[tuple[float, float], ...], sd: float) -> None:
    with pytest.raises(PpdmError):
        Additive("normal", sd, extents)


# -- the law


def p_values(matrix: Additive, adder: Adder, draws: int = DRAWS) -> dict[str, float]:
    """By Kolmogorov and Smirnov, and by chi-square, of what the sampler adds to values all over the domain."""
    rng = np.random.default_rng(1)
    x = rng.random(draws)
    x[: draws // 4] = 0.3  # ties, as in every column
    z = adder(matrix, Coins(KEY), np.arange(draws, dtype=np.uint64), x)
    parts = np.clip((law(matrix).cdf(z - x) * 16).astype(int), 0, 15)
    tied = slice(0, draws // 4)
    found = {
        "law": float(stats.kstest(z - x, law(matrix).cdf).pvalue),
        "law of ties": float(stats.kstest((z - x)[tied], law(matrix).cdf).pvalue),
        "from x": independent(
            np.histogram2d((x[draws // 4 :] * 8).astype(int), parts[draws // 4 :], (8, 16))[0]
        ),
        "from the row before": independent(np.histogram2d(parts[1:], parts[:-1], 16)[0]),
    }
    codes = (np.searchsorted(matrix.edges, z[draws // 4 :], side="right") - 1).clip(0, matrix.outputs - 1)
    expected = matrix.forward(np.full(matrix.inputs, 1 / matrix.inputs))
    told = expected * draws > 20
    counts = np.bincount(codes, minlength=matrix.outputs)
    rest = [counts[~told].sum(), expected[~told].sum()]
    seen, shares = np.append(counts[told], rest[0]), np.append(expected[told], rest[1])
    enough = shares * draws > 20
    found["bins of z"] = chi_square(seen[enough], shares[enough])
    return found


@pytest.mark.parametrize("sd", [0.01, 0.25, 3.0])
@pytest.mark.parametrize("noise", NOISES)
def test_the_noise_has_its_law(noise: Noise, sd: float) -> None:
    found = p_values(even(10, noise, sd), add)
    assert min(found.values()) > LEVEL, found


def of_the_other_law(matrix: Additive) -> Additive:
    return Additive("normal" if matrix.noise == "uniform" else "uniform", matrix.sd, matrix.extents)


WRONG: dict[str, Adder] = {
    "wider": lambda m, coins, rows, x: x + 1.02 * (add(m, coins, rows, x) - x),
    "shifted": lambda m, coins, rows, x: add(m, coins, rows, x) + 0.02 * m.sd,
    "of the other law": lambda m, coins, rows, x: add(of_the_other_law(m), coins, rows, x),
    "by the value alone": lambda m, coins, rows, x: add(m, coins, np.zeros_like(rows), x),
    "by every other row": lambda m, coins, rows, x: x + np.repeat(add(m, coins, rows, 0 * x)[::2], 2),
    "more for the rich": lambda m, coins, rows, x: x + (0.95 + 0.1 * x) * (add(m, coins, rows, x) - x),
    "clipped": lambda m, coins, rows, x: np.clip(add(m, coins, rows, x), 0, 1),
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_sampler_made_wrong_is_rejected(wrong: str, noise: Noise) -> None:
    found = p_values(even(10, noise, 0.25), WRONG[wrong])
    assert min(found.values()) < LEVEL, found


def test_equal_cells_get_equal_noise_and_others_their_own() -> None:
    matrix, coins = even(2, "normal", 0.25), Coins(KEY)
    people = np.arange(1000, dtype=np.uint64)
    x = np.full(1000, 0.1)
    first, again = add(matrix, coins, people, x), add(matrix, coins, people[::-1].copy(), x)[::-1]
    assert (first == again).all()
    moved = np.nextafter(x, 1)  # within the same bin, by the last bit: noise of its own
    assert np.abs(np.corrcoef(first - x, add(matrix, coins, people, moved) - moved)[0, 1]) < 0.2
    assert (add(matrix, coins, people, -0.0 * x) == add(matrix, coins, people, 0.0 * x)).all()


# -- the estimate

VALUES = np.arange(1, 201)
SHAPES = {
    "triangle": np.minimum(VALUES, 201 - VALUES) / 1.0,
    "plateau": ((VALUES > 50) & (VALUES <= 150)) * 1.0,
}
PRIVACY = 3.92, 2 * 0.95 * np.sqrt(3)
"""How wide the 95 % interval is, in standard deviations."""


def errors(shape: str, matrix: Additive) -> tuple[float, float]:
    """E of the estimate and of the published counts, mean of three releases of 100,000 (Dowd's shapes)."""
    found = []
    for run in range(3):
        rng = np.random.default_rng([run, list(SHAPES).index(shape)])
        x = (rng.choice(VALUES, 100_000, p=SHAPES[shape] / SHAPES[shape].sum()) - rng.random(100_000)) / 200
        z = x + law(matrix).rvs(100_000, random_state=rng)
        true, raw = (np.histogram(v.clip(0, 1), matrix.inputs, (0, 1))[0] for v in (x, z))
        estimated = maximum_likelihood(np.histogram(z, matrix.edges)[0].astype(float), [matrix])
        found.append([np.abs(t - true).sum() / 1e5 for t in (estimated, raw)])
    return tuple(np.mean(found, axis=0))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("noise", "width", "triangle", "plateau"),
    [
        ("uniform", 0.5, 0.07, 0.07),
        ("uniform", 1, 0.06, 0.09),
        ("normal", 0.5, 0.04, 0.27),
        ("normal", 1, 0.08, 0.42),
    ],
)
def test_the_reconstruction_is_near(noise: Noise, width: float, triangle: float, plateau: float) -> None:
    """The interval as wide as half the domain and as all of it: Agrawal and Srikant's 50 and 100 %."""
    matrix = even(20, noise, width / PRIVACY[noise == "uniform"])
    for shape, most in (("triangle", triangle), ("plateau", plateau)):
        estimated, raw = errors(shape, matrix)
        assert estimated < most and estimated < 0.6 * raw


@pytest.mark.parametrize("width", [0.01, 10.0, 1e4])
def test_noise_is_within_a_millionth_and_a_million_times_the_width(width: float) -> None:
    extents = ((0.0, width / 2), (width / 2, width))
    for sd in (1.01e-6 * width, 0.99e6 * width):
        assert Additive("uniform", sd, extents).sd == sd
    for sd in (0.99e-6 * width, 1.01e6 * width):
        with raises("wrong-sd"):
            Additive("uniform", sd, extents)
