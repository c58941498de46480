"""The error bars: intervals that cover what they say, standard errors that are the spread of the estimates.

Counts are simulated, many releases at once along an axis that was not perturbed. Over 20,000 releases a
coverage's own spread is at most 0.0015, so that a right interval leaves 94 to 96 % with a chance below 1e-9;
the figures for the mean squared error and the standard errors are bounded at five standard deviations and
more. Of 400 releases of a whole table no cell is 3.9 binomial standard deviations beyond 94 to 96 %, 97 to 98
for true counts of 0: a right interval is so with a chance below 1e-4 a cell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import cache, reduce

import numpy as np
import pytest

from ppdm_cli.arrays import Floats, Z, wilson
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal
from ppdm_cli.estimating.estimators import (
    Coverage,
    Error,
    Interval,
    Matrices,
    intervals,
    inverse,
    maximum_likelihood,
)
from tests.experiments.intervals import BAND, GD, KEPT, Case, covered
from tests.experiments.intervals import releases as of_laws
from tests.vocabulary import raises

RELEASES = 20_000
CASES = [(N, n, gamma) for N in (5, 20, 100) for n in (1_000, 100_000) for gamma in (2, 5, 9)]
Intervals = Callable[[Floats, Matrices, Floats], Interval]
SOME = 2_000
"""Releases of joint tables whose most likely counts are found step by step."""


def skewed(N: int, n: int) -> np.ndarray:
    """Original counts: a few large ones, a tail, and cells of 0, 1, 2 and 3 records."""
    small = np.arange(4)
    weights = 1 / np.arange(1, N - 3) ** 1.5
    large = np.floor(weights / weights.sum() * (n - small.sum())).astype(int)
    large[0] += n - small.sum() - large.sum()
    return np.concatenate([large, small])


def releases(original: np.ndarray, gamma: float, rng: np.random.Generator, times: int) -> Floats:
    """Observed counts of many releases, exactly: who stays on purpose, and all others anywhere alike."""
    N, n = len(original), original.sum()
    stay = rng.binomial(original, (gamma - 1) / (gamma + N - 1), (times, N))
    return (stay + rng.multinomial(n - stay.sum(axis=1), np.full(N, 1 / N))).astype(float)


@cache
def simulated(N: int, n: int, gamma: int) -> tuple[np.ndarray, Floats, Floats]:
    """Original counts, and of many releases the published counts and the most likely original ones."""
    original = skewed(N, n)
    observed = releases(original, gamma, np.random.default_rng([N, n, gamma]), RELEASES)
    return original, observed, maximum_likelihood(observed, [None, GammaDiagonal(Decimal(gamma), N)])


def uncut(observed: Floats, matrices: Matrices, likeliest: Floats | None = None) -> Interval:
    """The intervals before they are cut to what is possible."""
    axes = tuple(i for i, m in enumerate(matrices) if m is not None)
    records = observed.sum(axis=axes, keepdims=True)
    if likeliest is None:
        likeliest = maximum_likelihood(observed, matrices)
    return Error.of(likeliest, matrices, records, sampled=1.0).interval(inverse(observed, matrices), Z)


def coverages(found: Intervals, N: int, n: int, gamma: int) -> Floats:
    """The share of covered cells: all pooled, then each of those with 0 to 3 records."""
    original, observed, likeliest = simulated(N, n, gamma)
    interval = found(observed, [None, GammaDiagonal(Decimal(gamma), N)], likeliest)
    holds = (interval.low <= original) & (original <= interval.high)
    return np.array([holds.mean(), *holds[:, -4:].mean(axis=0)])


def plugged_in(observed: Floats, matrices: Matrices, likeliest: Floats) -> Interval:
    """The usual interval, wrong here: the estimate and 1.96 times the standard error at the estimate."""
    estimate, error = inverse(observed, matrices), uncut(observed, matrices, likeliest).std_error
    return Interval(error, estimate - Z * error, estimate + Z * error)


def of_a_population(observed: Floats, matrices: Matrices, likeliest: Floats) -> Interval:
    """The interval of a sample's share: wrong for these records' counts."""
    matrix = matrices[1]
    assert matrix is not None
    n = observed.sum(axis=1, keepdims=True)
    variance = matrix.solve_power(observed, 2, 1) - inverse(observed, matrices) ** 2 / n
    error, estimate = np.sqrt(variance), inverse(observed, matrices)
    return Interval(error, estimate - Z * error, estimate + Z * error)


def off_by_five_hundredths(observed: Floats, matrices: Matrices, likeliest: Floats | None = None) -> Interval:
    """Intervals a twentieth too narrow, as of a mistake in a variance by a tenth."""
    right = uncut(observed, matrices, likeliest)
    middle, half = (right.low + right.high) / 2, 0.95 * (right.high - right.low) / 2
    return Interval(right.std_error, middle - half, middle + half)


def pooled(found: Intervals, N: int) -> Floats:
    """The coverages of one N over all numbers of records and gammas."""
    return np.mean([coverages(found, *case) for case in CASES if case[0] == N], axis=0)


def holds(found: Floats) -> bool:
    return bool((found >= 0.94).all() and (found <= 0.96).all())


LARGE = pytest.param(100, marks=pytest.mark.long)


@pytest.mark.parametrize("N", [5, 20, LARGE])
def test_intervals_cover_the_true_counts(N: int) -> None:
    assert holds(pooled(uncut, N)), pooled(uncut, N).round(4)


@pytest.mark.parametrize(
    ("N", "n", "gamma"), [pytest.param(*c, marks=pytest.mark.long if c[0] == 100 else ()) for c in CASES]
)
def test_no_case_covers_too_little(N: int, n: int, gamma: int) -> None:
    """At N 100, n 1,000, gamma 2 a cell has ten published records: steps so coarse that 96.4 % are covered."""
    found = coverages(uncut, N, n, gamma)
    assert (found >= 0.938).all() and (found <= (0.97 if (N, n, gamma) == (100, 1_000, 2) else 0.96)).all()


@pytest.mark.parametrize(
    "wrong",
    [off_by_five_hundredths, *(pytest.param(w, marks=pytest.mark.long) for w in (plugged_in, of_a_population))],
)
def test_wrong_intervals_do_not(wrong: Intervals) -> None:
    assert not all(holds(pooled(wrong, N)) for N in (5, 20, 100))


def test_intervals_cut_to_what_is_possible_cover_no_less() -> None:
    original, observed, _ = simulated(20, 1_000, 5)
    laws = [None, GammaDiagonal(Decimal(5), 20)]
    whole, cut = uncut(observed, laws), intervals(observed, laws)
    assert (cut.low >= 0).all() and (cut.high <= 1_000).all()
    before = (whole.low <= original) & (original <= whole.high)
    after = (cut.low <= original) & (original <= cut.high)
    assert (after >= before).all() and after[:, -4].mean() > 0.97


# -- closed forms of one attribute


def squared_error(original: np.ndarray, gamma: float, seed: int) -> float:
    matrix, rng = GammaDiagonal(Decimal(gamma), len(original)), np.random.default_rng(seed)
    estimates = matrix.solve(releases(original, gamma, rng, 4 * RELEASES), 1)
    return float(((estimates - original) ** 2).sum(axis=1).mean())


@pytest.mark.parametrize("N", [2, 5, 20, LARGE])
@pytest.mark.parametrize("gamma", [2, 9])
def test_the_squared_error_is_the_closed_form_whatever_the_counts(N: int, gamma: int) -> None:
    for original in (np.full(N, 1_000 // N), np.r_[1_000, np.zeros(N - 1, int)]):
        n = original.sum()
        closed = GammaDiagonal(Decimal(gamma), N).expected_error(n) ** 2
        found = squared_error(original, gamma, N)
        assert closed == pytest.approx(found, rel=0.02)
        # and the test sees a wrong formula: a gamma off by a twentieth
        assert GammaDiagonal(Decimal(gamma) * Decimal("1.05"), N).expected_error(n) ** 2 != pytest.approx(
            found, rel=0.02
        )


# -- several attributes: simulation, and the dense formula

JOINT: list[tuple[tuple[int, ...], tuple[int | None, ...]]] = [
    ((4, 3), (5, 9)),
    ((6, 5), (9, 9)),
    ((3, 2, 4), (9, 5, 9)),
    ((3, 4), (None, 5)),
    ((2, 4, 3), (None, 9, 5)),
    ((4, 2, 3), (9, None, 9)),
]


def built(shape: tuple[int, ...], gammas: tuple[int | None, ...]) -> list[GammaDiagonal | None]:
    return [None if g is None else GammaDiagonal(Decimal(g), n) for n, g in zip(shape, gammas, strict=True)]


def dense(matrices: list[GammaDiagonal | None], shape: tuple[int, ...]) -> Floats:
    return reduce(
        np.kron, [np.eye(n) if m is None else m.dense() for m, n in zip(matrices, shape, strict=True)]
    )


def correlated(shape: tuple[int, ...], n: int) -> np.ndarray:
    """Joint counts that are no product, with empty cells among them."""
    weights = np.random.default_rng(sum(shape)).dirichlet(np.full(int(np.prod(shape)), 0.7)).reshape(shape)
    weights[weights < 0.01] = 0
    return np.floor(weights / weights.sum() * n).astype(int)


@cache
def jointly(shape: tuple[int, ...], gammas: tuple[int | None, ...]) -> tuple[np.ndarray, Floats]:
    """Original counts, and observed ones of many releases, cell by cell of the big matrix."""
    original, rng = correlated(shape, 20_000), np.random.default_rng(7)
    big = dense(built(shape, gammas), shape)
    observed = np.zeros((RELEASES, original.size))
    for cell, count in enumerate(original.ravel()):
        law = np.maximum(big[:, cell], 0)
        observed += rng.multinomial(count, law / law.sum(), RELEASES)
    return original, observed.reshape(RELEASES, *shape)


@pytest.mark.parametrize(
    ("shape", "gammas"), [pytest.param(*c, marks=pytest.mark.long if np.prod(c[0]) > 20 else ()) for c in JOINT]
)
def test_joint_standard_errors_are_the_dense_formula_and_the_spread(
    shape: tuple[int, ...], gammas: tuple[int | None, ...]
) -> None:
    matrices = built(shape, gammas)
    original, observed = jointly(shape, gammas)
    big = dense(matrices, shape)
    covariance = sum(
        x * (np.diag(big[:, k]) - np.outer(big[:, k], big[:, k])) for k, x in enumerate(original.ravel())
    )
    solver = np.linalg.inv(big)
    formula = np.diag(solver @ covariance @ solver.T).reshape(shape)
    estimates = inverse(observed, [None, *matrices])
    spread = estimates.var(axis=0, mean=original[None])  # of 20,000: to within 1 % (one sd)
    np.testing.assert_allclose(spread, formula, rtol=0.055, atol=1e-9)
    seen = (big @ original.ravel()).reshape(shape)
    exact = uncut(seen, matrices, original.astype(float)).std_error
    np.testing.assert_allclose(exact**2, formula, rtol=1e-6, atol=1e-6)
    # independent draws of the cells would have another spread: the test sees that
    assert not np.allclose(spread, (solver**2 @ big @ original.ravel()).reshape(shape), rtol=0.055)
    # their squares are unbiased, away from 0, where an estimate is cut before its variance is taken
    squares = (uncut(observed[:SOME], [None, *matrices]).std_error ** 2).mean(axis=0)
    away = original > 5 * np.sqrt(formula)
    assert away.any()
    np.testing.assert_allclose(squares[away], formula[away], rtol=0.02)


# -- corners


def test_an_estimate_of_all_records_has_the_interval_of_its_neighbours() -> None:
    """At gamma 3, N = 2, observed 75 and 25: the estimate is exactly 100 and 0."""
    matrix = GammaDiagonal(Decimal(3), 2)
    table = np.array([[74.0, 26], [75, 25], [76, 24]])
    found = uncut(table, [None, matrix])
    for ends in (found.low, found.high):
        np.testing.assert_allclose(ends[1], (ends[0] + ends[2]) / 2, rtol=1e-3)
    large = np.array([[5.0, *np.ones(19)]]) * 1e8 / 24  # the same of 10^8 records, where rounding shows
    near = large + np.array([1.0, -1, *np.zeros(18)])
    matrix = GammaDiagonal(Decimal(5), 20)
    one, other = (uncut(t, [None, matrix]) for t in (large, near))
    np.testing.assert_allclose(one.low, other.low, atol=30)
    np.testing.assert_allclose(one.high, other.high, atol=30)


def test_nothing_observed_and_nothing_perturbed() -> None:
    empty = uncut(np.zeros((3, 4)), [None, GammaDiagonal(Decimal(5), 4)])
    assert not empty.std_error.any() and not empty.possible(0.0).high.any()
    counts = np.arange(12.0).reshape(3, 4)
    known = uncut(counts, [None, None])
    assert not known.std_error.any()
    np.testing.assert_array_equal(known.low, counts)
    np.testing.assert_array_equal(known.high, counts)


# -- whole tables: each cell is covered as often as it should be, or has no interval

TABLES = [
    Case("sex x workclass", 200, 2, (GD, GD)),
    Case("education x occupation", 2_000, 3, (GD, GD)),
    Case("class x education", 5_000, 1.5, (GD, GD)),
    Case("class x native_country", 5_000, 5, (GD, GD)),
    Case("class x native_country", 5_000, 2, (KEPT, GD)),
    Case("capital_gain in 100", 1_000, 9, (BAND,)),
    Case("diagonal of 20 x 20", 5_000, 9, (BAND, BAND)),
]


@cache
def of_table(case: Case) -> tuple[np.ndarray, Floats, Matrices, Floats]:
    """The truth, published counts of 400 releases, the laws, and the most likely counts."""
    truth = case.truth
    laws = [None, *case.matrices(truth.shape)]
    observed = of_laws(truth, laws[1:], np.random.default_rng(3), 400)
    return truth, observed, laws, maximum_likelihood(observed, laws)


def wrongly_covered(case: Case, plug_in: Floats | None = None) -> list[str]:
    truth, observed, laws, likeliest = of_table(case)
    interval = intervals(observed, laws, Coverage(), likeliest if plug_in is None else plug_in)
    held = np.where(np.isnan(interval.low), np.nan, (interval.low <= truth) & (truth <= interval.high))
    share = covered(interval, truth)
    far = 3.9 * (0.95 * 0.05 / 400) ** 0.5
    found = []
    for what, cells, low, high in (("some", truth > 0, 0.94, 0.96), ("none", truth == 0, 0.97, 0.98)):
        each = share[cells & ~np.isnan(share)]
        if each.size and ((each < low - far) | (each > min(high + far, 1.0))).any():
            found.append(f"{what}: from {each.min()} to {each.max()}")
        own = 3.9 * np.nanmean(held[:, cells], axis=1).std() / 20 if each.size else 0.0
        if each.size and not low - own <= each.mean() <= high + own:
            found.append(f"{what}: {each.mean()} on average")
    return found


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=pytest.mark.long if c.table.startswith("education") else ()) for c in TABLES],
    ids=lambda c: f"{c.table} {c.records} {c.gamma:g}",
)
def test_every_cell_of_a_table_is_covered(case: Case) -> None:
    assert not wrongly_covered(case)


@pytest.mark.parametrize(
    ("case", "of"),
    [
        pytest.param(TABLES[1], "the inverse", marks=pytest.mark.long),
        (TABLES[5], "set-scale"),
        (TABLES[3], "equal shares"),
    ],
)
def test_other_plug_ins_do_not_cover(case: Case, of: str) -> None:
    truth, observed, laws, _ = of_table(case)
    raw = inverse(observed, laws)
    axes = tuple(range(1, truth.ndim + 1))
    positive = np.maximum(raw, 0)
    scaled = positive * truth.sum() / positive.sum(axis=axes, keepdims=True)
    plug_in = {"the inverse": raw, "set-scale": scaled, "equal shares": np.full(raw.shape, truth.mean())}[of]
    assert wrongly_covered(case, plug_in)


def test_where_hardly_any_record_was_changed_there_is_no_interval() -> None:
    original = np.array([30, 20, 10, 0, 0])
    matrix = GammaDiagonal(Decimal(100), 5)  # 60 / 104 records come to a cell from elsewhere
    observed = releases(original, 100, np.random.default_rng(1), 1_000)
    assert np.isnan(intervals(observed, [None, matrix]).low).all()
    bare = uncut(observed, [None, matrix])
    share = ((bare.low <= original) & (original <= bare.high)).mean(axis=0)
    assert not holds(share), "an interval would not have covered"
    many = releases(100 * original, 100, np.random.default_rng(1), 1_000)
    assert not np.isnan(intervals(many, [None, matrix]).low).any()


# -- other levels, all cells together, a population

EDUCATION = Case("education", 4_000, 3, (GD,))
BANDED = Case("age in 20", 4_000, 3, (BAND,))


def test_levels_are_what_is_covered() -> None:
    truth, observed, laws, likeliest = of_table(EDUCATION)
    for level in (0.5, 0.8, 0.99):
        found = intervals(observed, laws, Coverage(level), likeliest)
        share = ((found.low <= truth) & (truth <= found.high)).mean()
        assert share == pytest.approx(level, abs=5 * (level * (1 - level) / (400 * 16)) ** 0.5)
    for level in (0.3, 1.0, 95):
        with raises("level-out-of-range"):
            Coverage(level)


def together(case: Case, coverage: Coverage) -> Floats:
    """Whether each release's intervals hold the truth in all cells."""
    truth, observed, laws, likeliest = of_table(case)
    found = (intervals(y, laws[1:], coverage, x) for y, x in zip(observed[:200], likeliest[:200], strict=True))
    return np.array([((i.low <= truth) & (truth <= i.high)).all() for i in found])


