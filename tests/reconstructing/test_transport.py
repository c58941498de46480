"""The transport plan: sort-and-deal without a sort, and the dealing, which no cut of the table changes.

Every statistical test runs at level 1e-6 with fixed release ids, and has a wrong law that it rejects.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ppdm_cli import perturb, reconstruct, repeatable
from ppdm_cli.reconstructing.dealer import monotone
from ppdm_cli.repeatable import Deal, Permutations, Staircase
from tests.chances import LEVEL, chi_square, independent


@st.composite
def counts(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Published and original counts of the same records, zeros among them."""
    sizes = draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    records = draw(st.integers(0, 60))
    published, original = (
        np.bincount(
            draw(st.lists(st.integers(0, N - 1), min_size=records, max_size=records)) or np.zeros(0, int),
            minlength=N,
        )
        for N in sizes
    )
    return published, original


def whole(plan: Staircase, shape: tuple[int, int]) -> np.ndarray:
    """Q[h, i], which is never built elsewhere."""
    Q = np.zeros(shape, np.int64)
    np.add.at(Q, (plan.source, plan.target), plan.amount)
    return Q


@given(counts())
def test_the_plan_is_sort_and_deal(case: tuple[np.ndarray, np.ndarray]) -> None:
    """Algorithm 2 to the letter: sort the records, deal out the originals in order."""
    published, original = case
    plan = monotone(published, original)
    records, dealt = (np.repeat(np.arange(len(c)), c) for c in case)
    literal = np.zeros((len(published), len(original)), np.int64)
    np.add.at(literal, (records, dealt), 1)
    Q = whole(plan, literal.shape)
    np.testing.assert_array_equal(Q, literal)
    np.testing.assert_array_equal(Q.sum(axis=1), published)
    np.testing.assert_array_equal(Q.sum(axis=0), original)
    assert len(plan.amount) <= len(published) + len(original) - 1
    assert (plan.amount > 0).all()
    assert (np.diff(plan.source) >= 0).all() and (np.diff(plan.target) >= 0).all()


# -- permutations: a part of one can be had by itself, and each is as likely as any other

DRAWS = 4_000


@given(st.lists(st.integers(0, 700), min_size=1, max_size=5), st.data())
def test_permutations_are_permutations_however_they_are_cut(sizes: list[int], data: st.DataObject) -> None:
    of = Permutations.of(np.array(sizes), ["release", sizes])
    whole = of(of.sizes, np.zeros_like(of.sizes))
    for values, size in zip(np.split(whole, np.cumsum(sizes)[:-1]), sizes, strict=True):
        assert sorted(values) == list(range(size))
    cut = np.array([data.draw(st.integers(0, n)) for n in sizes])
    ends = np.cumsum(cut)[:-1]
    first, rest = (
        np.split(of(cut, 0 * cut), ends),
        np.split(of(of.sizes - cut, cut), np.cumsum(of.sizes - cut)[:-1]),
    )
    np.testing.assert_array_equal(
        whole, np.concatenate([v for pair in zip(first, rest, strict=True) for v in pair])
    )


