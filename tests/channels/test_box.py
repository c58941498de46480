"""The box: its law to the last integer, its promise over whole records, its marginals and its half-widths."""

from __future__ import annotations

from decimal import Decimal
from itertools import combinations, product
from math import exp, log, prod
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppdm_cli.channels import Box, BoxSpec, Mixture, best_widths, box, information
from ppdm_cli.channels.exact_draw import uniform_below_wide
from ppdm_cli.channels.mixture import Blur
from ppdm_cli.domain import Bins, Product
from ppdm_cli.errors import PpdmError, RefusedError
from tests.chances import LEVEL, chi_square

BOXES = [
    Box.of(Decimal(3), (Blur(4, 1), Blur(3, 0))),
    Box.of(Decimal("2.5"), (Blur(3, 1, True), Blur(2, 0), Blur(2, 1))),
    Box.of(Decimal("1.25"), (Blur(3, 0, True), Blur(4, 2, True))),
    Box.of(Decimal(7), (Blur(5, 2),)),
]


def enumerated(box: Box) -> np.ndarray:
    """How many of the R whole numbers give each output, by input: what the sampler really does."""
    u = np.arange(box.range, dtype=np.uint64)
    found = np.zeros((box.outputs, box.inputs), np.int64)
    for code in range(box.inputs):
        codes = [np.full(len(u), c) for c in np.unravel_index(code, box.shape_in)]
        drawn = np.ravel_multi_index(box.drawn(u, codes), box.shape_out)
        found[:, code] = np.bincount(drawn, minlength=box.outputs)
    return found


@pytest.mark.parametrize("box", BOXES)
def test_the_law_is_exact_to_the_last_integer(box: Box) -> None:
    found = enumerated(box)
    np.testing.assert_allclose(found / box.range, box.dense(), rtol=1e-12)
    ratio = found.max(axis=1) / found.min(axis=1)
    assert ratio.max() == float(box.gamma), "the promise, of the sampler's own integers"
    assert box.amplification == pytest.approx(Mixture(box.lam, box.sides).amplification)


@pytest.mark.parametrize("box", BOXES)
def test_a_marginal_is_the_same_mixture_of_fewer_attributes(box: Box) -> None:
    whole = box.dense().reshape(*box.shape_out, *box.shape_in)
    k = len(box.sides)
    for size in range(1, k + 1):
        for places in combinations(range(k), size):
            others = [p for p in range(k) if p not in places]
            seen = whole.sum(axis=tuple(others)).mean(axis=tuple(size + p for p in others))
            one = box.marginal(places)
            np.testing.assert_allclose(seen.reshape(one.outputs, one.inputs), one.dense(), atol=1e-12)


def test_a_whole_record_is_promised_what_its_recipe_is() -> None:
    """Every record to every output (recipe, answers), by the sampler's integers; the coin sees no value."""
    sizes, gamma = (4, 3, 2), Decimal("3.5")
    records = list(product(*map(range, sizes)))
    sides = [Blur(4, 1), Blur(3, 1), Blur(2)]

    def release(weights: Any) -> np.ndarray:
        rows = []
        for number, chosen in enumerate(combinations(range(3), 2)):
            box = Box.of(gamma, tuple(sides[p] for p in chosen))
            law = enumerated(box) / box.range
            at = [int(np.ravel_multi_index([r[p] for p in chosen], box.shape_in)) for r in records]
            rows.append(law[:, at] * [weights(r)[number] for r in records])
        return np.concatenate(rows)

    law = release(lambda record: (0.5, 0.3, 0.2))
    np.testing.assert_allclose(law.sum(axis=0), 1)
    assert (law.max(axis=1) / law.min(axis=1)).max() == pytest.approx(float(gamma))
    telling = release(lambda record: (0.7, 0.2, 0.1) if record[0] == 0 else (0.3, 0.4, 0.3))
    found = (telling.max(axis=1) / telling.min(axis=1)).max()
    assert found == pytest.approx(float(gamma) * 3), "a pattern that depends on a value is caught"


def test_numbers_below_a_wide_range_are_uniform() -> None:
    """At level `LEVEL`, where a sixteenth and a quarter of all words are rejected; without that it is told."""
    rng = np.random.default_rng(1)
    for R in (5 << 60, 3 << 60):

        def blocks(retry: int, rows: np.ndarray | None = None, n: int = 200_000) -> np.ndarray:
            return rng.integers(0, 1 << 32, (n if rows is None else len(rows), 4), dtype=np.uint32)

        drawn = uniform_below_wide(R, blocks)
        assert drawn.max() < R
        counts = np.bincount((drawn >> np.uint64(60)).astype(np.int64), minlength=R >> 60)
        assert chi_square(counts, np.ones(len(counts))) > LEVEL
        biased = np.bincount(
            (rng.integers(0, 1 << 64, 200_000, np.uint64) % np.uint64(R) >> np.uint64(60)).astype(int)
        )
        assert chi_square(biased, np.ones(len(biased))) < LEVEL, "without rejection it is told"


