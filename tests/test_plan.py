"""The transport plan: sort-and-deal without a sort, its split among parts, and the dealing, by coins.

Every statistical test runs at level 1e-6 with fixed seeds, and has a wrong splitter that it rejects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ppdm_cli import perturb, reconstruct
from ppdm_cli.reconstructing.dealing import coins, deal
from ppdm_cli.reconstructing.plan import Staircase, monotone, split
from tests.chances import LEVEL, chi_square

Splitter = Callable[[Staircase, np.ndarray, np.random.Generator], np.ndarray]


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


@given(counts(), st.integers(1, 6), st.integers(0, 1000))
def test_a_split_sums_to_the_plan_and_to_each_part(
    case: tuple[np.ndarray, np.ndarray], number: int, seed: int
) -> None:
    published, original = case
    plan = monotone(published, original)
    parts = divided(published, number, seed)
    dealt = split(plan, parts, coins("release", seed))
    assert (dealt >= 0).all() and dealt.shape == (number, len(plan.amount))
    np.testing.assert_array_equal(dealt.sum(axis=0), plan.amount)
    for part, row in zip(parts, dealt, strict=True):
        np.testing.assert_array_equal(
            np.bincount(plan.source, row, minlength=len(published)), part, "a part's own records"
        )
    np.testing.assert_array_equal(dealt, split(plan, parts, coins("release", seed)))


def divided(published: np.ndarray, number: int, seed: int) -> np.ndarray:
    """The records of each published code, put into some parts."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(number, 0.5))
    return np.array([rng.multinomial(count, shares) for count in published]).reshape(-1, number).T


# -- the law: as if all records of a published value had been shuffled

PUBLISHED, ORIGINAL = np.array([12, 0, 9, 4]), np.array([5, 3, 4, 6, 7])
PARTS = np.array([[5, 0, 2, 1], [4, 0, 0, 1], [3, 0, 7, 2]])
DRAWS = 4_000


