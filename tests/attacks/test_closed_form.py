"""The posterior of a gamma-diagonal matrix in closed form: the same as row by row, whatever the prior."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppdm_cli.attacks.adversary import AttackedAttribute, Guess
from ppdm_cli.attacks.posterior import _of_diagonal, _of_rows, answers
from ppdm_cli.channels import Channel
from ppdm_cli.channels.gamma_diagonal import GammaDiagonalSpec
from ppdm_cli.domain import Categories
from tests.attacks.attacked import attacked


def target(words: bool, nulls: bool, N: int, gamma: float, prior: np.ndarray) -> AttackedAttribute:
    kind = pa.string() if words else pa.int64()
    domain = Categories(kind, [f"{i:06}" for i in range(N)] if words else list(range(N)), nulls)
    spec = GammaDiagonalSpec(attributes=["a"], gamma=gamma)
    return attacked(Channel("a", domain, domain, spec, spec.matrix(domain)), prior)


@settings(max_examples=150, deadline=None)
@given(
    words=st.booleans(),
    nulls=st.booleans(),
    N=st.integers(2, 12),
    gamma=st.sampled_from([1.5, 3, 19, 1000]),
    seed=st.integers(0, 1000),
    zeros=st.booleans(),
)
def test_it_is_what_rows_give(words: bool, nulls: bool, N: int, gamma: float, seed: int, zeros: bool) -> None:
    rng = np.random.default_rng(seed)
    prior = rng.random(N + nulls) ** 3
    if zeros:
        prior[rng.random(len(prior)) < 0.5] = 0
        prior[rng.integers(len(prior))] = 0.5
    one = target(words, nulls, N, gamma, prior / prior.sum())
    (ours, *sums), (rows, *expected) = _of_diagonal(one, one.prior), _of_rows(one, one.prior)
    np.testing.assert_allclose(np.array(sums), np.array(expected), rtol=1e-9)
    for part in ("belief", "near_belief", "value", "variance"):
        np.testing.assert_allclose(getattr(ours, part), getattr(rows, part), rtol=1e-7, atol=1e-7)
    joint = one.rows(0, N + nulls) * one.prior
    every = np.arange(N + nulls)
    for name, held in (("exact", joint), ("near", one.windows(joint) if one.ordered else joint)):
        guessed = [held[every, getattr(g, name)] for g in (ours, rows)]
        assert guessed[0] == pytest.approx(guessed[1]), "as likely"


def test_a_wrong_closed_form_would_be_seen() -> None:
    one = target(False, False, 6, 9, np.array([0.1, 0.3, 0.05, 0.25, 0.1, 0.2]))
    wrong: Guess = _of_diagonal(one, one.prior**1.01)[0]
    assert not np.allclose(wrong.belief, _of_rows(one, one.prior)[0].belief, rtol=1e-7, atol=1e-7)


def test_large_domains_take_no_time() -> None:
    one = target(False, True, 60_000, 19, np.full(60_001, 1 / 60_001))
    found = answers(one)
    assert found.largest == pytest.approx(19 / (19 + 60_000)) and found.exact == pytest.approx(found.largest)