@pytest.mark.parametrize("case", [EDUCATION, BANDED], ids=lambda c: c.table)
def test_all_cells_are_covered_together(case: Case) -> None:
    """Within 3.9 standard deviations of 95 %, or above: cells of 0 are missed on one side only."""
    assert together(case, Coverage(simultaneous=True)).mean() >= 0.95 - 3.9 * (0.95 * 0.05 / 200) ** 0.5
    assert together(case, Coverage()).mean() < 0.8, "one by one they are not"


def test_a_populations_intervals_cover_its_shares() -> None:
    """Samples of 2,000 from shares, then released at gamma 50; the records' own intervals miss too often."""
    rng, laws = np.random.default_rng(5), replace(EDUCATION, gamma=50).matrices((16,))
    shares = EDUCATION.truth / EDUCATION.truth.sum()
    samples = rng.multinomial(2_000, shares, 300)
    rates = {}
    for population in (False, True):
        hits = []
        for sample in samples:
            y = of_laws(sample, laws, rng, 1)[0]
            found = intervals(y, laws, Coverage(population=population))
            hits.append((found.low <= 2_000 * shares) & (2_000 * shares <= found.high))
        rates[population] = np.mean(hits)
    assert rates[True] == pytest.approx(0.952, abs=5 * (0.95 * 0.05 / 4_800) ** 0.5)
    assert rates[False] < 0.9


def test_without_noise_a_populations_interval_is_wilsons() -> None:
    counts = np.array([600.0, 400])
    found = intervals(counts, [None], Coverage(population=True))
    for n, low, high in zip(counts, found.low, found.high, strict=True):
        assert (low / 1000, high / 1000) == pytest.approx(wilson(n, 1000), abs=0.0005)
