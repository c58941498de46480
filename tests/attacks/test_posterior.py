"""`posterior` and `record` against Bayes' rule written out, and against the bound that gamma promises."""

from __future__ import annotations

from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppdm_cli import perturb
from ppdm_cli.attacks import attack
from ppdm_cli.attacks.adversary import AttackedAttribute
from ppdm_cli.attacks.posterior import _of_diagonal, _of_rows, best_guesses
from ppdm_cli.channels import Channel
from ppdm_cli.channels.band import Band
from ppdm_cli.channels.gamma_diagonal import GammaDiagonal, GammaDiagonalSpec
from ppdm_cli.domain import Categories
from ppdm_cli.joint import Forest, JointTable
from ppdm_cli.joint.forest import Branch
from ppdm_cli.privacy import worst_posterior
from ppdm_cli.releases import opened
from tests.attacks.attacked import attacked

SHAPES: dict[str, dict[str, Any]] = {
    "bins": {"domain": [0, 60], "bins": 6},
    "a band": {"domain": [0, 60], "bins": 6, "matrix": "band"},
    "numbers": {"categories": list(range(0, 60, 10))},
}


def attribute(settings: dict[str, Any], gamma: float = 3, nulls: bool = False) -> Channel:
    values = pl.DataFrame({"x": list(range(0, 60, 10))})
    made = perturb(values, gamma=gamma, attributes={"x": {**settings, "nulls": nulls}}, seed=1, keep_order=True)
    return opened(made.sidecar).channels[0]


@pytest.mark.parametrize("shares", [[1, 1, 1, 1, 1, 1], [8, 1, 0, 0, 2, 1], [0, 0, 0, 0, 1, 9]])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("gamma", [1.5, 9])
def test_the_posterior_is_bayes_rule(shape: str, gamma: float, shares: list[int]) -> None:
    prior = np.array(shares) / sum(shares)
    target = attacked(attribute(SHAPES[shape], gamma=gamma), prior)
    found = best_guesses(target)
    M, u = target.matrix.dense(), target.values
    exact = near = error = largest = 0.0
    for h in range(M.shape[0]):
        chance = sum(M[h, k] * prior[k] for k in range(6))
        belief = [M[h, k] * prior[k] / chance for k in range(6)]
        around = [sum(belief[max(k - 1, 0) : k + 2]) for k in range(6)]
        mean = sum(b * v for b, v in zip(belief, u, strict=True))
        exact += chance * max(belief)
        near += chance * max(around)
        error += chance * sum(b * (v - mean) ** 2 for b, v in zip(belief, u, strict=True))
        largest = max(largest, *belief)
        assert belief[found.guess.exact[h]] == pytest.approx(max(belief))
        assert around[found.guess.near[h]] == pytest.approx(max(around))
        assert found.guess.value[h] == pytest.approx(mean)
        assert all(belief[k] <= worst_posterior(gamma, prior[k]) + 1e-12 for k in range(6))
    assert (found.exact, found.near, found.error) == pytest.approx((exact, near, error))
    assert found.largest == pytest.approx(largest)
    assert found.largest <= found.belief(found.target.gamma).bound + 1e-12


@pytest.mark.parametrize(
    ("shape", "gamma", "prior", "reached"),
    [
        ("bins", 5, [0.3, 0.2, 0.1, 0.1, 0.2, 0.1], True),
        ("a band", 3, [0.4, 0, 0, 0, 0, 0.6], True),
        ("a band", 3, [1 / 6] * 6, True),  # the outermost answers come from one value alone
        ("a band", 3, [0, 0, 0.5, 0.5, 0, 0], True),
        ("a band", 3, [0, 0.01, 0.98, 0.01, 0, 0], False),
    ],
)
def test_a_gamma_diagonal_reaches_the_bound_and_a_band_where_the_others_are_far(
    shape: str, gamma: float, prior: list[float], reached: bool
) -> None:
    channel = attribute(SHAPES[shape], gamma=gamma)
    assert isinstance(channel.matrix, Band) == (shape == "a band")
    found = best_guesses(attacked(channel, np.array(prior)))
    assert (found.largest > found.belief(gamma).bound - 1e-9) == reached


