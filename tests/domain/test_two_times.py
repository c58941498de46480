"""The two-time attack: one key, used twice for the same people with something changed in between.

If coins depended on attribute and row alone, both answers of a row would come from one number u, and
wherever they differ both values were kept: an attacker would have proof. With the value, the matrix
and the domain in the coins' address the two answers are independent given the true values, so the
attack gains nothing over two releases under two keys.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from ppdm_cli.channels.gamma_diagonal import GammaDiagonal, GammaDiagonalSpec
from ppdm_cli.coins import CELLS, Coins, Key
from ppdm_cli.domain import Categories
from ppdm_cli.engine import Batch
from ppdm_cli.perturbing.resolving import ResolvedPlan, described
from ppdm_cli.perturbing.substitution import Substituter
from ppdm_cli.sidecar import Recipe
from tests.chances import LEVEL, binomial, chi_square, independent

ROWS = 20 * CELLS
KEY = Key.from_seed(11)


def released(codes: np.ndarray, gamma: int, N: int, key: Key = KEY) -> np.ndarray:
    """The perturbed codes as `perturb` makes them: the attribute "x", numbers 0..N-1, rows in order."""
    domain = Categories(pa.int64(), list(range(N)), False)
    spec = GammaDiagonalSpec(attributes=["x"], gamma=gamma)
    plan = ResolvedPlan([described("x", domain, "declared")], [Recipe([spec])], None, [])
    work = Substituter(plan, key, identifier=None, shuffle=False)
    batch = pa.RecordBatch.from_arrays([pa.array(codes, pa.int64())], names=["x"])
    return work(Batch(batch, 0, 0, "here", 0)).rows.column("x").to_numpy()


def broken(codes: np.ndarray, gamma: int, N: int) -> np.ndarray:
    """The same with coins of (attribute, row) only."""
    matrix, coins = GammaDiagonal(Decimal(gamma), N), Coins(KEY.derive("broken"))
    out = np.empty(len(codes), np.uint8)
    for start in range(0, len(codes), CELLS):
        here = np.arange(start, min(start + CELLS, len(codes)), dtype=np.uint64)

        def blocks(retry: int, rows: np.ndarray | None = None, here: np.ndarray = here) -> np.ndarray:
            return coins.words(here if rows is None else here[rows], 0, retry)

        part = slice(start, start + len(here))
        matrix.sample(codes[part].astype(np.uint8), blocks, out[part])
    return out


def values(N: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, N, ROWS)


@pytest.mark.parametrize(("gamma", "share"), [(2, 0.045), (5, 0.158), (9, 0.271)])
def test_coins_of_the_row_alone_give_proof(gamma: int, share: float) -> None:
    true1, true2 = values(20, 1), values(20, 2)
    answer1, answer2 = broken(true1, gamma, 20), broken(true2, gamma, 20)
    proved = answer1 != answer2
    assert (answer1[proved] == true1[proved]).all()
    assert (answer2[proved] == true2[proved]).all()
    # outputs differ just where u < a - b and the values differ: lam (1 - 1/N) of the cells
    exact = GammaDiagonal(Decimal(gamma), 20).lam * 19 / 20
    assert binomial(int(proved.sum()), ROWS, exact) > LEVEL
    assert round(exact, 3) == share


CHANGES = {"values": (5, 20, 5, 20), "gamma": (5, 20, 9, 20), "N": (5, 20, 5, 21), "both": (2, 20, 9, 12)}
"""gamma and N of the first release, and of the second."""


@pytest.mark.parametrize("changed", CHANGES)
def test_the_attack_proves_no_more_than_with_two_keys(changed: str) -> None:
    gamma1, n1, gamma2, n2 = CHANGES[changed]
    true1, true2 = values(n1, 3), values(n2, 4)
    if changed == "values":  # an unchanged value keeps its answer: see below
        true2 = (true1 + 1 + values(n1 - 1, 4)) % n1
    answer1, answer2 = released(true1, gamma1, n1), released(true2, gamma2, n2)
    differ = answer1 != answer2
    both_kept = (answer1 == true1) & (answer2 == true2)
    stay1 = GammaDiagonal(Decimal(gamma1), n1).staying
    stay2 = GammaDiagonal(Decimal(gamma2), n2).staying
    expected = stay1 * stay2  # whatever the answers are, where values are uniform and independent
    if changed == "values":  # they are not: equal ones were left out
        leave = (1 - stay1) / (n1 - 1)
        agree = 2 * stay1 * leave + leave**2 * (n1 - 2)  # one kept and the other led to it, or both led
        expected /= 1 - agree
    assert binomial(int((differ & both_kept).sum()), int(differ.sum()), expected) > LEVEL
    # two keys, for comparison: the same figure
    other = released(true2, gamma2, n2, Key.from_seed(12))
    apart = answer1 != other
    assert (
        binomial(int((apart & (answer1 == true1) & (other == true2)).sum()), int(apart.sum()), expected) > LEVEL
    )
    # and no pair of different answers tells more than another
    pairs = (answer1 * n2 + answer2)[differ]
    seen = np.bincount(pairs, minlength=n1 * n2)
    kept = np.bincount(pairs, both_kept[differ], n1 * n2)
    assert independent(np.stack([kept, seen - kept])[:, seen > 0]) > LEVEL


@pytest.mark.parametrize("changed", ["values", "gamma", "N"])
@pytest.mark.parametrize("N", [3, 8])
def test_answers_are_independent_given_the_true_values(changed: str, N: int) -> None:
    gamma1, gamma2, n2 = 5, (9 if changed == "gamma" else 5), (N + 1 if changed == "N" else N)
    true1, true2 = values(N, 5), values(n2, 6)
    answer1, answer2 = released(true1, gamma1, N), released(true2, gamma2, n2)
    cells = ((true1 * n2 + true2) * N + answer1) * n2 + answer2
    table = np.bincount(cells, minlength=(N * n2) ** 2).reshape(N, n2, N, n2)
    law1, law2 = (GammaDiagonal(Decimal(g), n).dense() for g, n in ((gamma1, N), (gamma2, n2)))
    law = np.einsum("hk,il->klhi", law1, law2) * table.sum(axis=(2, 3), keepdims=True)
    judged = np.ones((N, n2), bool)
    if changed == "values":  # the same value under the same matrix: the same answer, no second look
        judged = ~np.eye(N, dtype=bool)
        same = true1 == true2
        assert (answer1[same] == answer2[same]).all()
    assert chi_square(table[judged], law[judged], fitted=int(judged.sum())) > LEVEL


def test_the_test_of_independence_rejects_coins_of_the_row_alone() -> None:
    N = 3
    true1, true2 = values(N, 7), values(N, 8)
    answer1, answer2 = broken(true1, 5, N), broken(true2, 5, N)
    changed = true1 != true2
    cells = ((true1 * N + true2) * N + answer1) * N + answer2
    table = np.bincount(cells[changed], minlength=N**4).reshape(N, N, N, N)
    law1 = GammaDiagonal(Decimal(5), N).dense()
    law = np.einsum("hk,il->klhi", law1, law1) * table.sum(axis=(2, 3), keepdims=True)
    judged = ~np.eye(N, dtype=bool)
    assert chi_square(table[judged], law[judged], fitted=int(judged.sum())) < LEVEL
