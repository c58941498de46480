"""Intervals of whole tables: cell by cell and all together, at any level, and of a sample's population.

Of 400 releases of a table no cell is 3.9 binomial standard deviations beyond 94 to 96 %, 97 to 98 for true
counts of 0: a right interval is with a chance below 1e-4 a cell, if it covers 95 % (97.5 %) below 1e-8.
Seeds are fixed. `tests.experiments.intervals` has more tables, and 1,000 releases of each.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import cache

import numpy as np
import pytest

from ppdm_cli.arrays import Floats, Z, wilson
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal
from ppdm_cli.errors import UsageError
from ppdm_cli.estimating.estimators import Matrices, inverse, maximum_likelihood
from ppdm_cli.estimating.intervals import Coverage, Error, intervals, largest_error
from tests.estimating.test_intervals import holds, uncut
from tests.estimating.test_intervals import releases as of_one_attribute
from tests.experiments.intervals import BAND, GD, KEPT, Case, covered, releases

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
    observed = releases(truth, laws[1:], np.random.default_rng(3), 400)
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
    observed = of_one_attribute(original, 100, np.random.default_rng(1), 1_000)
    assert np.isnan(intervals(observed, [None, matrix]).low).all()
    bare = uncut(observed, [None, matrix])
    share = ((bare.low <= original) & (original <= bare.high)).mean(axis=0)
    assert not holds(share), "an interval would not have covered"
    many = of_one_attribute(100 * original, 100, np.random.default_rng(1), 1_000)
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
        with pytest.raises(UsageError, match=r"0\.5 to 0\.9999"):
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


def test_the_largest_error_is_that_of_correlated_cells() -> None:
    two = GammaDiagonal(Decimal(3), 2)
    X = np.array([600.0, 400])
    variance = Error.of(X, [two], np.array([1000.0]), 1.0).variance
    assert largest_error(X, [two], variance, 0.95, 1.0) == pytest.approx(Z, abs=0.03), "one error, twice"
    assert largest_error(X, [None, two][1:], variance * [1, 0], 0.95, 1.0) == pytest.approx(Z, abs=0.03)
    kept = largest_error(np.stack([X, X]), [None, two], np.stack([variance] * 2), 0.95, 1.0)
    assert kept == pytest.approx(2.236, abs=0.03), "two independent ones"
    many = GammaDiagonal(Decimal(3), 3_000)
    alone = largest_error(np.full(3_000, 10.0), [many], np.ones(3_000), 0.95, 1.0)
    assert alone == pytest.approx(4.30, abs=0.01), "Sidak's"


def test_a_populations_intervals_cover_its_shares() -> None:
    """Samples of 2,000 from shares, then released at gamma 50; the records' own intervals miss too often."""
    rng, laws = np.random.default_rng(5), replace(EDUCATION, gamma=50).matrices((16,))
    shares = EDUCATION.truth / EDUCATION.truth.sum()
    samples = rng.multinomial(2_000, shares, 300)
    rates = {}
    for population in (False, True):
        hits = []
        for sample in samples:
            y = releases(sample, laws, rng, 1)[0]
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
