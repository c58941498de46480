"""The linear attacks: in the published order on additive noise, and weaker than Bayes' rule on substitution."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb
from ppdm_cli.attacks import attack
from ppdm_cli.attacks.linear import Moments, Scored, noise_variance, unbiased_scores
from ppdm_cli.releases import opened
from tests.attacks.attacked import attacked

LINEAR = ("spectral", "pca", "bayes-linear")


def components(records: int = 10_000, attributes: int = 30, count: int = 3, seed: int = 0) -> pl.DataFrame:
    """The papers' setting: attributes that follow a few principal components, each of sd 10."""
    rng = np.random.default_rng(seed)
    loadings = rng.standard_normal((count, attributes))
    X = rng.standard_normal((records, count)) @ loadings + 0.1 * rng.standard_normal((records, attributes))
    X *= 10 / X.std(axis=0)
    return pl.DataFrame({f"a{j:02}": X[:, j] for j in range(attributes)})


def means(done: Any, figure: str) -> dict[str, float]:
    of = done.frame.group_by("attack").agg(pl.col(figure).mean())
    return dict(zip(of["attack"], of[figure], strict=True))


@pytest.mark.parametrize("noise", ["uniform", "normal"])
def test_additive_noise_falls_in_the_published_order(noise: Any) -> None:
    original = components()
    release = perturb(original, scheme="additive", noise=noise, sd="5", bins=20, seed=1)
    names = original.columns
    raw = float(
        np.mean([(release.frame[n] - original[n]).pow(2).mean() ** 0.5 / original[n].std() for n in names])
    )
    asked = (*LINEAR, "posterior")
    found = means(attack(release.frame, sidecar=release.sidecar, truth=original, attacks=asked), "rmse_share")
    assert raw == pytest.approx(0.5, abs=0.01)
    assert found["bayes-linear"] <= found["pca"] <= raw / 2
    assert found["bayes-linear"] <= found["spectral"] <= raw / 2
    assert found["bayes-linear"] < found["posterior"] / 2  # correlation tells what one attribute does not
    expected = means(attack(release.frame, sidecar=release.sidecar, attacks=asked), "rmse_share")
    for name in LINEAR:
        assert expected[name] == pytest.approx(found[name], rel=0.1), name


@pytest.mark.parametrize("bins", [10, 20])
def test_on_random_substitution_they_name_fewer_values_than_the_posterior(bins: int) -> None:
    """And err by more, but for the best linear guess where bins are few: it has all correlations to use."""
    original = components()
    release = perturb(original, gamma=5, bins=bins, seed=1)
    done = attack(release.frame, sidecar=release.sidecar, truth=original, attacks=(*LINEAR, "posterior"))
    exact, errors = means(done, "exact"), means(done, "rmse_share")
    for name in LINEAR:
        assert exact[name] < exact["posterior"] - 0.05, name
    for name in ("spectral", "pca"):
        assert errors[name] > errors["posterior"]
    assert 0.85 < errors["bayes-linear"] < 1.01 and 0.85 < errors["posterior"] < 1.0


@pytest.mark.parametrize("settings", [{"bins": 8}, {"bins": 8, "matrix": "band"}])
@pytest.mark.parametrize("gamma", [1.5, 5])
def test_scores_are_unbiased_and_their_noise_is_known(settings: dict[str, Any], gamma: float) -> None:
    values = pl.DataFrame({"x": np.random.default_rng(1).random(500)})
    release = perturb(values, gamma=gamma, attributes={"x": settings}, seed=1)
    prior = np.random.default_rng(2).dirichlet(np.ones(release.sidecar.perturbed[0].N))
    target = attacked(opened(release.sidecar).channels[0], prior)
    M, u, w = target.matrix.dense(), target.values, unbiased_scores(target)
    assert w @ M == pytest.approx(u)
    spread = sum(p * (M[:, k] @ (w - u[k]) ** 2) for k, p in enumerate(prior))
    assert noise_variance(target, w) == pytest.approx(spread)


def test_moments_add_up() -> None:
    scores = np.random.default_rng(3).normal(5, 2, (1000, 4)) @ np.random.default_rng(4).random((4, 4))
    middle = np.full(4, 3.0)
    parts = [Moments.of(part - middle) for part in np.split(scores, [1, 300, 800])]
    scored = Scored(parts[0] + parts[1] + parts[2] + parts[3], middle, np.ones(4), np.ones(4))
    assert scored.mean == pytest.approx(scores.mean(axis=0))
    assert scored.covariance == pytest.approx(np.cov(scores.T, bias=True))


def test_one_number_has_no_correlation_and_words_have_none() -> None:
    rng = np.random.default_rng(1)
    lone = pl.DataFrame({"x": rng.random(2000), "word": rng.choice(["a", "b"], 2000)})
    release = perturb(lone, gamma=5, seed=1)
    done = attack(release.frame, sidecar=release.sidecar, truth=lone)
    said = " ".join(done.remarks)
    assert "spectral: only one attribute is a number" in said and "pca: only one" in said
    assert "not numbers: 'word'" in said
    assert "word, which has few values, takes its place" in said
    assert {r.attack for r in done.rows} == {"bayes-linear", "posterior", "record"}
    words = lone.select("word")
    release = perturb(words, gamma=5, seed=1)
    done = attack(release.frame, sidecar=release.sidecar, truth=words)
    assert any("No attribute is left" in r for r in done.remarks) and done.honest
    assert {r.attack for r in done.rows} == {"posterior"}
    assert all(r.near is None and r.rmse is None for r in done.rows)


def test_constants_nulls_and_copies_are_said_and_the_others_go_on() -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(0, 10, 4000)
    table = pl.DataFrame(
        {
            "x": x,
            "copy": x,
            "constant": np.full(4000, 3),
            "gaps": pl.Series(rng.integers(0, 5, 4000)).set(pl.Series(rng.random(4000) < 0.1), None),
        }
    )
    domain = {"constant": {"categories": list(range(10))}}
    release = perturb(table, gamma=1000, attributes=domain, seed=1)
    done = attack(release.frame, sidecar=release.sidecar, truth=table)
    said = " ".join(done.remarks)
    assert "constant as far as the release shows: 'constant'" in said and "with nulls: 'gaps'" in said
    assert "singular (1 of 2 directions)" in said
    assert {r.attribute for r in done.rows if r.attack == "bayes-linear"} == {"x", "copy"}
    assert {r.attribute for r in done.rows if r.attack == "posterior"} == set(table.columns)


def test_decimals_and_dates_have_units() -> None:
    rng = np.random.default_rng(2)
    days = pl.Series(rng.integers(0, 365, 3000).astype("int32")).cast(pl.Date)
    cents = pl.Series([Decimal(int(v)) / 100 for v in rng.integers(0, 10_000, 3000)])
    table = pl.DataFrame({"day": days, "price": cents.cast(pl.Decimal(8, 2))})
    release = perturb(table, gamma=3, bins=10, seed=1)
    done = attack(release.frame, sidecar=release.sidecar, truth=table, attacks=["posterior"])
    by = {r.attribute: r for r in done.rows}
    assert by["day"].rmse_prior == pytest.approx(365 / 12**0.5, rel=0.05)
    assert by["price"].rmse_prior == pytest.approx(100 / 12**0.5, rel=0.05)
    assert all(r.rmse < r.rmse_prior for r in done.rows)