def in_order(plan: Staircase, parts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Wrong: ties broken in file order, so that early parts get the low values."""
    left, dealt = plan.amount.copy(), np.zeros((len(parts), len(plan.amount)), np.int64)
    for part, row in zip(parts, dealt, strict=True):
        need = part.copy()
        for step, source in enumerate(plan.source):
            row[step] = min(left[step], need[source])
            need[source] -= row[step]
        left -= row
    return dealt


def with_replacement(plan: Staircase, parts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Wrong: each part draws by the plan's shares as if there were no other part; only the mean is right."""
    dealt = np.zeros((len(parts), len(plan.amount)), np.int64)
    for source in np.unique(plan.source):
        steps = np.flatnonzero(plan.source == source)
        shares = plan.amount[steps] / plan.amount[steps].sum()
        for part, row in zip(parts, dealt, strict=True):
            row[steps] = rng.multinomial(part[source], shares)
    return dealt


def p_values(splitter: Splitter) -> list[float]:
    """Every cell of the split against its hypergeometric law: mean, variance, and the law itself."""
    plan, rng = monotone(PUBLISHED, ORIGINAL), np.random.default_rng(11)
    draws = np.array([splitter(plan, PARTS, rng) for _ in range(DRAWS)])
    found = []
    for part in range(len(PARTS)):
        for step, source in enumerate(plan.source):
            law = stats.hypergeom(PUBLISHED[source], plan.amount[step], PARTS[part, source])
            got, values = draws[:, part, step], np.arange(PUBLISHED.max() + 1)
            chances = law.pmf(values)
            mean = float(chances @ values)
            squares = (values - mean) ** 2
            variance = float(chances @ squares)
            if variance < 1e-9:  # the law leaves no choice
                found.append(float((np.abs(got - mean) < 1e-6).all()))
                continue
            away = (got.mean() - mean) / np.sqrt(variance / DRAWS)
            noise = np.sqrt((float(chances @ squares**2) - variance**2) / DRAWS)
            spread = (((got - mean) ** 2).mean() - variance) / noise if noise > 1e-9 else 0.0
            found += [float(2 * stats.norm.sf(abs(z))) for z in (away, spread)]
            found.append(against(got, law))
    return found


def against(got: np.ndarray, law: stats.rv_discrete) -> float:
    """Chi-square, with values of fewer than ten expected draws taken together with the commonest."""
    values = np.arange(max(got.max(), 12) + 1)
    expected, seen = law.pmf(values) * DRAWS, np.bincount(got, minlength=len(values))
    rare = expected < 10
    rare[expected.argmax()] = True
    counts = np.append(seen[~rare], seen[rare].sum())
    shares = np.append(expected[~rare], expected[rare].sum())
    return chi_square(counts, shares) if len(counts) > 1 else 1.0


def test_the_split_is_multivariate_hypergeometric() -> None:
    assert min(p_values(split)) > LEVEL


@pytest.mark.parametrize("wrong", [in_order, with_replacement])
def test_wrong_splits_are_rejected(wrong: Splitter) -> None:
    assert min(p_values(wrong)) < LEVEL


def joint_p_value(splitter: Splitter) -> float:
    """All steps of one source at once: 5 of 9 records into 2, 3 and 4 steps."""
    plan = monotone(np.array([9]), np.array([2, 3, 4]))
    parts, rng = np.array([[5], [4]]), np.random.default_rng(12)
    draws = np.array([splitter(plan, parts, rng)[0] for _ in range(DRAWS)])
    law = stats.multivariate_hypergeom([2, 3, 4], 5)
    cells = [(a, b, 5 - a - b) for a in range(3) for b in range(4) if 0 <= 5 - a - b <= 4]
    counts = np.array([(draws == cell).all(axis=1).sum() for cell in cells])
    assert counts.sum() == DRAWS
    return chi_square(counts, law.pmf(cells))


def test_the_steps_of_a_source_are_drawn_jointly() -> None:
    assert joint_p_value(split) > LEVEL
    assert joint_p_value(in_order) < LEVEL


@pytest.mark.parametrize("cuts", [[], [5], [2, 3, 7], list(range(1, 10))])
def test_the_number_of_parts_does_not_matter(cuts: list[int]) -> None:
    """What the first five of ten tied records get has one law, however the file is cut."""
    plan = monotone(np.array([10]), np.array([4, 6]))
    bounds = sorted({0, 5, 10, *cuts})
    parts, rng = np.diff(bounds)[:, None], np.random.default_rng([13, *cuts])
    first = bounds.index(5)
    got = np.array([split(plan, parts, rng)[:first, 0].sum() for _ in range(DRAWS)])
    assert against(got, stats.hypergeom(10, 4, 5)) > LEVEL
    wrong = np.array([with_replacement(plan, parts, rng)[:first, 0].sum() for _ in range(DRAWS)])
    assert against(wrong, stats.hypergeom(10, 4, 5)) < LEVEL


def test_sources_are_split_independently() -> None:
    plan = monotone(np.array([10, 10]), np.array([5, 10, 5]))
    parts, rng = np.array([[5, 5], [5, 5]]), np.random.default_rng(14)
    draws = np.array([split(plan, parts, rng)[0][[0, 3]] for _ in range(DRAWS)])
    margin = stats.norm.isf(LEVEL / 2) / np.sqrt(DRAWS)
    assert abs(np.corrcoef(draws.T)[0, 1]) < margin
    shared = np.column_stack([draws[:, 0], 5 - draws[:, 0]])  # wrong: one draw for both
    assert abs(np.corrcoef(shared.T)[0, 1]) > margin


# -- dealing: among records of one published value every assignment is equally likely

CODES = np.array([0, 1, 0, 0, 1, 0], np.uint8)
CUTS = [[0, 6], [0, 2, 6], [0, 1, 2, 3, 4, 5, 6]]
Dealer = Callable[[np.ndarray, np.ndarray, np.ndarray, np.random.Generator, np.ndarray], None]


def in_file_order(
    codes: np.ndarray, targets: np.ndarray, amounts: np.ndarray, rng: np.random.Generator, out: np.ndarray
) -> None:
    """Wrong: a stable sort without a shuffle, so that ties keep the order of the file."""
    out[np.argsort(codes, kind="stable")] = np.repeat(targets, amounts)


def assignments(dealer: Dealer, splitter: Splitter, cuts: list[int], kind: str) -> np.ndarray:
    """How often each assignment came, over many release ids, two passes each as in `reconstruct`."""
    codes = CODES.astype(kind)
    plan = monotone(np.bincount(CODES), np.array([2, 3, 1]))
    parts = np.array([np.bincount(codes[a:b], minlength=2) for a, b in pairwise(cuts)])
    seen: Counter[tuple[int, ...]] = Counter()
    for release in range(DRAWS):
        out = np.empty(len(codes), np.uint8)
        amounts = splitter(plan, parts, coins(str(release), "split", "x"))
        for index, (a, b) in enumerate(pairwise(cuts)):
            dealer(codes[a:b], plan.target, amounts[index], coins(str(release), "deal", "x", index), out[a:b])
        assert np.bincount(out).tolist() == [2, 3, 1]
        seen[tuple(out.tolist())] += 1
    # four tied records take 2 and 2, two tied ones 1 and 1: twelve ways, and no others
    return np.array(list(seen.values()) + [0] * (12 - len(seen)))


@pytest.mark.parametrize("kind", ["u1", "u4"])
@pytest.mark.parametrize("cuts", CUTS)
def test_every_assignment_of_tied_records_is_equally_likely(cuts: list[int], kind: str) -> None:
    seen = assignments(deal, split, cuts, kind)
    assert len(seen) == 12 and chi_square(seen, np.ones(12)) > LEVEL


@pytest.mark.parametrize(
    ("dealer", "splitter", "cuts"), [(in_file_order, split, CUTS[1]), (deal, in_order, CUTS[1])]
)
def test_dealing_in_file_order_is_rejected(dealer: Dealer, splitter: Splitter, cuts: list[int]) -> None:
    """Within a part, or among the parts."""
    assert chi_square(assignments(dealer, splitter, cuts, "u1"), np.ones(12)) < LEVEL


def test_coins_follow_from_the_release_and_the_purpose() -> None:
    draws = [
        coins(*of).integers(1 << 62) for of in (("a", "x", 1), ("a", "x", 1), ("b", "x", 1), ("a", "x", 2))
    ]
    assert draws[0] == draws[1] and len(set(draws)) == 3


def test_wide_tables_are_cut_alike_in_every_pass() -> None:
    """Partitions get shorter with the columns read; counting reads fewer columns than dealing."""
    rows, rng = 300_000, np.random.default_rng(1)
    kept = {f"k{i}": np.zeros(rows, np.uint8) for i in range(40)}
    data = pl.DataFrame({"a": rng.integers(0, 10, rows), **kept})
    release = perturb(data, gamma=5, keep=list(kept), seed=1)
    done = reconstruct(release.frame, sidecar=release.sidecar)
    assert np.bincount(done.frame["a"], minlength=10).tolist() == done.totals["a"]