def pair_p_value(size: int, wrong: bool = False) -> float:
    """Two places, neighbours in the grid or in the order, go anywhere: pairs of tenths, against even."""
    found, far = [], 1 << ((size - 1).bit_length() // 2)
    for release in range(DRAWS):
        of = Permutations.of(np.array([size] * 4), [release, "x"])
        one, other = (of(np.ones(4, int), np.array(at)) for at in ([0, 0, 99, 99], [1, far, 100, 99 + far]))
        found.append([one, (one + 1) % size if wrong else other])  # wrong: only turned
    tenths = np.moveaxis(np.array(found), 1, -1) * 10 // size
    return chi_square(np.bincount((tenths @ [10, 1]).ravel(), minlength=100), np.ones(100))


@pytest.mark.parametrize("size", [250, 1_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_permutations_send_neighbours_anywhere(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Places are drawn without replacement, which hardly moves the shares of pairs of tenths."""
    assert pair_p_value(size) > LEVEL
    assert pair_p_value(size, wrong=True) < LEVEL
    if size > repeatable.SMALL:
        monkeypatch.setattr(repeatable, "ROUNDS", 2)
        assert pair_p_value(size) < LEVEL


def spread_p_value(size: int, length: int, at: int) -> float:
    """How many of a run of places land in the first tenth varies as much as drawn without replacement."""
    at_once, hits = 200, []
    for release in range(5 * DRAWS // at_once):
        of = Permutations.of(np.full(at_once, size), [release, "run"])
        values = of(np.full(at_once, length), np.full(at_once, at)).reshape(at_once, length)
        hits.append((values < size // 10).sum(axis=1))
    found, law = np.concatenate(hits), stats.hypergeom(size, size // 10, length)
    # of a variance of n near-normal draws, the relative standard deviation is sqrt(2 / n)
    return float(2 * stats.norm.sf(abs(found.var() / law.var() - 1) * (len(found) / 2) ** 0.5))


@pytest.mark.parametrize(("length", "at"), [(2_500, 0), (600, 1_700)])
def test_runs_of_places_are_spread_as_the_law_has_it(
    length: int, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four rounds would make the numbers vary by a tenth too much."""
    assert spread_p_value(5_000, length, at) > LEVEL
    monkeypatch.setattr(repeatable, "ROUNDS", 4)
    assert spread_p_value(5_000, length, at) < LEVEL


def test_numbers_follow_from_the_purpose_and_the_row() -> None:
    rows = np.arange(100_000)
    one, other = (repeatable.uniform(rows, repeatable.hashed(["release", p])) for p in "xy")
    np.testing.assert_array_equal(
        one[500:], repeatable.uniform(rows[500:], repeatable.hashed(["release", "x"]))
    )
    assert stats.kstest(one, "uniform").pvalue > LEVEL
    assert independent(np.histogram2d(one, other, 10)[0]) > LEVEL
    assert independent(np.histogram2d(one[1:], one[:-1], 10)[0]) > LEVEL
    assert independent(np.histogram2d(one, one + other, 10)[0]) < LEVEL


# -- dealing: among records of one published value every assignment is equally likely

CODES = np.array([0, 1, 0, 0, 1, 0], np.uint8)
CUTS = [[0, 6], [0, 2, 6], [0, 1, 2, 3, 4, 5, 6]]


class InFileOrder(Permutations):
    """Wrong: ties keep the order of the file."""

    def __call__(self, counts: np.ndarray, begin: np.ndarray) -> np.ndarray:
        return np.concatenate([np.arange(b, b + n) for b, n in zip(begin, counts, strict=True)])


def dealt(cuts: list[int], kind: str, release: int, wrong: bool = False) -> tuple[int, ...]:
    codes = CODES.astype(kind)
    parts = np.array([np.bincount(codes[a:b], minlength=2) for a, b in pairwise(cuts)])
    deal = Deal.of(parts, [monotone(np.bincount(CODES), np.array([2, 3, 1]))], 3, [release, "deal", "x"])
    if wrong:
        deal = replace(deal, places=InFileOrder.of(deal.places.sizes, "x"))
    out = [deal(codes[a:b], index) for index, (a, b) in enumerate(pairwise(cuts))]
    return tuple(np.concatenate(out).tolist())


def assignments(wrong: bool) -> np.ndarray:
    """How often each assignment came, over many release ids."""
    seen = Counter(dealt(CUTS[1], "u1", release, wrong) for release in range(DRAWS))
    assert all(np.bincount(out).tolist() == [2, 3, 1] for out in seen)
    # four tied records take 2 and 2, two tied ones 1 and 1: twelve ways, and no others
    return np.array(list(seen.values()) + [0] * (12 - len(seen)))


def test_every_assignment_of_tied_records_is_equally_likely() -> None:
    seen = assignments(False)
    assert len(seen) == 12 and chi_square(seen, np.ones(12)) > LEVEL
    assert chi_square(assignments(True), np.ones(12)) < LEVEL


def test_wide_tables_are_cut_alike_in_every_pass() -> None:
    """Partitions get shorter with the columns read; counting reads fewer columns than dealing."""
    rows, rng = 300_000, np.random.default_rng(1)
    kept = {f"k{i}": np.zeros(rows, np.uint8) for i in range(40)}
    data = pl.DataFrame({"a": rng.integers(0, 10, rows), **kept})
    release = perturb(data, gamma=5, keep=list(kept), seed=1)
    done = reconstruct(release.frame, sidecar=release.sidecar)
    assert np.bincount(done.frame["a"], minlength=10).tolist() == done.totals["a"]