def test_null_is_a_value_of_its_own_and_no_number() -> None:
    own = attribute(SHAPES["bins"], nulls=True)
    assert own.domain.nulls and own.domain.size == 7
    found = best_guesses(attacked(own, np.array([0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.4])))
    assert found.guess.exact[6] == 6 and found.guess.near[6] == 6
    u = np.array([4.5, 14.5, 24.5, 34.5, 44.5, 55])  # bins of whole numbers: 0 to 9, ..., 40 to 49, 50 to 60
    assert found.guess.value[6] == pytest.approx(u.mean())  # those who are no null are spread evenly
    assert found.error < u.var()


# -- the closed form of a gamma-diagonal matrix


def diagonal(words: bool, nulls: bool, N: int, gamma: float, prior: np.ndarray) -> AttackedAttribute:
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
def test_the_closed_form_is_what_rows_give(
    words: bool, nulls: bool, N: int, gamma: float, seed: int, zeros: bool
) -> None:
    rng = np.random.default_rng(seed)
    prior = rng.random(N + nulls) ** 3
    if zeros:
        prior[rng.random(len(prior)) < 0.5] = 0
        prior[rng.integers(len(prior))] = 0.5
    one = diagonal(words, nulls, N, gamma, prior / prior.sum())
    (ours, *sums), (rows, *expected) = _of_diagonal(one, one.prior), _of_rows(one, one.prior)
    np.testing.assert_allclose(np.array(sums), np.array(expected), rtol=1e-9)
    for part in ("belief", "near_belief", "value", "variance"):
        np.testing.assert_allclose(getattr(ours, part), getattr(rows, part), rtol=1e-7, atol=1e-7)
    joint = one.rows(0, N + nulls) * one.prior
    every = np.arange(N + nulls)
    for name, held in (("exact", joint), ("near", one.windows(joint) if one.ordered else joint)):
        guessed = [held[every, getattr(g, name)] for g in (ours, rows)]
        assert guessed[0] == pytest.approx(guessed[1]), "as likely"


def test_large_domains_take_no_time() -> None:
    found = best_guesses(diagonal(False, True, 60_000, 19, np.full(60_001, 1 / 60_001)))
    assert found.largest == pytest.approx(19 / (19 + 60_000)) and found.exact == pytest.approx(found.largest)


# -- the whole record


SIZES = (3, 4, 2)
KINDS = (GammaDiagonal(Decimal(3), 3), Band.of(Decimal(2), 4, 1), GammaDiagonal(Decimal("1.5"), 2))
MATRICES = tuple(k.dense() for k in KINDS)


def by_table(rng: np.random.Generator) -> tuple[JointTable, list[np.ndarray]]:
    table = rng.dirichlet(np.full(24, 0.5), 2).reshape(2, *SIZES)
    return JointTable((0, 1, 2), MATRICES, table), list(table)


def by_forest(rng: np.random.Generator, *parents: int) -> tuple[Forest, list[np.ndarray]]:
    """A forest of two classes whose attributes follow from these, and the tables of its classes."""
    order = sorted(range(3), key=lambda p: (parents[p] >= 0, parents[p] != -1 and parents[parents[p]] >= 0))
    classes, tables = [], []
    for _ in range(2):
        rows = {p: 1 if parents[p] < 0 else SIZES[parents[p]] for p in order}
        each = [Branch(p, parents[p], rng.dirichlet(np.ones(SIZES[p]), rows[p])) for p in order]
        table = np.ones(SIZES)
        for originals in product(*map(range, SIZES)):
            for b in each:
                table[originals] *= b.chances[originals[b.parent] if b.parent >= 0 else 0, originals[b.place]]
        classes.append(tuple(each))
        tables.append(table)
    return Forest(MATRICES, tuple(classes)), tables


@pytest.mark.parametrize("parents", [None, (-1, 0, 1), (-1, 0, 0), (1, -1, 1), (-1, -1, -1)])
def test_a_record_by_a_joint_model_is_bayes_rule(parents: tuple[int, int, int] | None) -> None:
    """Over all records that may be published, by all combinations of originals."""
    rng = np.random.default_rng(3)
    model, tables = by_table(rng) if parents is None else by_forest(rng, *parents)
    grid = np.array(list(product(range(2), *(range(len(m)) for m in MATRICES))), np.uint8)
    found = model.marginals(list(grid[:, 1:].T), grid[:, 0])
    for row, (label, *published) in enumerate(grid.tolist()):
        chance = tables[label]
        for axis, (matrix, y) in enumerate(zip(MATRICES, published, strict=True)):
            chance = chance * np.moveaxis(matrix[y][:, None, None], 0, axis)
        for axis in range(3):
            belief = chance.sum(axis=tuple({0, 1, 2} - {axis}))
            assert found[axis][row] / found[axis][row].sum() == pytest.approx(belief / belief.sum())


