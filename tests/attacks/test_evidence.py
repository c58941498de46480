"""The audit's p-values: scipy's where it has them, never too small, and as powerful as is stated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest
from scipy import stats

from ppdm_cli.arrays import binomial_p, chi_square_tail, clopper_pearson, wilson
from ppdm_cli.attacks import evidence
from ppdm_cli.attacks.evidence import Level, Numbers


@pytest.mark.parametrize(("n", "p"), [(10, 0.3), (1000, 0.02), (100_000, 0.357), (3_000_000, 0.05)])
def test_the_chances_are_those_of_scipy(n: int, p: float) -> None:
    for k in {0, 1, int(n * p * 0.98), int(n * p), int(n * p * 1.05) + 1, n}:
        for method, found in (("exact", clopper_pearson(k, n)), ("wilson", wilson(k, n))):
            theirs = stats.binomtest(k, n).proportion_ci(method=method)
            assert found == pytest.approx((theirs.low, theirs.high), rel=1e-8, abs=1e-12)
        law = stats.binom(n, p)
        tails = min(1.0, 2 * min(law.sf(k - 1), law.cdf(k)))
        assert binomial_p(k, n, p) == pytest.approx(tails, rel=1e-6, abs=1e-300)
    for freedom, away in product((1, 2.5, 19, 10_000, 250_000), (-3, 0, 5, 9)):
        x = max(freedom + away * (2 * freedom) ** 0.5, 1e-3)
        assert chi_square_tail(x, freedom) == pytest.approx(stats.chi2.sf(x, freedom), rel=1e-7)


def outcomes(n: int, chances: np.ndarray) -> Iterator[tuple[np.ndarray, float]]:
    """All tables of one row with n records, and the chance of each."""
    for counts in product(range(n + 1), repeat=len(chances)):
        if sum(counts) == n:
            yield np.array([counts]), float(stats.multinomial.pmf(counts, n, chances))


@pytest.mark.parametrize(
    ("n", "chances"), [(12, [0.97, 0.03]), (9, [0.5, 0.5]), (6, [0.6, 0.3, 0.1]), (1, [0.9, 0.1])]
)
def test_p_values_are_never_too_small_however_few_the_records(n: int, chances: list[float]) -> None:
    """All outcomes are enumerated: the chance of a p-value of at most p is at most p, for every p."""
    law, scores = np.array(chances), np.arange(len(chances), dtype=np.float64)
    others = np.array([(1 - s) * law + s * np.eye(len(law))[-1] for s in (0.5, 0.1)])
    tests: list[Callable[[np.ndarray], float]] = [
        lambda counts: evidence.table_p(counts, law),
        lambda counts: float(evidence.tilted_p(counts, law[None], scores)[0]),
        lambda counts: float(evidence.tilted_p(counts, law[None], (scores - law @ scores) ** 2)[0]),
        lambda counts: float(evidence.likelihood_p(counts, law, others)[0]),
    ]
    for test in tests:
        found = sorted((test(counts), chance) for counts, chance in outcomes(n, law))
        below = np.cumsum([chance for _, chance in found])
        assert all(c <= p * (1 + 1e-9) for (p, _), c in zip(found, below, strict=True) if p < 1)


def test_points_on_the_circle_sum_as_far_out_as_they_may() -> None:
    """Of 20,000 sums, more than 1.3 times the share that p allows have a chance below 1e-3."""
    rng = np.random.default_rng(3)
    for n in (5, 400):
        p = evidence.circle_p(evidence.CIRCLE[rng.integers(0, evidence.ABSENT, (20_000, n))].sum(axis=1), n)
        assert all((p <= level).mean() <= 1.3 * level for level in (0.01, 0.05, 0.2))
    places = rng.integers(0, evidence.ABSENT, 3000)
    places[rng.random(3000) < 0.3] = evidence.ABSENT
    points = evidence.CIRCLE[places]
    both = np.count_nonzero((places[7:] < evidence.ABSENT) & (places[:-7] < evidence.ABSENT))
    found = evidence.series_p(places.astype(np.uint8))
    assert found[6] == pytest.approx(evidence.circle_p(points[7:] @ points[:-7].conj(), both))
    period = points @ np.exp(-2j * np.pi * np.arange(3000) * 5 / 8192)
    shown = np.count_nonzero(places < evidence.ABSENT)
    assert found[2999 + 5] == pytest.approx(evidence.circle_p(period, shown))


def test_whole_records_of_two_kinds_are_counted_at_one_chance() -> None:
    """The count of kinds that are thinned, or filled up, is binomial: its p-values are uniform or larger."""
    kinds = [[Level(0.1, 0.3, 0.3)], [Level(0.02, 0.3, 0.3)], [Level(0.4, 0.4, 0.4)]]
    numbers = Numbers(kinds, np.array([0.5, 0.3, 0.2]), np.array([True, False, False]))
    rng, found = np.random.default_rng(1), []
    for seed in range(2000):
        each = zip((300, 180, 120), numbers.law, strict=True)
        found.append(numbers.whole_p(np.stack([rng.multinomial(n, law) for n, law in each]), seed))
    assert all(np.mean(np.array(found) <= level) <= 1.3 * level + 0.002 for level in (0.01, 0.05, 0.2, 0.5))
    assert np.mean(np.array(found) <= 0.2) > 0.1, "a test that never rejects"


def test_a_mixture_detects_as_often_as_its_bound_states() -> None:
    """What `betrayed` states is a bound; just above the least share it is met, of 400 tables by 370 or more."""
    numbers = Numbers([[Level(0.2, 0.2, 0.2)]], np.ones(1), np.ones(1, bool))
    n, level, rng = 2000, 1e-4, np.random.default_rng(2)
    shares = [s / 200 for s in range(1, 100)]
    least = next(s for s in shares if evidence.betrayed(n, numbers.law, numbers.others, numbers.bare(s), level))
    counts = rng.multinomial(n, numbers.bare(least)[0], 400)[:, None]
    assert (numbers.p(counts) < level).sum() >= 370 and least < 0.1
