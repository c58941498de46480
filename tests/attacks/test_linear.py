"""The linear attacks: in the published order on additive noise, and weaker than Bayes' rule on substitution."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest

from ppdm_cli import perturb
from ppdm_cli.attacks import attack
from ppdm_cli.attacks.linear import noise_variance, unbiased_scores
from ppdm_cli.releases import opened
from tests.attacks.attacked import attacked as target_of
from tests.vocabulary import released, table

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
    target = target_of(opened(release.sidecar).channels[0], prior)
    M, u, w = target.matrix.dense(), target.values, unbiased_scores(target)
    assert w @ M == pytest.approx(u)
    spread = sum(p * (M[:, k] @ (w - u[k]) ** 2) for k, p in enumerate(prior))
    assert noise_variance(target, w) == pytest.approx(spread)


def attacked(data: pl.DataFrame, **settings: Any) -> tuple[str, dict[str, set[str]]]:
    """What is remarked, and the attributes that each attack guesses."""
    release = released(data, **settings)
    done = attack(release.frame, sidecar=release.sidecar, truth=data)
    found: dict[str, set[str]] = {}
    for row in done.rows:
        found.setdefault(row.attack, set()).add(row.attribute)
    return " ".join(done.remarks), found


def test_attributes_without_correlations_are_left_out_and_said() -> None:
    lone = table(2000, x=(0.0, 1.0), word=["a", "b"])
    said, found = attacked(lone, gamma=5)
    assert "spectral: only one attribute is a number" in said and "not numbers: 'word'" in said
    assert "so it takes word, which has few values" in said
    assert found.keys() == {"bayes-linear", "posterior", "record"}
    said, found = attacked(lone.select("word"), gamma=5)
    assert "No attribute is left" in said and found.keys() == {"posterior"}


def test_constants_nulls_and_copies_are_said_and_the_others_go_on() -> None:
    columns = {"x": range(10), "copy": lambda _, of: of["x"], "constant": np.full(4000, 3), "gaps": range(5)}
    data = table(4000, missing={"gaps": 0.1}, **columns)
    said, found = attacked(data, gamma=1000, attributes={"constant": {"categories": list(range(10))}})
    assert "because the release shows no variation: 'constant'" in said and "with nulls: 'gaps'" in said
    assert "singular (1 of 2 directions)" in said
    assert found["bayes-linear"] == {"x", "copy"} and found["posterior"] == {*data.columns}


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