def correlated(records: int, seed: int) -> pl.DataFrame:
    """Two attributes that follow a third, and a class that follows one."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 6, records)
    b = np.where(rng.random(records) < 0.8, a, rng.integers(0, 6, records))
    return pl.DataFrame({"a": a, "b": b, "label": np.where(a + rng.integers(0, 2, records) < 3, "x", "y")})


def test_the_whole_record_reveals_more_and_as_much_as_was_expected() -> None:
    original = correlated(40_000, 1)
    release = perturb(original, gamma=5, keep=["label"], class_="label", seed=2, keep_order=True)
    measured, expected = (
        attack(release.frame, sidecar=release.sidecar, truth=t, attacks=("posterior", "record"))
        for t in (original, None)
    )
    by = {(r.attack, r.attribute): r for r in measured.rows}
    for name in "ab":
        assert by["record", name].exact > by["posterior", name].exact + 0.05
        assert by["record", name].largest_posterior <= by["record", name].bound
    for ours, theirs in zip(measured.rows, expected.rows, strict=True):
        assert (ours.attack, ours.attribute) == (theirs.attack, theirs.attribute)
        for figure in ("exact", "near", "exact_prior"):
            assert getattr(theirs, figure) == pytest.approx(getattr(ours, figure), abs=0.02)
        # a model learnt by EM that ends early is less sure than it might be
        assert theirs.rmse == pytest.approx(ours.rmse, rel=0.1 if ours.attack == "record" else 0.03)
    a = next(k for k in expected.kept if k.attribute == "a")
    true = [original.filter(pl.col("label") == c)["a"].value_counts()["count"].max() for c in "xy"]
    assert a.exact_class == pytest.approx(sum(true) / 40_000, abs=0.03)  # type: ignore[type-var]
    assert a.exact_prior < a.exact_answer < a.exact_both and a.exact_class < a.exact_both


def test_fresh_coins_multiply_and_a_key_file_stops_that(tmp_path: Path) -> None:
    """k releases of the same people at gamma reveal as one at gamma^k; with key and id as one at gamma."""
    k, gamma, N, records = 4, 3, 5, 20_000
    rng = np.random.default_rng(8)
    original = pl.DataFrame({"id": np.arange(records), "x": rng.integers(0, N, records)})
    M = GammaDiagonal(Decimal(gamma), N).dense()

    def recovered(frames: list[Any]) -> tuple[float, float]:
        """The share of right guesses from all answers together, and the largest posterior."""
        belief = np.ones((records, N))
        for frame in frames:
            belief *= M[frame["x"].to_numpy()]
        belief /= belief.sum(axis=1, keepdims=True)
        return float((belief.argmax(axis=1) == original["x"].to_numpy()).mean()), float(belief.max())

    domains: dict[str, Any] = {"x": {"categories": list(range(N))}}
    same: dict[str, Any] = {"gamma": gamma, "attributes": domains}
    fresh = [perturb(original.drop("id"), seed=s, keep_order=True, **same).frame for s in range(k)]
    keyed = [perturb(original, key_file=tmp_path / "key", id="id", **same).frame for _ in range(k)]
    one, largest = recovered(fresh[:1])
    assert largest == pytest.approx(worst_posterior(gamma, 1 / N))
    together, largest = recovered(fresh)
    assert largest == pytest.approx(worst_posterior(gamma**k, 1 / N))
    exact = sum(np.prod([M[h] for h in answers_], axis=0).max() / N for answers_ in product(range(N), repeat=k))
    assert together == pytest.approx(exact, abs=0.02) and together > one + 0.1
    assert all(frame.equals(keyed[0]) for frame in keyed)
    assert recovered(keyed[:1])[0] == pytest.approx(gamma / (gamma + N - 1), abs=0.02)
