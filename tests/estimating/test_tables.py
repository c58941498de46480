"""Tables of records that publish a few attributes: laws, unbiased estimates, intervals that cover."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import estimate, perturb
from ppdm_cli.estimating import PooledLaw, StratumLaw
from ppdm_cli.estimating.tables import ALIKE
from ppdm_cli.releases import Strata
from tests.vocabulary import raises

DOMAINS: dict[str, Any] = {
    "age": {"domain": [0, 120], "bins": 6},
    "pay": {"domain": [0, 100], "bins": 5, "nulls": True},
    "town": {"domain": "a|b|c"},
    "level": {"domain": "0|1|2|3"},
}


def table(rows: int = 6000, seed: int = 1) -> pl.DataFrame:
    """Pay goes with age, the town with both; who is ill is old or poor."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 121, rows)
    pay = np.clip(age * 0.6 + rng.normal(0, 15, rows), 0, 99.9)
    town = np.where(rng.random(rows) < 0.7, age * 3 // 121, rng.integers(0, 3, rows))
    ill = (age > 80) | (pay < 15)
    return pl.DataFrame(
        {
            "age": age,
            "pay": [None if m else float(p) for m, p in zip(rng.random(rows) < 0.1, pay, strict=True)],
            "town": np.array(["a", "b", "c"])[town],
            "level": rng.integers(0, 4, rows),
            "ill": np.where(ill ^ (rng.random(rows) < 0.05), "yes", "no"),
        }
    )


def released(rows: int = 6000, seed: int = 1, **given: Any) -> Any:
    asked = {
        "record_epsilon": 3,
        "publish": 2,
        "keep": ["ill"],
        "class_": "ill",
        "seed": seed,
        "attributes": DOMAINS,
    }
    return perturb(table(rows), **{**asked, **given})


def law(names: list[str], **given: Any) -> tuple[PooledLaw, PooledLaw]:
    """The law of a table of these attributes: by the strata that reveal all, and by those that reveal any."""
    strata = Strata.of(released(50, **given).sidecar, names)
    grouped = strata.grouped(range(len(names)), ALIKE)
    own = [grouped.which == i for i in range(len(grouped.strata))]
    sizes = tuple(a.domain.size for a in strata.axes)
    laws = [StratumLaw(sizes, s, float(strata.lam[o].mean())) for s, o in zip(grouped.strata, own, strict=True)]
    shares, some = (
        np.array([1e6 * strata.shares[o].sum() for o in own]),
        [i for i, s in enumerate(grouped.strata) if s.axes],
    )
    whole = grouped.complete(len(names))
    return tuple(PooledLaw([laws[i] for i in of], shares[of]) for of in (whole, some))  # type: ignore[return-value]


NAMES = (["pay"], ["age", "pay"], ["town", "pay"], ["age", "town", "level"])


@pytest.mark.parametrize("names", NAMES, ids=" x ".join)
def test_the_estimate_undoes_the_law_and_its_variance_is_that_of_the_law(names: list[str]) -> None:
    whole, every = law(names, publish=max(2, len(names)))
    for one in (whole, every):
        M, B = one.dense(), np.stack([one.backward(u) for u in np.eye(one.outputs)])
        assert np.allclose(M.sum(axis=0), 1) and np.allclose(M, B, atol=1e-6)
    A, M = whole.inverse, whole.dense()
    assert np.allclose(A @ M, np.eye(whole.inputs), atol=1e-4)
    X = np.random.default_rng(1).dirichlet(np.ones(whole.inputs)) * 1000
    for power in (1, 2, 3, 4):
        want = A**power @ (M @ X)
        assert np.allclose(whole.solve_power(M @ X, power), want, rtol=1e-3, atol=1e-3 * abs(want).max())
    assert np.allclose(whole.own_variance(), np.einsum("xy,yx->x", A**2, M), rtol=1e-3)


def test_a_null_is_published_as_often_as_its_law_says_and_withheld_cells_are_none() -> None:
    """Who reads every null cell as a null would find three quarters of them."""
    done = estimate(
        released(20_000).frame, sidecar=released(20_000).sidecar, attributes=["pay"], truth=table(20_000)
    )
    row = done.frame.row(-1, named=True)
    assert row["low"] <= row["true"] <= row["high"] and row["true"] < 2200 and row["records"] < 11_000


@cache
def errors(names: tuple[str, ...], by: str | None, releases: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """The errors of unbiased estimates in their standard errors, and whether intervals cover."""
    found, covered = [], []
    for seed in range(releases):
        release = released(3000, seed + 10)
        asked: dict[str, Any] = (
            {"joint": list(names)} if len(names) > 1 else {"attributes": list(names), "by": by}
        )
        done = estimate(release.frame, sidecar=release.sidecar, truth=table(3000), estimator="inverse", **asked)
        f = done.frame
        found.append(((f["estimate"] - f["true"]) / f["std_error"]).to_numpy())
        covered.append(((f["low"] <= f["true"] + 1e-6) & (f["true"] <= f["high"] + 1e-6)).to_numpy())
    return np.array(found), np.array(covered)


@pytest.mark.parametrize(("names", "by"), [(("age",), None), (("pay",), "ill"), (("age", "town"), None)])
def test_estimates_are_unbiased_and_intervals_cover(names: tuple[str, ...], by: str | None) -> None:
    """At five standard errors: of 40 releases a mean of z has one of .16."""
    z, covered = errors(names, by)
    assert np.abs(z.mean(axis=0)).max() < 5 / np.sqrt(len(z))
    assert 0.75 < (z**2).mean() < 1.3
    assert 0.92 < covered.mean() < 0.98


def test_variances_without_the_sampling_of_the_records_would_be_told_apart() -> None:
    """The test of the test: half of them show age, which is half of the variance at this budget or so."""
    z, _ = errors(("age",), None)
    release = released(3000)
    row = estimate(release.frame, sidecar=release.sidecar, attributes=["age"], estimator="inverse").frame.row(
        2, named=True
    )
    f, m, n = row["estimate"] / 3000, row["records"], 3000
    sampling = n**2 * f * (1 - f) * (1 / m - 1 / n)
    assert sampling / row["std_error"] ** 2 > 0.04
    assert (z**2).mean() < 1.3


def test_pairs_that_were_never_published_together_are_refused() -> None:
    release = released(500, publish=1)
    with raises("never-published-together"):
        estimate(release.frame, sidecar=release.sidecar, joint=["age", "town"])
    shown = estimate(release.frame, sidecar=release.sidecar, attributes=["town"])
    assert shown.sidecar.records == 500 and shown.frame["records"].max() < 250  # type: ignore[operator]


ALL_SHOWN = {"record_epsilon": None, "publish": None, "gamma": 5}


@pytest.mark.parametrize("plan", [{}, {"rounds": 2, "publish": "auto"}, ALL_SHOWN])
def test_all_counts_by_a_kept_column_are_covered_together(plan: dict[str, Any]) -> None:
    """By Sidak: each as if it were alone at a level of .95^(1/8), of two kept values and four others."""
    release = released(4000, **plan)
    asked: dict[str, Any] = {"sidecar": release.sidecar, "attributes": ["level"], "by": "ill"}
    together = estimate(release.frame, simultaneous=True, **asked).frame
    alone = estimate(release.frame, level=0.95 ** (1 / 8), **asked).frame
    for name in ("low", "high"):
        assert np.allclose(together[name], alone[name], rtol=1e-9), name
    two = estimate(release.frame, level=0.95 ** (1 / 4), **asked).frame
    assert ((together["high"] - together["low"]) > (two["high"] - two["low"])).all()