@pytest.mark.parametrize(
    ("values", "k", "riding", "expected"),
    [
        (16, 2, 0, [3, 3, 3, 2, 2, 1, 0]),
        (24, 2, 0, [5, 5, 4, 3, 3, 1, 1]),
        (16, 3, 0, [7, 6, 4, 3, 3, 2, 1]),
        (24, 3, 0, [11, 10, 7, 5, 4, 3, 2]),
        (16, 2, 1, [4, 3, 3, 2, 2, 1, 1]),
    ],
)
def test_half_widths_are_those_of_fisher_information(
    values: int, k: int, riding: int, expected: list[int]
) -> None:
    """The table of the research note, but for its k 2, N 16, epsilon 3, where its own formula gives 2."""
    sizes = [*[(values, True)] * k, *[(2, False)] * riding]
    found = [best_widths(exp(e), sizes, riding) for e in (0.5, 1, 2, 3, 4, 6, 8)]
    assert [w[0] for w in found] == expected and all(not any(w[k:]) for w in found)
    assert len({tuple(w[:k]) for w in found}) <= 7 and all(len(set(w[:k])) == 1 for w in found)


def test_wide_domains_get_half_widths_by_few_levels_as_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels that are near each other count as one: the information misses by less than 0.1 %."""
    sizes = [(200, True), (313, True), (7, False)]
    by_few = [best_widths(exp(e), sizes) for e in (0.5, 2, 6)]
    few = [information(exp(e), sizes, w, 2) for e, w in zip((0.5, 2, 6), by_few, strict=True)]
    monkeypatch.setattr(box, "MOST_LEVELS", 10**6)
    box._side.cache_clear()
    try:
        for epsilon, widths, found in zip((0.5, 2, 6), by_few, few, strict=True):
            assert found == pytest.approx(information(exp(epsilon), sizes, widths, 2), rel=1e-3)
            tried = [[round(b * n / 313) if o else 0 for n, o in sizes] for b in range(0, 150, 3)]
            assert found > 0.98 * max(information(exp(epsilon), sizes, w, 2) for w in tried)
    finally:
        box._side.cache_clear()


def test_information_is_that_of_the_law() -> None:
    """Against the definition, summed over every output of the dense law."""
    sizes, widths, gamma = [(5, True), (4, True), (3, False)], [1, 0, 0], 6.0
    box = Box.of(Decimal(6), tuple(Blur(n, b) for (n, _), b in zip(sizes, widths, strict=True)))
    law, N = box.dense(), box.inputs
    p = law.mean(axis=1)
    functions = [
        [np.sqrt(2) * np.cos(np.pi * f * (np.arange(n) + 0.5) / n) for f in (1, 2, 3) if f < n]
        for n, _ in sizes
    ]
    for order, riding in ((1, 0), (2, 0), (2, 1)):
        found = []
        for chosen in combinations(range(3 - riding), order):
            on = [*chosen, *range(3 - riding, 3)]
            each = []
            for of in product(*(functions[i] if i in on else [np.ones(sizes[i][0])] for i in range(3))):
                phi = prod_outer(of)
                each.append((((law @ phi) / N) ** 2 / p).sum())
            found.append(np.mean(each))
        assert information(gamma, sizes, widths, order, riding) == pytest.approx(np.mean(found), rel=1e-9)


def prod_outer(of: Any) -> np.ndarray:
    found = np.ones(1)
    for one in of:
        found = np.multiply.outer(found, one).ravel()
    return found


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(2, 60), st.booleans(), st.booleans()), min_size=1, max_size=5),
    epsilon=st.floats(0.01, 12),
)
def test_whatever_is_asked_gets_an_exact_box_or_a_clear_refusal(sizes: Any, epsilon: float) -> None:
    domains = [Bins(pa.float64(), list(range(n + 1)), nulls) for n, _, nulls in sizes]
    names = [str(i) for i in range(len(sizes))]
    try:
        spec = BoxSpec.of(names, domains, [o for _, o, _ in sizes], exp(epsilon))
    except PpdmError as error:
        assert isinstance(error, RefusedError)
        return
    law = spec.matrix(Product(domains) if len(domains) > 1 else domains[0])
    assert log(law.amplification) <= epsilon and log(law.amplification) > 0.99 * epsilon - 1e-5
    assert prod(law.shape_in) == law.inputs and law.range <= 1 << 62
